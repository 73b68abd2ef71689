//! Eviction: keeps the cache within its bounds, and records uses to find the least recently used entries.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use cachalot_core::Millis;
use cachalot_memory::{Answer, Filter, Memory, Order, Page, Usage, space};

use crate::Key;
use crate::engine::Shared;
use crate::entry::Entry;
use crate::policy::DEFAULT_PATIENCE;
use crate::store::NAME_LABEL;
use crate::sync::{Mutex, lock};

/// Number of uses that are sent to the store in one batch.
const MANY_USES: usize = 256;

/// The state of eviction.
pub(crate) struct Housekeeping {
    /// Set if every use is recorded at once, and every write evicts.
    exact: bool,
    stores: AtomicU64,
    /// Number of writes since eviction last began; 0 while none runs.
    evictions_due: AtomicU64,
    /// Held during eviction: two concurrent evictions would each remove the surplus.
    evicting: tokio::sync::Mutex<()>,
    used: Mutex<Vec<(Key, Millis)>>,
    /// The time of the last use; with `exact`, no two uses have the same.
    last_use: AtomicI64,
    told: OnceLock<Told>,
}

/// The eviction listener, called with the name of each evicted entry.
type Told = Box<dyn Fn(&str) + Send + Sync>;

impl Housekeeping {
    pub(crate) fn new(exact: bool) -> Self {
        Self {
            exact,
            stores: AtomicU64::new(0),
            evictions_due: AtomicU64::new(0),
            evicting: tokio::sync::Mutex::new(()),
            used: Mutex::new(Vec::new()),
            last_use: AtomicI64::new(Millis::MIN),
            told: OnceLock::new(),
        }
    }

    pub(crate) fn tell(&self, told: Told) {
        // Only the first listener counts.
        let _ = self.told.set(told);
    }

    /// Returns the current time, moved forward if needed so that no two uses have the same.
    fn moment_of_use(&self, now: Millis) -> Millis {
        let after = |last: Millis| now.max(last.saturating_add(1));
        let last = self
            .last_use
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                Some(after(last))
            });
        after(last.unwrap_or(now))
    }
}

impl Shared {
    /// Records a hit for the store's order of use; sent to the store in batches, in the background.
    pub(crate) fn note_use(self: &Arc<Self>, entry: &Entry, now: Millis) {
        /// Uses of an entry within this time count as one.
        const COARSE: Millis = 60_000;
        if self.housekeeping.exact {
            return self.note_exact_use(&Key::from_digest(entry.head.key));
        }
        if now.saturating_sub(entry.used.load(Ordering::Relaxed)) < COARSE {
            return;
        }
        entry.used.store(now, Ordering::Relaxed);
        let mut used = lock(&self.housekeeping.used);
        used.push((Key::from_digest(entry.head.key), now));
        if used.len() == MANY_USES {
            drop(used);
            let this = Arc::clone(self);
            tokio::spawn(async move { this.flush_uses().await });
        }
    }

    /// Sends a use to the store at once, or before the next eviction if the store does not answer inline.
    fn note_exact_use(&self, key: &Key) {
        let Ok(memory) = self.memory() else { return };
        let at = self.housekeeping.moment_of_use(self.now());
        let text = key.text();
        let used = [(&*text, at)];
        match memory.touch(space::CACHE, &used) {
            Answer::Now(Ok(())) => {}
            Answer::Now(Err(error)) => {
                self.fault(&error);
            }
            Answer::Later(_) => lock(&self.housekeeping.used).push((*key, at)),
        }
    }

    /// Sends the uses that the store does not have yet. Best effort.
    pub(crate) async fn flush_uses(&self) {
        let Ok(memory) = self.memory() else { return };
        let used = std::mem::take(&mut *lock(&self.housekeeping.used));
        if used.is_empty() {
            return;
        }
        let used: Vec<(String, Millis)> = used
            .iter()
            .map(|(key, at)| (key.to_string(), *at))
            .collect();
        let used: Vec<(&str, Millis)> = used.iter().map(|(key, at)| (key.as_str(), *at)).collect();
        let told = memory
            .touch(space::CACHE, &used)
            .within(DEFAULT_PATIENCE)
            .await;
        if let Err(error) = told {
            self.fault(&error);
        }
    }

    /// Evicts after a write: at once if exact, else in the background and not after every write.
    pub(crate) async fn after_store(self: &Arc<Self>, key: &Key) {
        if self.housekeeping.exact {
            self.note_exact_use(key);
            self.flush_uses().await;
            self.evict().await;
        } else {
            self.evict_soon();
        }
    }

    fn evict_soon(self: &Arc<Self>) {
        /// Number of writes that may exceed the bounds before the next eviction.
        const EVERY: u64 = 64;
        let stores = self.housekeeping.stores.fetch_add(1, Ordering::Relaxed);
        let small = self.bounds.entries < 10 * EVERY || self.bounds.bytes < 64 << 20;
        if !small && !stores.is_multiple_of(EVERY) {
            return;
        }
        let due = &self.housekeeping.evictions_due;
        if due.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let evictions_due = &this.housekeeping.evictions_due;
            loop {
                let due = evictions_due.load(Ordering::Acquire);
                this.flush_uses().await;
                this.evict().await;
                // Entries stored in the meantime may have been missed.
                if evictions_due
                    .compare_exchange(due, 0, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
                {
                    return;
                }
            }
        });
    }

    /// Evicts the least recently used entries until the cache is within its bounds; without `exact`, until it
    /// is a little below them.
    pub(crate) async fn evict(&self) {
        let Ok(memory) = self.memory() else { return };
        let _evicting = self.housekeeping.evicting.lock().await;
        loop {
            let usage = match memory.usage(space::CACHE).settle().await {
                Ok(usage) => usage,
                Err(error) => {
                    self.fault(&error);
                    return;
                }
            };
            let surplus = self.surplus(usage);
            if surplus == 0 || !self.evict_coldest(memory.as_ref(), surplus).await {
                return;
            }
        }
    }

    /// The number of entries to evict next, as an estimate from the average size; 0 if the bounds hold.
    fn surplus(&self, usage: Usage) -> u32 {
        let bounds = &self.bounds;
        if usage.records <= bounds.entries && usage.bytes <= bounds.bytes {
            return 0;
        }
        if self.housekeeping.exact {
            let surplus = usage.records.saturating_sub(bounds.entries).clamp(1, 1_000);
            return u32::try_from(surplus).unwrap_or(1);
        }
        let surplus_records = usage.records.saturating_sub(slack(bounds.entries));
        let average = (usage.bytes / usage.records.max(1)).max(1);
        let surplus_bytes = usage.bytes.saturating_sub(slack(bounds.bytes)) / average;
        let surplus = surplus_records.max(surplus_bytes).clamp(1, 1_000);
        u32::try_from(surplus).unwrap_or(1_000)
    }

    /// Evicts up to `surplus` of the least recently used entries; returns true if there were any.
    async fn evict_coldest(&self, memory: &dyn Memory, surplus: u32) -> bool {
        let filter = Filter {
            order: Order::Coldest,
            ..Filter::default()
        };
        let told = self.housekeeping.told.get();
        let page = Page {
            labels: told.is_some(),
            ..Page::keys(surplus)
        };
        let batch = match memory.erase(space::CACHE, &filter, page).settle().await {
            Ok(batch) => batch,
            Err(error) => {
                self.fault(&error);
                return false;
            }
        };
        if let Some(told) = told {
            let labels = batch.records.iter().flat_map(|record| &record.labels);
            labels
                .filter(|label| label.name == NAME_LABEL)
                .for_each(|label| told(&label.value));
        }
        !batch.records.is_empty()
    }
}

/// Eviction continues down to 95 % of a bound, so that not every write evicts.
fn slack(bound: u64) -> u64 {
    bound - bound / 20
}
