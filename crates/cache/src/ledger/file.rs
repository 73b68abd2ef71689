//! The ledger's file: SQLite, beside the memory and not in it (its writes must not disturb the
//! memory's readers, and remote memories bill by the call).

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::secret::{mask_credentials, redact_value};
use cachalot_core::{Millis, Spend};
use cachalot_memory::sqlite::set_aside;
use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use serde_json::Value;

use super::tally::RecentHit;
use super::{Answered, HANDLE_LABEL, Totals, Unwritten};
use crate::Kind;

/// The ledger could not be read or written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct LedgerError {
    message: String,
    #[source]
    source: Option<Arc<rusqlite::Error>>,
}

impl LedgerError {
    pub(super) fn new(path: &Path, error: rusqlite::Error) -> Self {
        Self {
            message: format!("{}: {error}", path.display()),
            source: Some(Arc::new(error)),
        }
    }

    fn at(path: &Path, error: &std::io::Error) -> Self {
        Self {
            message: format!("{}: {error}", path.display()),
            source: None,
        }
    }

    fn is_damage(&self) -> bool {
        let code = self
            .source
            .as_ref()
            .and_then(|error| error.sqlite_error_code());
        matches!(
            code,
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)
        )
    }
}

/// The layout's version; a file from a newer one is refused.
const VERSION: i64 = 2;
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
        paid INTEGER NOT NULL, saved INTEGER NOT NULL, input TEXT, input_digest TEXT,
        paid_input INTEGER NOT NULL DEFAULT 0, paid_output INTEGER NOT NULL DEFAULT 0,
        paid_cost INTEGER NOT NULL DEFAULT 0, paid_unpriced INTEGER NOT NULL DEFAULT 0,
        saved_input INTEGER NOT NULL DEFAULT 0, saved_output INTEGER NOT NULL DEFAULT 0,
        saved_cost INTEGER NOT NULL DEFAULT 0, saved_unpriced INTEGER NOT NULL DEFAULT 0);
    CREATE INDEX IF NOT EXISTS calls_by_key ON calls(key, id);
    CREATE INDEX IF NOT EXISTS calls_by_handle ON calls(handle, id);
    CREATE INDEX IF NOT EXISTS calls_by_name ON calls(name, scope, id);
    CREATE INDEX IF NOT EXISTS hits ON calls(id) WHERE answered = 'hit' AND input IS NULL;
    CREATE TABLE IF NOT EXISTS totals (
        kind TEXT NOT NULL, name TEXT NOT NULL, hits INTEGER NOT NULL, coalesced INTEGER NOT NULL,
        misses INTEGER NOT NULL, bypasses INTEGER NOT NULL, failures INTEGER NOT NULL,
        paid INTEGER NOT NULL, saved INTEGER NOT NULL,
        paid_input INTEGER NOT NULL DEFAULT 0, paid_output INTEGER NOT NULL DEFAULT 0,
        paid_cost INTEGER NOT NULL DEFAULT 0, paid_unpriced INTEGER NOT NULL DEFAULT 0,
        saved_input INTEGER NOT NULL DEFAULT 0, saved_output INTEGER NOT NULL DEFAULT 0,
        saved_cost INTEGER NOT NULL DEFAULT 0, saved_unpriced INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (kind, name)) WITHOUT ROWID;
    PRAGMA user_version = 2;";

/// What a spend consists of beside calls and time, as columns of both tables; money in picodollars.
const CHARGES: [&str; 8] = [
    "paid_input",
    "paid_output",
    "paid_cost",
    "paid_unpriced",
    "saved_input",
    "saved_output",
    "saved_cost",
    "saved_unpriced",
];

pub(super) struct File {
    path: PathBuf,
    run: String,
    warn: Arc<dyn Fn(&str) + Send + Sync>,
    connection: Option<Connection>,
}

/// What is to be written together.
pub(super) struct Batch {
    pub(super) rows: Vec<Unwritten>,
    pub(super) sums: Vec<(Kind, String, Totals)>,
    pub(super) hits: VecDeque<RecentHit>,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.sums.is_empty() && self.hits.is_empty()
    }

    /// When it was gathered, roughly.
    fn at(&self) -> Millis {
        let row = self.rows.last().map(|row| row.at);
        row.or_else(|| self.hits.back().map(|hit| hit.at))
            .unwrap_or_default()
    }
}

impl File {
    pub(super) fn new(path: PathBuf, run: String, warn: &Arc<dyn Fn(&str) + Send + Sync>) -> Self {
        Self {
            path,
            run,
            warn: Arc::clone(warn),
            connection: None,
        }
    }

    /// Writes a batch in one transaction. A damaged file is set aside (renamed, never deleted) first.
    pub(super) fn append(&mut self, batch: &Batch) -> Result<(), LedgerError> {
        match self.try_append(batch) {
            Err(error) if error.is_damage() => {
                self.connection = None;
                let aside = set_aside(&self.path, batch.at())
                    .map_err(|error| LedgerError::at(&self.path, &error))?;
                (self.warn)(&format!("{error}; it was set aside as {}", aside.display()));
                self.try_append(batch)
            }
            written => written,
        }
    }

    fn try_append(&mut self, batch: &Batch) -> Result<(), LedgerError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            closed => closed.insert(open(&self.path)?),
        };
        append(connection, &self.run, batch).map_err(|error| LedgerError::new(&self.path, error))
    }
}

fn open(path: &Path) -> Result<Connection, LedgerError> {
    create_private(path).map_err(|error| LedgerError::at(path, &error))?;
    let fault = |error| LedgerError::new(path, error);
    let connection = Connection::open(path).map_err(fault)?;
    let version = version_of(&connection).map_err(fault)?;
    // Before anything is changed in it.
    refuse_newer(path, version)?;
    prepare(&connection, version).map_err(fault)?;
    Ok(connection)
}

fn version_of(connection: &Connection) -> rusqlite::Result<i64> {
    connection.busy_timeout(Duration::from_secs(2))?;
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Opens the file to read; `None` if there is none, or nothing in it yet.
pub(super) fn open_to_read(path: &Path) -> Result<Option<Connection>, LedgerError> {
    if !path.exists() {
        return Ok(None);
    }
    let fault = |error| LedgerError::new(path, error);
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(fault)?;
    let version = version_of(&connection).map_err(fault)?;
    refuse_newer(path, version)?;
    if version > 0 {
        prepare(&connection, version).map_err(fault)?;
    }
    Ok((version > 0).then_some(connection))
}

fn refuse_newer(path: &Path, version: i64) -> Result<(), LedgerError> {
    if version <= VERSION {
        return Ok(());
    }
    let message = format!(
        "{} was written by a newer version of cachalot: update this one",
        path.display()
    );
    Err(LedgerError {
        message,
        source: None,
    })
}

#[cfg(unix)]
fn create_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map(|_| ())
}

#[cfg(not(unix))]
fn create_private(path: &Path) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    Ok(())
}

/// Lays the file out if it is new.
fn prepare(connection: &Connection, version: i64) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")?;
    if version == VERSION {
        return Ok(());
    }
    // Two processes may come here at once: the second finds the work done.
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let laid_out = lay_out(connection);
    connection.execute_batch(if laid_out.is_ok() {
        "COMMIT"
    } else {
        "ROLLBACK"
    })?;
    laid_out
}

fn lay_out(connection: &Connection) -> rusqlite::Result<()> {
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version == 1 {
        for table in ["calls", "totals"] {
            for column in CHARGES {
                connection.execute_batch(&format!(
                    "ALTER TABLE {table} ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0"
                ))?;
            }
        }
    }
    connection.execute_batch(LAYOUT)
}

fn append(connection: &mut Connection, run: &str, batch: &Batch) -> rusqlite::Result<()> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let mut totals: HashMap<(&str, Cow<'_, str>), Totals> = HashMap::new();
    let mut hits = batch.hits.iter().peekable();
    for row in &batch.rows {
        while let Some(hit) = hits.next_if(|hit| hit.when < row.when) {
            insert_hit(&transaction, run, hit)?;
        }
        insert(&transaction, run, row)?;
        let name = row.seals.redact(&row.name);
        *totals.entry((row.kind.as_str(), name)).or_default() += sum_of(row);
    }
    for hit in hits {
        insert_hit(&transaction, run, hit)?;
    }
    for (kind, name, sum) in &batch.sums {
        *totals.entry((kind.as_str(), name.into())).or_default() += *sum;
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
        paid: row.paid,
        saved: row.saved,
        ..Totals::default()
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// The values of [`CHARGES`].
fn charges(paid: &Spend, saved: &Spend) -> [i64; 8] {
    let of = |spend: &Spend| {
        [
            spend.input_tokens,
            spend.output_tokens,
            spend.cost.picodollars,
            spend.cost.unpriced,
        ]
        .map(|number| i64::try_from(number).unwrap_or(i64::MAX))
    };
    let ([a, b, c, d], [e, f, g, h]) = (of(paid), of(saved));
    [a, b, c, d, e, f, g, h]
}

const INSERT: &str = "INSERT INTO calls
    (at, run, kind, name, scope, key, handle, answered, reason, not_stored, failure, paid, saved, input, input_digest,
     paid_input, paid_output, paid_cost, paid_unpriced, saved_input, saved_output, saved_cost, saved_unpriced)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
            ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)";

fn insert(connection: &Connection, run: &str, row: &Unwritten) -> rusqlite::Result<()> {
    let shown = |text: &Option<String>| {
        text.as_ref()
            .map(|text| mask_credentials(&row.seals.redact(text)).into_owned())
    };
    let mut input = row.input.readable();
    redact_value(&mut input, &row.seals);
    shorten(&mut input);
    let input = Some(input.to_string()).filter(|input| input.len() <= LONGEST_INPUT);
    let charges = charges(&row.paid, &row.saved);
    connection.prepare_cached(INSERT)?.execute(params![
        row.at,
        run,
        row.kind.as_str(),
        row.seals.redact(&row.name),
        row.seals.redact(&row.scope),
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
        charges[0],
        charges[1],
        charges[2],
        charges[3],
        charges[4],
        charges[5],
        charges[6],
        charges[7],
    ])?;
    Ok(())
}

fn insert_hit(connection: &Connection, run: &str, hit: &RecentHit) -> rusqlite::Result<()> {
    let head = &hit.head;
    let handle = hit.labels.iter().find(|label| label.name == HANDLE_LABEL);
    let answered = if hit.coalesced {
        Answered::Coalesced
    } else {
        Answered::Hit
    };
    let charges = charges(&Spend::default(), &head.spent);
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
        charges[0],
        charges[1],
        charges[2],
        charges[3],
        charges[4],
        charges[5],
        charges[6],
        charges[7],
    ])?;
    Ok(())
}

fn add(connection: &Connection, kind: &str, name: &str, sum: &Totals) -> rusqlite::Result<()> {
    let charges = charges(&sum.paid, &sum.saved);
    connection
        .prepare_cached(
            "INSERT INTO totals (kind, name, hits, coalesced, misses, bypasses, failures, paid, saved,
                paid_input, paid_output, paid_cost, paid_unpriced,
                saved_input, saved_output, saved_cost, saved_unpriced)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
             ON CONFLICT (kind, name) DO UPDATE SET
                hits = hits + excluded.hits, coalesced = coalesced + excluded.coalesced,
                misses = misses + excluded.misses, bypasses = bypasses + excluded.bypasses,
                failures = failures + excluded.failures,
                paid = paid + excluded.paid, saved = saved + excluded.saved,
                paid_input = paid_input + excluded.paid_input,
                paid_output = paid_output + excluded.paid_output,
                paid_cost = paid_cost + excluded.paid_cost,
                paid_unpriced = paid_unpriced + excluded.paid_unpriced,
                saved_input = saved_input + excluded.saved_input,
                saved_output = saved_output + excluded.saved_output,
                saved_cost = saved_cost + excluded.saved_cost,
                saved_unpriced = saved_unpriced + excluded.saved_unpriced",
        )?
        .execute(params![
            kind,
            name,
            sum.hits as i64,
            sum.coalesced as i64,
            sum.misses as i64,
            sum.bypasses as i64,
            sum.failures as i64,
            nanos(sum.paid.time),
            nanos(sum.saved.time),
            charges[0],
            charges[1],
            charges[2],
            charges[3],
            charges[4],
            charges[5],
            charges[6],
            charges[7],
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
            let cut = (0..=200)
                .rev()
                .find(|at| text.is_char_boundary(*at))
                .unwrap_or(0);
            *text = format!(
                "{}… ({} bytes, sha256 {})",
                &text[..cut],
                text.len(),
                &digest[..16]
            );
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}
