//! Changes of the cache by other processes, as a server reports them: they show whether a copy of an entry is current.

use std::hash::{DefaultHasher, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use cachalot_store::Error;
use tokio::time::timeout;

/// The number of places for names. The names of one place count as changed together.
const SLOTS: usize = 1 << 14;

/// The bits of a stamp that count the changes of its place; the others count those of all places.
const SLOT_BITS: u32 = 40;

/// Maximum time to subscribe.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The least and the most time to wait for an answer.
const PATIENCE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(5)];

/// The first pause after a failure, and the longest one.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(10)];

/// The shortest and the longest pause between two questions whether the server is there.
const INTERVALS: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];

/// A subscription to the changes of a server. It reports them to the [`Changes`] that it was created with.
pub trait Subscription: Send {
    /// Returns once the server has answered. All changes that were complete before the question have been reported then.
    ///
    /// # Errors
    /// If the server does not answer, or does not report changes on this connection.
    fn ping(&mut self) -> impl Future<Output = Result<(), Error>> + Send;
}

/// A server that reports changes.
pub trait Subscribe: Send + Sync + 'static {
    /// The connection.
    type Subscription: Subscription;

    /// Subscribes, on a connection of its own.
    ///
    /// # Errors
    /// If the server cannot be reached, or does not report changes.
    fn subscribe(
        &self,
        changes: &Arc<Changes>,
    ) -> impl Future<Output = Result<Self::Subscription, Error>> + Send;
}

/// The changes of the records and counters of the cache.
#[derive(Debug)]
pub struct Changes {
    /// For how long after a question an answer counts.
    staleness: Duration,
    slots: Vec<AtomicU64>,
    /// Counts when everything may have changed.
    all: AtomicU64,
    created: Instant,
    /// The end of the time in which stamps are valid, in nanoseconds since the creation.
    valid_until: AtomicU64,
}

impl Changes {
    pub(crate) fn new(staleness: Duration) -> Self {
        Self {
            staleness,
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            all: AtomicU64::new(0),
            created: Instant::now(),
            valid_until: AtomicU64::new(0),
        }
    }

    pub(crate) fn staleness(&self) -> Duration {
        self.staleness
    }

    /// Notes that the record under a key, or a counter, may have changed.
    pub(crate) fn note(&self, name: &str) {
        self.slots[Self::slot(name)].fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that everything may have changed.
    pub(crate) fn note_all(&self) {
        self.all.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that the server has answered a question that was sent at `sent`, behind the changes before it.
    fn confirm(&self, sent: Instant) {
        let end = sent.duration_since(self.created) + self.staleness;
        let end = u64::try_from(end.as_nanos()).unwrap_or(u64::MAX);
        self.valid_until.fetch_max(end, Ordering::AcqRel);
    }

    /// Returns the place of a name.
    pub(crate) fn slot(name: &str) -> usize {
        let mut hasher = DefaultHasher::new();
        hasher.write(name.as_bytes());
        hasher.finish() as usize % SLOTS
    }

    /// Returns a number that changes with the names of a place; `None` if the server has not answered for too long.
    pub(crate) fn stamp_at(&self, slot: usize) -> Option<u64> {
        let now = u64::try_from(self.created.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if now >= self.valid_until.load(Ordering::Acquire) {
            return None;
        }
        let all = self.all.load(Ordering::Acquire);
        let one = self.slots.get(slot)?.load(Ordering::Acquire);
        Some((all << SLOT_BITS) | (one & ((1 << SLOT_BITS) - 1)))
    }
}

/// Subscribes to the changes of a server, again after each failure, until the server is dropped.
pub(crate) async fn follow<S: Subscribe>(server: Weak<S>, changes: Arc<Changes>) {
    let mut pause = PAUSES[0];
    while let Some(subscribing) = server.upgrade() {
        let subscribed = timeout(SUBSCRIBE_TIMEOUT, subscribing.subscribe(&changes)).await;
        // Not held while the task listens, so that it ends with the server.
        drop(subscribing);
        // Changes before the subscription were not reported.
        changes.note_all();
        if let Ok(Ok(subscription)) = subscribed {
            pause = PAUSES[0];
            listen(subscription, &server, &changes).await;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES[1]);
    }
}

/// Asks the server whether it is there, until it does not answer or is dropped.
async fn listen<S>(mut subscription: impl Subscription, server: &Weak<S>, changes: &Changes) {
    let patience = (changes.staleness * 2).clamp(PATIENCE[0], PATIENCE[1]);
    let interval = (changes.staleness / 4).clamp(INTERVALS[0], INTERVALS[1]);
    while server.strong_count() > 0 {
        // Before the question: an answer covers no change that comes later.
        let sent = Instant::now();
        match timeout(patience, subscription.ping()).await {
            Ok(Ok(())) => changes.confirm(sent),
            Ok(Err(_)) | Err(_) => return,
        }
        tokio::time::sleep(interval).await;
    }
}
