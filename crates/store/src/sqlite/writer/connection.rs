//! The write connection, used by the caller or thread that holds its mutex.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{Clock, disk};
use rusqlite::Connection;

use crate::{Error, ErrorKind};

use super::super::failure::{Context, locked};
use super::super::schema;
use super::super::stamps::{CommitGuard, Stamps};
use super::super::write::WriteTransaction;
use super::{QueuedJob, shrink};

/// Number of transactions, and bytes of values, after which the length of the log is checked.
const TRANSACTIONS_PER_CHECK: u32 = 32;
const BYTES_PER_CHECK: usize = 1 << 20;

/// Number of pages in the log from which on it is moved into the database: eight megabytes.
const WAL_PAGES_BEFORE_CHECKPOINT: i64 = 2048;

/// The same when a store is closed: the next process to open the file reads the whole log.
const WAL_PAGES_AT_CLOSE: i64 = 256;

/// Number of pages in the log, moved or not, above which writers wait for the checkpoint: 64 megabytes.
const WAL_PAGES_BEFORE_BLOCKING: i64 = 16_384;

/// Maximum time that writers wait for the readers of the log. A longer read delays the restart to the next checkpoint.
const RESTART_TIMEOUT: Duration = Duration::from_millis(100);

/// Number of free pages that are returned at once if the disk is full: moving them takes space in the log.
const PAGES_ON_A_FULL_DISK: u32 = 16;

pub(super) struct WriteConnection {
    path: PathBuf,
    context: Context,
    clock: Arc<dyn Clock>,
    stamps: Arc<Stamps>,
    connection: Option<Connection>,
    transactions: u32,
    bytes: usize,
}

impl WriteConnection {
    pub(super) fn new(
        path: PathBuf,
        context: Context,
        clock: Arc<dyn Clock>,
        stamps: Arc<Stamps>,
    ) -> Self {
        // `TRANSACTIONS_PER_CHECK`, so that the first transaction checks the log that earlier processes left.
        Self {
            path,
            context,
            clock,
            stamps,
            connection: None,
            transactions: TRANSACTIONS_PER_CHECK,
            bytes: 0,
        }
    }

    /// Executes the requests in one transaction, or each in its own if one of them fails, and answers them.
    /// With zero patience, returns those that a lock of another connection is in the way of.
    pub(super) fn run(&mut self, mut jobs: Vec<QueuedJob>, timeout: Duration) -> Vec<QueuedJob> {
        match self.transact(&mut jobs, timeout) {
            Err(error) if error.kind == ErrorKind::Busy && timeout.is_zero() => jobs,
            // A lock would be in the way of each request alone, too, so only other errors are isolated.
            Err(error) if error.kind != ErrorKind::Busy && jobs.len() > 1 => {
                let jobs = jobs.into_iter();
                jobs.flat_map(|job| self.run(vec![job], timeout)).collect()
            }
            outcome => {
                for queued in jobs {
                    queued.job.answer(outcome.clone());
                }
                Vec::new()
            }
        }
    }

    fn transact(&mut self, jobs: &mut [QueuedJob], timeout: Duration) -> Result<(), Error> {
        // Before the lock of the database: every writer takes the two locks in this order, because the commit releases
        // the second one.
        let mut hold = self
            .stamps
            .hold(timeout)
            .map_err(|error| self.lock_error(error))?;
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self
                .connect()
                .map_err(|error| self.context.failure(error))?,
        };
        let outcome = self.attempt(&connection, jobs, &mut hold, timeout);
        // A connection whose transaction cannot even be rolled back is dropped.
        if outcome.is_ok()
            || connection.is_autocommit()
            || connection.execute_batch("ROLLBACK").is_ok()
        {
            self.connection = Some(connection);
        }
        // If the commit may have happened, the drop of `hold` changes all slots.
        let slots = outcome.map_err(|error| self.context.failure(error))?;
        hold.settle(&slots);
        self.transactions += 1;
        self.bytes += jobs.iter().map(|job| job.size.bytes()).sum::<usize>();
        Ok(())
    }

    /// Runs from `BEGIN` to `COMMIT`; returns the slots that have to change now.
    fn attempt(
        &self,
        connection: &Connection,
        jobs: &mut [QueuedJob],
        hold: &mut CommitGuard<'_>,
        timeout: Duration,
    ) -> rusqlite::Result<Vec<usize>> {
        connection.busy_timeout(timeout)?;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        // Another process has created the file since. The error leads to a retry, which uses the file.
        if self.stamps.was_created_since(hold) {
            return Err(locked());
        }
        schema::check_version(connection)?;
        let mut transaction = WriteTransaction::new(connection, self.clock.now());
        for queued in jobs {
            queued.job.run(&mut transaction)?;
        }
        let slots = transaction.finish()?;
        // Renewals, releases and uses change no answer, and leave the stamps valid.
        if !slots.is_empty() {
            hold.announce();
        }
        connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(slots)
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = schema::connect(&self.path)?;
        // Checkpoints wait for the disk, so the thread runs them.
        connection.execute_batch("PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-8192;")?;
        Ok(connection)
    }

    fn lock_error(&self, error: io::Error) -> Error {
        let location = self.context.location();
        if error.kind() == io::ErrorKind::WouldBlock {
            let message =
                format!("another process kept writing to the database {location}; try again");
            return Error::new(ErrorKind::Busy, message);
        }
        if disk::is_full(&error) {
            let message = format!(
                "no space left for the file {location}-stamp, by which other processes notice changes, so nothing \
                 is written; free some on its disk"
            );
            return Error::new(ErrorKind::Full, message).with_source(error);
        }
        let message = format!(
            "the file {location}-stamp, by which other processes notice changes, cannot be used, so nothing is \
             written: check its permissions"
        );
        Error::new(ErrorKind::Unavailable, message).with_source(error)
    }

    /// True if the log has grown enough to be moved, or much of the file is free; resets the counts.
    pub(super) fn checkpoint_due(&mut self) -> bool {
        if self.transactions < TRANSACTIONS_PER_CHECK && self.bytes < BYTES_PER_CHECK {
            return false;
        }
        (self.transactions, self.bytes) = (0, 0);
        self.connection.as_ref().is_some_and(|connection| {
            checkpoint_wal(connection, "NOOP")
                .is_some_and(|log| log.left >= WAL_PAGES_BEFORE_CHECKPOINT)
                || shrink::is_due(connection)
        })
    }

    /// Returns a part of the free pages to the file system; false if there were none.
    pub(super) fn shrink(&self) -> bool {
        self.connection.as_ref().is_some_and(shrink::step)
    }

    /// Empties the log, and returns some free pages to the file system. Waits a moment for readers of the log.
    pub(super) fn free_space(&self) {
        let Some(connection) = &self.connection else {
            return;
        };
        let empty_log = || {
            let is_patient = connection.busy_timeout(RESTART_TIMEOUT).is_ok();
            is_patient && checkpoint_wal(connection, "TRUNCATE").is_some()
        };
        if empty_log() && shrink::cut(connection, PAGES_ON_A_FULL_DISK).is_ok() {
            // Returning the pages has written to the log.
            empty_log();
        }
    }

    /// Returns free pages to the file system, at most some tens of megabytes, and empties the log if it is
    /// long. If other processes use the database, the last one of them does it.
    pub(super) fn close(&mut self) {
        let shrunk = (0..20).take_while(|_| self.shrink()).count() > 0;
        if let Some(connection) = &self.connection
            && (shrunk
                || checkpoint_wal(connection, "NOOP")
                    .is_some_and(|log| log.pages >= WAL_PAGES_AT_CLOSE))
        {
            checkpoint_wal(connection, "TRUNCATE");
        }
    }

    /// Creates a connection that can run a checkpoint without holding the write connection.
    pub(super) fn checkpointer(&self) -> Checkpointer {
        Checkpointer {
            connection: schema::connect(&self.path).ok(),
        }
    }
}

/// Moves the log into the database.
pub(super) struct Checkpointer {
    connection: Option<Connection>,
}

impl Checkpointer {
    /// Runs a checkpoint without waiting; returns the number of pages of the log that are not in the database
    /// yet, if known. After a failure, the next checkpoint repeats the work: the log contains everything.
    pub(super) fn run(&self) -> Option<i64> {
        checkpoint_wal(self.connection.as_ref()?, "PASSIVE").map(|log| log.left)
    }

    /// Returns true if writers have to wait until the log restarts.
    pub(super) fn is_log_too_long(&self) -> bool {
        let log = self.connection.as_ref();
        let log = log.and_then(|connection| checkpoint_wal(connection, "NOOP"));
        log.is_some_and(|log| log.pages > WAL_PAGES_BEFORE_BLOCKING)
    }

    /// Moves all of the log into the database, and waits for a moment at which no reader uses it, so that the next
    /// write begins at its start. Called while no write of this process runs.
    pub(super) fn restart_log(&self) {
        if let Some(connection) = &self.connection
            && connection.busy_timeout(RESTART_TIMEOUT).is_ok()
        {
            checkpoint_wal(connection, "RESTART");
        }
    }
}

/// The length of the log after a checkpoint.
struct WalLength {
    /// Number of pages that the next process to open the database has to read.
    pages: i64,
    /// Number of pages among them that are not in the database.
    left: i64,
}

/// Runs a checkpoint of that kind.
fn checkpoint_wal(connection: &Connection, kind: &str) -> Option<WalLength> {
    let mut statement = connection
        .prepare_cached(&format!("PRAGMA wal_checkpoint({kind})"))
        .ok()?;
    statement
        .query_row([], |row| {
            let (pages, moved): (i64, i64) = (row.get(1)?, row.get(2)?);
            Ok(WalLength {
                pages,
                left: pages - moved,
            })
        })
        .ok()
}
