//! Errors of child processes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::Stream;

/// The reason why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The working directory does not exist, or is not a directory.
    #[error("there is no directory `{}` to run in", .0.display())]
    NoDirectory(PathBuf),
    /// The program, or the interpreter that its first line names, does not exist.
    #[error("there is no program `{0}`")]
    NoProgram(String),
    /// The system refused to start the program.
    #[error(transparent)]
    Refused(#[from] io::Error),
}

/// The reason why a program has no exit status. It is not running.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program was not started.
    #[error("it cannot be started: {0}")]
    Start(#[from] StartError),
    /// A pipe to the program failed.
    #[error("a pipe to it failed: {0}")]
    Pipe(#[source] io::Error),
    /// The program did not end in time, and was killed.
    #[error("it did not end within {0:?} and was killed")]
    TimedOut(Duration),
    /// The program wrote more than the permitted number of bytes, and was killed.
    #[error("it wrote more than {limit} bytes to {stream} and was killed")]
    TooMuchOutput {
        /// The stream that it wrote to.
        stream: Stream,
        /// The maximum number of bytes.
        limit: usize,
    },
}
