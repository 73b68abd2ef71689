//! Counters of hits without contention between threads: each thread has its own lane, or shares one with few
//! others.

use std::array;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cachalot_core::{Cost, Millis, Spend};
use cachalot_store::Label;

use super::{CallStatus, LedgerTotals};
use crate::entry::{Entry, EntryHead};
use crate::sync::{Mutex, lock};

const LANES: usize = 8;

/// Maximum number of recent hits that are kept individually until the next write.
pub(super) const MAX_RECENT_HITS: usize = 256;

thread_local! {
    static LANE: usize = {
        let mut hasher = DefaultHasher::new();
        std::thread::current().id().hash(&mut hasher);
        hasher.finish() as usize % LANES
    };
}

fn lane<T>(lanes: &[T; LANES]) -> &T {
    // The index of an ending thread is gone: any lane is correct.
    &lanes[LANE.try_with(|lane| *lane).unwrap_or_default()]
}

/// Hits of one name, summed.
#[derive(Default)]
pub(crate) struct Tally([Sums; LANES]);

/// The counters of a lane, aligned so that lanes share no cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Sums {
    hits: AtomicU64,
    coalesced: AtomicU64,
    saved_nanos: AtomicU64,
    /// Input tokens, output tokens, picodollars, unpriced calls; not touched by hits that charged nothing.
    charges: [AtomicU64; 4],
}

impl Tally {
    pub(super) fn add(&self, answered: CallStatus, saved: &Spend) {
        let sums = lane(&self.0);
        let counter = if answered == CallStatus::Coalesced {
            &sums.coalesced
        } else {
            &sums.hits
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(saved.time.as_nanos()).unwrap_or(u64::MAX);
        sums.saved_nanos.fetch_add(nanos, Ordering::Relaxed);
        let charges = [
            saved.input_tokens,
            saved.output_tokens,
            saved.cost.picodollars,
            saved.cost.unpriced,
        ];
        for (sum, charge) in sums.charges.iter().zip(charges) {
            if charge > 0 {
                sum.fetch_add(charge, Ordering::Relaxed);
            }
        }
    }

    /// Returns and resets the sums.
    pub(super) fn take(&self) -> LedgerTotals {
        let mut totals = LedgerTotals::default();
        for sums in &self.0 {
            let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
            let [input_tokens, output_tokens, picodollars, unpriced] = &sums.charges;
            totals += LedgerTotals {
                hits: take(&sums.hits),
                coalesced: take(&sums.coalesced),
                saved: Spend {
                    calls: 0,
                    time: Duration::from_nanos(take(&sums.saved_nanos)),
                    input_tokens: take(input_tokens),
                    output_tokens: take(output_tokens),
                    cost: Cost {
                        picodollars: take(picodollars),
                        unpriced: take(unpriced),
                    },
                },
                ..LedgerTotals::default()
            };
        }
        totals
    }
}

/// A hit that is kept as a row.
pub(super) struct RecentHit {
    pub(super) when: Instant,
    pub(super) at: Millis,
    pub(super) head: Arc<EntryHead>,
    pub(super) labels: Arc<[Label]>,
    pub(super) answered: CallStatus,
    pub(super) session: Option<Arc<str>>,
}

/// The most recent hits; a sample if they arrive faster than they are written.
pub(super) struct RecentHits([Mutex<Ring>; LANES]);

#[derive(Default)]
struct Ring {
    hits: VecDeque<RecentHit>,
    /// Number of hits since they were last taken.
    seen: usize,
}

impl Default for RecentHits {
    fn default() -> Self {
        Self(array::from_fn(|_| Mutex::default()))
    }
}

impl RecentHits {
    pub(super) fn record(
        &self,
        entry: &Entry,
        at: Millis,
        answered: CallStatus,
        session: Option<&Arc<str>>,
    ) {
        /// Once the ring has been filled, one in this many hits is kept.
        const SAMPLE_INTERVAL: usize = 16;
        let mut ring = lock(lane(&self.0));
        ring.seen += 1;
        if ring.seen > MAX_RECENT_HITS && !ring.seen.is_multiple_of(SAMPLE_INTERVAL) {
            return;
        }
        if ring.hits.len() == MAX_RECENT_HITS {
            ring.hits.pop_front();
        }
        let (head, labels) = (Arc::clone(&entry.head), Arc::clone(&entry.labels));
        ring.hits.push_back(RecentHit {
            when: Instant::now(),
            at,
            head,
            labels,
            answered,
            session: session.cloned(),
        });
    }

    /// Takes the most recent hits, in order.
    pub(super) fn take(&self) -> VecDeque<RecentHit> {
        let mut taken = Vec::new();
        for lane in &self.0 {
            taken.append(&mut std::mem::take(&mut *lock(lane)).hits.into());
        }
        // Threads record in lanes of their own, so only the times order the hits.
        taken.sort_by_key(|hit| hit.when);
        taken.drain(..taken.len().saturating_sub(MAX_RECENT_HITS));
        taken.into()
    }
}
