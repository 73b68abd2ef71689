//! Threads for work on large bodies, so that other requests do not wait for it.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use http::StatusCode;
use tokio::sync::Semaphore;

use crate::error_body::ErrorBody;

/// Size from which a body is decompressed and parsed in a thread of its own, in bytes.
pub(crate) const LARGE: usize = 256 << 10;

/// Threads for work on large bodies: at most half as many at a time as the machine has cores. Further work waits, in
/// the order of its arrival.
pub(crate) struct BodyThreads(Arc<Semaphore>);

impl BodyThreads {
    pub(crate) fn new() -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        Self(Arc::new(Semaphore::new((cores / 2).max(1))))
    }

    /// Runs the work in a thread. It continues if the client leaves; `held`, such as the room for what it reads and
    /// writes, is dropped at its end.
    ///
    /// # Errors
    /// The response to a client whose work has panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        held: impl Send + 'static,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ErrorBody> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        let ran = tokio::task::spawn_blocking(move || {
            let _until_the_end = (permit, held);
            work()
        });
        ran.await.map_err(|error| {
            let message = format!("the body could not be read: {error}");
            ErrorBody::new(StatusCode::INTERNAL_SERVER_ERROR, "malformed_body", message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_work_holds_is_dropped_at_its_end_even_if_nobody_waits_for_it() {
        let threads = BodyThreads::new();
        let room = Arc::new(Semaphore::new(1));
        let held = Arc::clone(&room).acquire_owned().await;
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let mut work = Box::pin(threads.run(held, move || ended.recv()));
        let begun = std::future::poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            std::task::Poll::Ready(polled.is_pending())
        });
        assert!(begun.await);
        drop(work);
        assert_eq!(room.available_permits(), 0);
        drop(end);
        assert!(room.acquire().await.is_ok());
    }
}
