//! One flat JSON file of questions and their answers, `{ "<question>": "<answer>" }`.
//!
//! This is the format of docker-agent's response cache, and both programs can read and write one file at the
//! same time. It can contain nothing but text, so it is not a [`Store`](crate::Store).
//!
//! A put takes the exclusive lock on `<path>.lock` (a file that is never deleted), reads the current file,
//! adds its entry, and replaces the file by a new one: no process loses the entries of another, and no reader
//! ever reads a partial file. Each put writes the whole file. A lookup takes no lock, and reads the file
//! again only if it is another one than before, or so young (two seconds) that its times would not reveal a
//! change.
//!
//! An answer that could not be written stays in this handle, until a later put writes it or another process
//! answers the question.

mod disk;
mod failure;
mod identity;
mod lock;
mod state;
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::{Error, ErrorKind};

use self::failure::Context;
use self::state::State;
use self::text::Entries;

/// Maximum size of a question and its answer together, in bytes: every put writes all of them.
pub const MAX_ENTRY_BYTES: u64 = 4 << 20;

/// The usual maximum time that a put waits for other processes.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// A flat JSON file. See the [module](self).
#[derive(Debug)]
pub struct FlatJsonFile {
    file: Arc<SharedFile>,
}

impl FlatJsonFile {
    /// Opens the file. A missing or empty file has no entries; the first put creates it, readable by its
    /// owner only. A put waits at most `lock_timeout` for other processes.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if it is not one flat JSON object of strings; errors of the file system.
    pub fn open(path: &Path, lock_timeout: Duration) -> Result<Self, Error> {
        let path =
            std::path::absolute(path).map_err(|error| Context::new(path).io("find", error))?;
        let file = SharedFile {
            context: Context::new(&path),
            path,
            lock_timeout,
            state: Mutex::default(),
        };
        file.state.lock().refresh(&file.path, &file.context)?;
        Ok(Self {
            file: Arc::new(file),
        })
    }

    /// The location, for messages.
    #[must_use]
    pub fn location(&self) -> &str {
        self.file.context.location()
    }

    /// Returns the answer to exactly this question. Waits for no lock.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the file has another format; errors of the file system.
    pub fn get(&self, question: &str) -> Result<Option<String>, Error> {
        let mut state = self.file.state.lock();
        state.refresh(&self.file.path, &self.file.context)?;
        Ok(state.answer(question).map(str::to_owned))
    }

    /// Stores an answer; replaces an earlier one. If this fails, this handle still returns the answer; no
    /// other handle does.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] above [`MAX_ENTRY_BYTES`]; [`ErrorKind::Busy`] if another process held the
    /// lock for too long; [`ErrorKind::Corrupt`] if the file has another format; errors of the file system.
    pub async fn put(&self, question: &str, answer: &str) -> Result<(), Error> {
        let size = (question.len() + answer.len()) as u64;
        if size > MAX_ENTRY_BYTES {
            return Err(self.file.context.entry_too_large(question, size));
        }
        let (question, answer): (Arc<str>, Arc<str>) = (question.into(), answer.into());
        self.run_blocking(move |file| file.put(&question, &answer))
            .await
    }

    /// Removes the answer to exactly this question, if there is one.
    ///
    /// # Errors
    /// Those of [`FlatJsonFile::put`].
    pub async fn remove(&self, question: &str) -> Result<(), Error> {
        if self.get(question)?.is_none() {
            return Ok(());
        }
        let question = question.to_owned();
        self.run_blocking(move |file| file.remove(&question)).await
    }

    /// Runs work that may wait for other processes on a thread that may block. Once started, it runs to its
    /// end even if the caller stops waiting.
    async fn run_blocking(
        &self,
        work: impl FnOnce(&SharedFile) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let file = Arc::clone(&self.file);
        tokio::task::spawn_blocking(move || work(&file))
            .await
            .unwrap_or_else(|ended| {
                let message = format!("the store in {} was broken off", self.location());
                Err(Error::new(ErrorKind::Unavailable, message).with_source(ended))
            })
    }
}

/// The state shared with puts on other threads.
#[derive(Debug)]
struct SharedFile {
    path: PathBuf,
    context: Context,
    lock_timeout: Duration,
    /// Never held while waiting for the lock of the file.
    state: Mutex<State>,
}

impl SharedFile {
    fn put(&self, question: &Arc<str>, answer: &Arc<str>) -> Result<(), Error> {
        let written = self.change(|entries| {
            entries.insert(Arc::clone(question), Arc::clone(answer));
        });
        let mut state = self.state.lock();
        match written {
            Ok(()) => state.forget_unwritten(question),
            Err(_) => state.keep_unwritten(question, answer),
        }
        written
    }

    fn remove(&self, question: &str) -> Result<(), Error> {
        self.change(|entries| {
            entries.remove(question);
        })?;
        self.state.lock().forget_unwritten(question);
        Ok(())
    }

    /// Changes the current entries, and writes them unless they are the same as before. Holds the lock of the
    /// file until this handle has read the new file.
    fn change(&self, edit: impl FnOnce(&mut Entries)) -> Result<(), Error> {
        let _lock = lock::take(&self.path, self.lock_timeout, &self.context)?;
        let entries = {
            let mut state = self.state.lock();
            // Under the lock of the file, so that the new file keeps the entries that other processes have added.
            state.reread(&self.path, &self.context)?;
            let mut entries = state.merged_entries();
            edit(&mut entries);
            if state.is_on_disk(&entries) {
                return Ok(());
            }
            entries
        };
        disk::replace(&self.path, &entries, &self.context)?;
        self.state.lock().reread(&self.path, &self.context)
    }
}
