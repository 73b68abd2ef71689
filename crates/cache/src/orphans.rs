//! Runs that continue without readers ([`crate::OrphanPolicy::Finish`]), bounded in number and in the bytes that they
//! keep.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bounds::CacheBounds;
use crate::flight::Flight;
use crate::sync::{Mutex, lock};

/// The runs of an engine that continue without readers.
pub(crate) struct Orphans {
    max_runs: u64,
    max_bytes: u64,
    /// The run that has been without readers longest is the first.
    runs: Mutex<Vec<Arc<Flight>>>,
    /// Number of runs, which every chunk without readers reads.
    count: AtomicUsize,
}

/// Counts a run until it is dropped.
pub(crate) struct OrphanGuard<'a> {
    orphans: &'a Orphans,
    flight: &'a Arc<Flight>,
}

impl Drop for OrphanGuard<'_> {
    fn drop(&mut self) {
        let mut runs = lock(&self.orphans.runs);
        runs.retain(|other| !Arc::ptr_eq(other, self.flight));
        self.orphans.count.store(runs.len(), Ordering::Relaxed);
    }
}

impl Orphans {
    pub(crate) fn new(bounds: &CacheBounds) -> Self {
        Self {
            max_runs: bounds.orphan_runs,
            max_bytes: bounds.orphan_bytes,
            runs: Mutex::default(),
            count: AtomicUsize::new(0),
        }
    }

    /// Counts a run that has no readers. Runs beyond the bounds are given up.
    pub(crate) fn enter<'a>(&'a self, flight: &'a Arc<Flight>) -> OrphanGuard<'a> {
        // Before the run is listed: from then on, `enforce` may give it up.
        flight.begin_orphan();
        let mut runs = lock(&self.runs);
        runs.push(Arc::clone(flight));
        self.count.store(runs.len(), Ordering::Relaxed);
        drop(runs);
        self.enforce();
        OrphanGuard {
            orphans: self,
            flight,
        }
    }

    /// Gives up the runs that have been without readers longest until the others are within the bounds.
    pub(crate) fn enforce(&self) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut runs = lock(&self.runs);
        // Others have a reader again, or are being stored; their tasks have not noticed yet, or never do.
        let unread = runs.iter().filter(|flight| flight.is_unread());
        let unread: Vec<_> = unread.map(|flight| (flight, flight.body.kept())).collect();
        let mut count = unread.len() as u64;
        let mut bytes: u64 = unread.iter().map(|(_, bytes)| bytes).sum();
        let mut given_up = Vec::new();
        for (flight, kept) in unread {
            if count <= self.max_runs && bytes <= self.max_bytes {
                break;
            }
            flight.give_up();
            given_up.push(Arc::as_ptr(flight));
            count -= 1;
            bytes -= kept;
        }
        // Removed here and not only by their guards: until their tasks notice, the next call would count them and give
        // up too many.
        runs.retain(|flight| !given_up.contains(&Arc::as_ptr(flight)));
        self.count.store(runs.len(), Ordering::Relaxed);
    }
}
