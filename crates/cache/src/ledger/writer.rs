//! The writer's thread: takes rows as they come, lets some more come, writes what has gathered in one
//! transaction, and sums hits up once a second.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::sync::oneshot;

use super::file::{Batch, File};
use super::{Hits, Unwritten};

/// How long rows gather, unless somebody wants them written: a transaction costs more than a call, and
/// a process that is killed loses the rows of no longer than this.
const GATHER: Duration = Duration::from_millis(50);

/// When there was nothing to write, hits are summed up so often.
const SUM_UP: Duration = Duration::from_secs(1);

/// Rows of one transaction at most, roughly.
const TOGETHER: usize = 1_000;

type Warn = Arc<dyn Fn(&str) + Send + Sync>;

enum Message {
    Row(Box<Unwritten>),
    Flush(oneshot::Sender<()>),
}

/// The way to the thread, which ends with it.
pub(super) struct Writer {
    messages: mpsc::Sender<Message>,
    /// `None` if it could not be started.
    thread: Option<Thread>,
}

impl Writer {
    pub(super) fn start(path: &Path, run: &str, hits: &Arc<Hits>, warn: &Warn) -> Self {
        let (messages, receiver) = mpsc::channel();
        let (path, run, hits) = (path.to_owned(), run.to_owned(), Arc::clone(hits));
        let told = Arc::clone(warn);
        let writing = move || write(path, run, &hits, &receiver, &told);
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

    pub(super) fn send(&self, row: Unwritten) {
        // The thread lives as long as the ledger: if it is gone, it has said why.
        let _ = self.messages.send(Message::Row(Box::new(row)));
    }

    /// Resolves when everything that was sent or counted so far is in the file.
    pub(super) async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if self.messages.send(Message::Flush(done)).is_ok() {
            if let Some(thread) = &self.thread {
                thread.unpark();
            }
            let _ = written.await;
        }
    }
}

/// What has come so far.
#[derive(Default)]
struct Taken {
    rows: Vec<Unwritten>,
    flushes: Vec<oneshot::Sender<()>>,
}

impl Taken {
    fn take(&mut self, message: Message) {
        match message {
            Message::Row(row) => self.rows.push(*row),
            Message::Flush(done) => self.flushes.push(done),
        }
    }

    /// Whether more rows may be waited for.
    fn may_gather(&self) -> bool {
        !self.rows.is_empty() && self.rows.len() < TOGETHER && self.flushes.is_empty()
    }
}

fn write(path: PathBuf, run: String, hits: &Hits, messages: &mpsc::Receiver<Message>, warn: &Warn) {
    let mut file = File::new(path, run, warn);
    let mut warned = false;
    loop {
        let mut taken = Taken::default();
        let first = messages.recv_timeout(SUM_UP);
        let ended = matches!(first, Err(mpsc::RecvTimeoutError::Disconnected));
        first
            .into_iter()
            .chain(messages.try_iter().take(TOGETHER))
            .for_each(|m| taken.take(m));
        if taken.may_gather() {
            thread::park_timeout(GATHER);
            messages
                .try_iter()
                .take(TOGETHER)
                .for_each(|message| taken.take(message));
        }
        let batch = Batch {
            rows: taken.rows,
            sums: hits.take_sums(),
            hits: hits.recent.take(),
        };
        if !batch.is_empty()
            && let (Err(error), false) = (file.append(&batch), warned)
        {
            warned = true;
            warn(&format!(
                "the ledger cannot be written, calls go on unaccounted: {error}"
            ));
        }
        for done in taken.flushes {
            let _ = done.send(());
        }
        if ended {
            return;
        }
    }
}
