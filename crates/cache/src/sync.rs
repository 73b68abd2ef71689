//! The locks of the structures that threads share, and tasks and pauses beside calls, so that the feature
//! `shuttle` can explore their interleavings.

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Ends a task.
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::future::AbortHandle;
#[cfg(not(feature = "shuttle"))]
pub(crate) use tokio::task::AbortHandle;

/// Runs a task beside its caller.
#[cfg(not(feature = "shuttle"))]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    tokio::spawn(task).abort_handle()
}
#[cfg(feature = "shuttle")]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    let task = shuttle::future::spawn(task);
    let handle = task.abort_handle();
    // To drop it would abort the task.
    std::mem::forget(task);
    handle
}

/// Waits; where schedules are explored there is no time, and the others go on.
#[cfg(not(feature = "shuttle"))]
pub(crate) use tokio::time::sleep;
#[cfg(feature = "shuttle")]
pub(crate) async fn sleep(_: std::time::Duration) {
    shuttle::future::yield_now().await;
}

/// Locks; a holder that panicked left nothing half-done, because nothing under these locks can panic
/// between two writes that belong together.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
