//! A pool of connections for reading.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::Connection;

use crate::{Error, ErrorKind, StoreReply};

use super::failure::{Context, is_busy};
use super::schema;

/// Maximum number of idle connections. More are opened while more threads read at once, and closed
/// afterwards.
const MAX_IDLE_CONNECTIONS: usize = 16;

/// The time after which a read checks the version of the layout, in milliseconds. Each write checks it.
const LAYOUT_CHECK_INTERVAL: u64 = 1_000;

#[derive(Debug)]
pub(super) struct ReaderPool {
    path: PathBuf,
    context: Context,
    timeout: Duration,
    idle: Mutex<Vec<Connection>>,
    created: Instant,
    /// The time of the last check that found a known layout, in milliseconds since the creation.
    layout_checked: AtomicU64,
}

impl ReaderPool {
    /// Creates a pool with one connection.
    pub(super) fn new(
        path: PathBuf,
        context: Context,
        timeout: Duration,
        first: Connection,
    ) -> Self {
        Self {
            path,
            context,
            timeout,
            idle: Mutex::new(vec![first]),
            created: Instant::now(),
            layout_checked: AtomicU64::new(0),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads on the caller's thread; `None` if a lock of another connection is in the way.
    pub(super) fn now<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Option<Result<T, Error>> {
        match self.with_connection(read) {
            Err(error) if is_busy(&error) => None,
            answer => Some(answer.map_err(|error| self.context.failure(error))),
        }
    }

    /// Reads on a thread that may block; without a runtime, on the caller's thread.
    pub(super) fn later<'a, T, F>(self: &Arc<Self>, read: F) -> StoreReply<'a, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let reader_pool = Arc::clone(self);
        let work = move || {
            reader_pool
                .with_connection(|connection| {
                    connection.busy_timeout(reader_pool.timeout)?;
                    let answer = read(connection);
                    // Inline reads use the same connections, and must not wait.
                    connection.busy_timeout(Duration::ZERO)?;
                    answer
                })
                .map_err(|error| reader_pool.context.failure(error))
        };
        StoreReply::later(async move {
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => runtime.spawn_blocking(work).await.unwrap_or_else(|error| {
                    Err(Error::new(
                        ErrorKind::Unavailable,
                        "the read was given up: the runtime is ending",
                    )
                    .with_source(error))
                }),
                Err(_) => work(),
            }
        })
    }

    fn with_connection<T>(
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
        let answer = self
            .check_layout(&connection)
            .and_then(|()| read(&connection));
        // A connection that failed may have an open transaction.
        if answer.is_ok() && connection.is_autocommit() {
            self.push(connection);
        }
        answer
    }

    /// Fails if a newer version has changed the layout. Checks it now and then, and with each read after a failure.
    fn check_layout(&self, connection: &Connection) -> rusqlite::Result<()> {
        let now = u64::try_from(self.created.elapsed().as_millis()).unwrap_or(u64::MAX);
        let checked = self.layout_checked.load(Ordering::Relaxed);
        if now.saturating_sub(checked) >= LAYOUT_CHECK_INTERVAL {
            schema::check_version(connection)?;
            self.layout_checked.store(now, Ordering::Relaxed);
        }
        Ok(())
    }

    fn pop(&self) -> Option<Connection> {
        self.idle.lock().pop()
    }

    fn push(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(connection);
        } else {
            drop(idle);
            drop(connection);
        }
    }
}
