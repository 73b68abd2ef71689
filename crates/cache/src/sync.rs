//! Locks, tasks and sleeps that the feature `shuttle` replaces in order to explore thread interleavings.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};

/// Aborts a task.
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::future::AbortHandle;
#[cfg(not(feature = "shuttle"))]
pub(crate) use tokio::task::AbortHandle;

/// Spawns a task.
#[cfg(not(feature = "shuttle"))]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    tokio::spawn(task).abort_handle()
}
#[cfg(feature = "shuttle")]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    let task = shuttle::future::spawn(task);
    let handle = task.abort_handle();
    // Dropping it would abort the task.
    std::mem::forget(task);
    handle
}

/// Sleeps. With `shuttle` there is no time: it yields to other tasks.
#[cfg(not(feature = "shuttle"))]
pub(crate) use tokio::time::sleep;
#[cfg(feature = "shuttle")]
pub(crate) async fn sleep(_: std::time::Duration) {
    shuttle::future::yield_now().await;
}

/// Locks a mutex.
#[cfg(not(feature = "shuttle"))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
/// Locks a mutex. A panic ends the schedule and its test, so poisoning cannot be seen.
#[cfg(feature = "shuttle")]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
