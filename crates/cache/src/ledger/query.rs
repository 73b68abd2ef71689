//! Queries on the ledger's file.

use std::path::PathBuf;
use std::time::Duration;

use cachalot_core::{Cost, Millis, Spend};
use rusqlite::{Connection, params};

use super::append::DROPPED;
use super::schema::open_to_read;
use super::{CallStatus, Ledger, LedgerError, LedgerRow, LedgerTotals};
use crate::{CallKind, Key};

impl Ledger {
    /// Returns the last `limit` calls, newest first.
    ///
    /// # Errors
    /// If the file cannot be read. A ledger without a file is empty.
    pub fn recent(&self, limit: u32) -> Result<Vec<LedgerRow>, LedgerError> {
        self.rows("1 ORDER BY id DESC LIMIT ?1", params![limit])
    }

    /// Returns the last call that an entry could have answered.
    pub(crate) fn last_call(&self) -> Result<Vec<LedgerRow>, LedgerError> {
        // The literal lets SQLite use the partial index `calls_cacheable`.
        self.rows(
            "id = (SELECT max(id) FROM calls WHERE kind <> 'prefix')",
            params![],
        )
    }

    /// Returns the last paid call under a key, up to row `id`.
    pub(crate) fn last_payment(
        &self,
        key: &str,
        id: i64,
    ) -> Result<Option<LedgerRow>, LedgerError> {
        let paid = self.rows(
            "key = ?1 AND id <= ?2 AND answered IN ('miss', 'bypass') AND NOT failed
             ORDER BY id DESC LIMIT 1",
            params![key, id],
        )?;
        Ok(paid.into_iter().next())
    }

    /// Number of calls whose rows were dropped, because the file could not be written for too long. The
    /// totals include them.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn dropped(&self) -> Result<u64, LedgerError> {
        let Some((path, connection)) = self.open_for_reading()? else {
            return Ok(0);
        };
        let read = || {
            let mut statement = connection.prepare("SELECT value FROM counters WHERE name = ?1")?;
            let mut found = statement.query_map([DROPPED], |row| count(row, "value"))?;
            found.next().unwrap_or(Ok(0))
        };
        read().map_err(|error| LedgerError::new(&path, error))
    }

    /// Returns the calls under a key or a handle, newest first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn calls_by_key(
        &self,
        key_or_handle: &str,
        limit: u32,
    ) -> Result<Vec<LedgerRow>, LedgerError> {
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

    /// Returns the sessions with payments to models whose names begin with `beginning`, most recent payment
    /// first; at most `limit`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn sessions(&self, beginning: &str, limit: u32) -> Result<Vec<String>, LedgerError> {
        let Some((path, connection)) = self.open_for_reading()? else {
            return Ok(Vec::new());
        };
        let read = || {
            let mut statement = connection.prepare(
                "SELECT handle FROM calls
                 WHERE kind = ?1 AND handle >= ?2 AND substr(handle, 1, length(?2)) = ?2
                 GROUP BY handle ORDER BY max(id) DESC LIMIT ?3",
            )?;
            let with = params![CallKind::Prefix.as_str(), beginning, limit];
            let sessions = statement.query_map(with, |row| row.get(0))?;
            sessions.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|error| LedgerError::new(&path, error))
    }

    /// Returns the sessions of all calls, paid or not, whose names begin with `beginning`, in no particular
    /// order; at most `limit`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn sessions_of_calls(
        &self,
        beginning: &str,
        limit: u32,
    ) -> Result<Vec<String>, LedgerError> {
        let Some((path, connection)) = self.open_for_reading()? else {
            return Ok(Vec::new());
        };
        let read = || {
            let mut statement = connection.prepare(
                "SELECT session FROM calls
                 WHERE session >= ?1 AND substr(session, 1, length(?1)) = ?1
                 UNION
                 SELECT handle FROM calls
                 WHERE kind = ?2 AND handle >= ?1 AND substr(handle, 1, length(?1)) = ?1
                 LIMIT ?3",
            )?;
            let with = params![beginning, CallKind::Prefix.as_str(), limit];
            let sessions = statement.query_map(with, |row| row.get(0))?;
            sessions.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|error| LedgerError::new(&path, error))
    }

    /// Returns the answers of models whose prefix broke, oldest first: those recorded after row `after` and
    /// requested at `since` or later, along with the number of the newest row of any kind. Pass that number
    /// as `after` of the next call, so that no row is returned twice and none is missed. Rows that reuse
    /// numbers of deleted rows before the next call are missed. With [`i64::MAX`] as `after`, returns only
    /// the number.
    ///
    /// # Errors
    /// If the file cannot be read. A ledger without a file is empty.
    pub fn broken_prefixes(
        &self,
        after: i64,
        since: Millis,
    ) -> Result<(Vec<LedgerRow>, i64), LedgerError> {
        let Some((path, connection)) = self.open_for_reading()? else {
            return Ok((Vec::new(), 0));
        };
        let newest = connection.query_row("SELECT ifnull(max(id), 0) FROM calls", [], |row| {
            row.get::<_, i64>(0)
        });
        let newest = newest.map_err(|error| LedgerError::new(&path, error))?;
        let rows = match newest > after {
            true => self.rows(
                "kind = ?1 AND reason IS NOT NULL AND id > ?2 AND id <= ?3 AND at >= ?4 ORDER BY id",
                params![CallKind::Prefix.as_str(), after, newest, since],
            )?,
            // Rows were deleted, and their numbers are reused.
            false => Vec::new(),
        };
        Ok((rows, newest))
    }

    /// Returns earlier calls of the same name and scope whose input is known in part or as a digest, newest
    /// first.
    pub(crate) fn earlier_calls(
        &self,
        row: &LedgerRow,
        limit: u32,
    ) -> Result<Vec<LedgerRow>, LedgerError> {
        self.rows(
            "name = ?1 AND scope = ?2 AND id < ?3 AND input_digest IS NOT NULL ORDER BY id DESC LIMIT ?4",
            params![row.name, row.scope, row.id, limit],
        )
    }

    /// Returns the totals of all calls by kind and name, largest saving of time first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn totals(&self) -> Result<Vec<(String, String, LedgerTotals)>, LedgerError> {
        let Some((path, connection)) = self.open_for_reading()? else {
            return Ok(Vec::new());
        };
        let read = || {
            let mut statement =
                connection.prepare("SELECT * FROM totals ORDER BY saved DESC, name")?;
            let rows = statement.query_map([], |row| {
                let count = |column| count(row, column);
                let totals = LedgerTotals {
                    hits: count("hits")?,
                    coalesced: count("coalesced")?,
                    misses: count("misses")?,
                    bypasses: count("bypasses")?,
                    failures: count("failures")?,
                    failed: count("failed")?,
                    // The number of runs is in the counters above.
                    paid: spend(row, 0, "paid")?,
                    saved: spend(row, 0, "saved")?,
                };
                Ok((row.get("kind")?, row.get("name")?, totals))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|error| LedgerError::new(&path, error))
    }

    pub(super) fn open_for_reading(&self) -> Result<Option<(PathBuf, Connection)>, LedgerError> {
        let Some(path) = self.path() else {
            return Ok(None);
        };
        let connection = open_to_read(path)?;
        Ok(connection.map(|connection| (path.to_owned(), connection)))
    }

    fn rows(
        &self,
        which: &str,
        with: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<LedgerRow>, LedgerError> {
        let Some((path, connection)) = self.open_for_reading()? else {
            return Ok(Vec::new());
        };
        let read = || {
            let mut statement =
                connection.prepare(&format!("SELECT * FROM calls WHERE {which}"))?;
            let rows = statement.query_map(with, read_row)?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|error| LedgerError::new(&path, error))
    }
}

fn count(row: &rusqlite::Row<'_>, column: &str) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|n| n.max(0) as u64)
}

/// Reads a spend whose time is in the column `name`, and whose tokens and money are in columns that begin
/// with it.
fn spend(row: &rusqlite::Row<'_>, calls: u64, name: &str) -> rusqlite::Result<Spend> {
    let charge = |what: &str| count(row, &format!("{name}_{what}"));
    Ok(Spend {
        calls,
        time: Duration::from_nanos(count(row, name)?),
        input_tokens: charge("input")?,
        output_tokens: charge("output")?,
        cost: Cost {
            picodollars: charge("cost")?,
            unpriced: charge("unpriced")?,
        },
    })
}

fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<LedgerRow> {
    let answered = CallStatus::parse(&row.get::<_, String>("answered")?);
    let failed: bool = row.get("failed")?;
    let key: String = row.get("key")?;
    let (paid_calls, saved_calls) = match answered {
        CallStatus::Miss | CallStatus::Bypass => (u64::from(!failed), 0),
        CallStatus::Hit | CallStatus::Coalesced => (0, 1),
        CallStatus::Refused => (0, 0),
    };
    Ok(LedgerRow {
        id: row.get("id")?,
        at: row.get("at")?,
        run: row.get("run")?,
        kind: row.get("kind")?,
        name: row.get("name")?,
        scope: row.get("scope")?,
        erased: key.is_empty(),
        key,
        handle: row.get("handle")?,
        session: row.get("session")?,
        answered,
        reason: row.get("reason")?,
        not_stored: row.get("not_stored")?,
        failure: row.get("failure")?,
        failed,
        paid: spend(row, paid_calls, "paid")?,
        saved: spend(row, saved_calls, "saved")?,
        input: row
            .get::<_, Option<String>>("input")?
            .and_then(|text| serde_json::from_str(&text).ok()),
        input_digest: row.get("input_digest")?,
    })
}
