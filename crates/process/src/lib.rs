//! Child processes: each in a process group of its own, with limits on time and output, and with one of three
//! policies for the processes that it leaves behind.
//!
//! - [`Run`] runs a program to its end and passes its output on.
//! - [`ProcessGroup`] is a running program, for owners that exchange messages with it.
//! - [`untrusting_git`] and [`without_filters`] run git in a directory whose configuration is not trusted.
//! - [`shell_command`] is the one way to start the system's shell.

mod error;
mod git;
mod group;
mod run;
mod shell;
mod status;
mod stream;

pub use error::{Error, StartError};
pub use git::{git_output, untrusting_git, without_filters};
pub use group::{GroupKiller, ProcessGroup};
pub use run::{Ended, Lingering, Output, Run, StartedRun};
pub use shell::shell_command;
pub use status::{describe_status, exit_code};
pub use stream::{Stream, Streams};
