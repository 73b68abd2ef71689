//! Calls of the system that have no safe function elsewhere.
#![allow(unsafe_code, reason = "each call says why it is sound")]

use std::ffi::CStr;
use std::fmt::Display;
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// A side of a fork.
pub(super) enum Fork {
    /// The caller, with the new process.
    Parent(Pid),
    /// The new process.
    Child,
}

/// Creates a copy of this process in new namespaces; without any, in those of this process.
///
/// # Errors
/// If the system refuses it.
pub(super) fn fork(namespaces: UnshareFlags) -> std::io::Result<Fork> {
    let flags = namespaces.bits() | libc::SIGCHLD.cast_unsigned();
    let none: usize = 0;
    // SAFETY: the new process has a copy of the memory and the stack. There are no other threads, whose locks it would
    // have a copy of.
    let child = unsafe {
        libc::syscall(
            libc::SYS_clone,
            libc::c_ulong::from(flags),
            none,
            none,
            none,
            none,
        )
    };
    match i32::try_from(child) {
        Ok(0) => Ok(Fork::Child),
        Ok(child) if child > 0 => Pid::from_raw(child)
            .map(Fork::Parent)
            .ok_or_else(std::io::Error::last_os_error),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Attributes of a mount that a file cannot be changed through.
pub(super) const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
/// Attributes of a mount whose programs give no rights.
pub(super) const NO_SUID: u64 = libc::MOUNT_ATTR_NOSUID;

/// Sets attributes of a mount, and with `recursive` of those below it.
///
/// # Errors
/// If the system refuses it.
pub(super) fn set_mount_attributes(
    mount: impl AsFd,
    attributes: u64,
    recursive: bool,
) -> std::io::Result<()> {
    let set = libc::mount_attr {
        attr_set: attributes,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let flags = if recursive { libc::AT_RECURSIVE } else { 0 } | libc::AT_EMPTY_PATH;
    let empty: &CStr = c"";
    // SAFETY: the path and the structure live during the call, and the size is that of the structure.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            empty.as_ptr(),
            flags,
            &raw const set,
            size_of::<libc::mount_attr>(),
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Starts the loopback interface of a new network namespace.
///
/// # Errors
/// If the system refuses it.
pub(super) fn start_loopback(socket: BorrowedFd<'_>) -> std::io::Result<()> {
    // SAFETY: all bits may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).unwrap_or_default();
    // SAFETY: the request lives during the call, and has the type that this call reads.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if answer == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Closes all descriptors but the standard streams: those that the caller has left open are none of the program's.
pub(super) fn close_others() {
    let (first, last, flags): (libc::c_uint, libc::c_uint, libc::c_uint) =
        (3, libc::c_uint::MAX, 0);
    // SAFETY: nothing has been opened yet.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
}

/// Closes the standard streams, for this process only.
///
/// # Errors
/// If the null device, which takes their place, cannot be opened.
pub(super) fn close_standard_streams() -> std::io::Result<()> {
    let null = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Gives up the terminal, so that nothing can be typed into it.
pub(super) fn leave_terminal() {
    if let Ok(terminal) = std::fs::File::open("/dev/tty") {
        // SAFETY: the call has no argument. It fails if there is no terminal any more.
        unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCNOTTY) };
    }
}

/// Ends this process by a signal, as far as that signal does.
pub(super) fn end_by(signal: i32) {
    // SAFETY: the default action of a signal has no handler.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Writes a line to stderr; a failure is ignored, because nothing else can be done.
pub(super) fn report(message: &dyn Display) {
    let _ = writeln!(std::io::stderr(), "cachalot: {message}");
}
