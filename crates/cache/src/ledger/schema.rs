//! The tables of the ledger's file, and the upgrades of files from earlier versions.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::error::LedgerError;

/// The layout's version; a file of a newer one is refused.
const SCHEMA_VERSION: i64 = 4;
/// Maximum time that a statement waits for another process that holds the file's lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// The same maximum for the writer thread.
const WRITER_LOCK_TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum size of the writer's page cache, in KiB (negative, see SQLite's `PRAGMA cache_size`).
const WRITER_CACHE: i64 = -8_192;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS calls (
        id INTEGER PRIMARY KEY, at INTEGER NOT NULL, run TEXT NOT NULL, kind TEXT NOT NULL,
        name TEXT NOT NULL, scope TEXT NOT NULL, key TEXT NOT NULL, handle TEXT,
        answered TEXT NOT NULL, reason TEXT, not_stored TEXT, failure TEXT,
        paid INTEGER NOT NULL, saved INTEGER NOT NULL, input TEXT, input_digest TEXT,
        paid_input INTEGER NOT NULL DEFAULT 0, paid_output INTEGER NOT NULL DEFAULT 0,
        paid_cost INTEGER NOT NULL DEFAULT 0, paid_unpriced INTEGER NOT NULL DEFAULT 0,
        saved_input INTEGER NOT NULL DEFAULT 0, saved_output INTEGER NOT NULL DEFAULT 0,
        saved_cost INTEGER NOT NULL DEFAULT 0, saved_unpriced INTEGER NOT NULL DEFAULT 0,
        session TEXT, failed INTEGER NOT NULL DEFAULT 0, unpriced TEXT);
    CREATE INDEX IF NOT EXISTS calls_by_key ON calls(key, id);
    CREATE INDEX IF NOT EXISTS calls_by_handle ON calls(handle, id);
    CREATE INDEX IF NOT EXISTS calls_by_name ON calls(name, scope, id);
    CREATE INDEX IF NOT EXISTS calls_by_answer ON calls(answered, failed, id);
    CREATE INDEX IF NOT EXISTS calls_by_time ON calls(at);
    CREATE INDEX IF NOT EXISTS calls_by_session ON calls(session, id) WHERE session IS NOT NULL;
    CREATE INDEX IF NOT EXISTS calls_cacheable ON calls(id) WHERE kind <> 'prefix';
    CREATE TABLE IF NOT EXISTS totals (
        kind TEXT NOT NULL, name TEXT NOT NULL, hits INTEGER NOT NULL, coalesced INTEGER NOT NULL,
        misses INTEGER NOT NULL, bypasses INTEGER NOT NULL, failures INTEGER NOT NULL,
        paid INTEGER NOT NULL, saved INTEGER NOT NULL,
        paid_input INTEGER NOT NULL DEFAULT 0, paid_output INTEGER NOT NULL DEFAULT 0,
        paid_cost INTEGER NOT NULL DEFAULT 0, paid_unpriced INTEGER NOT NULL DEFAULT 0,
        saved_input INTEGER NOT NULL DEFAULT 0, saved_output INTEGER NOT NULL DEFAULT 0,
        saved_cost INTEGER NOT NULL DEFAULT 0, saved_unpriced INTEGER NOT NULL DEFAULT 0,
        failed INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (kind, name)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS counters (
        name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    PRAGMA user_version = 4;";

/// The parts of a spend except calls and time, as columns of both tables; money in picodollars.
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

/// Opens the file for writing, and creates it if it does not exist.
pub(super) fn open(path: &Path) -> Result<Connection, LedgerError> {
    create_private(path).map_err(|error| LedgerError::at(path, &error))?;
    let fault = |error| LedgerError::new(path, error);
    let connection = Connection::open(path).map_err(fault)?;
    let version = schema_version(&connection).map_err(fault)?;
    // Refused before anything is changed in it.
    refuse_newer(path, version)?;
    prepare(&connection, version).map_err(fault)?;
    // Short, because the writer keeps rows that it cannot write, and retries.
    connection
        .busy_timeout(WRITER_LOCK_TIMEOUT)
        .map_err(fault)?;
    connection
        .pragma_update(None, "cache_size", WRITER_CACHE)
        .map_err(fault)?;
    Ok(connection)
}

fn schema_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.busy_timeout(LOCK_TIMEOUT)?;
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Opens the file to read or delete rows; `None` if it does not exist or has no tables yet.
pub(super) fn open_to_read(path: &Path) -> Result<Option<Connection>, LedgerError> {
    if !path.exists() {
        return Ok(None);
    }
    let fault = |error| LedgerError::new(path, error);
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(fault)?;
    let version = schema_version(&connection).map_err(fault)?;
    refuse_newer(path, version)?;
    // Only the writer creates the tables of a new file.
    if version > 0 {
        prepare(&connection, version).map_err(fault)?;
    }
    Ok((version > 0).then_some(connection))
}

fn refuse_newer(path: &Path, version: i64) -> Result<(), LedgerError> {
    if version <= SCHEMA_VERSION {
        return Ok(());
    }
    Err(LedgerError::from_message(format!(
        "{} was written by a newer version of cachalot: update this one",
        path.display()
    )))
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

/// Configures the connection, and creates or upgrades the tables if needed.
///
/// Most pages of the indexes are written by many transactions: with a write-ahead log of 16 MiB, they are copied into
/// the file a quarter as often as by default.
fn prepare(connection: &Connection, version: i64) -> rusqlite::Result<()> {
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON;
         PRAGMA wal_autocheckpoint = 4000;",
    )?;
    if version == SCHEMA_VERSION {
        return Ok(());
    }
    // Two processes may get here at once: the second one finds the work done.
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let migrated = migrate(connection);
    connection.execute_batch(if migrated.is_ok() {
        "COMMIT"
    } else {
        "ROLLBACK"
    })?;
    migrated
}

fn migrate(connection: &Connection) -> rusqlite::Result<()> {
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
    if version == 1 || version == 2 {
        connection.execute_batch(MIGRATION_2_TO_3)?;
    }
    if (1..=3).contains(&version) {
        connection.execute_batch("ALTER TABLE calls ADD COLUMN unpriced TEXT")?;
    }
    connection.execute_batch(SCHEMA)
}

/// Upgrades version 2 to 3: adds the session of calls, and distinguishes failed calls that cost nothing from
/// paid ones.
///
/// Version 2 has the session of a model's answer in its handle, that of a fork's owner in its input, and that
/// of a tool call in the scope if results are shared within the session. The number of charged failures in
/// `totals` is derived from the rows that are left.
const MIGRATION_2_TO_3: &str = "
    ALTER TABLE calls ADD COLUMN session TEXT;
    ALTER TABLE calls ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE totals ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
    DROP INDEX IF EXISTS hits;
    UPDATE calls SET session = handle WHERE kind = 'prefix';
    UPDATE calls SET session = json_extract(input, '$.on_behalf_of')
        WHERE kind = 'prefix' AND json_valid(input)
        AND json_type(input, '$.on_behalf_of') = 'text';
    UPDATE calls SET session = substr(scope, length('session:') + 1)
        WHERE scope LIKE 'session:%';
    UPDATE calls SET failed = 1
        WHERE (failure IS NOT NULL OR not_stored = 'the work was abandoned')
        AND paid_input = 0 AND paid_output = 0 AND paid_cost = 0 AND paid_unpriced = 0;
    UPDATE totals SET failed = max(0, failures - (
        SELECT count(*) FROM calls
        WHERE calls.kind = totals.kind AND calls.name = totals.name
        AND calls.failure IS NOT NULL AND NOT calls.failed));
";
