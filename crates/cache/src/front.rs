//! Entries in this process's own memory, before the memory: bounded by bytes, never trusted for
//! longer than the memory's stamps allow.

use std::sync::Arc;

use cachalot_memory::Memory;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::Key;
use crate::entry::Entry;
use crate::ledger::Tally;
use crate::policy::Domain;

/// An entry and the stamps that were read before it was.
pub(crate) struct Fronted {
    pub(crate) entry: Entry,
    /// Where hits on it are counted.
    pub(crate) tally: Arc<Tally>,
    /// The stamp of the record.
    pub(crate) stamp: u64,
    /// The stamps of its domains' counters.
    pub(crate) domains: Vec<(String, u64)>,
}

impl Fronted {
    /// Whether it was made under these domains, in whatever order.
    pub(crate) fn is_under(&self, domains: &[Domain]) -> bool {
        let in_order = domains.len() == self.domains.len()
            && domains
                .iter()
                .zip(&self.domains)
                .all(|(domain, (counter, _))| domain.is_counted_by(counter));
        if in_order {
            return true;
        }
        let has = |domain: &Domain| {
            self.domains
                .iter()
                .any(|(counter, _)| domain.is_counted_by(counter))
        };
        let asked = |counter: &str| domains.iter().any(|domain| domain.is_counted_by(counter));
        domains.iter().all(has) && self.domains.iter().all(|(counter, _)| asked(counter))
    }

    /// Whether neither the record nor an epoch it depends on can have changed.
    pub(crate) fn is_current(&self, memory: &dyn Memory, space: &str, key: &str) -> bool {
        memory.stamp(space, key) == Some(self.stamp)
            && self
                .domains
                .iter()
                .all(|(counter, stamp)| memory.stamp(space, counter) == Some(*stamp))
    }
}

#[derive(Clone)]
struct ByWeight;

impl Weighter<Key, Arc<Fronted>> for ByWeight {
    fn weight(&self, _key: &Key, fronted: &Arc<Fronted>) -> u64 {
        fronted.entry.weight()
    }
}

pub(crate) struct Front {
    entries: Option<Cache<Key, Arc<Fronted>, ByWeight>>,
}

impl Front {
    /// A front of at most `bytes`; 0 for none.
    pub(crate) fn new(bytes: u64) -> Self {
        let expected = usize::try_from(bytes / 4_096)
            .unwrap_or(usize::MAX)
            .clamp(64, 100_000);
        Self {
            entries: (bytes > 0).then(|| Cache::with_weighter(expected, bytes, ByWeight)),
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Fronted>> {
        self.entries.as_ref()?.get(key)
    }

    pub(crate) fn insert(&self, key: Key, fronted: Arc<Fronted>) {
        if let Some(entries) = &self.entries {
            entries.insert(key, fronted);
        }
    }

    pub(crate) fn remove(&self, key: &Key) {
        if let Some(entries) = &self.entries {
            entries.remove(key);
        }
    }
}
