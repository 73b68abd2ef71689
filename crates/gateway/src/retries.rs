//! Answers that were not delivered completely: they go, once, to an identical request of the same credentials, which is
//! most likely a retry.
//!
//! Each sampled request has a slot of its own, which is part of its key: identical requests never share an answer. When
//! a client leaves before its answer is complete, its slot is free for the next identical request, which then joins the
//! run, or is answered by its entry.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cachalot_cache::Key;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Time for which the answer waits for a retry.
pub(crate) const RETRY_WITHIN: Duration = Duration::from_secs(600);
/// Time that a client has to read the rest of an answer that has arrived, before the answer is stored for a retry.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);
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
    length: Length,
    since: Instant,
}

/// Number of bytes with which an answer is complete; the maximum until it is known. Shared by all deliveries of a slot,
/// because a retry receives the answer of the same run.
type Length = Arc<AtomicU64>;

/// The slot of a request.
struct Slot {
    retries: Arc<Retries>,
    request: Key,
    number: u64,
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

    /// Returns the delivery of an answer to a request: in the slot of an equal request whose answer was not delivered,
    /// or in a new one.
    pub(crate) fn deliver(self: &Arc<Self>, request: Key, now: Instant) -> Arc<Delivery> {
        let mut free = self.free.lock();
        let is_current = |slot: &FreeSlot| now.saturating_duration_since(slot.since) < RETRY_WITHIN;
        let mut found = None;
        if let Some(slots) = free.get_mut(&request) {
            slots.retain(is_current);
            found = slots.pop();
            if slots.is_empty() {
                free.remove(&request);
            }
        }
        drop(free);
        let (number, length) = match found {
            Some(slot) => (slot.number, slot.length),
            None => {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                (number, Length::new(AtomicU64::new(u64::MAX)))
            }
        };
        Arc::new(Delivery {
            slot: Mutex::new(Some(Slot {
                retries: Arc::clone(self),
                request,
                number,
            })),
            attempt: format!("{}-{number}", self.process),
            length,
            handed: AtomicU64::new(0),
            has_left: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    fn release(&self, request: Key, slot: FreeSlot) {
        let mut free = self.free.lock();
        if free.len() >= MAX_REQUESTS {
            let now = slot.since;
            let is_current = |it: &FreeSlot| now.saturating_duration_since(it.since) < RETRY_WITHIN;
            free.retain(|_, slots| slots.iter().any(is_current));
        }
        if free.len() < MAX_REQUESTS {
            free.entry(request).or_default().push(slot);
        }
    }
}

/// The delivery of one answer to one client.
pub(crate) struct Delivery {
    /// `None` once the client has everything, or has left.
    slot: Mutex<Option<Slot>>,
    attempt: String,
    length: Length,
    handed: AtomicU64,
    has_left: AtomicBool,
    changed: Notify,
}

impl Delivery {
    /// The name of the slot, which is part of the key.
    pub(crate) fn attempt(&self) -> &str {
        &self.attempt
    }

    /// Forgets the length of an answer that failed: another run begins.
    pub(crate) fn begin_run(&self) {
        self.length.store(u64::MAX, Ordering::SeqCst);
    }

    /// Sets the number of bytes with which the answer is complete, if it is not known already.
    pub(crate) fn expect(&self, length: u64) {
        let _ = self
            .length
            .compare_exchange(u64::MAX, length, Ordering::SeqCst, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Counts bytes that were handed to the client's connection.
    fn hand(&self, bytes: u64) {
        self.handed.fetch_add(bytes, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    fn is_complete(&self) -> bool {
        self.handed.load(Ordering::SeqCst) >= self.length.load(Ordering::SeqCst)
    }

    /// Waits until the client has the answer, has left, or is too slow. Returns true if it has the answer.
    pub(crate) async fn is_delivered(&self) -> bool {
        let ended = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                // Registered before the state is read, so that no notification is missed in between.
                changed.as_mut().enable();
                if self.is_complete() || self.has_left.load(Ordering::SeqCst) {
                    return;
                }
                changed.await;
            }
        };
        let _ = tokio::time::timeout(DELIVERY_TIMEOUT, ended).await;
        self.is_complete()
    }
}

/// The client's end of a delivery. Dropping it means that the client has left.
pub(crate) struct Recipient(pub(crate) Arc<Delivery>);

impl Recipient {
    /// Sets the number of bytes with which the answer is complete.
    pub(crate) fn expect(&self, length: u64) {
        self.0.expect(length);
    }

    /// Counts bytes that are handed to the client's connection.
    pub(crate) fn hand(&self, bytes: usize) {
        self.0.hand(bytes as u64);
    }
}

impl Drop for Recipient {
    fn drop(&mut self) {
        let slot = self.0.slot.lock().take();
        if let Some(slot) = slot.filter(|_| !self.0.is_complete()) {
            let free = FreeSlot {
                number: slot.number,
                length: Arc::clone(&self.0.length),
                since: Instant::now(),
            };
            slot.retries.release(slot.request, free);
        }
        self.0.has_left.store(true, Ordering::SeqCst);
        self.0.changed.notify_waiters();
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

    #[tokio::test]
    async fn slot_of_an_undelivered_answer_is_used_again_once() {
        let retries = Retries::new("p".into());
        let deliver = |request: &str| retries.deliver(key(request), Instant::now());
        let first = deliver("x");
        let second = deliver("x");
        assert_ne!(first.attempt(), second.attempt());
        // Complete: with all bytes, also if the connection is closed before the end.
        let recipient = Recipient(Arc::clone(&first));
        first.expect(10);
        recipient.hand(4);
        recipient.hand(6);
        drop(recipient);
        assert!(first.is_delivered().await);
        // Cut off.
        let recipient = Recipient(Arc::clone(&second));
        second.expect(10);
        recipient.hand(9);
        drop(recipient);
        assert!(!second.is_delivered().await);
        assert_ne!(deliver("y").attempt(), second.attempt());
        let retry = deliver("x");
        assert_eq!(retry.attempt(), second.attempt());
        assert_ne!(deliver("x").attempt(), second.attempt());
        // The retry leaves before its answer begins.
        drop(Recipient(Arc::clone(&retry)));
        assert_eq!(deliver("x").attempt(), second.attempt());
    }

    #[test]
    fn free_slots_expire() {
        let retries = Retries::new("p".into());
        let now = Instant::now();
        let first = retries.deliver(key("x"), now);
        drop(Recipient(Arc::clone(&first)));
        let later = Instant::now() + RETRY_WITHIN;
        assert_ne!(retries.deliver(key("x"), later).attempt(), first.attempt());
        assert!(retries.free.lock().is_empty());
    }

    #[test]
    fn free_slots_are_bounded() {
        let retries = Retries::new("p".into());
        for number in 0..=MAX_REQUESTS {
            drop(Recipient(
                retries.deliver(key(&number.to_string()), Instant::now()),
            ));
        }
        assert_eq!(retries.free.lock().len(), MAX_REQUESTS);
    }
}
