//! The ledger's file: a SQLite database of its own, not part of the store. Its writes must not disturb the
//! store's readers, and remote stores charge per request.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachalot_store::sqlite::set_aside;
use rusqlite::Connection;

use super::append::{Batch, append};
use super::error::LedgerError;
use super::limits::LedgerLimits;
use super::schema;

/// The file, as the writer thread uses it: opened with the first batch.
pub(super) struct File {
    path: PathBuf,
    run: String,
    limits: LedgerLimits,
    warn: Arc<dyn Fn(&str) + Send + Sync>,
    connection: Option<Connection>,
}

impl File {
    pub(super) fn new(
        path: PathBuf,
        run: String,
        limits: LedgerLimits,
        warn: &Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        Self {
            path,
            run,
            limits,
            warn: Arc::clone(warn),
            connection: None,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a batch in one transaction, and deletes the rows that exceed the limits. A damaged file is set
    /// aside first (renamed, never deleted).
    pub(super) fn append(&mut self, batch: &Batch<'_>) -> Result<(), LedgerError> {
        match self.try_append(batch) {
            Err(error) if error.is_damage() => {
                // Closed first: no process should have a file open that is set aside.
                self.connection = None;
                let aside = set_aside(&self.path, batch.at().unwrap_or_default())
                    .map_err(|error| LedgerError::at(&self.path, &error))?;
                (self.warn)(&format!("{error}; it was set aside as {}", aside.display()));
                self.try_append(batch)
            }
            written => written,
        }
    }

    fn try_append(&mut self, batch: &Batch<'_>) -> Result<(), LedgerError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            closed => closed.insert(schema::open(&self.path)?),
        };
        append(connection, &self.run, &self.limits, batch)
            .map_err(|error| LedgerError::new(&self.path, error))
    }
}
