//! Blocking work on a thread of its own.

use tokio_util::sync::CancellationToken;

/// Runs blocking work on another thread. If the future is dropped, the token is cancelled, and the work
/// should stop at a point that leaves nothing half done. A panic of the work is resumed in the caller.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce(&CancellationToken) -> T + Send + 'static,
) -> T {
    let abandoned = CancellationToken::new();
    let _cancel_on_drop = abandoned.clone().drop_guard();
    match tokio::task::spawn_blocking(move || work(&abandoned)).await {
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
    async fn token_is_cancelled_when_the_waiter_is_dropped() {
        let (started, wait_for_start) = mpsc::channel();
        let (stopped, wait_for_stop) = mpsc::channel();
        let mut waiting = Box::pin(run_blocking(move |abandoned| {
            started.send(abandoned.is_cancelled()).unwrap();
            while !abandoned.is_cancelled() {
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
