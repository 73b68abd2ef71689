//! Threads for work on large bodies, so that other requests do not wait for it.

use std::num::NonZero;
use std::thread::available_parallelism;

use http::StatusCode;
use tokio::sync::Semaphore;

use crate::error_body::ErrorBody;

/// Threads for work on large bodies: at most half as many at a time as the machine has cores. Further work waits, in
/// the order of its arrival.
pub(crate) struct BodyThreads(Semaphore);

impl BodyThreads {
    pub(crate) fn new() -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        Self(Semaphore::new((cores / 2).max(1)))
    }

    /// Runs the work in a thread.
    ///
    /// # Errors
    /// The response to a client whose work has panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ErrorBody> {
        let _permit = self.0.acquire().await;
        tokio::task::spawn_blocking(work).await.map_err(|error| {
            let message = format!("the body could not be read: {error}");
            ErrorBody::new(StatusCode::INTERNAL_SERVER_ERROR, "malformed_body", message)
        })
    }
}
