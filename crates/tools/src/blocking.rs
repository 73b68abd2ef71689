//! Work that blocks, on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells blocking work whether anybody still waits for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    /// Whether nobody waits any more: the work should stop where it leaves nothing half done.
    pub(crate) fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Says so when the waiting ends, in whatever way.
struct Waiting(Abandoned);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Runs blocking work elsewhere. If the future is dropped, the work is told, and goes on until it
/// looks. A panic of the work is one of the caller.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&Abandoned) -> T + Send + 'static,
) -> T {
    let abandoned = Abandoned::default();
    let waiting = Waiting(abandoned.clone());
    let done = tokio::task::spawn_blocking(move || work(&abandoned)).await;
    drop(waiting);
    match done {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime shuts down: nobody will ask again.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn work_is_told_when_nobody_waits_any_more() {
        let (started, wait_for_start) = mpsc::channel();
        let (stopped, wait_for_stop) = mpsc::channel();
        let mut waiting = Box::pin(blocking(move |abandoned| {
            started.send(abandoned.is()).unwrap();
            while !abandoned.is() {
                std::thread::yield_now();
            }
            stopped.send(()).unwrap();
        }));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        let limit = Duration::from_secs(30);
        assert_eq!(wait_for_start.recv_timeout(limit), Ok(false));
        drop(waiting);
        assert_eq!(wait_for_stop.recv_timeout(limit), Ok(()));
    }
}
