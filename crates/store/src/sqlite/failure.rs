//! Conversion of SQLite's errors to [`Error`].

use std::io;
use std::path::Path;
use std::sync::Arc;

use cachalot_core::disk;
use rusqlite::Error as E;
use rusqlite::ffi::{self, ErrorCode};

use crate::{Error, ErrorKind};

/// The location of the database, for messages.
#[derive(Debug, Clone)]
pub(super) struct Context(Arc<str>);

impl Context {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.display().to_string().into())
    }

    pub(super) fn location(&self) -> &str {
        &self.0
    }

    pub(super) fn failure(&self, error: rusqlite::Error) -> Error {
        let location = self.location();
        if let Some(newer) = newer_layout_of(&error) {
            return self.too_new(newer);
        }
        let kind = match kind(&error) {
            ErrorKind::Unavailable | ErrorKind::Denied if may_be_full(&error) && self.is_full() => {
                ErrorKind::Full
            }
            kind => kind,
        };
        let message = match kind {
            ErrorKind::Corrupt => format!(
                "the database {location} is damaged or not a database ({error}); set it aside to begin anew"
            ),
            ErrorKind::Busy => {
                format!("another process kept the database {location} locked; try again")
            }
            ErrorKind::Full => {
                format!("no space left for the database {location}; free some on its disk")
            }
            ErrorKind::Denied => {
                format!("no permission to write the database {location} or its directory")
            }
            ErrorKind::TooLarge => format!("a record is too large for the database {location}"),
            _ => format!("the database {location} failed: {error}"),
        };
        Error::new(kind, message).with_source(error)
    }

    /// The error of a file of a newer version of Cachalot.
    pub(super) fn too_new(&self, NewerLayout { version, known }: &NewerLayout) -> Error {
        Error::new(
            ErrorKind::TooNew,
            format!(
                "the database {} was written by a newer version of Cachalot (layout {version}; this version knows up to \
                 {known}): update Cachalot, or choose another file",
                self.location()
            ),
        )
    }

    fn is_full(&self) -> bool {
        let directory = Path::new(self.location()).parent();
        directory.is_some_and(disk::is_full_at)
    }

    /// A file or directory could not be made or opened.
    pub(super) fn file(&self, error: io::Error) -> Error {
        let location = self.location();
        match error.kind() {
            _ if disk::is_full(&error) => Error::new(
                ErrorKind::Full,
                format!("no space left to create the database {location}; free some on its disk"),
            ),
            io::ErrorKind::PermissionDenied => Error::new(
                ErrorKind::Denied,
                format!("no permission to open or create the database {location}"),
            ),
            io::ErrorKind::ReadOnlyFilesystem => Error::new(
                ErrorKind::Denied,
                format!("the file system of the database {location} is read-only"),
            ),
            _ => Error::new(
                ErrorKind::Unavailable,
                format!("cannot open or create the database {location}: {error}"),
            ),
        }
        .with_source(error)
    }
}

fn kind(error: &rusqlite::Error) -> ErrorKind {
    match error {
        E::SqliteFailure(cause, message) => match cause.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => ErrorKind::Busy,
            ErrorCode::DiskFull => ErrorKind::Full,
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => ErrorKind::Corrupt,
            ErrorCode::PermissionDenied | ErrorCode::ReadOnly => ErrorKind::Denied,
            ErrorCode::TooBig => ErrorKind::TooLarge,
            // The statements are fixed: an invalid one means that the schema is not the expected one.
            ErrorCode::Unknown
                if message
                    .as_deref()
                    .is_some_and(|text| text.contains("no such")) =>
            {
                ErrorKind::Corrupt
            }
            _ => ErrorKind::Unavailable,
        },
        E::SqlInputError { .. } => ErrorKind::Corrupt,
        // A column contains a value that Cachalot never stores in it.
        E::InvalidColumnType(..)
        | E::FromSqlConversionFailure(..)
        | E::IntegralValueOutOfRange(..)
        | E::Utf8Error(..) => ErrorKind::Corrupt,
        _ => ErrorKind::Unavailable,
    }
}

/// Returns true if a full disk may be the cause. SQLite reports a full disk as such only when it writes data,
/// not when it creates a file, maps its index of the log or exceeds a quota.
fn may_be_full(error: &rusqlite::Error) -> bool {
    let E::SqliteFailure(cause, _) = error else {
        return false;
    };
    match cause.code {
        ErrorCode::SystemIoFailure | ErrorCode::CannotOpen => true,
        ErrorCode::ReadOnly => matches!(
            cause.extended_code,
            ffi::SQLITE_READONLY_CANTINIT | ffi::SQLITE_READONLY_DIRECTORY
        ),
        _ => false,
    }
}

/// Returns true if SQLite failed because the disk of the database at `path` is full.
#[must_use]
pub fn is_full(path: &Path, error: &rusqlite::Error) -> bool {
    kind(error) == ErrorKind::Full || (may_be_full(error) && Context::new(path).is_full())
}

/// Returns true if the error is only a lock held by another connection.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    kind(error) == ErrorKind::Busy
}

/// The error of a lock held by another connection, which leads to a retry.
pub(super) fn locked() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)
}

/// A layout of a newer version of Cachalot.
#[derive(Debug, thiserror::Error)]
#[error("layout {version}, and {known} is the newest that is known")]
pub(super) struct NewerLayout {
    pub(super) version: i64,
    pub(super) known: i64,
}

impl From<NewerLayout> for rusqlite::Error {
    /// The error of a file whose layout a newer version has changed while it was open.
    fn from(newer: NewerLayout) -> Self {
        Self::ToSqlConversionFailure(Box::new(newer))
    }
}

fn newer_layout_of(error: &rusqlite::Error) -> Option<&NewerLayout> {
    match error {
        E::ToSqlConversionFailure(cause) => cause.downcast_ref(),
        _ => None,
    }
}

/// The error for stored data that cannot be decoded.
pub(super) fn damaged(what: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, what.into())
}
