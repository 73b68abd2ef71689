//! Runs document readers in isolation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::sync::oneshot;

use super::DocumentError;

/// The name of the reader's thread; a panic hook may check it.
const THREAD_NAME: &str = "document-text";

/// The stack size of the thread in bytes: nested documents are read recursively.
const STACK_SIZE: usize = 64 << 20;

/// The maximum time for a document; one that takes longer is assumed to be crafted so that it never ends.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Runs `work` in its own thread, because a document reader may panic, recurse deeply, or never end:
/// - A panic ends only that thread.
/// - Deep recursion has a large stack.
/// - A reader that exceeds the time limit is abandoned and does not keep the process alive.
///
/// # Errors
/// Errors of `work`, or that it panicked or exceeded the time limit.
pub(super) async fn run_in_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DocumentError> + Send + 'static,
) -> Result<T, DocumentError> {
    let (tell, receiver) = oneshot::channel();
    let guarded =
        move || catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(DocumentError::ReaderPanicked));
    std::thread::Builder::new()
        .name(THREAD_NAME.to_owned())
        .stack_size(STACK_SIZE)
        .spawn(move || {
            // The receiver may be gone.
            let _ = tell.send(guarded());
        })?;
    match tokio::time::timeout(TIMEOUT, receiver).await {
        Ok(Ok(read)) => read,
        Ok(Err(_)) => Err(DocumentError::ReaderGone),
        Err(_) => Err(DocumentError::TimedOut(TIMEOUT)),
    }
}
