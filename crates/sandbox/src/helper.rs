//! The process that makes a sandbox and runs a program in it.

use std::ffi::OsString;

use crate::policy::HELPER;

/// Runs the helper of a sandbox, and does not return, if the arguments of this process are those of one: see
/// [`crate::Policy::command`]. Has to be called by `main` before anything else, while there are no other threads.
pub fn run_if_helper() {
    let mut arguments = std::env::args_os().skip(1);
    let Some(first) = arguments.next() else {
        return;
    };
    if first == *HELPER {
        run(arguments);
    }
    #[cfg(unix)]
    if first == *crate::attempts::ATTEMPTS {
        crate::attempts::run(arguments);
    }
}

/// Removes the placeholders that a directory of records names, if no command needs them: those of commands that were
/// killed. A failure is ignored: the next command tries it again.
pub fn remove_placeholders(records: &std::path::Path) {
    #[cfg(target_os = "linux")]
    crate::linux::remove_placeholders(records);
    #[cfg(not(target_os = "linux"))]
    let _ = records;
}

/// Receives the socket on which a sandbox expects its proxy; see [`crate::Network::Proxy`]. The sandbox has ended when
/// `stream` is at its end.
///
/// # Errors
/// If `stream` is not from a sandbox; `WouldBlock` if it does not block and nothing has come.
#[cfg(unix)]
pub fn receive_listener(stream: impl std::os::fd::AsFd) -> std::io::Result<std::net::TcpListener> {
    #[cfg(target_os = "linux")]
    return crate::linux::receive_listener(stream);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = stream;
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

#[cfg(target_os = "linux")]
fn run(arguments: impl Iterator<Item = OsString>) -> ! {
    crate::linux::run(arguments)
}

#[cfg(target_os = "macos")]
fn run(arguments: impl Iterator<Item = OsString>) -> ! {
    crate::macos::run(arguments)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn run(_arguments: impl Iterator<Item = OsString>) -> ! {
    std::process::exit(126)
}
