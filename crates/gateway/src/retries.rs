//! Answers that were not delivered completely: they go, once, to an identical request of the same credentials, which is
//! most likely a retry.
//!
//! Each sampled request has a slot of its own, which is part of its key: identical requests never share an answer. When
//! a client leaves before its answer is complete, its slot is free for the next identical request, which then joins the
//! run, or is answered by its entry.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cachalot_cache::Key;
use parking_lot::Mutex;

/// Time for which the answer waits for a retry.
pub(crate) const RETRY_WITHIN: Duration = Duration::from_secs(600);
/// The maximum number of requests with free slots.
const MAX_REQUESTS: usize = 16_384;

/// The free slots of all requests.
pub(crate) struct Retries {
    /// Makes slots of this process differ from those of others.
    process: String,
    next: AtomicU64,
    free: Mutex<HashMap<Key, Vec<FreeSlot>>>,
}

struct FreeSlot {
    number: u64,
    since: Instant,
}

/// The slot of a request.
pub(crate) struct Slot {
    retries: Arc<Retries>,
    request: Key,
    number: u64,
    is_new: bool,
}

impl Retries {
    /// Creates an empty set. `process` is different in each process.
    pub(crate) fn new(process: String) -> Arc<Self> {
        Arc::new(Self {
            process,
            next: AtomicU64::new(0),
            free: Mutex::default(),
        })
    }

    /// Returns the slot of an equal request whose answer was not delivered, or a new one.
    pub(crate) fn slot(self: &Arc<Self>, request: Key, now: Instant) -> Slot {
        let mut free = self.free.lock();
        let mut found = None;
        if let Some(slots) = free.get_mut(&request) {
            slots.retain(|slot| slot.is_current(now));
            found = slots.pop();
            if slots.is_empty() {
                free.remove(&request);
            }
        }
        drop(free);
        let new = || self.next.fetch_add(1, Ordering::Relaxed);
        Slot {
            retries: Arc::clone(self),
            request,
            is_new: found.is_none(),
            number: found.map_or_else(new, |slot| slot.number),
        }
    }
}

impl FreeSlot {
    fn is_current(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < RETRY_WITHIN
    }
}

impl Slot {
    /// The name of the slot, which is part of the key.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.retries.process, self.number)
    }

    /// True if no request has had the slot.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Frees the slot for a retry.
    pub(crate) fn free(self) {
        let since = Instant::now();
        let mut free = self.retries.free.lock();
        if free.len() >= MAX_REQUESTS {
            free.retain(|_, slots| slots.iter().any(|slot| slot.is_current(since)));
        }
        // With too many current requests, the slot is dropped: a retry then gets a run of its own.
        if free.len() < MAX_REQUESTS {
            let number = self.number;
            free.entry(self.request)
                .or_default()
                .push(FreeSlot { number, since });
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cachalot_core::Digest;

    use super::*;

    fn key(text: &str) -> Key {
        Digest::sha256(text.as_bytes()).to_string().parse().unwrap()
    }

    #[test]
    fn free_slot_is_used_again_once() {
        let retries = Retries::new("p".into());
        let slot = |request: &str| retries.slot(key(request), Instant::now());
        let (first, second) = (slot("x"), slot("x"));
        assert_ne!(first.name(), second.name());
        assert!(first.is_new() && second.is_new());
        drop(first);
        let name = second.name();
        second.free();
        assert_ne!(slot("y").name(), name);
        let retry = slot("x");
        assert_eq!((retry.name(), retry.is_new()), (name.clone(), false));
        assert_ne!(slot("x").name(), name);
        retry.free();
        assert_eq!(slot("x").name(), name);
    }

    #[test]
    fn free_slots_expire() {
        let retries = Retries::new("p".into());
        let first = retries.slot(key("x"), Instant::now());
        let name = first.name();
        first.free();
        let later = Instant::now() + RETRY_WITHIN;
        assert_ne!(retries.slot(key("x"), later).name(), name);
        assert!(retries.free.lock().is_empty());
    }

    #[test]
    fn free_slots_are_bounded() {
        let retries = Retries::new("p".into());
        for number in 0..=MAX_REQUESTS {
            retries
                .slot(key(&number.to_string()), Instant::now())
                .free();
        }
        assert_eq!(retries.free.lock().len(), MAX_REQUESTS);
    }
}
