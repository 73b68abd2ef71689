//! Reasons why an observation does not hold, or cannot be made.

use std::io;
use std::path::Path;

/// The reason why an observation of a file does not hold, or cannot be made. Most name the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObservationError {
    /// It is not as it was.
    #[error("{0} changed")]
    Changed(String),
    /// Another process wrote it at the same time.
    #[error("{0} changed while it was read")]
    ChangedWhileRead(String),
    /// It existed.
    #[error("{0} is gone")]
    Gone(String),
    /// It did not exist.
    #[error("{0} is there now")]
    Appeared(String),
    /// The links in its path were changed.
    #[error("{0} leads elsewhere")]
    LeadsElsewhere(String),
    /// It is generated when it is read, like those of `/proc`: nothing reveals when it changes.
    #[error(
        "{path} holds {length} bytes, but its status reports {size}: its changes cannot be detected"
    )]
    Generated {
        /// The file.
        path: String,
        /// The number of bytes that were read.
        length: u64,
        /// The size in its status.
        size: u64,
    },
    /// Its name is no Unicode.
    #[error("{0} is not a name that can be noted")]
    Name(String),
    /// A pipe, a socket or a device.
    #[error("{0} is neither a file nor a directory")]
    Special(String),
    /// The file system does not give it.
    #[error("{path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// The error of the file system.
        error: String,
    },
    /// The check took too long.
    #[error("{0} could not be checked in time")]
    TooSlow(String),
    /// The work depends on more than was observed.
    #[error("{0}")]
    Incomplete(String),
    /// Nothing, or more than one thing, was observed.
    #[error("no single file was looked at")]
    NoSingleFile,
    /// There is no content, because there is no file.
    #[error("{0} is not there")]
    Absent(String),
    /// There is no content.
    #[error("{0} is not a file")]
    NotAFile(String),
}

impl ObservationError {
    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self::Unreadable {
            path: path.display().to_string(),
            error: error.to_string(),
        }
    }
}
