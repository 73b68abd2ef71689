//! Readers of documents run apart from everything else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::sync::oneshot;

/// The name of the thread that reads; a panic hook may go by it.
const THREAD: &str = "document-text";

/// Nested documents are read recursively.
const STACK: usize = 64 << 20;

/// A document that takes longer is taken to be made so that it never ends.
const LONGEST: Duration = Duration::from_secs(300);

/// Does `work` in a thread of its own, because a reader of documents may panic, nest deeply, or never
/// end: the first ends that thread only, for the second it has the stack, and one that is given up
/// does not keep the process alive.
///
/// # Errors
/// Those of the work, or that it gave up.
pub(super) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (tell, told) = oneshot::channel();
    let guarded = move || {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            Err("it is damaged, or uses what its reader does not know".to_owned())
        })
    };
    std::thread::Builder::new()
        .name(THREAD.to_owned())
        .stack_size(STACK)
        .spawn(move || {
            // Nobody may be waiting any more.
            let _ = tell.send(guarded());
        })
        .map_err(|error| error.to_string())?;
    match tokio::time::timeout(LONGEST, told).await {
        Ok(Ok(read)) => read,
        Ok(Err(_)) => Err("its reader gave up on it".to_owned()),
        Err(_) => Err(format!("it was not read within {LONGEST:?}")),
    }
}
