//! The state that all calls share, and the lookup of an entry.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use cachalot_core::{Clock, Millis, SecretSet};
use cachalot_store::{
    Error, ErrorKind, GetResult, Lease, Record, Store, StoreReply, counter, space,
};

use crate::entry::{Entry, EntryHead};
use crate::epoch::{Epochs, LocalEpochs};
use crate::evict::Eviction;
use crate::flight::Flights;
use crate::front::{Front, FrontEntry, Stamp};
use crate::ledger::Ledger;
use crate::policy::{CacheMode, DEFAULT_LOOKUP_TIMEOUT, Policy};
use crate::renew::Renewals;
use crate::reserve::{RELEASE_TIMEOUT, Reservation, ReservationRequest};
use crate::witness::SERVE_CHECK_TIMEOUT;
use crate::write_back::WriteBacks;
use crate::write_guard::PendingRaises;
use crate::{Call, Domain, Key, Reason};

/// Maximum size of a cache. The least recently used entries are evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheBounds {
    /// Total bytes of all entries in the store.
    pub bytes: u64,
    /// Number of entries.
    pub entries: u64,
    /// Bytes of the entries kept in this process, with their decoded forms; 0 disables the in-process front.
    pub front_bytes: u64,
}

impl Default for CacheBounds {
    /// 1 GiB, a million entries, 64 MiB in the process.
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            entries: 1_000_000,
            front_bytes: 64 << 20,
        }
    }
}

/// The parts of an engine.
pub struct CacheOptions {
    /// The store of the entries; `None` disables caching: every call runs.
    pub store: Option<Arc<dyn Store>>,
    /// The ledger that accounts for calls.
    pub ledger: Ledger,
    /// The clock for expiry.
    pub clock: Arc<dyn Clock>,
    /// Secrets: an answer that contains one is not stored.
    pub secret_set: Arc<SecretSet>,
    /// Maximum size of the cache.
    pub bounds: CacheBounds,
    /// Receives warnings of one sentence each, about faults of the store and long waits; the work continues.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
}

pub(crate) struct Engine {
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) ledger: Ledger,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) secret_set: Arc<SecretSet>,
    pub(crate) bounds: CacheBounds,
    pub(crate) flights: Flights,
    pub(crate) epochs: Epochs,
    pub(crate) pending_raises: PendingRaises,
    pub(crate) renewals: Renewals,
    pub(crate) write_backs: WriteBacks,
    pub(crate) front: Front,
    pub(crate) eviction: Eviction,
    /// The store's time minus this machine's time, in milliseconds, as last observed.
    clock_offset: AtomicI64,
    /// Set when the last write to the store timed out: the next one gets no more time than a lookup.
    store_timed_out: AtomicBool,
    warn: Arc<dyn Fn(&str) + Send + Sync>,
    /// The time of the last warning per kind of fault, so that a store that stays down is reported once.
    warned: crate::sync::Mutex<Vec<(ErrorKind, Millis)>>,
}

/// The result of a lookup in the front and the store.
pub(crate) enum Lookup {
    Hit(Arc<FrontEntry>),
    Miss(LookupMiss),
}

/// The result of a lookup that found no servable entry, with the state at that moment.
pub(crate) struct LookupMiss {
    pub(crate) reason: Reason,
    pub(crate) local_epochs: LocalEpochs,
    /// The epochs of the call's domains; `None` if they could not be read. Empty for a call without domains.
    pub(crate) epochs: Option<Vec<u64>>,
    /// The store's counter of erasures; `None` if it could not be read.
    pub(crate) erased: Option<u64>,
    /// The reservation that the lookup made.
    pub(crate) reservation: Option<Reservation>,
    /// The revision of the record that exists but cannot be served.
    pub(crate) revision: Option<u64>,
}

impl LookupMiss {
    /// A miss because the store was not read: it was not asked, or did not answer.
    fn unread(reason: Reason, local_epochs: LocalEpochs, policy: &Policy) -> Lookup {
        Lookup::Miss(Self {
            reason,
            local_epochs,
            epochs: policy.domains.is_empty().then(Vec::new),
            erased: None,
            reservation: None,
            revision: None,
        })
    }
}

/// The kind of request that a lookup sends to the store.
#[derive(Clone, Copy)]
pub(crate) enum LookupRequest<'a> {
    /// Reads the record.
    Read,
    /// Reads the record, and reserves the key if the record cannot be served.
    Enter(ReservationRequest<'a>),
}

/// The remaining time that a call may wait for the store, in total. A fault uses all of it up.
pub(crate) struct TimeBudget(AtomicU64);

impl TimeBudget {
    pub(crate) fn for_policy(policy: &Policy) -> Self {
        Self::new(policy.lookup_timeout)
    }

    pub(crate) fn new(time: Duration) -> Self {
        Self(AtomicU64::new(
            u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
        ))
    }

    pub(crate) fn remaining(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// Restores the full budget unless it is used up: waiting for another process is not waiting for the
    /// store.
    pub(crate) fn refill(&self, policy: &Policy) {
        if !self.remaining().is_zero() {
            self.0
                .store(Self::for_policy(policy).0.into_inner(), Ordering::Relaxed);
        }
    }

    pub(crate) fn consume(&self, time: Duration) {
        let remaining = self.remaining().saturating_sub(time);
        self.0.store(
            u64::try_from(remaining.as_nanos()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }

    fn exhaust(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Clone for TimeBudget {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

impl Engine {
    pub(crate) fn new(options: CacheOptions, exact: bool) -> Self {
        let CacheOptions {
            store,
            ledger,
            clock,
            secret_set,
            bounds,
            warn,
        } = options;
        Self {
            front: Front::new(if store.is_some() {
                bounds.front_bytes
            } else {
                0
            }),
            store,
            ledger,
            clock,
            secret_set,
            bounds,
            flights: Flights::default(),
            epochs: Epochs::default(),
            pending_raises: PendingRaises::default(),
            renewals: Renewals::default(),
            write_backs: WriteBacks::default(),
            eviction: Eviction::new(exact),
            clock_offset: AtomicI64::new(0),
            store_timed_out: AtomicBool::new(false),
            warn,
            warned: crate::sync::Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn store(&self) -> Result<&Arc<dyn Store>, Reason> {
        self.store.as_ref().ok_or(Reason::NoStore)
    }

    /// Reports one sentence to the user, with secrets redacted.
    pub(crate) fn report(&self, sentence: &str) {
        (self.warn)(&self.secret_set.redact(sentence));
    }

    /// Waits for the store within the time budget; reports a fault as a warning and returns it as a reason.
    pub(crate) async fn await_store<T: Send>(
        &self,
        answer: StoreReply<'_, T>,
        budget: &TimeBudget,
    ) -> Result<T, Reason> {
        let remaining = budget.remaining();
        if remaining.is_zero() {
            return Err(Reason::StoreFault(
                "it failed or was too slow before".to_owned(),
            ));
        }
        let answer = match answer {
            StoreReply::Now(answer) => answer,
            later @ StoreReply::Later(_) => {
                let asked = tokio::time::Instant::now();
                let answer = later.within(remaining).await;
                budget.consume(asked.elapsed());
                answer
            }
        };
        answer.map_err(|error| {
            budget.exhaust();
            self.fault(&error)
        })
    }

    /// The current time by the store's clock, which expiries refer to.
    pub(crate) fn now(&self) -> Millis {
        self.store_time(self.clock.now())
    }

    /// Converts a time by this machine's clock to the store's clock.
    pub(crate) fn store_time(&self, at: Millis) -> Millis {
        at.saturating_add(self.clock_offset.load(Ordering::Relaxed))
    }

    /// Records the offset of the store's clock from an answer with the store's time `now`, requested at
    /// `asked` by this machine's clock. A difference that the answer's latency can explain does not count as
    /// an offset.
    pub(crate) fn record_clock_offset(&self, asked: Millis, now: Millis) {
        let answered = self.clock.now();
        let clock_offset = now.saturating_sub(now.clamp(asked.min(answered), asked.max(answered)));
        self.clock_offset.store(clock_offset, Ordering::Relaxed);
    }

    /// The time budget for storing an answer.
    pub(crate) fn store_budget(&self, policy: &Policy) -> TimeBudget {
        let store_timed_out = self.store_timed_out.load(Ordering::Relaxed);
        TimeBudget::new(if store_timed_out {
            policy.store_timeout.min(DEFAULT_LOOKUP_TIMEOUT)
        } else {
            policy.store_timeout
        })
    }

    /// Records whether storing an answer ran out of time.
    pub(crate) fn record_store_timeout(&self, ran_out: bool) {
        self.store_timed_out.store(ran_out, Ordering::Relaxed);
    }

    pub(crate) fn fault(&self, error: &Error) -> Reason {
        if self.is_new_fault(error.kind) {
            self.report(&format!(
                "the cache's store failed; continuing without a cache: {error}"
            ));
        }
        Reason::StoreFault(error.to_string())
    }

    /// True if that kind of fault was not reported in the last ten minutes.
    fn is_new_fault(&self, kind: ErrorKind) -> bool {
        const REPEAT_AFTER: Millis = 600_000;
        let now = self.clock.now();
        let mut warned = crate::sync::lock(&self.warned);
        let is_new = warned
            .iter()
            .all(|(known, at)| *known != kind || now.saturating_sub(*at) >= REPEAT_AFTER);
        warned.retain(|(known, _)| *known != kind);
        warned.push((kind, now));
        is_new
    }

    /// Looks up the entry that answers a call, in the front and then in the store, and checks that it may be
    /// served now. Reserves nothing.
    pub(crate) async fn find_entry(
        self: &Arc<Self>,
        key: &Key,
        call: &Call<'_>,
        policy: &Policy,
        budget: &TimeBudget,
    ) -> Lookup {
        let local_epochs = self.epochs.local_epochs(&policy.domains);
        let now = self.clock.now();
        match self
            .front_entry(key, &policy.domains, &local_epochs, now)
            .await
        {
            Some(front_entry) => Lookup::Hit(front_entry),
            None => {
                self.find_in_store(LookupRequest::Read, key, call, policy, budget, local_epochs)
                    .await
            }
        }
    }

    /// Returns the entry in the front that answers a call with these domains, if it may be served now, at
    /// `now` by this machine's clock.
    pub(crate) async fn front_entry(
        &self,
        key: &Key,
        domains: &[Domain],
        local_epochs: &LocalEpochs,
        now: Millis,
    ) -> Option<Arc<FrontEntry>> {
        let store = self.store.as_ref()?;
        if local_epochs.being_written.is_some() {
            return None;
        }
        let front_entry = self.front.get(key)?;
        let serves = front_entry.has_domains(domains)
            && front_entry.is_current(store.as_ref(), key)
            && !expired(&front_entry.entry.head, self.store_time(now))
            && front_entry
                .entry
                .observations
                .check(SERVE_CHECK_TIMEOUT)
                .await
                .is_ok();
        serves.then_some(front_entry)
    }

    /// Looks up the entry in the store that answers a call.
    pub(crate) async fn find_in_store(
        self: &Arc<Self>,
        await_store: LookupRequest<'_>,
        key: &Key,
        call: &Call<'_>,
        policy: &Policy,
        budget: &TimeBudget,
        local_epochs: LocalEpochs,
    ) -> Lookup {
        if let Some(domain) = &local_epochs.being_written {
            let reason = Reason::Written(domain.to_string());
            return LookupMiss::unread(reason, local_epochs, policy);
        }
        let store = match self.store() {
            Ok(store) => store,
            Err(reason) => return LookupMiss::unread(reason, local_epochs, policy),
        };
        let key_text = key.text();
        let domains: Vec<String> = policy.domains.iter().map(Domain::counter).collect();
        let mut counters: Vec<&str> = domains.iter().map(String::as_str).collect();
        // Stamps are read before the record, so that the record is at least as new as its stamp.
        let stamp = Stamp::read(store.as_ref(), &key_text);
        let stamps: Option<Vec<(String, Stamp)>> = counters
            .iter()
            .map(|&counter| Some((counter.to_owned(), Stamp::read(store.as_ref(), counter)?)))
            .collect();
        counters.push(counter::ERASED);
        let read = match await_store {
            LookupRequest::Read => {
                let asked = self.clock.now();
                let found = store.get(space::CACHE, &key_text, &counters);
                let found = self.await_store(found, budget).await;
                found.map(|found| {
                    self.record_clock_offset(asked, found.now);
                    (found, None)
                })
            }
            LookupRequest::Enter(request) => {
                self.get_or_reserve(store, key, &counters, request, budget)
                    .await
            }
        };
        let (
            GetResult {
                record,
                counters: mut epochs,
                now,
            },
            reservation,
        ) = match read {
            Ok(read) => read,
            Err(reason) => return LookupMiss::unread(reason, local_epochs, policy),
        };
        counters.pop();
        let erased = epochs.pop();
        let revision = record.as_ref().map(|record| record.revision);
        let servable = if policy.mode == CacheMode::Refresh {
            Err(Reason::Refresh)
        } else {
            self.check_servable(record, now, key, call, &counters, &epochs)
                .await
        };
        match servable {
            Ok(entry) => {
                let may_be_fronted = stamp.is_some() && stamps.is_some();
                let front_entry = Arc::new(FrontEntry {
                    entry,
                    tally: self.ledger.tally(call.kind, call.name),
                    stamp: stamp.unwrap_or_default(),
                    domains: stamps.unwrap_or_default(),
                });
                if may_be_fronted {
                    self.front.insert(*key, Arc::clone(&front_entry));
                }
                Lookup::Hit(front_entry)
            }
            Err(reason) => {
                self.front.remove(key);
                Lookup::Miss(LookupMiss {
                    reason,
                    local_epochs,
                    epochs: Some(epochs),
                    erased,
                    reservation,
                    revision,
                })
            }
        }
    }

    /// Decodes a record and applies every check that can make it unservable.
    async fn check_servable(
        &self,
        record: Option<Record>,
        now: Millis,
        key: &Key,
        call: &Call<'_>,
        counters: &[&str],
        epochs: &[u64],
    ) -> Result<Entry, Reason> {
        let entry = Entry::decode_for(record.ok_or(Reason::Absent)?, key, call)?;
        if expired(&entry.head, now) {
            return Err(Reason::Expired);
        }
        check_epochs(&entry.head.epochs, counters, epochs)?;
        let checked = entry.observations.check(SERVE_CHECK_TIMEOUT).await;
        checked.map_err(Reason::Changed)?;
        Ok(entry)
    }

    /// Releases a reservation; one that cannot be released expires soon. If the release takes longer than
    /// `budget`, it continues in the background.
    pub(crate) async fn release(&self, lease: Lease, budget: Duration) {
        let Ok(store) = self.store().map(Arc::clone) else {
            return;
        };
        let mut releasing =
            Box::pin(async move { store.release(lease).within(RELEASE_TIMEOUT).await });
        let slow = StoreReply::later(&mut releasing).within(budget).await;
        let Err(error) = slow else { return };
        self.fault(&error);
        if error.kind == ErrorKind::TimedOut
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(releasing);
        }
    }
}

/// The tolerated difference between the clocks of two machines: 5 minutes.
const MAX_CLOCK_SKEW: Millis = 300_000;

/// True if an entry has expired. An entry with an expiry and a creation time in the future was stored under
/// a wrong clock and would live too long, so it counts as expired, too.
pub(crate) fn expired(head: &EntryHead, now: Millis) -> bool {
    head.expires
        .is_some_and(|expires| now >= expires || head.created > now.saturating_add(MAX_CLOCK_SKEW))
}

/// Checks that an entry was created under the current epochs of the call's domains. An entry with fewer or
/// other domains than the call was created under another policy and does not answer it.
fn check_epochs(stored: &[(String, u64)], counters: &[&str], now: &[u64]) -> Result<(), Reason> {
    for (counter, now) in counters.iter().zip(now) {
        if !stored
            .iter()
            .any(|(name, epoch)| name == counter && epoch == now)
        {
            let domain = counter.strip_prefix("epoch:").unwrap_or(counter);
            return Err(Reason::Written(domain.to_owned()));
        }
    }
    match stored
        .iter()
        .find(|(name, _)| !counters.contains(&name.as_str()))
    {
        Some((name, _)) => Err(Reason::Written(name.replacen("epoch:", "", 1))),
        None => Ok(()),
    }
}
