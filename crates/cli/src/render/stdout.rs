//! Standard output for results: a failed write is an error.
//!
//! The handle of the standard library reports success if standard output is closed. Two measures detect this:
//! a check before the library opens `/dev/null` in place of a missing descriptor, and writes that bypass the
//! handle, which hides that a descriptor accepts no output.

use std::io::Write;

use crate::command_error::Result;

/// Opens standard output without a buffer.
///
/// # Errors
/// The process was started without standard output.
#[cfg(unix)]
pub(crate) fn open() -> Result<impl Write + Send> {
    use std::os::fd::AsFd as _;
    if at_start::closed() {
        return Err(crate::command_error::CommandError::failed(
            "standard output is closed, so that the result would be lost: send it somewhere, for instance to /dev/null",
        ));
    }
    let descriptor = std::io::stdout().as_fd().try_clone_to_owned();
    Ok(Output(descriptor.map_err(unusable)?.into()))
}

/// Opens standard output. Data is flushed when the writer is.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub(crate) fn open() -> Result<impl Write + Send> {
    Ok(std::io::stdout())
}

#[cfg(unix)]
fn unusable(error: std::io::Error) -> std::io::Error {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::Interrupted => error,
        kind => std::io::Error::new(
            kind,
            format!("standard output cannot be written to: {error}"),
        ),
    }
}

/// Writer to the descriptor of stdout.
#[cfg(unix)]
struct Output(std::fs::File);

#[cfg(unix)]
impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes).map_err(unusable)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// State of stdout at process start, on platforms where code can run before the standard library starts.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
mod at_start {
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Written once, before `main` and before a second thread exists.
    static CLOSED: AtomicBool = AtomicBool::new(false);

    /// Returns true if there was no standard output.
    pub(super) fn closed() -> bool {
        CLOSED.load(Ordering::Relaxed)
    }

    extern "C" fn look() {
        #[expect(
            unsafe_code,
            reason = "nothing of the standard library may be used yet"
        )]
        // SAFETY: `fcntl` with `F_GETFD` accepts any number and changes nothing.
        let answer = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
        // Its only error is a missing descriptor.
        CLOSED.store(answer == -1, Ordering::Relaxed);
    }

    #[used]
    #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
    #[cfg_attr(
        target_vendor = "apple",
        unsafe(link_section = "__DATA,__mod_init_func")
    )]
    #[expect(
        unsafe_code,
        reason = "only a function that is called before `main` can look in time"
    )]
    // SAFETY: the sections contain addresses of functions, and `look` uses nothing that is not initialized
    // yet.
    static LOOK_FIRST: extern "C" fn() = look;
}

/// State of stdout at process start, on platforms where it cannot be checked.
#[cfg(all(
    unix,
    not(any(target_os = "linux", target_os = "android", target_vendor = "apple"))
))]
mod at_start {
    /// Always returns false: a missing standard output cannot be detected.
    pub(super) const fn closed() -> bool {
        false
    }
}
