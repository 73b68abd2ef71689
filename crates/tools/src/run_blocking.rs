//! Blocking work on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that is set when no caller waits for the work any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct AbandonFlag(Arc<AtomicBool>);

impl AbandonFlag {
    /// True if no caller waits any more: the work should stop at a point that leaves nothing half done.
    pub(crate) fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Sets the flag when it is dropped.
struct AbandonOnDrop(AbandonFlag);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Runs blocking work on another thread. If the future is dropped, the flag is set, and the work continues
/// until it checks the flag. A panic of the work is resumed in the caller.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce(&AbandonFlag) -> T + Send + 'static,
) -> T {
    let abandoned = AbandonFlag::default();
    let waiting = AbandonOnDrop(abandoned.clone());
    let done = tokio::task::spawn_blocking(move || work(&abandoned)).await;
    drop(waiting);
    match done {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime shuts down: this future is not polled again.
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
    async fn abandon_flag_is_set_when_the_waiter_is_dropped() {
        let (started, wait_for_start) = mpsc::channel();
        let (stopped, wait_for_stop) = mpsc::channel();
        let mut waiting = Box::pin(run_blocking(move |abandoned| {
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
