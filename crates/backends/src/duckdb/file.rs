//! The file of a store: who has it open, and the version of its tables.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachalot_core::Clock;
use cachalot_store::implementation::too_new;
use cachalot_store::{Error, ErrorKind, Millis};
use duckdb::{Config, Connection, Transaction};
use parking_lot::Mutex;

/// The version of the tables.
const LAYOUT: i64 = 2;

/// Creates the tables. Their indexes are not unique: DuckDB checks unique ones before the end of a transaction.
const CREATE: &str = "
    CREATE TABLE IF NOT EXISTS cachalot_layout(version BIGINT NOT NULL);
    INSERT INTO cachalot_layout VALUES (2);
    CREATE SEQUENCE IF NOT EXISTS cachalot_writes;
    CREATE TABLE IF NOT EXISTS cachalot_records(
        space VARCHAR NOT NULL, key VARCHAR NOT NULL, id BIGINT NOT NULL, revision BIGINT NOT NULL,
        updated BIGINT NOT NULL, used BIGINT NOT NULL, expires BIGINT, labels VARCHAR NOT NULL, size BIGINT NOT NULL,
        weight BIGINT NOT NULL, value BLOB NOT NULL, object VARCHAR, digest VARCHAR);
    CREATE INDEX IF NOT EXISTS cachalot_records_key ON cachalot_records(key);
    CREATE TABLE IF NOT EXISTS cachalot_labels(
        space VARCHAR NOT NULL, name VARCHAR NOT NULL, value VARCHAR NOT NULL, key VARCHAR NOT NULL);
    CREATE INDEX IF NOT EXISTS cachalot_labels_value ON cachalot_labels(value);
    CREATE INDEX IF NOT EXISTS cachalot_labels_key ON cachalot_labels(key);
    CREATE TABLE IF NOT EXISTS cachalot_counters(
        space VARCHAR NOT NULL, name VARCHAR NOT NULL, value BIGINT NOT NULL);
    CREATE INDEX IF NOT EXISTS cachalot_counters_name ON cachalot_counters(name);
    CREATE TABLE IF NOT EXISTS cachalot_leases(
        space VARCHAR NOT NULL, key VARCHAR NOT NULL, fence BIGINT NOT NULL, until BIGINT NOT NULL,
        is_current BOOLEAN NOT NULL, labels VARCHAR NOT NULL);
    CREATE INDEX IF NOT EXISTS cachalot_leases_key ON cachalot_leases(key);";

/// Adds the columns of large values.
const UPGRADE: &str = "
    ALTER TABLE cachalot_records ADD COLUMN object VARCHAR;
    ALTER TABLE cachalot_records ADD COLUMN digest VARCHAR;
    UPDATE cachalot_layout SET version = 2;";

/// The files that this process has open. DuckDB's lock keeps out other processes only: two connections of one process
/// overwrite each other.
static OPEN_FILES: Mutex<Vec<FileId>> = Mutex::new(Vec::new());

/// A file, which may have several names: its device and inode, or its path.
#[derive(Clone, PartialEq)]
struct FileId(#[cfg(unix)] (u64, u64), #[cfg(not(unix))] PathBuf);

impl FileId {
    #[cfg(unix)]
    fn of(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = std::fs::metadata(path)?;
        Ok(Self((metadata.dev(), metadata.ino())))
    }

    #[cfg(not(unix))]
    fn of(path: &Path) -> io::Result<Self> {
        path.canonicalize().map(Self)
    }
}

/// An entry of [`OPEN_FILES`], removed when dropped.
struct Claim(FileId);

impl Drop for Claim {
    fn drop(&mut self) {
        OPEN_FILES.lock().retain(|open| *open != self.0);
    }
}

/// The connection to a file. The fields are dropped in this order.
pub(super) struct Open {
    connection: Connection,
    _claim: Claim,
}

/// The exclusive use of a file's connection.
pub(super) type Locked<'f> = tokio::sync::MutexGuard<'f, Option<Open>>;

/// A file, and the connection to it.
pub(super) struct File {
    path: PathBuf,
    location: String,
    clock: Arc<dyn Clock>,
    /// Opened by the first call.
    connection: tokio::sync::Mutex<Option<Open>>,
}

impl File {
    pub(super) fn new(path: PathBuf, location: String, clock: Arc<dyn Clock>) -> Self {
        Self {
            path,
            location,
            clock,
            connection: tokio::sync::Mutex::new(None),
        }
    }

    pub(super) fn location(&self) -> &str {
        &self.location
    }

    /// Waits for the connection while another call uses it.
    pub(super) async fn lock(&self) -> Locked<'_> {
        match self.connection.try_lock() {
            Ok(locked) => locked,
            Err(_) => self.connection.lock().await,
        }
    }

    /// Executes a call in one transaction. It is rolled back if the call fails.
    pub(super) fn execute<T>(
        &self,
        mut locked: Locked<'_>,
        call: impl FnOnce(&Transaction<'_>, Millis) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let open = match locked.take() {
            Some(open) => open,
            None => self.open()?,
        };
        let open = locked.insert(open);
        let failed = |error| failure(&self.location, &error);
        let transaction = open.connection.transaction().map_err(failed)?;
        let result = call(&transaction, self.clock.now())?;
        transaction.commit().map_err(failed)?;
        Ok(result)
    }

    fn open(&self) -> Result<Open, Error> {
        // Held until the file is in the list: it may not exist before.
        let mut open_files = OPEN_FILES.lock();
        if FileId::of(&self.path).is_ok_and(|id| open_files.contains(&id)) {
            let message = format!("{} is open in this process already", self.location);
            return Err(Error::new(ErrorKind::Busy, message));
        }
        let failed = |error| failure(&self.location, &error);
        let unreadable = |error: io::Error| {
            let message = format!("{} cannot be opened: {error}", self.location);
            Error::new(ErrorKind::Unavailable, message).with_source(error)
        };
        // DuckDB takes the beginning of a name such as `md:x` for the name of an extension; that of an absolute path not.
        let path = std::path::absolute(&self.path).map_err(unreadable)?;
        let config = isolated().map_err(failed)?;
        let mut connection = Connection::open_with_flags(path, config).map_err(failed)?;
        self.prepare(&mut connection)?;
        let id = FileId::of(&self.path).map_err(unreadable)?;
        open_files.push(id.clone());
        Ok(Open {
            connection,
            _claim: Claim(id),
        })
    }

    /// Creates the tables, if there are none, or none of this version.
    fn prepare(&self, connection: &mut Connection) -> Result<(), Error> {
        let failed = |error| failure(&self.location, &error);
        let transaction = connection.transaction().map_err(failed)?;
        let read = |statement: &str| {
            let number = transaction.query_row(statement, [], |row| row.get::<_, Option<i64>>(0));
            Ok(number.map_err(failed)?.unwrap_or(0))
        };
        let tables = "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'cachalot_layout' \
                      AND database_name = current_database() AND schema_name = 'main'";
        let version = match read(tables)? {
            0 => 0,
            _ => read("SELECT max(version) FROM cachalot_layout")?,
        };
        if version > LAYOUT {
            return Err(too_new(&self.location));
        }
        let change = match version {
            0 => CREATE,
            1 => UPGRADE,
            _ => "",
        };
        if !change.is_empty() {
            transaction.execute_batch(change).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }
}

/// Returns the settings of a database that loads no extensions, and no other files.
fn isolated() -> duckdb::Result<Config> {
    without_extensions()?.enable_external_access(false)
}

/// Returns the settings of a database that loads no extensions.
pub(super) fn without_extensions() -> duckdb::Result<Config> {
    Config::default()
        .with("autoinstall_known_extensions", "false")?
        .with("autoload_known_extensions", "false")
}

/// Converts an error of DuckDB.
pub(super) fn failure(location: &str, error: &duckdb::Error) -> Error {
    let text = error.to_string();
    let has = |part: &str| text.contains(part);
    let (kind, remedy) = if has("Conflicting lock") {
        let remedy = "; another process has opened the file: DuckDB allows one at a time";
        (ErrorKind::Busy, remedy)
    } else if has("No space left") || has("disk full") {
        (ErrorKind::Full, "")
    } else if has("Permission denied") || has("read-only") {
        (ErrorKind::Denied, "; check the permissions of the file")
    } else if has("not a valid DuckDB") || has("corrupt") || has("Serialization Error") {
        (ErrorKind::Corrupt, "")
    } else {
        (ErrorKind::Unavailable, "")
    };
    let text = text.lines().next().unwrap_or_default();
    Error::new(kind, format!("{location} failed: {text}{remedy}"))
}
