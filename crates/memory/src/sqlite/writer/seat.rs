//! The connection that writes, for whoever holds it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{Clock, disk};
use rusqlite::Connection;

use crate::{Error, ErrorKind};

use super::super::failure::{Context, is_busy, locked};
use super::super::schema;
use super::super::stamps::{Hold, Stamps};
use super::super::write::Changes;
use super::{Queued, shrink};

/// Transactions, and bytes of values, after which the log is looked at.
const TRANSACTIONS: u32 = 32;
const BYTES: usize = 1 << 20;

/// Pages in the log from which on it is moved into the database: eight megabytes.
const LONG_LOG: i64 = 2048;

/// The same for a memory that is being closed. Who opens the file next reads the whole log.
const LONG_LOG_LEFT: i64 = 256;

/// Pages in the log above which writers wait for the checkpoint.
pub(super) const LONGEST_LOG: i64 = 16_384;

pub(super) struct Seat {
    path: PathBuf,
    context: Context,
    clock: Arc<dyn Clock>,
    stamps: Arc<Stamps>,
    connection: Option<Connection>,
    transactions: u32,
    bytes: usize,
}

/// What became of a batch.
pub(super) enum Ran {
    /// Everybody has an answer.
    Answered,
    /// Somebody else's lock is in the way and nobody wanted to wait.
    Blocked(Vec<Queued>),
}

/// Why a batch was not committed.
enum Trouble {
    /// Locked by somebody else.
    Busy(Error),
    /// All or one of the requests failed.
    Failed(Error),
}

impl Seat {
    pub(super) fn new(
        path: PathBuf,
        context: Context,
        clock: Arc<dyn Clock>,
        stamps: Arc<Stamps>,
    ) -> Self {
        // The first transaction looks at what earlier processes have left in the log.
        Self {
            path,
            context,
            clock,
            stamps,
            connection: None,
            transactions: TRANSACTIONS,
            bytes: 0,
        }
    }

    /// Carries out the requests in one transaction, or each in its own if one of them fails, and answers
    /// them. With no patience, gives them back when a lock is in the way.
    pub(super) fn run(&mut self, mut jobs: Vec<Queued>, patience: Duration) -> Ran {
        match self.transact(&mut jobs, patience) {
            Ok(()) => answer(jobs, &Ok(())),
            Err(Trouble::Busy(_)) if patience.is_zero() => return Ran::Blocked(jobs),
            Err(Trouble::Busy(error)) => answer(jobs, &Err(error)),
            Err(Trouble::Failed(error)) if jobs.len() == 1 => answer(jobs, &Err(error)),
            Err(Trouble::Failed(_)) => return self.run_apart(jobs, patience),
        }
        Ran::Answered
    }

    fn run_apart(&mut self, jobs: Vec<Queued>, patience: Duration) -> Ran {
        let mut blocked = Vec::new();
        for job in jobs {
            if let Ran::Blocked(jobs) = self.run(vec![job], patience) {
                blocked.extend(jobs);
            }
        }
        if blocked.is_empty() {
            Ran::Answered
        } else {
            Ran::Blocked(blocked)
        }
    }

    fn transact(&mut self, jobs: &mut [Queued], patience: Duration) -> Result<(), Trouble> {
        let mut hold = self
            .stamps
            .hold(patience)
            .map_err(|error| self.not_held(error))?;
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().map_err(|error| self.trouble(error))?,
        };
        let outcome = self.attempt(&connection, jobs, &mut hold, patience);
        // A connection whose transaction cannot even be rolled back is of no use any more.
        if outcome.is_ok()
            || connection.is_autocommit()
            || connection.execute_batch("ROLLBACK").is_ok()
        {
            self.connection = Some(connection);
        }
        let slots = outcome.map_err(|error| self.trouble(error))?;
        hold.settle(&slots);
        self.transactions += 1;
        self.bytes += jobs.iter().map(|job| job.effort.bytes()).sum::<usize>();
        Ok(())
    }

    /// From `BEGIN` to `COMMIT`; the slots that have to move now.
    fn attempt(
        &self,
        connection: &Connection,
        jobs: &mut [Queued],
        hold: &mut Hold<'_>,
        patience: Duration,
    ) -> rusqlite::Result<Vec<usize>> {
        connection.busy_timeout(patience)?;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        if self.stamps.appeared(hold) {
            return Err(locked());
        }
        let mut changes = Changes::new(connection, self.clock.now());
        for queued in jobs {
            queued.job.run(&mut changes)?;
        }
        let slots = changes.finish()?;
        if !slots.is_empty() {
            hold.announce();
        }
        connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(slots)
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = schema::connect(&self.path)?;
        // Checkpoints wait for the disk: they are the thread's.
        connection.execute_batch("PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-8192;")?;
        Ok(connection)
    }

    fn trouble(&self, error: rusqlite::Error) -> Trouble {
        let busy = is_busy(&error);
        let error = self.context.failure(error);
        if busy {
            Trouble::Busy(error)
        } else {
            Trouble::Failed(error)
        }
    }

    fn not_held(&self, error: io::Error) -> Trouble {
        let location = self.context.location();
        if error.kind() == io::ErrorKind::WouldBlock {
            let message =
                format!("another process kept writing to the database {location}; try again");
            return Trouble::Busy(Error::new(ErrorKind::Busy, message));
        }
        if disk::is_full(&error) {
            let message = format!(
                "no space left for the file {location}-stamp, by which other processes notice changes, so nothing \
                 is written; free some on its disk"
            );
            return Trouble::Failed(Error::new(ErrorKind::Full, message).because(error));
        }
        let message = format!(
            "the file {location}-stamp, by which other processes notice changes, cannot be used, so nothing is \
             written: check its permissions"
        );
        Trouble::Failed(Error::new(ErrorKind::Unavailable, message).because(error))
    }

    /// Whether the log has grown enough to be moved, or much of the file is free; true once.
    pub(super) fn checkpoint_due(&mut self) -> bool {
        if self.transactions < TRANSACTIONS && self.bytes < BYTES {
            return false;
        }
        (self.transactions, self.bytes) = (0, 0);
        self.connection.as_ref().is_some_and(|connection| {
            look_at_log(connection, "NOOP").is_some_and(|log| log.left >= LONG_LOG)
                || shrink::is_due(connection)
        })
    }

    /// Gives back a part of what is free of the file; whether there was something.
    pub(super) fn shrink(&self) -> bool {
        self.connection.as_ref().is_some_and(shrink::step)
    }

    /// Gives back what is free of the file, at most some tens of megabytes, and empties the log if it is
    /// long. If others use the database, the last of them will.
    pub(super) fn close(&mut self) {
        let shrunk = (0..20).take_while(|_| self.shrink()).count() > 0;
        if let Some(connection) = &self.connection
            && (shrunk
                || look_at_log(connection, "NOOP").is_some_and(|log| log.pages >= LONG_LOG_LEFT))
        {
            look_at_log(connection, "TRUNCATE");
        }
    }

    /// What can run a checkpoint without holding the seat.
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
    /// Without waiting for anybody; how many pages the log has that are not in the database, if known. A
    /// failure is the next checkpoint's to repeat: the log holds everything.
    pub(super) fn run(&self) -> Option<i64> {
        look_at_log(self.connection.as_ref()?, "PASSIVE").map(|log| log.left)
    }
}

/// The log after a checkpoint.
struct Log {
    /// Pages that whoever opens the database next has to read.
    pages: i64,
    /// Those of them that are not in the database.
    left: i64,
}

/// Runs a checkpoint of that kind.
fn look_at_log(connection: &Connection, kind: &str) -> Option<Log> {
    let mut statement = connection
        .prepare_cached(&format!("PRAGMA wal_checkpoint({kind})"))
        .ok()?;
    statement
        .query_row([], |row| {
            let (pages, moved): (i64, i64) = (row.get(1)?, row.get(2)?);
            Ok(Log {
                pages,
                left: pages - moved,
            })
        })
        .ok()
}

fn answer(jobs: Vec<Queued>, outcome: &Result<(), Error>) {
    for queued in jobs {
        queued.job.answer(outcome.clone());
    }
}
