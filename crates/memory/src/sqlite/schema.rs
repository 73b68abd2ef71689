//! Opening the file: is it ours, is it sound, is it of our version; and making it so.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::{Error, ErrorKind};

use super::failure::{Context, is_busy};

/// `CACH`: what `file` and we recognise the database by.
const APPLICATION: i32 = 0x4341_4348;

/// The steps from an empty file to the current layout; the database's `user_version` counts how many it
/// has been through. Steps are only ever added at the end.
const STEPS: [&str; 2] = [FIRST, SECOND];

/// Rows are found by rowid tables with separate indexes: large values in a clustered table slow down
/// every lookup. `records_newest` ends, as every index, in the rowid, which grows with every store.
///
/// What is known of a space and its reservations share a table, `spaces`: they are few, change together,
/// and so share a page, which is what a commit is paid by. The row of the space itself has an empty
/// `reserved`, its last fence, and its usage; that of a reservation has `:` and the key, its fence, until
/// when it holds, and its labels.
const FIRST: &str = "
CREATE TABLE records(
    id INTEGER PRIMARY KEY,
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    revision INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    used INTEGER NOT NULL,
    expires INTEGER,
    labels BLOB NOT NULL,
    value BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX records_key ON records(space, key);
CREATE INDEX records_newest ON records(space);
CREATE INDEX records_used ON records(space, used);
CREATE INDEX records_expires ON records(space, expires) WHERE expires IS NOT NULL;
CREATE TABLE labels(
    space TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY(space, name, value, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE counters(
    space TEXT NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY(space, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE spaces(
    space TEXT NOT NULL,
    reserved TEXT NOT NULL,
    fence INTEGER NOT NULL,
    until INTEGER NOT NULL,
    labels BLOB NOT NULL,
    records INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY(space, reserved)
) STRICT, WITHOUT ROWID;
CREATE VIRTUAL TABLE texts USING fts5(
    key, value, labels,
    content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 0'
);
";

/// The tables stay. From this layout on a reservation outlives its lapse, and an erasure raises a counter
/// by which stores are refused: versions that do neither must not write into the file.
const SECOND: &str = "";

/// What every connection of ours is set to.
const SETTINGS: &str = "
PRAGMA synchronous=NORMAL;
PRAGMA mmap_size=268435456;
PRAGMA temp_store=MEMORY;
";

/// A connection to a file that exists.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Or every process that ends would wait for the disk: the writer decides when that is worth it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.execute_batch(SETTINGS)?;
    Ok(connection)
}

/// Opens the database, bringing it to our layout if it is new or older.
pub(super) fn open(
    path: &Path,
    context: &Context,
    patience: Duration,
) -> Result<Connection, Error> {
    let mut connection = connect(path).map_err(|error| context.failure(error))?;
    connection
        .busy_timeout(patience)
        .map_err(|error| context.failure(error))?;
    let deadline = Instant::now() + patience;
    // Switching to WAL reports a lock without waiting for it.
    loop {
        match bring_up(&mut connection, context) {
            Err(Trouble::Sqlite(error)) if is_busy(&error) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(Trouble::Sqlite(error)) => return Err(context.failure(error)),
            Err(Trouble::Refused(error)) => return Err(error),
            Ok(()) => break,
        }
    }
    connection
        .busy_timeout(Duration::ZERO)
        .map_err(|error| context.failure(error))?;
    Ok(connection)
}

/// Returns once every write transaction that was open has ended.
pub(super) fn pass_write_lock(connection: &Connection, patience: Duration) -> rusqlite::Result<()> {
    connection.busy_timeout(patience)?;
    let passed = connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK");
    connection.busy_timeout(Duration::ZERO)?;
    passed
}

enum Trouble {
    Sqlite(rusqlite::Error),
    Refused(Error),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn bring_up(connection: &mut Connection, context: &Context) -> Result<(), Trouble> {
    // One snapshot: somebody else may be making the tables.
    let transaction = connection.transaction()?;
    let taken = steps_taken(&transaction, context)?;
    transaction.commit()?;
    if taken == 0 {
        // An empty file has nothing to lose that would be worth waiting for the disk.
        // Before anything else is written, or it would have no effect.
        connection.execute_batch("PRAGMA synchronous=OFF; PRAGMA auto_vacuum=INCREMENTAL")?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    if taken < STEPS.len() {
        connection.execute_batch(SETTINGS)?;
        migrate(connection, context)?;
    }
    // The schema is read, and with it whatever is wrong with it.
    connection.prepare_cached(super::read::GET)?;
    Ok(())
}

/// All missing steps in one transaction: several processes may get here at once.
fn migrate(connection: &mut Connection, context: &Context) -> Result<(), Trouble> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let taken = steps_taken(&transaction, context)?;
    for step in STEPS.iter().skip(taken) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", STEPS.len() as i64)?;
    transaction.commit()?;
    Ok(())
}

/// How many steps the file has been through; an error if it is not for us.
fn steps_taken(connection: &Connection, context: &Context) -> Result<usize, Trouble> {
    let application: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let location = context.location();
    if application == APPLICATION && version > STEPS.len() as i64 {
        return Err(Trouble::Refused(Error::new(
            ErrorKind::TooNew,
            format!(
                "the database {location} was written by a newer version of Cachalot (layout {version}; this version \
                 knows up to {}): update Cachalot, or choose another file",
                STEPS.len()
            ),
        )));
    }
    if application == APPLICATION {
        return Ok(usize::try_from(version).unwrap_or(0));
    }
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application == 0 && version == 0 && tables == 0 {
        return Ok(0);
    }
    Err(Trouble::Refused(Error::new(
        ErrorKind::Unsupported,
        format!("{location} is the SQLite database of another program: choose another file"),
    )))
}
