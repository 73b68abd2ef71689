//! The state of a handle: the entries as last read, and the answers that could not be written.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use cachalot_core::Millis;

use crate::{Error, Record, RecordPage, SpaceUsage, ValuePart, request};

use super::failure::Context;
use super::text::Entries;
use super::{FindQuery, as_record, disk};

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
    /// The entries that lookups return: those on disk, overlaid with the kept ones.
    view: BTreeMap<Arc<str>, ViewEntry>,
}

#[derive(Debug)]
struct UnwrittenAnswer {
    answer: Arc<str>,
    over: Option<Arc<str>>,
}

#[derive(Debug, Clone)]
struct ViewEntry {
    answer: Arc<str>,
    revision: u64,
    updated: Millis,
}

impl State {
    /// Reads the file again if it may have changed.
    ///
    /// # Errors
    /// If it cannot be read, or has another format; the state stays.
    pub(super) fn refresh(&mut self, path: &Path, context: &Context) -> Result<(), Error> {
        let is_current = self.snapshot.is_current(path);
        match is_current.map_err(|error| context.io("read", error))? {
            true => Ok(()),
            false => self.reread(path, context),
        }
    }

    /// Reads the file again.
    ///
    /// # Errors
    /// If it cannot be read, or has another format; the state stays.
    pub(super) fn reread(&mut self, path: &Path, context: &Context) -> Result<(), Error> {
        let (snapshot, entries) = disk::read(path, context)?;
        let written = snapshot.written();
        self.snapshot = snapshot;
        if entries != self.on_disk {
            self.on_disk = entries;
            // An answer that another process has written since is newer than the kept one.
            let on_disk = &self.on_disk;
            self.unwritten
                .retain(|question, unwritten| on_disk.get(question) == unwritten.over.as_ref());
            self.overlay(written);
        }
        Ok(())
    }

    /// Rebuilds the view. Unchanged answers keep their revision and time.
    fn overlay(&mut self, written: Millis) {
        let view = self.merged_entries().into_iter().map(|(question, answer)| {
            let stored = match self.view.get(&question) {
                Some(before) if before.answer == answer => before.clone(),
                before => ViewEntry {
                    answer,
                    revision: before.map_or(0, |before| before.revision) + 1,
                    updated: written,
                },
            };
            (question, stored)
        });
        self.view = view.collect();
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

    /// The revision of the answer to a question; 0 if there is none.
    pub(super) fn revision(&self, question: &str) -> u64 {
        self.view.get(question).map_or(0, |stored| stored.revision)
    }

    /// Records that an answer was stored over revision `before`, even if the answer is the same; returns its
    /// new revision.
    pub(super) fn stored(&mut self, question: &str, before: u64, now: Millis) -> u64 {
        let Some(stored) = self.view.get_mut(question) else {
            // Another process has erased it since.
            return before + 1;
        };
        stored.revision = stored.revision.max(before + 1);
        stored.updated = now;
        stored.revision
    }

    /// Keeps an answer that could not be written.
    pub(super) fn keep_unwritten(&mut self, question: &Arc<str>, answer: &Arc<str>, now: Millis) {
        if self.unwritten.len() >= MAX_UNWRITTEN && !self.unwritten.contains_key(question) {
            return;
        }
        let unwritten = UnwrittenAnswer {
            answer: Arc::clone(answer),
            over: self.on_disk.get(question).cloned(),
        };
        self.unwritten.insert(Arc::clone(question), unwritten);
        self.overlay(now);
    }

    /// Removes erased answers from those that are kept.
    pub(super) fn remove_erased(&mut self, erased: &[Record]) {
        for record in erased {
            self.unwritten.remove(record.key.as_str());
            if !self.on_disk.contains_key(record.key.as_str()) {
                self.view.remove(record.key.as_str());
            }
        }
    }

    pub(super) fn record(&self, question: &str) -> Option<Record> {
        let stored = self.view.get(question)?;
        Some(as_record(
            question,
            &stored.answer,
            stored.revision,
            stored.updated,
        ))
    }

    pub(super) fn select(&self, query: &FindQuery) -> RecordPage {
        let from = match &query.after {
            Some(after) if after.as_str() >= query.prefix.as_str() => {
                Bound::Excluded(after.as_str())
            }
            _ => Bound::Included(query.prefix.as_str()),
        };
        let (records, sizes): (Vec<Record>, Vec<u64>) = self
            .view
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(|(question, _)| question.starts_with(&query.prefix))
            .take(query.limit)
            .map(|(question, stored)| {
                let answer = match query.values {
                    ValuePart::None => "",
                    ValuePart::First(_) | ValuePart::All => &*stored.answer,
                };
                let record = as_record(question, answer, stored.revision, stored.updated);
                (record, stored.answer.len() as u64)
            })
            .unzip();
        let is_full = records.len() == query.limit;
        let next = records.last().filter(|_| is_full);
        RecordPage {
            next: next.map(|record| record.key.clone()),
            records,
            sizes,
        }
    }

    pub(super) fn usage(&self) -> SpaceUsage {
        SpaceUsage {
            records: self.view.len() as u64,
            bytes: self
                .view
                .iter()
                .map(|(question, stored)| request::weight(question, stored.answer.len(), &[]))
                .sum(),
        }
    }
}
