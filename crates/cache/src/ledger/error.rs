//! The error of the ledger.

use std::path::Path;
use std::sync::Arc;

use cachalot_store::sqlite::is_full;
use rusqlite::ErrorCode;

/// An error of reading or writing the ledger.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct LedgerError {
    message: String,
    #[source]
    source: Option<Arc<rusqlite::Error>>,
}

impl LedgerError {
    pub(super) fn new(path: &Path, error: rusqlite::Error) -> Self {
        let message = if is_full(path, &error) {
            format!("{}: no space left; free some on its disk", path.display())
        } else {
            format!("{}: {error}", path.display())
        };
        Self {
            message,
            source: Some(Arc::new(error)),
        }
    }

    pub(super) fn at(path: &Path, error: &std::io::Error) -> Self {
        Self {
            message: format!("{}: {error}", path.display()),
            source: None,
        }
    }

    /// Creates an error that does not come from SQLite.
    pub(super) fn from_message(message: String) -> Self {
        Self {
            message,
            source: None,
        }
    }

    fn code(&self) -> Option<ErrorCode> {
        self.source.as_ref()?.sqlite_error_code()
    }

    /// True if the file is no database, or damaged.
    pub(super) fn is_damage(&self) -> bool {
        matches!(
            self.code(),
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)
        )
    }

    /// True if another process holds the file's lock, so that a retry can succeed.
    pub(super) fn is_locked(&self) -> bool {
        matches!(
            self.code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        )
    }
}
