//! The output of a call while it runs.

use std::fmt;
use std::sync::{Arc, OnceLock};

/// The output of a running tool, as far as it has been written. Reading it does not delay the tool.
pub trait OutputSource: Send + Sync {
    /// Returns the output so far in the form of a result: bounded, with known secrets masked.
    fn text(&self) -> String;

    /// Returns at most the last `limit` bytes of the output so far, with known secrets masked.
    fn end(&self, limit: usize) -> String;
}

/// The place at which a tool publishes the output of a call, and at which observers of the call read it. It is
/// neither part of a key nor of the result: a result that was served from a cache has none. Clones share it.
#[derive(Clone, Default)]
pub struct LiveOutput(Arc<OnceLock<Arc<dyn OutputSource>>>);

impl LiveOutput {
    /// Publishes the output of the call. Only the first one of a call takes effect.
    pub fn publish(&self, source: Arc<dyn OutputSource>) {
        // A tool that runs several programs in a call shows the first one.
        let _ = self.0.set(source);
    }

    /// True if the tool has published its output.
    #[must_use]
    pub fn is_published(&self) -> bool {
        self.0.get().is_some()
    }

    /// Returns [`OutputSource::text`]; empty if nothing was published.
    #[must_use]
    pub fn text(&self) -> String {
        self.0
            .get()
            .map_or_else(String::new, |source| source.text())
    }

    /// Returns [`OutputSource::end`]; empty if nothing was published.
    #[must_use]
    pub fn end(&self, limit: usize) -> String {
        self.0
            .get()
            .map_or_else(String::new, |source| source.end(limit))
    }
}

impl fmt::Debug for LiveOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveOutput")
            .field("is_published", &self.is_published())
            .finish()
    }
}
