//! The writer thread: takes rows as they arrive, waits briefly for more, writes a batch in one transaction,
//! and adds the counted hits once a second.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::file::File;
use super::limits::LedgerLimits;
use super::pending::{MAX_ROWS_PER_TRANSACTION, Pending};
use super::{Hits, LedgerError, PendingRow};

/// Time to wait for more rows, unless a flush is requested: a transaction costs more than a call, and a
/// process that is killed loses the rows of no longer than this.
const BATCH_DELAY: Duration = Duration::from_millis(50);

/// Interval at which counted hits are added while there are no rows to write.
const HIT_WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time that a flush waits for another process that holds the file's lock.
const FLUSH_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

type Warn = Arc<dyn Fn(&str) + Send + Sync>;

enum Message {
    Row(Box<PendingRow>),
    Flush(oneshot::Sender<()>),
}

/// The sender to the thread, which ends when this is dropped.
pub(super) struct Writer {
    messages: mpsc::Sender<Message>,
    /// `None` if the thread could not be started.
    thread: Option<Thread>,
}

impl Writer {
    pub(super) fn start(
        path: &Path,
        run: &str,
        limits: LedgerLimits,
        hits: &Arc<Hits>,
        warn: &Warn,
    ) -> Self {
        let (messages, receiver) = mpsc::channel();
        let file = File::new(path.to_owned(), run.to_owned(), limits, warn);
        let (hits, thread_warn) = (Arc::clone(hits), Arc::clone(warn));
        let writing = move || write(file, &hits, &receiver, &thread_warn);
        let thread = match thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(writing)
        {
            Ok(handle) => Some(handle.thread().clone()),
            Err(error) => {
                warn(&format!("the ledger is not written: {error}"));
                None
            }
        };
        Self { messages, thread }
    }

    pub(super) fn send(&self, row: PendingRow) {
        // The thread lives as long as the ledger: if it could not be started, a warning has been reported.
        let _ = self.messages.send(Message::Row(Box::new(row)));
    }

    /// Resolves when everything that was sent or counted so far is in the file, or cannot be written.
    pub(super) async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if self.messages.send(Message::Flush(done)).is_ok() {
            // Ends the pause in which the thread waits for more rows.
            if let Some(thread) = &self.thread {
                thread.unpark();
            }
            let _ = written.await;
        }
    }
}

/// The messages that the thread has received and not processed yet.
struct State {
    flush_wait: Duration,
    pending: Pending,
    flushes: Vec<oneshot::Sender<()>>,
    /// Set while the file cannot be written.
    is_stuck: bool,
    warned: bool,
}

impl State {
    fn new(flush_wait: Duration) -> Self {
        Self {
            flush_wait,
            pending: Pending::default(),
            flushes: Vec::new(),
            is_stuck: false,
            warned: false,
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Row(row) => self.pending.push(*row),
            Message::Flush(done) => self.flushes.push(done),
        }
    }

    fn take_all(&mut self, messages: &mpsc::Receiver<Message>) {
        // The channel has no bound: while the file cannot be written, it is emptied, because `Pending` has
        // one.
        let limit = if self.is_stuck {
            usize::MAX
        } else {
            MAX_ROWS_PER_TRANSACTION
        };
        messages
            .try_iter()
            .take(limit)
            .for_each(|message| self.take(message));
    }

    /// True if writing may wait for more rows.
    fn may_wait_for_rows(&self) -> bool {
        (1..MAX_ROWS_PER_TRANSACTION).contains(&self.pending.rows())
            && self.flushes.is_empty()
            && !self.is_stuck
    }

    /// Writes everything that is pending. Rows that cannot be written stay pending, up to a maximum size; the
    /// user is warned once.
    fn write(&mut self, file: &mut File, is_last: bool, warn: &Warn) {
        let must_end = is_last || !self.flushes.is_empty();
        // Other rows stay pending and are tried again with the next batch. Only a flush or the end waits for the lock.
        let wait = if must_end {
            self.flush_wait
        } else {
            Duration::ZERO
        };
        let written = self.pending.write(file, Instant::now() + wait);
        self.is_stuck = written.is_err();
        let Err(error) = written else { return };
        let dropped = self.pending.drop_oldest();
        // A lock that is released in time needs no warning.
        let warning = if dropped > 0 || must_end || !error.is_locked() {
            Some(self.warning(file.path(), &error, dropped))
        } else {
            None
        };
        if let (Some(warning), false) = (warning, self.warned) {
            self.warned = true;
            warn(&warning);
        }
    }

    fn warning(&self, file: &Path, error: &LedgerError, dropped: u64) -> String {
        let cause = if error.is_locked() {
            format!("another process has locked {}", file.display())
        } else {
            error.to_string()
        };
        let rows = self.pending.rows();
        let mut text = format!("the ledger cannot be written: {cause}; ");
        if dropped > 0 {
            let calls = match dropped {
                1 => "1 call were dropped, its cost is".to_owned(),
                more => format!("{more} calls were dropped, their costs are"),
            };
            text += &format!("the rows of {calls} kept in the totals; ");
        }
        let waiting = match rows {
            0 => "calls that follow wait in memory, and are".to_owned(),
            1 => "1 call waits in memory, and is".to_owned(),
            more => format!("{more} calls wait in memory, and are"),
        };
        text + &format!("{waiting} lost if the process ends before")
    }
}

fn write(mut file: File, hits: &Hits, messages: &mpsc::Receiver<Message>, warn: &Warn) {
    let mut state = State::new(FLUSH_LOCK_TIMEOUT);
    loop {
        let first = messages.recv_timeout(HIT_WRITE_INTERVAL);
        let ended = matches!(first, Err(mpsc::RecvTimeoutError::Disconnected));
        first.into_iter().for_each(|message| state.take(message));
        state.take_all(messages);
        if state.may_wait_for_rows() {
            thread::park_timeout(BATCH_DELAY);
            state.take_all(messages);
        }
        state.pending.take_hits(hits);
        state.write(&mut file, ended, warn);
        // Also after a failure: a caller must not wait for a file that cannot be written.
        for done in state.flushes.drain(..) {
            let _ = done.send(());
        }
        if ended {
            return;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Mutex;

    use cachalot_core::{Canonical, Digest, SecretSet, Spend};
    use serde_json::json;

    use super::*;
    use crate::Scope;
    use crate::ledger::Payment;

    fn row() -> PendingRow {
        PendingRow::from(Payment {
            at: 5,
            model: "read",
            scope: &Scope::Global,
            session: "session",
            on_behalf_of: None,
            prefix: Digest::sha256(b"x"),
            input: Canonical::value(&json!({})),
            reason: None,
            paid: Spend::default(),
            saved: Spend::default(),
            secret_set: &Arc::new(SecretSet::empty()),
        })
    }

    #[test]
    fn failed_flush_warns_once_and_is_written_later() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("ledger.db");
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&warnings);
        let warn: Warn = Arc::new(move |text: &str| heard.lock().unwrap().push(text.to_owned()));
        let mut file = File::new(
            path.clone(),
            "run".to_owned(),
            LedgerLimits::default(),
            &warn,
        );
        let mut state = State::new(Duration::from_millis(300));
        state.pending.push(row());
        state.write(&mut file, false, &warn);
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let count = || {
            let reader = rusqlite::Connection::open(&path).unwrap();
            reader
                .query_row("SELECT count(*) FROM calls", [], |row| row.get::<_, i64>(0))
                .unwrap()
        };
        state.pending.push(row());
        state.pending.push(row());
        state.write(&mut file, false, &warn);
        assert!(
            warnings.lock().unwrap().is_empty(),
            "it may be released yet"
        );
        for _ in 0..2 {
            state.flushes.push(oneshot::channel().0);
            state.write(&mut file, false, &warn);
            state.flushes.clear();
        }
        let warned = warnings.lock().unwrap().clone();
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(warned[0].contains("2 calls wait in memory"), "{warned:?}");
        assert_eq!(count(), 1);
        drop(other);
        state.write(&mut file, false, &warn);
        assert_eq!(count(), 3);
    }
}
