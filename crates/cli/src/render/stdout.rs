//! Standard output, for results: what cannot be written there is an error.
//!
//! The standard library's own handle says that all is well where standard output is closed. It takes
//! two things to know better: to look before the library puts `/dev/null` in the place of a descriptor
//! that is not there, and to write past the handle, which hides that a descriptor takes no output.

use std::io::Write;

use crate::outcome::Result;

/// Standard output. What is written is not buffered.
///
/// # Errors
/// If the process was started without one.
#[cfg(unix)]
pub(crate) fn open() -> Result<impl Write + Send> {
    use std::os::fd::AsFd as _;
    if at_start::closed() {
        return Err(crate::outcome::Trouble::failed(
            "standard output is closed, so that the result would be lost: send it somewhere, for instance to /dev/null",
        ));
    }
    let descriptor = std::io::stdout().as_fd().try_clone_to_owned();
    Ok(Output(descriptor.map_err(unusable)?.into()))
}

/// Standard output. What is written is flushed when the writer is.
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

/// The descriptor itself.
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

/// How the process was started, where programs can look before the standard library does.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
mod at_start {
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Written once, before `main` and before there is a second thread.
    static CLOSED: AtomicBool = AtomicBool::new(false);

    /// Whether there was no standard output.
    pub(super) fn closed() -> bool {
        CLOSED.load(Ordering::Relaxed)
    }

    extern "C" fn look() {
        #[expect(
            unsafe_code,
            reason = "nothing of the standard library may be used yet"
        )]
        // SAFETY: `fcntl` with `F_GETFD` takes any number and only looks.
        let answer = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
        // Its only error is that there is no such descriptor.
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
    // SAFETY: the sections hold addresses of functions, and `look` needs nothing that is not there yet.
    static LOOK_FIRST: extern "C" fn() = look;
}

/// How the process was started, as far as it can be told.
#[cfg(all(
    unix,
    not(any(target_os = "linux", target_os = "android", target_vendor = "apple"))
))]
mod at_start {
    /// Whether there was no standard output. Nobody knows.
    pub(super) const fn closed() -> bool {
        false
    }
}
