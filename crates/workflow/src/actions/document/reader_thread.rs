//! Runs document readers in isolation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::sync::oneshot;

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
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (tell, receiver) = oneshot::channel();
    let guarded = move || {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            Err("it is damaged, or uses what its reader does not know".to_owned())
        })
    };
    std::thread::Builder::new()
        .name(THREAD_NAME.to_owned())
        .stack_size(STACK_SIZE)
        .spawn(move || {
            // The receiver may be gone.
            let _ = tell.send(guarded());
        })
        .map_err(|error| error.to_string())?;
    match tokio::time::timeout(TIMEOUT, receiver).await {
        Ok(Ok(read)) => read,
        Ok(Err(_)) => Err("its reader gave up on it".to_owned()),
        Err(_) => Err(format!("it was not read within {TIMEOUT:?}")),
    }
}
