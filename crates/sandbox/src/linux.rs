//! Sandboxes of Linux: namespaces, mounts and seccomp; or Landlock and seccomp (`limited`).
//!
//! Two processes stand between the caller and the program. The *supervisor*, which the caller started, stays outside of
//! the namespaces and ends as the program does. *Init*, its child and the first process of the namespaces, makes the view
//! of the file system, gives up all rights, and starts the program; when init ends, the kernel kills the rest.

mod error;
mod hard_links;
mod init;
mod limited;
mod placeholders;
mod proxy;
mod report;
mod supervisor;
mod syscalls;
mod system;
mod view;

use std::ffi::OsString;

/// The exit code if the program cannot be run, as of a shell.
const CANNOT_RUN: i32 = 126;

pub(crate) use placeholders::remove as remove_placeholders;
pub(crate) use proxy::receive_listener;

/// Runs a program in a sandbox, and ends as it does.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ! {
    match supervisor::run(arguments) {
        Ok(ended) => ended.repeat(),
        Err(error) => {
            system::report(&error);
            std::process::exit(CANNOT_RUN)
        }
    }
}
