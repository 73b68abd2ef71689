//! A memory that knows no index.

use std::collections::BTreeMap;

use cachalot_core::Millis;
use cachalot_store::{Label, LabelMatch, Order, Record, SpaceUsage, counter, glob_matches};

use super::step::Question;

#[derive(Debug, Clone)]
pub(super) struct StoredRecord {
    pub(super) record: Record,
    pub(super) used: Millis,
    pub(super) stored: u64,
}

/// One space, as plainly as it can be said.
#[derive(Debug, Default)]
pub(super) struct Plain {
    pub(super) records: Vec<StoredRecord>,
    pub(super) counters: BTreeMap<String, u64>,
    /// Key, number of the lease, until when, labels.
    pub(super) reservations: Vec<(String, usize, Millis, Vec<Label>)>,
}

pub(super) fn meets(labels: &[Label], criteria: &[LabelMatch<'_>]) -> bool {
    criteria.iter().all(|criterion| {
        labels.iter().any(|label| match criterion {
            LabelMatch::Is { name, value } => label.name == *name && label.value == *value,
            LabelMatch::Starts { name, prefix } => {
                label.name == *name && label.value.starts_with(prefix)
            }
            LabelMatch::Glob { name, pattern } => {
                label.name == *name && glob_matches(pattern, &label.value)
            }
        })
    })
}

impl Plain {
    pub(super) fn put(&mut self, mut record: Record, now: Millis, stored: u64) -> u64 {
        let before = self
            .records
            .iter()
            .position(|kept| kept.record.key == record.key);
        record.revision = before.map_or(1, |at| self.records.remove(at).record.revision + 1);
        record.updated = now;
        record.labels.sort();
        record.labels.dedup();
        let revision = record.revision;
        self.records.push(StoredRecord {
            record,
            used: now,
            stored,
        });
        revision
    }

    pub(super) fn record(&self, key: &str) -> Option<Record> {
        let kept = self.records.iter().find(|kept| kept.record.key == key);
        kept.map(|kept| kept.record.clone())
    }

    pub(super) fn find(&self, question: &Question) -> Vec<Record> {
        let page = question.page();
        let mut found: Vec<&StoredRecord> = self
            .records
            .iter()
            .filter(|kept| kept.record.key.starts_with(question.prefix))
            .filter(|kept| meets(&kept.record.labels, &question.labels))
            .filter(|kept| {
                question
                    .expired_before
                    .is_none_or(|moment| kept.record.expires.is_some_and(|at| at < moment))
            })
            .filter(|kept| {
                page.after
                    .is_none_or(|after| kept.record.key.as_str() > after)
            })
            .collect();
        match question.order {
            Order::Key | Order::Any => found.sort_by_key(|kept| kept.record.key.clone()),
            Order::Newest => found.sort_by_key(|kept| u64::MAX - kept.stored),
            Order::LeastRecentlyUsed => found.sort_by_key(|kept| (kept.used, kept.stored)),
            Order::Expiry => {
                found.sort_by_key(|kept| (kept.record.expires.unwrap_or(Millis::MAX), kept.stored))
            }
        }
        found
            .into_iter()
            .take(page.limit as usize)
            .map(|kept| kept.record.clone())
            .collect()
    }

    pub(super) fn erase(&mut self, question: &Question, now: Millis) -> Vec<Record> {
        let erased = self.find(question);
        self.records
            .retain(|kept| !erased.iter().any(|record| record.key == kept.record.key));
        if question.expired_before.is_none() && matches!(question.order, Order::Key | Order::Newest)
        {
            let erased = self.counters.entry(counter::ERASED.to_owned()).or_insert(0);
            *erased = (*erased + 1).max(now as u64);
            let after = question.page().after;
            self.reservations.retain(|(key, _, _, labels)| {
                let matches = key.starts_with(question.prefix) && meets(labels, &question.labels);
                !(matches && after.is_none_or(|after| key.as_str() > after))
            });
        }
        erased
    }

    pub(super) fn usage(&self) -> SpaceUsage {
        let size = |kept: &StoredRecord| {
            let labels: usize = kept
                .record
                .labels
                .iter()
                .map(|label| label.name.len() + label.value.len())
                .sum();
            kept.record.key.len() + kept.record.value.len() + labels
        };
        SpaceUsage {
            records: self.records.len() as u64,
            bytes: self.records.iter().map(size).sum::<usize>() as u64,
        }
    }

    /// Histories are too short for a lapsed reservation to be purged.
    pub(super) fn current(&self, key: &str, number: usize) -> bool {
        self.reservations
            .iter()
            .any(|held| held.0 == key && held.1 == number)
    }
}
