//! The locks of the structures that threads share, so that the feature `shuttle` can explore their interleavings.

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, MutexGuard};

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
