//! Cancellation of a turn.

use std::sync::Arc;

use tokio::sync::watch;

/// A cancellation signal. It is triggered once and never reset. Clones share the signal.
#[derive(Debug, Clone)]
pub struct CancellationToken(Arc<watch::Sender<bool>>);

impl Default for CancellationToken {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl CancellationToken {
    /// Triggers the signal.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// True if the signal was triggered.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves when the signal is triggered, or immediately if it was already.
    pub async fn cancelled(&self) {
        // The sender lives as long as `self`: the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|thrown| *thrown).await;
    }
}
