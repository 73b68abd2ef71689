//! Reading the ledger's file.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, params};

use super::file::open_to_read;
use super::{Answered, Ledger, LedgerError, Row, Totals};
use crate::Key;

impl Ledger {
    /// The last `limit` calls, newest first.
    ///
    /// # Errors
    /// If the file cannot be read. A ledger that was never written is empty.
    pub fn recent(&self, limit: u32) -> Result<Vec<Row>, LedgerError> {
        self.rows("1 ORDER BY id DESC LIMIT ?1", params![limit])
    }

    /// The calls under a key or a handle, newest first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn calls_of(&self, key_or_handle: &str, limit: u32) -> Result<Vec<Row>, LedgerError> {
        let column = if key_or_handle.parse::<Key>().is_ok() {
            "key"
        } else {
            "handle"
        };
        self.rows(
            &format!("{column} = ?1 ORDER BY id DESC LIMIT ?2"),
            params![key_or_handle, limit],
        )
    }

    /// Earlier calls of the same name and scope of whose inputs something is known, newest first.
    pub(crate) fn earlier_alike(&self, row: &Row, limit: u32) -> Result<Vec<Row>, LedgerError> {
        self.rows(
            "name = ?1 AND scope = ?2 AND id < ?3 AND input_digest IS NOT NULL ORDER BY id DESC LIMIT ?4",
            params![row.name, row.scope, row.id, limit],
        )
    }

    /// All calls, summed by kind and name, most saved first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn totals(&self) -> Result<Vec<(String, String, Totals)>, LedgerError> {
        let Some((path, connection)) = self.reading()? else {
            return Ok(Vec::new());
        };
        let read = || {
            let mut statement = connection.prepare(
                "SELECT kind, name, hits, coalesced, misses, bypasses, failures, paid, saved
                 FROM totals ORDER BY saved DESC, name",
            )?;
            let rows = statement.query_map([], |row| {
                let count = |index| row.get::<_, i64>(index).map(|n| n.max(0) as u64);
                let totals = Totals {
                    hits: count(2)?,
                    coalesced: count(3)?,
                    misses: count(4)?,
                    bypasses: count(5)?,
                    failures: count(6)?,
                    paid: Duration::from_nanos(count(7)?),
                    saved: Duration::from_nanos(count(8)?),
                };
                Ok((row.get(0)?, row.get(1)?, totals))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|error| LedgerError::new(&path, error))
    }

    fn reading(&self) -> Result<Option<(PathBuf, Connection)>, LedgerError> {
        let Some(path) = self.path() else {
            return Ok(None);
        };
        let connection = open_to_read(path)?;
        Ok(connection.map(|connection| (path.to_owned(), connection)))
    }

    fn rows(&self, which: &str, with: &[&dyn rusqlite::ToSql]) -> Result<Vec<Row>, LedgerError> {
        let Some((path, connection)) = self.reading()? else {
            return Ok(Vec::new());
        };
        let read = || {
            let mut statement = connection.prepare(&format!(
                "SELECT id, at, run, kind, name, scope, key, handle, answered, reason, not_stored,
                        failure, paid, saved, input, input_digest FROM calls WHERE {which}"
            ))?;
            let rows = statement.query_map(with, row_of)?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|error| LedgerError::new(&path, error))
    }
}

fn row_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let duration = |index| {
        row.get::<_, i64>(index)
            .map(|n| Duration::from_nanos(n.max(0) as u64))
    };
    Ok(Row {
        id: row.get(0)?,
        at: row.get(1)?,
        run: row.get(2)?,
        kind: row.get(3)?,
        name: row.get(4)?,
        scope: row.get(5)?,
        key: row.get(6)?,
        handle: row.get(7)?,
        answered: Answered::parse(&row.get::<_, String>(8)?),
        reason: row.get(9)?,
        not_stored: row.get(10)?,
        failure: row.get(11)?,
        paid: duration(12)?,
        saved: duration(13)?,
        input: row
            .get::<_, Option<String>>(14)?
            .and_then(|text| serde_json::from_str(&text).ok()),
        input_digest: row.get(15)?,
    })
}
