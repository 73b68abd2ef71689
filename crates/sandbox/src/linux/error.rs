//! The reason why a sandbox cannot be made.

use std::fmt::Display;
use std::path::Path;

use rustix::io::Errno;

use crate::policy::ArgumentError;

/// The reason why a sandbox cannot be made. The program did not run.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The helper was started with wrong arguments.
    #[error("the helper of the sandbox was called incorrectly: {0}")]
    Arguments(#[from] ArgumentError),
    /// The system refused a step.
    #[error("the sandbox cannot be made: {step}: {error}")]
    Refused { step: String, error: std::io::Error },
    /// A read-only file has another name, under which it could be changed.
    #[error(
        "the sandbox cannot protect {path}: {other} is the same file (a hard link); replace one by a copy"
    )]
    HardLinked { path: String, other: String },
    /// The mount of a file is gone while the program ran.
    #[error(
        "the command was ended: another program has replaced or removed a file that the sandbox protects"
    )]
    MountRemoved,
    /// The program cannot be started.
    #[error("{program} cannot be run: {error}")]
    Program {
        program: String,
        error: std::io::Error,
    },
}

/// Names the step that failed.
pub(super) trait Step<T> {
    /// Names the step.
    fn step(self, step: impl Display) -> Result<T, Error>;
    /// Names what could not be done with a path.
    fn on(self, step: &str, path: &Path) -> Result<T, Error>;
}

impl<T> Step<T> for Result<T, Errno> {
    fn step(self, step: impl Display) -> Result<T, Error> {
        self.map_err(std::io::Error::from).step(step)
    }

    fn on(self, step: &str, path: &Path) -> Result<T, Error> {
        self.map_err(std::io::Error::from).on(step, path)
    }
}

impl<T> Step<T> for std::io::Result<T> {
    fn step(self, step: impl Display) -> Result<T, Error> {
        self.map_err(|error| Error::Refused {
            step: step.to_string(),
            error,
        })
    }

    fn on(self, step: &str, path: &Path) -> Result<T, Error> {
        self.step(format_args!("{step} {}", path.display()))
    }
}
