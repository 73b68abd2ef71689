//! Eviction: keeps the cache within its bounds and groups of entries within their quotas, and records uses to
//! find the least recently used entries.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use cachalot_core::Millis;
use cachalot_store::{
    Error, LabelMatch, Order, PageRequest, Pages, RecordFilter, RecordPage, SpaceUsage, Store,
    StoreReply, space,
};

use crate::Key;
use crate::access::StoreAccess;
use crate::bounds::CacheBounds;
use crate::entry::{Entry, NAME_LABEL, QUOTA_LABEL};
use crate::policy::{DEFAULT_LOOKUP_TIMEOUT, Quota};
use crate::sync::{Mutex, lock};

/// Number of uses that are sent to the store in one batch.
const USES_PER_BATCH: usize = 256;

/// Maximum number of records per request to the store.
const RECORDS_PER_REQUEST: u32 = 500;

/// The state of eviction.
pub(crate) struct Eviction {
    access: Arc<StoreAccess>,
    bounds: CacheBounds,
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
    listener: OnceLock<EvictionListener>,
}

/// The eviction listener, called with the name of each evicted entry.
type EvictionListener = Box<dyn Fn(&str) + Send + Sync>;

impl Eviction {
    pub(crate) fn new(access: &Arc<StoreAccess>, bounds: CacheBounds, exact: bool) -> Self {
        Self {
            access: Arc::clone(access),
            bounds,
            exact,
            stores: AtomicU64::new(0),
            evictions_due: AtomicU64::new(0),
            evicting: tokio::sync::Mutex::new(()),
            used: Mutex::new(Vec::new()),
            last_use: AtomicI64::new(Millis::MIN),
            listener: OnceLock::new(),
        }
    }

    pub(crate) fn set_listener(&self, listener: EvictionListener) {
        // Only the first listener counts.
        let _ = self.listener.set(listener);
    }

    /// Returns the current time, moved forward if needed so that no two uses have the same.
    fn next_use_time(&self, now: Millis) -> Millis {
        let after = |last: Millis| now.max(last.saturating_add(1));
        let last = self
            .last_use
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                Some(after(last))
            });
        after(last.unwrap_or(now))
    }

    /// Records a hit for the store's order of use; sent to the store in batches, in the background.
    pub(crate) fn record_use(self: &Arc<Self>, entry: &Entry, now: Millis) {
        /// Uses of an entry within this time count as one.
        const USE_PRECISION: Millis = 60_000;
        if self.exact {
            return self.record_exact_use(&Key::from_digest(entry.head.key));
        }
        // Two threads may both pass. A use that is sent twice has no effect.
        if now.saturating_sub(entry.used.load(Ordering::Relaxed)) < USE_PRECISION {
            return;
        }
        entry.used.store(now, Ordering::Relaxed);
        let mut used = lock(&self.used);
        used.push((Key::from_digest(entry.head.key), now));
        // Exactly one caller reaches this number, because the task takes all uses: one task per batch.
        if used.len() == USES_PER_BATCH {
            drop(used);
            let this = Arc::clone(self);
            tokio::spawn(async move { this.flush_uses().await });
        }
    }

    /// Sends a use to the store at once, or before the next eviction if the store does not answer inline.
    fn record_exact_use(&self, key: &Key) {
        let Ok(store) = self.access.store() else {
            return;
        };
        let at = self.next_use_time(self.access.now());
        let text = key.text();
        let used = [(&*text, at)];
        match store.touch(space::CACHE, &used) {
            StoreReply::Now(Ok(())) => {}
            StoreReply::Now(Err(error)) => {
                self.access.fault(&error);
            }
            StoreReply::Later(_) => lock(&self.used).push((*key, at)),
        }
    }

    /// Sends the uses that the store does not have yet. Best effort.
    pub(crate) async fn flush_uses(&self) {
        let Ok(store) = self.access.store() else {
            return;
        };
        // Taken before the request. Uses are best effort, so those of a failed request are not kept.
        let used = std::mem::take(&mut *lock(&self.used));
        if used.is_empty() {
            return;
        }
        let used: Vec<(String, Millis)> = used
            .iter()
            .map(|(key, at)| (key.to_string(), *at))
            .collect();
        let used: Vec<(&str, Millis)> = used.iter().map(|(key, at)| (key.as_str(), *at)).collect();
        let touched = store
            .touch(space::CACHE, &used)
            .within(DEFAULT_LOOKUP_TIMEOUT)
            .await;
        if let Err(error) = touched {
            self.access.fault(&error);
        }
    }

    /// Evicts after a write: at once if exact, else in the background and not after every write.
    pub(crate) async fn after_store(self: &Arc<Self>, key: &Key) {
        if self.exact {
            self.record_exact_use(key);
            self.flush_uses().await;
            self.evict().await;
        } else {
            self.evict_soon();
        }
    }

    fn evict_soon(self: &Arc<Self>) {
        /// Number of writes that may exceed the bounds before the next eviction.
        const WRITES_PER_EVICTION: u64 = 64;
        let stores = self.stores.fetch_add(1, Ordering::Relaxed);
        // 64 more entries would exceed a small bound by a large part, so every write evicts then.
        let small = self.bounds.entries < 10 * WRITES_PER_EVICTION || self.bounds.bytes < 64 << 20;
        if !small && !stores.is_multiple_of(WRITES_PER_EVICTION) {
            return;
        }
        let due = &self.evictions_due;
        // A task runs already: it sees the higher number and evicts once more.
        if due.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let evictions_due = &this.evictions_due;
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
        let Ok(store) = self.access.store() else {
            return;
        };
        let _evicting = self.evicting.lock().await;
        loop {
            let usage = match store.usage(space::CACHE).settle().await {
                Ok(usage) => usage,
                Err(error) => {
                    self.access.fault(&error);
                    return;
                }
            };
            let excess = self.excess(usage);
            if excess == 0 || !self.evict_coldest(store.as_ref(), excess).await {
                return;
            }
        }
    }

    /// The number of entries to evict next, as an estimate from the average size; 0 if the bounds hold.
    fn excess(&self, usage: SpaceUsage) -> u32 {
        let bounds = &self.bounds;
        if usage.records <= bounds.entries && usage.bytes <= bounds.bytes {
            return 0;
        }
        if self.exact {
            let excess = usage.records.saturating_sub(bounds.entries).clamp(1, 1_000);
            return u32::try_from(excess).unwrap_or(1);
        }
        let surplus_records = usage.records.saturating_sub(low_watermark(bounds.entries));
        let average = (usage.bytes / usage.records.max(1)).max(1);
        let surplus_bytes = usage.bytes.saturating_sub(low_watermark(bounds.bytes)) / average;
        let excess = surplus_records.max(surplus_bytes).clamp(1, 1_000);
        u32::try_from(excess).unwrap_or(1_000)
    }

    /// Evicts up to `excess` of the least recently used entries; returns true if there were any.
    async fn evict_coldest(&self, store: &dyn Store, excess: u32) -> bool {
        let listener = self.listener.get();
        let page = PageRequest {
            labels: listener.is_some(),
            ..PageRequest::keys(excess)
        };
        let batch = match erase_coldest(store, &[], page).await {
            Ok(batch) => batch,
            Err(error) => {
                self.access.fault(&error);
                return false;
            }
        };
        if let Some(listener) = listener {
            let labels = batch.records.iter().flat_map(|record| &record.labels);
            labels
                .filter(|label| label.name == NAME_LABEL)
                .for_each(|label| listener(&label.value));
        }
        !batch.records.is_empty()
    }

    /// Evicts the least recently used entries of a group until it is within its quota. After a fault of the
    /// store, the group stays too large until the next write.
    pub(crate) async fn enforce_quota(&self, quota: &Quota) {
        let Ok(store) = self.access.store() else {
            return;
        };
        self.flush_uses().await;
        if let Err(error) = enforce_quota(store.as_ref(), quota).await {
            self.access.fault(&error);
        }
    }
}

async fn enforce_quota(store: &dyn Store, quota: &Quota) -> Result<(), Error> {
    let labels = [LabelMatch::Is {
        name: QUOTA_LABEL,
        value: &quota.name,
    }];
    // Measured once, because that reads all pages of the group. Erased entries are subtracted.
    let mut usage = group_usage(store, &labels).await?;
    while usage.records > quota.entries || usage.bytes > quota.bytes {
        let surplus = usage.records.saturating_sub(quota.entries);
        let limit = u32::try_from(surplus.clamp(1, u64::from(RECORDS_PER_REQUEST)))
            .unwrap_or(RECORDS_PER_REQUEST);
        let gone = erase_coldest(store, &labels, PageRequest::keys(limit)).await?;
        if gone.sizes.is_empty() {
            break;
        }
        usage.records = usage.records.saturating_sub(gone.sizes.len() as u64);
        usage.bytes = usage.bytes.saturating_sub(gone.sizes.iter().sum());
    }
    Ok(())
}

/// Erases the least recently used entries that have these labels.
async fn erase_coldest(
    store: &dyn Store,
    labels: &[LabelMatch<'_>],
    page: PageRequest<'_>,
) -> Result<RecordPage, Error> {
    let filter = RecordFilter {
        labels,
        order: Order::LeastRecentlyUsed,
        ..RecordFilter::default()
    };
    store.erase(space::CACHE, &filter, page).settle().await
}

/// The size of a group. The sizes are read without the values.
async fn group_usage(store: &dyn Store, labels: &[LabelMatch<'_>]) -> Result<SpaceUsage, Error> {
    let filter = RecordFilter {
        labels,
        ..RecordFilter::default()
    };
    let mut usage = SpaceUsage::default();
    let page = PageRequest::keys(RECORDS_PER_REQUEST);
    let mut pages = Pages::new(store, space::CACHE, filter, page);
    while let Some(page) = pages.next().await? {
        usage.records += page.sizes.len() as u64;
        usage.bytes += page.sizes.iter().sum::<u64>();
    }
    Ok(usage)
}

/// Eviction continues down to 95 % of a bound, so that not every write evicts.
fn low_watermark(bound: u64) -> u64 {
    bound - bound / 20
}
