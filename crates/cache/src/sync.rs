//! Locks, tasks and sleeps that the feature `shuttle` replaces in order to explore thread interleavings, and waiting for
//! changes of a state.

use tokio::sync::Notify;

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};

/// Spawns a task.
#[cfg(not(feature = "shuttle"))]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}
#[cfg(feature = "shuttle")]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    // Dropping the handle would abort the task.
    std::mem::forget(shuttle::future::spawn(task));
}

/// The runtime of a task.
#[cfg(not(feature = "shuttle"))]
pub(crate) type RuntimeId = tokio::runtime::Id;
/// The runtime of a task. With `shuttle`, all tasks have the same.
#[cfg(feature = "shuttle")]
pub(crate) type RuntimeId = ();

/// Returns the runtime of the current task.
#[cfg(not(feature = "shuttle"))]
pub(crate) fn runtime_id() -> RuntimeId {
    tokio::runtime::Handle::current().id()
}
#[cfg(feature = "shuttle")]
pub(crate) fn runtime_id() -> RuntimeId {}

/// Sleeps. With `shuttle` there is no time: it yields to other tasks.
#[cfg(not(feature = "shuttle"))]
pub(crate) use tokio::time::sleep;
#[cfg(feature = "shuttle")]
pub(crate) async fn sleep(_: std::time::Duration) {
    shuttle::future::yield_now().await;
}

/// Waits until `ready`, which is called after every notification of all waiters, returns a value.
pub(crate) async fn wait_until<T>(notify: &Notify, mut ready: impl FnMut() -> Option<T>) -> T {
    loop {
        let changed = notify.notified();
        tokio::pin!(changed);
        // Registered before `ready` reads the state, so that no notification is missed in between.
        changed.as_mut().enable();
        if let Some(answer) = ready() {
            return answer;
        }
        changed.await;
    }
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
