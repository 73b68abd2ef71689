//! Stopping a turn from outside.

use std::sync::Arc;

use tokio::sync::watch;

/// A switch that is thrown once. Clones are the same switch.
#[derive(Debug, Clone)]
pub struct Cancel(Arc<watch::Sender<bool>>);

impl Default for Cancel {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Cancel {
    /// Throws it.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Whether it was thrown.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves when it is thrown.
    pub async fn cancelled(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(|thrown| *thrown).await;
    }
}
