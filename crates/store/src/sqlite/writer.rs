//! The writer: one connection, a queue in front of it, one transaction for all queued requests.
//!
//! A request is queued. If concurrent requests came recently, the caller yields once, so that other tasks can
//! queue theirs. Then, if the connection is free, the caller executes the queue in one transaction: storing
//! costs a commit and no thread switch. If it is not free, its holder checks the queue again when done, and
//! wakes the writer's thread if something is left. The thread is started when first needed. It also takes
//! work that must not block a caller: waiting for locks of other processes, large requests, checkpoints.
//!
//! Requests whose answer no task awaits any more are not started. If one request of a transaction fails, all
//! are rolled back and each is executed in a transaction of its own.

mod connection;
#[cfg(test)]
#[path = "../../tests/unit/sqlite/writer/panics.rs"]
mod panics;
mod shrink;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::{Error, ErrorKind};

use super::failure::Context;
use super::stamps::Stamps;
use super::write::WriteTransaction;
use super::{INLINE_VALUE, SqliteOptions};

use self::connection::WriteConnection;

/// Maximum pause between two steps of returning free pages.
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// Maximum number of requests in a transaction.
const MAX_JOBS_PER_TRANSACTION: usize = 256;

/// The amount of work of a request, in bytes of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobSize {
    /// The caller may execute it inline.
    Small(usize),
    /// Only the thread executes it.
    Large(usize),
}

impl JobSize {
    pub(super) const SMALL: Self = Self::Small(0);
    pub(super) const LARGE: Self = Self::Large(0);

    /// The effort for a value of that size.
    pub(super) fn of_bytes(bytes: usize) -> Self {
        if bytes as i64 <= INLINE_VALUE {
            Self::Small(bytes)
        } else {
            Self::Large(bytes)
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Small(bytes) | Self::Large(bytes) => bytes,
        }
    }
}

/// A request: executed once or, if its transaction failed, again; then answered.
trait Job: Send {
    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> rusqlite::Result<()>;
    /// Answers with the result of the last run, or with the error.
    fn answer(self: Box<Self>, outcome: Result<(), Error>);
    /// True if no task awaits the answer any more.
    fn abandoned(&self) -> bool;
}

struct Work<T, F> {
    work: F,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, Error>>,
}

impl<T: Send, F: FnMut(&mut WriteTransaction<'_>) -> rusqlite::Result<T> + Send> Job
    for Work<T, F>
{
    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> rusqlite::Result<()> {
        self.result = Some((self.work)(transaction)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), Error>) {
        let Self { result, reply, .. } = *self;
        // Fails if the task has stopped waiting.
        let _ = reply.send(outcome.and_then(|()| result.ok_or_else(stopped)));
    }

    fn abandoned(&self) -> bool {
        self.reply.is_closed()
    }
}

struct QueuedJob {
    size: JobSize,
    job: Box<dyn Job>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<QueuedJob>,
    checkpoint: bool,
    closing: bool,
    group_commit: GroupCommit,
    /// Set after a request panicked, or the thread could not be started: every write fails.
    stopped_forever: bool,
}

/// Decides if a caller yields before committing, so that concurrent writers join this batch (costs 0.1
/// commit, saves 1).
#[derive(Default)]
struct GroupCommit {
    /// Number of transactions for which concurrent requests are still expected, since the last batch of
    /// several.
    expected: u32,
    /// Number of requests since the last yield.
    since_yield: u32,
}

impl GroupCommit {
    /// True if a request should yield for others.
    fn should_yield(&mut self) -> bool {
        self.since_yield += 1;
        if self.expected == 0 && self.since_yield < 16 {
            return false;
        }
        self.since_yield = 0;
        true
    }

    /// Records the size of a batch.
    fn record_batch(&mut self, requests: usize) {
        self.expected = if requests > 1 {
            8
        } else {
            self.expected.saturating_sub(1)
        };
    }
}

struct WriterState {
    queue: Mutex<Queue>,
    wake: Condvar,
    /// A panic poisons it, which stops the writer: the connection may be within a transaction.
    connection: std::sync::Mutex<WriteConnection>,
    timeout: Duration,
}

/// See the [module](self).
pub(super) struct Writer {
    shared: Arc<WriterState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl Writer {
    /// Creates a writer that connects when there is something to write.
    pub(super) fn new(
        path: PathBuf,
        context: Context,
        options: SqliteOptions,
        stamps: Arc<Stamps>,
    ) -> Self {
        let timeout = options.busy_timeout;
        let connection =
            std::sync::Mutex::new(WriteConnection::new(path, context, options.clock, stamps));
        let shared = WriterState {
            queue: Mutex::default(),
            wake: Condvar::new(),
            connection,
            timeout,
        };
        Self {
            shared: Arc::new(shared),
            thread: Mutex::new(None),
        }
    }

    /// Runs `work` in a transaction, and returns its result once that is committed. `work` may run more than
    /// once; only its last run counts.
    pub(super) async fn submit<T, F>(&self, size: JobSize, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&mut WriteTransaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let (reply, mut answer) = oneshot::channel();
        let job = Box::new(Work {
            work,
            result: None,
            reply,
        });
        let wait = {
            let mut queue = self.shared.queue();
            // Checked under the lock in which `stop` empties the queue: no request is queued after that.
            if queue.stopped_forever {
                return Err(stopped());
            }
            queue.waiting.push_back(QueuedJob { size, job });
            queue.group_commit.should_yield()
        };
        if matches!(size, JobSize::Large(_)) {
            self.wake();
        } else {
            if wait {
                tokio::task::yield_now().await;
                // Another caller may have run the queue while this one yielded.
                if let Ok(answer) = answer.try_recv() {
                    return answer;
                }
            }
            self.run_queue();
        }
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Gives the space of the log and of some free pages back to a file system that is full.
    pub(super) fn free_space(&self) {
        if let Ok(connection) = self.shared.connection.lock() {
            connection.free_space();
        }
    }

    /// Executes the queue unless another caller does.
    fn run_queue(&self) {
        match self.shared.connection.try_lock() {
            Ok(mut connection) => {
                let panic_guard = PanicGuard(&self.shared);
                let jobs = self.shared.take(JobSize::SMALL);
                if !jobs.is_empty() {
                    let blocked = connection.run(jobs, Duration::ZERO);
                    // Another process holds a lock. The thread waits for it, so that the caller is not blocked.
                    if !blocked.is_empty() {
                        self.shared.requeue(blocked);
                    }
                }
                let checkpoint = connection.checkpoint_due();
                drop(panic_guard);
                drop(connection);
                if checkpoint {
                    self.shared.queue().checkpoint = true;
                }
            }
            // The holder checks the queue again after releasing the connection.
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Poisoned(_)) => return self.shared.stop(),
        }
        // A request that was queued while the connection was held has found it locked, and relies on this check.
        let queue = self.shared.queue();
        let work_left = !queue.waiting.is_empty() || queue.checkpoint;
        drop(queue);
        if work_left {
            self.wake();
        }
    }

    /// Wakes the thread. Its work was queued under the queue's lock before.
    fn wake(&self) {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let spawned = std::thread::Builder::new()
                .name("cachalot-store".into())
                .spawn(move || shared.run_thread());
            match spawned {
                Ok(handle) => *thread = Some(handle),
                Err(_) => return self.shared.stop(),
            }
        }
        drop(thread);
        self.shared.wake.notify_one();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().take();
        if let Some(thread) = thread {
            // Set under the lock in which the thread checks it before it waits, so that the notification is not missed.
            self.shared.queue().closing = true;
            self.shared.wake.notify_one();
            // The thread ends by itself; if it panicked, there is nothing left to do.
            let _ = thread.join();
        }
        if let Ok(mut connection) = self.shared.connection.lock() {
            connection.close();
        }
    }
}

impl WriterState {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Takes the requests of the next transaction.
    fn take(&self, max_size: JobSize) -> Vec<QueuedJob> {
        let mut queue = self.queue();
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some(next) = queue.waiting.front() {
            let too_large = max_size == JobSize::SMALL && matches!(next.size, JobSize::Large(_));
            // A request that is larger than the limit is taken alone.
            let enough = taken.len() == MAX_JOBS_PER_TRANSACTION
                || (bytes > 0 && bytes + next.size.bytes() > 4 << 20);
            if too_large || enough {
                break;
            }
            bytes += next.size.bytes();
            taken.extend(
                queue
                    .waiting
                    .pop_front()
                    .filter(|next| !next.job.abandoned()),
            );
        }
        if !taken.is_empty() {
            queue.group_commit.record_batch(taken.len());
        }
        taken
    }

    /// Puts requests that could not be executed now back in their places.
    fn requeue(&self, jobs: Vec<QueuedJob>) {
        let mut queue = self.queue();
        for job in jobs.into_iter().rev() {
            queue.waiting.push_front(job);
        }
    }

    /// Stops the writer: from here on every write fails.
    fn stop(&self) {
        let waiting = {
            let mut queue = self.queue();
            queue.stopped_forever = true;
            std::mem::take(&mut queue.waiting)
        };
        for queued in waiting {
            queued.job.answer(Err(stopped()));
        }
    }

    /// The loop of the thread.
    fn run_thread(&self) {
        loop {
            let (checkpoint, closing) = self.wait();
            let Ok(mut connection) = self.connection.lock() else {
                return self.stop();
            };
            let panic_guard = PanicGuard(self);
            loop {
                let jobs = self.take(JobSize::LARGE);
                if jobs.is_empty() {
                    break;
                }
                // With a timeout, every request is answered and none comes back.
                let _ = connection.run(jobs, self.timeout);
            }
            let due = connection.checkpoint_due() || checkpoint;
            drop(panic_guard);
            drop(connection);
            // The drop of the writer empties the log instead (`WriteConnection::close`).
            if closing {
                return;
            }
            if due {
                self.checkpoint();
            }
        }
    }

    fn wait(&self) -> (bool, bool) {
        let mut queue = self.queue();
        while queue.waiting.is_empty() && !queue.closing && !queue.checkpoint {
            self.wake.wait(&mut queue);
        }
        (std::mem::take(&mut queue.checkpoint), queue.closing)
    }

    /// Returns free pages of the file to the file system, then moves the log into the database while writers
    /// continue, in a limited number of rounds. The log restarts at its beginning only if a write finds all of it
    /// moved and no reader in it, which may never happen under uninterrupted load. If the log has become too
    /// long, the writers therefore wait, and the readers in it are waited for.
    fn checkpoint(&self) {
        // The connection and the lock of the database are free between two steps, for as long as a step takes: other
        // processes get the lock only if they ask for it while it is free.
        loop {
            let began = Instant::now();
            let connection = self.connection.lock();
            let is_shrunk = connection.is_ok_and(|connection| connection.shrink());
            if !is_shrunk || !self.queue().waiting.is_empty() {
                break;
            }
            std::thread::sleep(began.elapsed().min(MAX_PAUSE));
        }
        // On a connection of its own, so that writers continue while the log is moved.
        let Ok(checkpointer) = self
            .connection
            .lock()
            .map(|connection| connection.checkpointer())
        else {
            return;
        };
        for _ in 0..4 {
            if checkpointer.is_log_too_long() {
                // Writers of this process wait, so that the log does not grow while its readers are waited for.
                let connection = self.connection.lock();
                checkpointer.restart_log();
                drop(connection);
                return;
            }
            if checkpointer.run().is_none_or(|left| left == 0) {
                return;
            }
        }
    }
}

/// Stops the writer if a request panics.
struct PanicGuard<'a>(&'a WriterState);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

fn stopped() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the store's writer has stopped; open the store again",
    )
}
