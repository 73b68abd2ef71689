//! Errors of a flat JSON file.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::{Error, ErrorKind};

use super::MAX_ENTRY_BYTES;

/// The location of the file, for messages.
#[derive(Debug, Clone)]
pub(super) struct Context(Arc<str>);

impl Context {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.display().to_string().into())
    }

    pub(super) fn location(&self) -> &str {
        &self.0
    }

    /// Converts an error of the file system from an attempt to `verb` the file.
    pub(super) fn io(&self, verb: &str, error: io::Error) -> Error {
        let location = self.location();
        let (kind, message) = match error.kind() {
            _ if cachalot_core::disk::is_full(&error) => (
                ErrorKind::Full,
                format!("no space left for the file {location}; free some on its disk"),
            ),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => (
                ErrorKind::Denied,
                format!("no permission to {verb} the file {location}"),
            ),
            _ => (
                ErrorKind::Unavailable,
                format!("cannot {verb} the file {location}: {error}"),
            ),
        };
        Error::new(kind, message).with_source(error)
    }

    pub(super) fn corrupt(&self, error: serde_json::Error) -> Error {
        let message = format!(
            "the file {} is not one flat JSON object of questions and answers ({error}); \
             repair it, or move it away to begin anew",
            self.location()
        );
        Error::new(ErrorKind::Corrupt, message).with_source(error)
    }

    pub(super) fn too_large(&self, largest: u64) -> Error {
        let message = format!(
            "the file {} has, or would have, more than {largest} bytes, which is too much for a file that \
             each store writes anew; erase entries, or use another store",
            self.location()
        );
        Error::new(ErrorKind::Full, message)
    }

    pub(super) fn busy(&self, waited: Duration) -> Error {
        let message = format!(
            "another process kept {}.lock locked for {waited:?}; try again",
            self.location()
        );
        Error::new(ErrorKind::Busy, message)
    }

    pub(super) fn keeps_changing(&self) -> Error {
        let message = format!(
            "the file {} changes while it is read; try again",
            self.location()
        );
        Error::new(ErrorKind::Busy, message)
    }

    pub(super) fn not_a_file(&self) -> Error {
        let message = format!(
            "{} is there, but is no file; name another path",
            self.location()
        );
        Error::new(ErrorKind::Unavailable, message)
    }

    pub(super) fn entry_too_large(&self, question: &str, size: u64) -> Error {
        let message = format!(
            "the question `{question:.80}` and its answer have {size} bytes; the file {} takes at most \
             {MAX_ENTRY_BYTES}",
            self.location()
        );
        Error::new(ErrorKind::TooLarge, message)
    }
}
