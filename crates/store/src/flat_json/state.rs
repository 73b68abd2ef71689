//! The state of a handle: the entries as last read, and the answers that could not be written.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::Error;

use super::disk;
use super::failure::Context;
use super::text::Entries;

/// Maximum number of kept answers that could not be written.
const MAX_UNWRITTEN: usize = 1_000;

/// The state of a handle.
#[derive(Debug, Default)]
pub(super) struct State {
    snapshot: disk::FileSnapshot,
    /// The entries of the file when it was last read.
    on_disk: Entries,
    /// Answers that could not be written, each with the answer that it was to replace.
    unwritten: BTreeMap<Arc<str>, UnwrittenAnswer>,
}

#[derive(Debug)]
struct UnwrittenAnswer {
    answer: Arc<str>,
    over: Option<Arc<str>>,
}

impl State {
    /// Reads the file again if it may have changed.
    ///
    /// # Errors
    /// If it cannot be read, or has another format; the state stays.
    pub(super) fn refresh(&mut self, path: &Path, context: &Context) -> Result<(), Error> {
        let is_current = self.snapshot.is_current(path);
        if is_current.map_err(|error| context.io("read", error))? {
            Ok(())
        } else {
            self.reread(path, context)
        }
    }

    /// Reads the file again.
    ///
    /// # Errors
    /// If it cannot be read, or has another format; the state stays.
    pub(super) fn reread(&mut self, path: &Path, context: &Context) -> Result<(), Error> {
        let (snapshot, entries) = disk::read(path, context)?;
        self.snapshot = snapshot;
        self.on_disk = entries;
        // An answer that another process has written since is newer than the kept one.
        let on_disk = &self.on_disk;
        self.unwritten
            .retain(|question, unwritten| on_disk.get(question) == unwritten.over.as_ref());
        Ok(())
    }

    /// The answer to a question: the kept one, or the one on disk.
    pub(super) fn answer(&self, question: &str) -> Option<&str> {
        match self.unwritten.get(question) {
            Some(unwritten) => Some(&unwritten.answer),
            None => self.on_disk.get(question).map(|answer| &**answer),
        }
    }

    /// The entries that the file should have: its own, overlaid with the kept ones.
    pub(super) fn merged_entries(&self) -> Entries {
        let mut entries = self.on_disk.clone();
        for (question, unwritten) in &self.unwritten {
            entries.insert(Arc::clone(question), Arc::clone(&unwritten.answer));
        }
        entries
    }

    /// True if the file, as last read, has these entries.
    pub(super) fn is_on_disk(&self, entries: &Entries) -> bool {
        self.on_disk == *entries
    }

    /// Keeps an answer that could not be written.
    pub(super) fn keep_unwritten(&mut self, question: &Arc<str>, answer: &Arc<str>) {
        if self.unwritten.len() >= MAX_UNWRITTEN && !self.unwritten.contains_key(question) {
            return;
        }
        let unwritten = UnwrittenAnswer {
            answer: Arc::clone(answer),
            over: self.on_disk.get(question).cloned(),
        };
        self.unwritten.insert(Arc::clone(question), unwritten);
    }

    /// Drops the kept answer to a question, which was written or removed.
    pub(super) fn forget_unwritten(&mut self, question: &str) {
        self.unwritten.remove(question);
    }
}
