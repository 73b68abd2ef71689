//! Opens the file: checks its application ID, soundness and version, and creates or upgrades its layout.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::{Error, ErrorKind};

use super::failure::{Context, NewerLayout, is_busy};

/// `CACH`: the application ID by which `file` and Cachalot recognize the database.
const APPLICATION_ID: i32 = 0x4341_4348;

/// The migrations from an empty file to the current layout; the database's `user_version` is the number of
/// completed ones. New ones are only ever added at the end.
const MIGRATIONS: [&str; 3] = [MIGRATION_1, MIGRATION_2, MIGRATION_3];

/// The number of the current layout.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

/// The tables are rowid tables with separate indexes: large values in a clustered table slow down every
/// lookup. `records_newest` ends, like every index, in the rowid, which grows with every write.
///
/// A space's own data and its reservations share the table `spaces`: they are few and change together, so
/// they share a page, and the cost of a commit is the number of pages. The row of the space itself has an
/// empty `reserved`, its last fence, and its usage. The row of a reservation has `:` and the key, its fence,
/// the end of its hold, and its labels.
const MIGRATION_1: &str = "
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

/// Changes no table. From this layout on, a lapsed reservation stays, and an erasure raises a counter that
/// puts check: older versions do neither and must not write into the file.
const MIGRATION_2: &str = "";

/// Changes no table. From this layout on, a session's record refers to the last piece of its prompt by a label:
/// older versions do not look there and would erase the piece.
const MIGRATION_3: &str = "";

/// Settings of every connection.
const SETTINGS: &str = "
PRAGMA synchronous=NORMAL;
PRAGMA mmap_size=268435456;
PRAGMA temp_store=MEMORY;
";

/// Opens a connection to an existing file.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // SQLite needs no mutex of its own: the pool and the writer give a connection to one thread at a time.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Otherwise every process that ends would wait for the disk: the writer decides when to run checkpoints.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.execute_batch(SETTINGS)?;
    Ok(connection)
}

/// Opens the database, and creates or upgrades its layout.
pub(super) fn open(path: &Path, context: &Context, timeout: Duration) -> Result<Connection, Error> {
    let mut connection = connect(path).map_err(|error| context.failure(error))?;
    connection
        .busy_timeout(timeout)
        .map_err(|error| context.failure(error))?;
    let deadline = Instant::now() + timeout;
    // Switching to WAL reports a lock without waiting for it.
    loop {
        match initialize(&mut connection, context) {
            Err(OpenError::Sqlite(error)) if is_busy(&error) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(OpenError::Sqlite(error)) => return Err(context.failure(error)),
            Err(OpenError::Refused(error)) => return Err(error),
            Ok(()) => break,
        }
    }
    connection
        .busy_timeout(Duration::ZERO)
        .map_err(|error| context.failure(error))?;
    Ok(connection)
}

/// Fails if a newer version has changed the layout since the file was opened. A write checks it in its transaction, so
/// that an older version never writes into a newer layout.
pub(super) fn check_version(connection: &Connection) -> rusqlite::Result<()> {
    let mut read = connection.prepare_cached("PRAGMA user_version")?;
    match read.query_row([], |row| row.get(0))? {
        version if version > VERSION => Err(newer(version).into()),
        _ => Ok(()),
    }
}

fn newer(version: i64) -> NewerLayout {
    NewerLayout {
        version,
        known: VERSION,
    }
}

/// Makes the layout a newer one, or that of this version.
#[cfg(any(test, feature = "testing"))]
pub(super) fn set_newer(connection: &Connection, is_newer: bool) -> rusqlite::Result<()> {
    connection.pragma_update(None, "user_version", VERSION + i64::from(is_newer))
}

/// Returns once every write transaction that was open has ended.
pub(super) fn pass_write_lock(connection: &Connection, timeout: Duration) -> rusqlite::Result<()> {
    connection.busy_timeout(timeout)?;
    let passed = connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK");
    connection.busy_timeout(Duration::ZERO)?;
    passed
}

enum OpenError {
    Sqlite(rusqlite::Error),
    Refused(Error),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn initialize(connection: &mut Connection, context: &Context) -> Result<(), OpenError> {
    // One snapshot, because another process may be creating the tables.
    let transaction = connection.transaction()?;
    let taken = applied_migrations(&transaction, context)?;
    transaction.commit()?;
    if taken == 0 {
        // `synchronous`: an empty file contains nothing that is worth waiting for the disk. `auto_vacuum` has
        // no effect unless it is set before the first write.
        connection.execute_batch("PRAGMA synchronous=OFF; PRAGMA auto_vacuum=INCREMENTAL")?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    if taken < MIGRATIONS.len() {
        // Waits for the disk again, unlike the first write to an empty file above.
        connection.execute_batch(SETTINGS)?;
        migrate(connection, context)?;
    }
    // Reads the schema, and reports errors in it.
    connection.prepare_cached(super::read::GET)?;
    Ok(())
}

/// Runs all missing migrations in one transaction: several processes may get here at once.
fn migrate(connection: &mut Connection, context: &Context) -> Result<(), OpenError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again under the write lock: another process may have migrated since.
    let taken = applied_migrations(&transaction, context)?;
    for step in MIGRATIONS.iter().skip(taken) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    Ok(())
}

/// Refuses a database with views or triggers, or with a virtual table in place of a table: the layout has none of
/// them, and a statement on one can run without end.
fn check_objects(connection: &Connection, context: &Context) -> Result<(), OpenError> {
    const FOREIGN: &str = "
SELECT type || ' `' || name || '`' FROM sqlite_schema
WHERE type NOT IN ('table', 'index')
    OR (name IN ('records', 'labels', 'counters', 'spaces') AND (type != 'table' OR sql LIKE 'CREATE VIRTUAL%'))
LIMIT 1";
    let foreign = connection.query_row(FOREIGN, [], |row| row.get::<_, String>(0));
    let foreign = match foreign {
        Err(rusqlite::Error::QueryReturnedNoRows) => return Ok(()),
        found => found?,
    };
    let location = context.location();
    Err(OpenError::Refused(Error::new(
        ErrorKind::Corrupt,
        format!(
            "the database {location} has the {foreign}, which Cachalot does not create: set it aside to begin anew"
        ),
    )))
}

/// Returns the number of completed migrations; an error if the file is not usable by this version.
fn applied_migrations(connection: &Connection, context: &Context) -> Result<usize, OpenError> {
    let application: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let location = context.location();
    if application == APPLICATION_ID && version > VERSION {
        return Err(OpenError::Refused(context.too_new(&newer(version))));
    }
    if application == APPLICATION_ID {
        check_objects(connection, context)?;
        return Ok(usize::try_from(version).unwrap_or(0));
    }
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application == 0 && version == 0 && tables == 0 {
        return Ok(0);
    }
    Err(OpenError::Refused(Error::new(
        ErrorKind::Unsupported,
        format!("{location} is the SQLite database of another program: choose another file"),
    )))
}
