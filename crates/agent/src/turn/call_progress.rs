//! The progress of the calls of an answer, shared with the observer of the calls.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::conversation::Progress;

/// The progress of the running calls, if calls are running. Clones share it.
#[derive(Clone, Default)]
pub(super) struct CallProgress(Arc<Mutex<Option<Progress>>>);

impl CallProgress {
    /// Records that calls start.
    pub(super) fn begin(&self) {
        *self.0.lock() = Some(Progress::default());
    }

    /// Accesses the progress; `None` if no calls are running.
    pub(super) fn with<T>(&self, access: impl FnOnce(&mut Progress) -> T) -> Option<T> {
        self.0.lock().as_mut().map(access)
    }

    /// Takes the progress: from now on, no calls are running.
    pub(super) fn take(&self) -> Option<Progress> {
        self.0.lock().take()
    }
}
