//! The front: an in-process cache of entries before the store, bounded by bytes. An entry is served only
//! while the store's stamps show that it is current.

use std::ops::Deref;
use std::sync::Arc;

use cachalot_store::{Store, space};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::Key;
use crate::entry::Entry;
use crate::ledger::Tally;
use crate::policy::Domain;

/// An entry, and the stamps that were read before it.
pub(crate) struct FrontEntry {
    pub(crate) entry: Entry,
    /// Counts hits on the entry.
    pub(crate) tally: Arc<Tally>,
    /// The stamp of the record.
    pub(crate) stamp: Stamp,
    /// The names of its domains' counters, and their stamps.
    pub(crate) domains: Vec<(String, Stamp)>,
}

/// The stamp of a record or counter of the cache when it was read.
#[derive(Default)]
pub(crate) struct Stamp {
    value: u64,
    /// Its place, if the store has places: reading it there does not hash the name again.
    slot: Option<usize>,
}

impl Stamp {
    /// Reads the stamp of a name; `None` if there is none now.
    pub(crate) fn read(store: &dyn Store, name: &str) -> Option<Self> {
        Some(Self {
            value: store.stamp(space::CACHE, name)?,
            slot: store.stamp_slot(space::CACHE, name),
        })
    }

    /// True if the stamp is the same now.
    fn is_current<N: Deref<Target = str>>(
        &self,
        store: &dyn Store,
        name: impl FnOnce() -> N,
    ) -> bool {
        let now = match self.slot {
            Some(slot) => store.stamp_at(slot),
            None => store.stamp(space::CACHE, &name()),
        };
        now == Some(self.value)
    }
}

impl FrontEntry {
    /// True if the entry was created under exactly these domains, in any order.
    pub(crate) fn has_domains(&self, domains: &[Domain]) -> bool {
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
        let is_requested =
            |counter: &str| domains.iter().any(|domain| domain.is_counted_by(counter));
        domains.iter().all(has)
            && self
                .domains
                .iter()
                .all(|(counter, _)| is_requested(counter))
    }

    /// The approximate size in memory in bytes, without the decoded form of its answer.
    fn weight(&self) -> u64 {
        let stamp = |(counter, _): &(String, Stamp)| counter.len() + size_of::<(String, Stamp)>();
        let stamps: usize = self.domains.iter().map(stamp).sum();
        self.entry.weight() + stamps as u64
    }

    /// True if neither the record nor an epoch that it depends on can have changed.
    pub(crate) fn is_current(&self, store: &dyn Store, key: &Key) -> bool {
        self.stamp.is_current(store, || key.text())
            && self
                .domains
                .iter()
                .all(|(counter, stamp)| stamp.is_current(store, || counter.as_str()))
    }
}

/// An entry of the front and its weight, which changes only by an insertion.
#[derive(Clone)]
struct WeightedEntry {
    front_entry: Arc<FrontEntry>,
    weight: u64,
}

#[derive(Clone)]
struct ByWeight;

impl Weighter<Key, WeightedEntry> for ByWeight {
    fn weight(&self, _key: &Key, weighted: &WeightedEntry) -> u64 {
        weighted.weight
    }
}

type Entries = Cache<Key, WeightedEntry, ByWeight>;

/// Fraction of a shard that one entry may take; the rest is for entries that were used once.
const HOT_FRACTION: f64 = 0.97;

/// Minimum size of a shard if there are several: an answer of 500 kB fits with its decoded form, which is
/// twenty times as large if it is a list of small records.
const MIN_SHARD_BYTES: u64 = 16 << 20;

pub(crate) struct Front {
    entries: Option<Arc<Entries>>,
    /// The weight of the largest entry that the front accepts.
    largest: u64,
}

impl Front {
    /// Creates a front of at most `bytes`; 0 disables it.
    pub(crate) fn new(bytes: u64) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::for_cores(bytes, cores)
    }

    fn for_cores(bytes: u64, cores: usize) -> Self {
        if bytes == 0 {
            return Self {
                entries: None,
                largest: 0,
            };
        }
        // Rounded down: `quick_cache` would round up.
        let shards_by_size = 1 << (bytes / MIN_SHARD_BYTES).max(1).ilog2();
        let expected = usize::try_from(bytes / 4_096)
            .unwrap_or(usize::MAX)
            .clamp(64, 100_000);
        let options = OptionsBuilder::new()
            .shards(shards_by_size.min((cores * 4).next_power_of_two()))
            .hot_allocation(HOT_FRACTION)
            .estimated_items_capacity(expected)
            .weight_capacity(bytes)
            .build();
        let entries = match options {
            Ok(options) => Cache::with_options(
                options,
                ByWeight,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
            // Unreachable: every option that the builder requires is set.
            Err(_) => Cache::with_weighter(expected, bytes, ByWeight),
        };
        let largest = (entries.shard_capacity() as f64 * HOT_FRACTION) as u64;
        Self {
            entries: Some(Arc::new(entries)),
            largest,
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<FrontEntry>> {
        Some(self.entries.as_ref()?.get(key)?.front_entry)
    }

    /// Inserts an entry, if it is not too large. Its decoded form is weighed when it is created, and is not
    /// kept if it makes the entry too large.
    pub(crate) fn insert(&self, key: Key, front_entry: Arc<FrontEntry>) {
        let Some(entries) = &self.entries else { return };
        // Weak references: the closure belongs to the body of an entry, which the front owns, so strong ones would be a
        // cycle.
        let (front, largest) = (Arc::downgrade(entries), self.largest);
        let this = Arc::downgrade(&front_entry);
        front_entry.entry.body.limit_decoded(move |decoded| {
            let (Some(entries), Some(front_entry)) = (front.upgrade(), this.upgrade()) else {
                // Only the reader keeps the decoded form.
                return true;
            };
            let weight = front_entry.weight().saturating_add(decoded);
            if weight > largest {
                return false;
            }
            // Another entry may have been stored under the key since.
            let weighted = entries.peek(&key);
            if weighted.is_some_and(|weighted| Arc::ptr_eq(&weighted.front_entry, &front_entry)) {
                // Replaces only: if the entry was removed or evicted in between, it stays out.
                let _ = entries.replace(
                    key,
                    WeightedEntry {
                        front_entry,
                        weight,
                    },
                    true,
                );
            }
            true
        });
        let weight = front_entry.weight();
        entries.insert(
            key,
            WeightedEntry {
                front_entry,
                weight,
            },
        );
    }

    pub(crate) fn remove(&self, key: &Key) {
        if let Some(entries) = &self.entries {
            entries.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Front;

    #[test]
    fn large_answers_fit_regardless_of_the_number_of_cores() {
        for cores in [1, 2, 16, 64, 256] {
            let largest = |bytes| Front::for_cores(bytes, cores).largest;
            // 500 kB, decoded into twenty times as much.
            assert!(largest(64 << 20) >= 10_500_000, "{cores}");
            assert!(largest(100 << 20) >= 10_500_000, "{cores}");
            // All of a small one.
            assert!(largest(6 << 20) >= 6_000_000, "{cores}");
        }
        let shards = |bytes, cores| {
            let front = Front::for_cores(bytes, cores);
            front.entries.map(|entries| entries.num_shards())
        };
        assert_eq!(shards(64 << 20, 64), Some(4));
        assert_eq!(shards(1 << 30, 64), Some(64));
        assert_eq!(shards(1 << 30, 2), Some(8));
        assert_eq!(shards(1, 2), Some(1));
        assert_eq!(shards(0, 2), None);
    }
}
