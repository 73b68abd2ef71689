//! A pool of connections for reading.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use crate::{Answer, Error, ErrorKind};

use super::failure::{Context, is_busy};
use super::schema;

/// Maximum number of idle connections. More are opened while more threads read at once, and closed
/// afterwards.
const KEPT: usize = 16;

#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    context: Context,
    patience: Duration,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    /// Creates a pool with one connection.
    pub(super) fn new(
        path: PathBuf,
        context: Context,
        patience: Duration,
        first: Connection,
    ) -> Self {
        Self {
            path,
            context,
            patience,
            idle: Mutex::new(vec![first]),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads on the caller's thread; `None` if a lock of another connection is in the way.
    pub(super) fn now<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, Error> {
        match self.lend(read) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if is_busy(&error) => Ok(None),
            Err(error) => Err(self.context.failure(error)),
        }
    }

    /// Reads on a thread that may block; without a runtime, on the caller's thread.
    pub(super) fn later<'a, T, F>(self: &Arc<Self>, read: F) -> Answer<'a, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let readers = Arc::clone(self);
        let work = move || {
            readers
                .lend(|connection| {
                    connection.busy_timeout(readers.patience)?;
                    let answer = read(connection);
                    connection.busy_timeout(Duration::ZERO)?;
                    answer
                })
                .map_err(|error| readers.context.failure(error))
        };
        Answer::later(async move {
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => runtime.spawn_blocking(work).await.unwrap_or_else(|error| {
                    Err(Error::new(
                        ErrorKind::Unavailable,
                        "the read was given up: the runtime is ending",
                    )
                    .because(error))
                }),
                Err(_) => work(),
            }
        })
    }

    fn lend<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let connection = match self.pop() {
            Some(connection) => connection,
            None => {
                let connection = schema::connect(&self.path)?;
                connection.busy_timeout(Duration::ZERO)?;
                connection
            }
        };
        let answer = read(&connection);
        // A connection that failed may have an open transaction.
        if answer.is_ok() && connection.is_autocommit() {
            self.push(connection);
        }
        answer
    }

    fn pop(&self) -> Option<Connection> {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
    }

    fn push(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(connection);
        } else {
            drop(idle);
            drop(connection);
        }
    }
}
