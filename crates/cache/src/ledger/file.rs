//! The ledger's file: SQLite, beside the memory and not in it (its writes must not disturb the
//! memory's readers, and remote memories bill by the call).

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::secret::{mask_credentials, redact_value};
use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use serde_json::Value;

use super::{Answered, HANDLE_LABEL, Ledger, RecentHit, Row, Totals, Unwritten};
use crate::{Key, Kind};

/// The ledger could not be read or written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct LedgerError {
    message: String,
    #[source]
    source: Option<Arc<rusqlite::Error>>,
}

impl LedgerError {
    fn new(path: &Path, error: rusqlite::Error) -> Self {
        Self { message: format!("{}: {error}", path.display()), source: Some(Arc::new(error)) }
    }
}

/// The layout's version; a file from a newer one is refused.
const VERSION: i64 = 1;
/// Rows that are kept; the oldest go first.
const KEPT: i64 = 20_000;
/// Recent hits that are kept one by one.
const KEPT_HITS: i64 = 1_000;
/// A longer text in an input is cut, with its digest so that a difference still shows.
const LONGEST_TEXT: usize = 2_000;
/// A longer input is not kept at all.
const LONGEST_INPUT: usize = 64 << 10;

const LAYOUT: &str = "
    CREATE TABLE IF NOT EXISTS calls (
        id INTEGER PRIMARY KEY, at INTEGER NOT NULL, run TEXT NOT NULL, kind TEXT NOT NULL,
        name TEXT NOT NULL, scope TEXT NOT NULL, key TEXT NOT NULL, handle TEXT,
        answered TEXT NOT NULL, reason TEXT, not_stored TEXT, failure TEXT,
        paid INTEGER NOT NULL, saved INTEGER NOT NULL, input TEXT, input_digest TEXT);
    CREATE INDEX IF NOT EXISTS calls_by_key ON calls(key, id);
    CREATE INDEX IF NOT EXISTS calls_by_handle ON calls(handle, id);
    CREATE INDEX IF NOT EXISTS calls_by_name ON calls(name, scope, id);
    CREATE TABLE IF NOT EXISTS totals (
        kind TEXT NOT NULL, name TEXT NOT NULL, hits INTEGER NOT NULL, coalesced INTEGER NOT NULL,
        misses INTEGER NOT NULL, bypasses INTEGER NOT NULL, failures INTEGER NOT NULL,
        paid INTEGER NOT NULL, saved INTEGER NOT NULL, PRIMARY KEY (kind, name)) WITHOUT ROWID;
    PRAGMA user_version = 1;";

pub(super) struct File {
    path: PathBuf,
    run: String,
    connection: Option<Connection>,
}

impl File {
    pub(super) fn new(path: &Path, run: &str) -> Self {
        Self { path: path.to_owned(), run: run.to_owned(), connection: None }
    }

    pub(super) fn append(
        &mut self,
        rows: &[Box<Unwritten>],
        sums: &[(Kind, String, Totals)],
        recent: &VecDeque<RecentHit>,
    ) -> Result<(), LedgerError> {
        if self.connection.is_none() {
            self.connection = Some(open(&self.path)?);
        }
        let Some(connection) = &mut self.connection else { return Ok(()) };
        append(connection, &self.run, rows, sums, recent)
            .map_err(|error| LedgerError::new(&self.path, error))
    }
}

fn open(path: &Path) -> Result<Connection, LedgerError> {
    let fault = |error| LedgerError::new(path, error);
    create_private(path).map_err(|error| LedgerError {
        message: format!("{}: {error}", path.display()),
        source: None,
    })?;
    let (connection, version) = match prepare(path) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            // Set aside, never deleted: it may be something else's file.
            let mut aside = path.as_os_str().to_owned();
            aside.push(format!(".corrupt-{}", std::process::id()));
            std::fs::rename(path, aside).map_err(|error| LedgerError {
                message: format!("{}: {error}", path.display()),
                source: None,
            })?;
            prepare(path)
        }
        prepared => prepared,
    }
    .map_err(fault)?;
    if version > VERSION {
        let message = format!("{} was written by a newer version of cachalot", path.display());
        return Err(LedgerError { message, source: None });
    }
    Ok(connection)
}

#[cfg(unix)]
fn create_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path).map(|_| ())
}

#[cfg(not(unix))]
fn create_private(path: &Path) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    Ok(())
}

/// Opens the file and lays it out if it is new; tells its version.
fn prepare(path: &Path) -> rusqlite::Result<(Connection, i64)> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(2))?;
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")?;
    if version < VERSION {
        connection.execute_batch(&format!("BEGIN IMMEDIATE; {LAYOUT} COMMIT;"))?;
    }
    Ok((connection, version))
}

fn append(
    connection: &mut Connection,
    run: &str,
    rows: &[Box<Unwritten>],
    sums: &[(Kind, String, Totals)],
    recent: &VecDeque<RecentHit>,
) -> rusqlite::Result<()> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let mut totals: HashMap<(&str, &str), Totals> = HashMap::new();
    for row in rows {
        insert(&transaction, run, row)?;
        *totals.entry((row.kind.as_str(), &row.name)).or_default() += sum_of(row);
    }
    for hit in recent {
        insert_hit(&transaction, run, hit)?;
    }
    for (kind, name, sum) in sums {
        *totals.entry((kind.as_str(), name)).or_default() += *sum;
    }
    for ((kind, name), sum) in &totals {
        add(&transaction, kind, name, sum)?;
    }
    prune(&transaction)?;
    transaction.commit()
}

fn sum_of(row: &Unwritten) -> Totals {
    Totals {
        coalesced: u64::from(row.answered == Answered::Coalesced),
        misses: u64::from(row.answered == Answered::Miss),
        bypasses: u64::from(row.answered == Answered::Bypass),
        failures: u64::from(row.failure.is_some()),
        paid: row.paid.time,
        saved: row.saved.time,
        ..Totals::default()
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

const INSERT: &str = "INSERT INTO calls
    (at, run, kind, name, scope, key, handle, answered, reason, not_stored, failure, paid, saved, input, input_digest)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";

fn insert(connection: &Connection, run: &str, row: &Unwritten) -> rusqlite::Result<()> {
    let shown = |text: &Option<String>| {
        text.as_ref().map(|text| mask_credentials(&row.seals.redact(text)).into_owned())
    };
    let mut input = row.input.readable();
    redact_value(&mut input, &row.seals);
    shorten(&mut input);
    let input = Some(input.to_string()).filter(|input| input.len() <= LONGEST_INPUT);
    connection.prepare_cached(INSERT)?.execute(params![
        row.at,
        run,
        row.kind.as_str(),
        row.name,
        row.scope,
        row.key.to_string(),
        shown(&row.handle),
        row.answered.as_str(),
        shown(&row.reason),
        shown(&row.not_stored),
        shown(&row.failure),
        nanos(row.paid.time),
        nanos(row.saved.time),
        input,
        row.input.digest().to_hex(),
    ])?;
    Ok(())
}

fn insert_hit(connection: &Connection, run: &str, hit: &RecentHit) -> rusqlite::Result<()> {
    let head = &hit.entry.head;
    let handle = hit.entry.labels.iter().find(|label| label.name == HANDLE_LABEL);
    let answered = if hit.coalesced { Answered::Coalesced } else { Answered::Hit };
    connection.prepare_cached(INSERT)?.execute(params![
        hit.at,
        run,
        head.kind.as_str(),
        head.name,
        head.scope,
        head.key.to_hex(),
        handle.map(|label| &label.value),
        answered.as_str(),
        None::<String>,
        None::<String>,
        None::<String>,
        0,
        nanos(head.spent.time),
        None::<String>,
        None::<String>,
    ])?;
    Ok(())
}

fn add(connection: &Connection, kind: &str, name: &str, sum: &Totals) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO totals VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (kind, name) DO UPDATE SET
                hits = hits + excluded.hits, coalesced = coalesced + excluded.coalesced,
                misses = misses + excluded.misses, bypasses = bypasses + excluded.bypasses,
                failures = failures + excluded.failures,
                paid = paid + excluded.paid, saved = saved + excluded.saved",
        )?
        .execute(params![
            kind,
            name,
            sum.hits as i64,
            sum.coalesced as i64,
            sum.misses as i64,
            sum.bypasses as i64,
            sum.failures as i64,
            nanos(sum.paid),
            nanos(sum.saved),
        ])?;
    Ok(())
}

/// Keeps the newest rows, and fewer of the hits, which would drown the payments.
fn prune(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM calls WHERE id <= (SELECT max(id) FROM calls) - ?1")?
        .execute([KEPT])?;
    connection
        .prepare_cached(
            "DELETE FROM calls WHERE answered = 'hit' AND input IS NULL
             AND id <= (SELECT max(id) FROM calls) - ?1",
        )?
        .execute([KEPT_HITS])?;
    Ok(())
}

/// Cuts long texts, with the digest of the whole so that different texts stay different.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > LONGEST_TEXT => {
            let digest = cachalot_core::Digest::of(text.as_bytes()).to_hex();
            let cut = (0..=200).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            *text = format!("{}… ({} bytes, sha256 {})", &text[..cut], text.len(), &digest[..16]);
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

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
        let column = if key_or_handle.parse::<Key>().is_ok() { "key" } else { "handle" };
        self.rows(&format!("{column} = ?1 ORDER BY id DESC LIMIT ?2"), params![key_or_handle, limit])
    }

    /// Earlier calls of the same name and scope whose inputs are kept, newest first.
    pub(crate) fn earlier_alike(&self, row: &Row, limit: u32) -> Result<Vec<Row>, LedgerError> {
        self.rows(
            "name = ?1 AND scope = ?2 AND id < ?3 AND input IS NOT NULL ORDER BY id DESC LIMIT ?4",
            params![row.name, row.scope, row.id, limit],
        )
    }

    /// All calls, summed by kind and name, most saved first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn totals(&self) -> Result<Vec<(String, String, Totals)>, LedgerError> {
        let Some((path, connection)) = self.reading()? else { return Ok(Vec::new()) };
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
        let Some(path) = self.path().filter(|path| path.exists()) else { return Ok(None) };
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .and_then(|connection| {
                connection.busy_timeout(Duration::from_secs(2))?;
                let layout = "SELECT count(*) FROM sqlite_master WHERE name = 'calls'";
                let laid_out: i64 = connection.query_row(layout, [], |row| row.get(0))?;
                Ok((laid_out > 0).then_some(connection))
            });
        let connection = connection.map_err(|error| LedgerError::new(path, error))?;
        Ok(connection.map(|connection| (path.to_owned(), connection)))
    }

    fn rows(&self, which: &str, with: &[&dyn rusqlite::ToSql]) -> Result<Vec<Row>, LedgerError> {
        let Some((path, connection)) = self.reading()? else { return Ok(Vec::new()) };
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
    let duration = |index| row.get::<_, i64>(index).map(|n| Duration::from_nanos(n.max(0) as u64));
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
        input: row.get::<_, Option<String>>(14)?.and_then(|text| serde_json::from_str(&text).ok()),
        input_digest: row.get(15)?,
    })
}
