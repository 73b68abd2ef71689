//! The state that all calls share, and the lookup of an entry.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use cachalot_core::{Clock, Millis, Seals};
use cachalot_memory::{Answer, Error, ErrorKind, Found, Lease, Memory, Record, counter, space};

use crate::entry::{Entry, Head};
use crate::epoch::{Epochs, Moment};
use crate::evict::Housekeeping;
use crate::flight::Flights;
use crate::front::{Front, Fronted};
use crate::ledger::Ledger;
use crate::policy::{DEFAULT_PATIENCE, Mode, Policy};
use crate::reserve::{GIVE_BACK, Grant, Wanted};
use crate::verified::WriteBacks;
use crate::witness::BEFORE_SERVING;
use crate::writing::Unraised;
use crate::{Call, Domain, Key, Reason};

/// Maximum size of a cache. The least recently used entries are evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Total bytes of all entries in the store.
    pub bytes: u64,
    /// Number of entries.
    pub entries: u64,
    /// Bytes of the entries kept in this process, with their decoded forms; 0 disables the in-process front.
    pub front_bytes: u64,
}

impl Default for Bounds {
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
pub struct Options {
    /// The store of the entries; `None` disables caching: every call runs.
    pub memory: Option<Arc<dyn Memory>>,
    /// The ledger that accounts for calls.
    pub ledger: Ledger,
    /// The clock for expiry.
    pub clock: Arc<dyn Clock>,
    /// Secrets: an answer that contains one is not stored.
    pub seals: Arc<Seals>,
    /// Maximum size of the cache.
    pub bounds: Bounds,
    /// Receives warnings of one sentence each, about faults of the store and long waits; the work continues.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
}

pub(crate) struct Shared {
    pub(crate) memory: Option<Arc<dyn Memory>>,
    pub(crate) ledger: Ledger,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) seals: Arc<Seals>,
    pub(crate) bounds: Bounds,
    pub(crate) flights: Flights,
    pub(crate) epochs: Epochs,
    pub(crate) unraised: Unraised,
    pub(crate) write_backs: WriteBacks,
    pub(crate) front: Front,
    pub(crate) housekeeping: Housekeeping,
    /// The store's time minus this machine's time, in milliseconds, as last observed.
    ahead: AtomicI64,
    /// Set when the last write to the store timed out: the next one gets no more time than a lookup.
    stalled: AtomicBool,
    warn: Arc<dyn Fn(&str) + Send + Sync>,
    /// The time of the last warning per kind of fault, so that a store that stays down is reported once.
    warned: crate::sync::Mutex<Vec<(ErrorKind, Millis)>>,
}

/// The result of a lookup in the front and the store.
pub(crate) enum Looked {
    Hit(Arc<Fronted>),
    Miss(Missed),
}

/// The result of a lookup that found no servable entry, with the state at that moment.
pub(crate) struct Missed {
    pub(crate) reason: Reason,
    pub(crate) moment: Moment,
    /// The epochs of the call's domains; `None` if they could not be read. Empty for a call without domains.
    pub(crate) epochs: Option<Vec<u64>>,
    /// The store's counter of erasures; `None` if it could not be read.
    pub(crate) erased: Option<u64>,
    /// The reservation that the lookup made.
    pub(crate) grant: Option<Grant>,
    /// The revision of the record that exists but cannot be served.
    pub(crate) revision: Option<u64>,
}

impl Missed {
    /// A miss because the store was not read: it was not asked, or did not answer.
    fn unread(reason: Reason, moment: Moment, policy: &Policy) -> Looked {
        Looked::Miss(Self {
            reason,
            moment,
            epochs: policy.domains.is_empty().then(Vec::new),
            erased: None,
            grant: None,
            revision: None,
        })
    }
}

/// The kind of request that a lookup sends to the store.
#[derive(Clone, Copy)]
pub(crate) enum Ask<'a> {
    /// Reads the record.
    Read,
    /// Reads the record, and reserves the key if the record cannot be served.
    Enter(Wanted<'a>),
}

/// The remaining time that a call may wait for the store, in total. A fault uses all of it up.
pub(crate) struct Patience(AtomicU64);

impl Patience {
    pub(crate) fn of(policy: &Policy) -> Self {
        Self::lasting(policy.patience)
    }

    pub(crate) fn lasting(time: Duration) -> Self {
        Self(AtomicU64::new(
            u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
        ))
    }

    pub(crate) fn left(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// Restores the full budget unless it is used up: waiting for another process is not waiting for the
    /// store.
    pub(crate) fn keep_up(&self, policy: &Policy) {
        if !self.left().is_zero() {
            self.0
                .store(Self::of(policy).0.into_inner(), Ordering::Relaxed);
        }
    }

    pub(crate) fn waited(&self, time: Duration) {
        let left = self.left().saturating_sub(time);
        self.0.store(
            u64::try_from(left.as_nanos()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }

    fn lose(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Clone for Patience {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

impl Shared {
    pub(crate) fn new(options: Options, exact: bool) -> Self {
        let Options {
            memory,
            ledger,
            clock,
            seals,
            bounds,
            warn,
        } = options;
        Self {
            front: Front::new(if memory.is_some() {
                bounds.front_bytes
            } else {
                0
            }),
            memory,
            ledger,
            clock,
            seals,
            bounds,
            flights: Flights::default(),
            epochs: Epochs::default(),
            unraised: Unraised::default(),
            write_backs: WriteBacks::default(),
            housekeeping: Housekeeping::new(exact),
            ahead: AtomicI64::new(0),
            stalled: AtomicBool::new(false),
            warn,
            warned: crate::sync::Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn memory(&self) -> Result<&Arc<dyn Memory>, Reason> {
        self.memory.as_ref().ok_or(Reason::NoMemory)
    }

    /// Reports one sentence to the user, with secrets redacted.
    pub(crate) fn say(&self, sentence: &str) {
        (self.warn)(&self.seals.redact(sentence));
    }

    /// Waits for the store within the time budget; reports a fault as a warning and returns it as a reason.
    pub(crate) async fn ask<T: Send>(
        &self,
        answer: Answer<'_, T>,
        patience: &Patience,
    ) -> Result<T, Reason> {
        let left = patience.left();
        if left.is_zero() {
            return Err(Reason::MemoryFault(
                "it failed or was too slow before".to_owned(),
            ));
        }
        let answer = match answer {
            Answer::Now(answer) => answer,
            later @ Answer::Later(_) => {
                let asked = tokio::time::Instant::now();
                let answer = later.within(left).await;
                patience.waited(asked.elapsed());
                answer
            }
        };
        answer.map_err(|error| {
            patience.lose();
            self.fault(&error)
        })
    }

    /// The current time by the store's clock, which expiries refer to.
    pub(crate) fn now(&self) -> Millis {
        self.clock
            .now()
            .saturating_add(self.ahead.load(Ordering::Relaxed))
    }

    /// Records the offset of the store's clock from an answer with the store's time `now`, requested at
    /// `asked` by this machine's clock. A difference that the answer's latency can explain does not count as
    /// an offset.
    pub(crate) fn note_time(&self, asked: Millis, now: Millis) {
        let answered = self.clock.now();
        let ahead = now.saturating_sub(now.clamp(asked.min(answered), asked.max(answered)));
        self.ahead.store(ahead, Ordering::Relaxed);
    }

    /// The time budget for storing an answer.
    pub(crate) fn time_to_store(&self, policy: &Policy) -> Patience {
        let stalled = self.stalled.load(Ordering::Relaxed);
        Patience::lasting(if stalled {
            policy.store_timeout.min(DEFAULT_PATIENCE)
        } else {
            policy.store_timeout
        })
    }

    /// Records whether storing an answer ran out of time.
    pub(crate) fn note_store(&self, ran_out: bool) {
        self.stalled.store(ran_out, Ordering::Relaxed);
    }

    pub(crate) fn fault(&self, error: &Error) -> Reason {
        if self.is_news(error.kind) {
            self.say(&format!(
                "the cache's memory failed, the work goes on without it: {error}"
            ));
        }
        Reason::MemoryFault(error.to_string())
    }

    /// True if that kind of fault was not reported in the last ten minutes.
    fn is_news(&self, kind: ErrorKind) -> bool {
        const A_WHILE: Millis = 600_000;
        let now = self.clock.now();
        let mut warned = crate::sync::lock(&self.warned);
        let news = warned
            .iter()
            .all(|(known, at)| *known != kind || now.saturating_sub(*at) >= A_WHILE);
        warned.retain(|(known, _)| *known != kind);
        warned.push((kind, now));
        news
    }

    /// Looks up the entry that answers a call, in the front and then in the store, and checks that it may be
    /// served now. Reserves nothing.
    pub(crate) async fn look(
        self: &Arc<Self>,
        key: &Key,
        call: &Call<'_>,
        policy: &Policy,
        patience: &Patience,
    ) -> Looked {
        let moment = self.epochs.moment(&policy.domains);
        match self.fronted(key, policy, &moment).await {
            Some(fronted) => Looked::Hit(fronted),
            None => {
                self.look_up(Ask::Read, key, call, policy, patience, moment)
                    .await
            }
        }
    }

    /// Returns the entry in the front that answers a call, if it may be served now.
    pub(crate) async fn fronted(
        &self,
        key: &Key,
        policy: &Policy,
        moment: &Moment,
    ) -> Option<Arc<Fronted>> {
        let memory = self.memory.as_ref()?;
        if moment.being_written.is_some() {
            return None;
        }
        let fronted = self.front.get(key)?;
        let serves = fronted.is_under(&policy.domains)
            && fronted.is_current(memory.as_ref(), space::CACHE, &key.text())
            && !expired(&fronted.entry.head, self.now())
            && fronted.entry.watched.check(BEFORE_SERVING).await.is_ok();
        serves.then_some(fronted)
    }

    /// Looks up the entry in the store that answers a call.
    pub(crate) async fn look_up(
        self: &Arc<Self>,
        ask: Ask<'_>,
        key: &Key,
        call: &Call<'_>,
        policy: &Policy,
        patience: &Patience,
        moment: Moment,
    ) -> Looked {
        if let Some(domain) = &moment.being_written {
            let reason = Reason::Written(domain.to_string());
            return Missed::unread(reason, moment, policy);
        }
        let memory = match self.memory() {
            Ok(memory) => memory,
            Err(reason) => return Missed::unread(reason, moment, policy),
        };
        let key_text = key.text();
        let domains: Vec<String> = policy.domains.iter().map(Domain::counter).collect();
        let mut counters: Vec<&str> = domains.iter().map(String::as_str).collect();
        // Stamps are read before the record, so that the record is at least as new as its stamp.
        let stamp = memory.stamp(space::CACHE, &key_text);
        let stamps: Option<Vec<(String, u64)>> = counters
            .iter()
            .map(|counter| Some(((*counter).to_owned(), memory.stamp(space::CACHE, counter)?)))
            .collect();
        counters.push(counter::ERASED);
        let read = match ask {
            Ask::Read => {
                let asked = self.clock.now();
                let found = memory.get(space::CACHE, &key_text, &counters);
                let found = self.ask(found, patience).await;
                found.map(|found| {
                    self.note_time(asked, found.now);
                    (found, None)
                })
            }
            Ask::Enter(wanted) => self.enter(memory, key, &counters, wanted, patience).await,
        };
        let (
            Found {
                record,
                counters: mut epochs,
                now,
            },
            grant,
        ) = match read {
            Ok(read) => read,
            Err(reason) => return Missed::unread(reason, moment, policy),
        };
        counters.pop();
        let erased = epochs.pop();
        let revision = record.as_ref().map(|record| record.revision);
        let servable = if policy.mode == Mode::Refresh {
            Err(Reason::Refresh)
        } else {
            self.servable(record, now, key, call, &counters, &epochs)
                .await
        };
        match servable {
            Ok(entry) => {
                let may_be_fronted = stamp.is_some() && stamps.is_some();
                let fronted = Arc::new(Fronted {
                    entry,
                    tally: self.ledger.tally(call.kind, call.name),
                    stamp: stamp.unwrap_or_default(),
                    domains: stamps.unwrap_or_default(),
                });
                if may_be_fronted {
                    self.front.insert(*key, Arc::clone(&fronted));
                }
                Looked::Hit(fronted)
            }
            Err(reason) => {
                self.front.remove(key);
                Looked::Miss(Missed {
                    reason,
                    moment,
                    epochs: Some(epochs),
                    erased,
                    grant,
                    revision,
                })
            }
        }
    }

    /// Decodes a record and applies every check that can make it unservable.
    async fn servable(
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
        epochs_hold(&entry.head.epochs, counters, epochs)?;
        let checked = entry.watched.check(BEFORE_SERVING).await;
        checked.map_err(Reason::Changed)?;
        Ok(entry)
    }

    /// Releases a reservation; one that cannot be released expires soon. If the release takes longer than
    /// `patience`, it continues in the background.
    pub(crate) async fn release(&self, lease: Lease, patience: Duration) {
        let Ok(memory) = self.memory().map(Arc::clone) else {
            return;
        };
        let mut releasing = Box::pin(async move { memory.release(lease).within(GIVE_BACK).await });
        let slow = Answer::later(&mut releasing).within(patience).await;
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
const CLOCKS_DIFFER: Millis = 300_000;

/// True if an entry has expired. An entry with an expiry and a creation time in the future was stored under
/// a wrong clock and would live too long, so it counts as expired, too.
pub(crate) fn expired(head: &Head, now: Millis) -> bool {
    head.expires
        .is_some_and(|expires| now >= expires || head.created > now.saturating_add(CLOCKS_DIFFER))
}

/// Checks that an entry was created under the current epochs of the call's domains. An entry with fewer or
/// other domains than the call was created under another policy and does not answer it.
fn epochs_hold(stored: &[(String, u64)], counters: &[&str], now: &[u64]) -> Result<(), Reason> {
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
