//! The lookup phase: finds the entry that answers a call, in the front and then in the store, and checks that
//! it may be served now.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::Millis;
use cachalot_store::{GetResult, Record, Store, counter, space};

use crate::engine::Engine;
use crate::entry::Entry;
use crate::epoch::LocalEpochs;
use crate::flight::{EndedFlights, LookupGuard};
use crate::front::{FrontEntry, Stamp};
use crate::lease::{EnterAnswer, Reservation, ReservationRequest, get_or_reserve};
use crate::local::ErasureState;
use crate::outcome::Outcome;
use crate::policy::{CacheMode, Domain, HitPolicy, Policy};
use crate::summary::CacheStatus;
use crate::witness::SERVE_CHECK_TIMEOUT;
use crate::{Key, KeyedCall, Reason};

use super::request::Request;

/// The result of a lookup in the front and the store.
pub(crate) enum Lookup {
    Hit(Arc<FrontEntry>),
    Miss(Box<LookupMiss>),
}

/// The result of a lookup that found no servable entry, with the state at that moment.
pub(crate) struct LookupMiss {
    pub(crate) reason: Reason,
    pub(crate) local_epochs: LocalEpochs,
    /// The epochs of the call's domains; `None` if they could not be read. Empty for a call without domains.
    pub(crate) epochs: Option<Vec<u64>>,
    /// The store's counter of erasures; `None` if it could not be read.
    pub(crate) erased: Option<u64>,
    /// The erasures that this machine knew of; `None` without local copies.
    pub(crate) erasures: Option<Box<ErasureState>>,
    /// The reservation that the lookup made.
    pub(crate) reservation: Option<Reservation>,
    /// The revision of the record that exists but cannot be served.
    pub(crate) revision: Option<u64>,
    /// The entry, if only its expiry keeps it from being served, and it is within one of the policy's windows.
    pub(crate) stale: Option<StaleEntry>,
}

/// The result of the lookup phase.
pub(super) enum LookedUp<'a> {
    Found(Arc<FrontEntry>, CacheStatus),
    /// Only an expired entry answers.
    Stale(Missed<'a>, Arc<FrontEntry>),
    Nothing(Missed<'a>),
}

/// A call that no current entry answers.
pub(super) struct Missed<'a> {
    /// The reason that the outcome of the call gives.
    pub(super) reason: Reason,
    pub(super) miss: Box<LookupMiss>,
    /// The right to have looked the call up and reserved it in one step; held until a flight is registered.
    pub(super) lookup_guard: Option<LookupGuard<'a>>,
    /// Read before the lookup.
    pub(super) ended_flights: EndedFlights,
}

/// An entry that has expired and is valid otherwise.
pub(crate) struct StaleEntry {
    pub(crate) front_entry: Arc<FrontEntry>,
    /// The store's time of the lookup.
    now: Millis,
}

impl StaleEntry {
    /// True if it expired less than `window` before the lookup.
    pub(crate) fn is_within(&self, window: Duration) -> bool {
        self.front_entry
            .entry
            .head
            .is_stale_within(window, self.now)
    }
}

impl LookupMiss {
    /// Takes the entry that expired less than `window` before the lookup.
    pub(crate) fn take_stale_within(&mut self, window: Duration) -> Option<Arc<FrontEntry>> {
        let stale = self.stale.take()?;
        stale.is_within(window).then_some(stale.front_entry)
    }

    /// True if the epochs under which the call would run are unknown.
    pub(crate) fn has_unknown_epochs(&self) -> bool {
        self.local_epochs.being_written.is_some() || self.epochs.is_none()
    }

    /// A miss because the store was not read: it was not asked, or did not answer.
    pub(crate) fn unread(reason: Reason, local_epochs: LocalEpochs, hit: &HitPolicy) -> Box<Self> {
        Box::new(Self {
            reason,
            local_epochs,
            epochs: hit.domains.is_empty().then(Vec::new),
            erased: None,
            erasures: None,
            reservation: None,
            revision: None,
            stale: None,
        })
    }
}

impl Missed<'_> {
    /// A miss without a lookup, for a call without domains.
    pub(super) fn unread(request: &Request<'_>) -> Self {
        let (engine, reason) = (request.engine, Reason::Absent);
        let local_epochs = engine.writes.local_epochs(&[]);
        Self {
            reason: reason.clone(),
            miss: LookupMiss::unread(reason, local_epochs, request.hit),
            lookup_guard: None,
            ended_flights: engine.flights.ended_flights(&request.key),
        }
    }
}

/// Looks the call up in the store, then in the local copies. Reserves the key if the record does not answer, unless
/// another caller of this process is about to.
pub(super) async fn look_up<'a>(request: &Request<'a>) -> LookedUp<'a> {
    // Read before the lookup: a flight that ends during it counts as ended since, so that its answer is looked for
    // again.
    let ended_flights = request.engine.flights.ended_flights(&request.key);
    // Acquired before the lookup, because the same round trip makes the reservation.
    let lookup_guard = lookup_guard(request);
    let reservation = lookup_guard.as_ref().map(|_| request.reservation(None));
    let mut miss = match find_in_store(request, reservation).await {
        Lookup::Hit(found) => return LookedUp::Found(found, CacheStatus::Hit),
        Lookup::Miss(miss) => miss,
    };
    let stale = miss.take_stale_within(request.run.stale_while_revalidate);
    let mut missed = Missed {
        reason: match request.hit.mode {
            CacheMode::Refresh => Reason::Refresh,
            _ => miss.reason.clone(),
        },
        miss,
        lookup_guard,
        ended_flights,
    };
    if let Some(stale) = stale {
        return LookedUp::Stale(missed, stale);
    }
    if request.hit.serves_entries() {
        match find_local_copy(request, &missed.reason).await {
            Ok(found) => return LookedUp::Found(found, CacheStatus::LocalHit(missed.reason)),
            Err(reason) => missed.reason = reason,
        }
    }
    LookedUp::Nothing(missed)
}

/// Acquires the right to look the call up and reserve it in one step. `None` if the call is not to be
/// reserved, or another caller of this process holds the right or leads a flight of the key.
fn lookup_guard<'a>(request: &Request<'a>) -> Option<LookupGuard<'a>> {
    let reserves = request.reserves() && request.check_labels().is_ok();
    reserves
        .then(|| request.engine.flights.lookup_guard(request.key))
        .flatten()
}

/// Looks an entry up in the front and in the store. Reserves nothing.
pub(crate) async fn find_entry(request: &Request<'_>) -> Lookup {
    let now = request.engine.access.clock.now();
    match find_in_front(request.engine, &request.key, request.hit, now).await {
        Some(front_entry) => Lookup::Hit(front_entry),
        None => find_in_store(request, None).await,
    }
}

/// Returns the entry in the front that answers a call, if it may be served now, at `now` by this machine's clock.
pub(crate) async fn find_in_front(
    engine: &Engine,
    key: &Key,
    hit: &HitPolicy,
    now: Millis,
) -> Option<Arc<FrontEntry>> {
    let domains = &hit.domains;
    let store = engine.access.store().ok()?;
    // Stamps change when the store raises the epochs. A write of this process is announced earlier, and only in this
    // table.
    if engine.writes.local_epochs(domains).being_written.is_some() {
        return None;
    }
    let front_entry = engine.front.get(key)?;
    // The observations are checked last: only they read the file system.
    let serves = front_entry.has_domains(domains)
        && front_entry.is_current(store.as_ref(), key)
        && !front_entry
            .entry
            .head
            .is_expired(engine.access.store_time(now))
        && hit.is_accepted(&front_entry.entry.body.bytes)
        && front_entry
            .entry
            .observations
            .check(SERVE_CHECK_TIMEOUT)
            .await
            .is_ok();
    serves.then_some(front_entry)
}

/// Looks an entry up in the store. With a reservation request, reserves the key if the record does not answer.
pub(crate) async fn find_in_store(
    request: &Request<'_>,
    reservation_request: Option<ReservationRequest<'_>>,
) -> Lookup {
    let (engine, hit) = (request.engine, request.hit);
    // Read before the lookup.
    let local_epochs = engine.writes.local_epochs(&hit.domains);
    if let Some(domain) = &local_epochs.being_written {
        let reason = Reason::Written(domain.to_string());
        return Lookup::Miss(LookupMiss::unread(reason, local_epochs, hit));
    }
    let store = match engine.access.store() {
        Ok(store) => store,
        Err(reason) => return Lookup::Miss(LookupMiss::unread(reason, local_epochs, hit)),
    };
    let key_text = request.key.text();
    let domains: Vec<String> = hit.domains.iter().map(Domain::counter).collect();
    let mut counters: Vec<&str> = domains.iter().map(String::as_str).collect();
    // Read before the question. A copy is labelled with the erasures that were known before its record was read, so
    // that a later erasure invalidates it.
    let before = match &engine.local {
        Some(local) => local.erasures().await,
        None => None,
    };
    // Stamps are read before the record, so that the record is at least as new as its stamp.
    let stamp = Stamp::read(store.as_ref(), &key_text);
    let stamps: Option<Vec<(String, Stamp)>> = counters
        .iter()
        .map(|&counter| Some((counter.to_owned(), Stamp::read(store.as_ref(), counter)?)))
        .collect();
    // Last, so that the epochs keep the positions of their domains.
    counters.push(counter::ERASED);
    let (found, reservation) = match read(request, reservation_request, store, &counters).await {
        Ok(read) => read,
        Err(reason) => {
            let mut missed = LookupMiss::unread(reason, local_epochs, hit);
            missed.erasures = before.map(Box::new);
            return Lookup::Miss(missed);
        }
    };
    let GetResult {
        record,
        counters: mut epochs,
        now,
    } = found;
    counters.pop();
    let erased = epochs.pop();
    let erasures = match (&engine.local, before, erased) {
        (Some(local), Some(before), Some(erased)) => local.note_answer(before, erased).await,
        _ => None,
    };
    let local = engine.local.as_ref().filter(|_| hit.stores_answers());
    // The server has just answered, so it can receive the answers that were kept for it.
    if let (Some(local), Some(_)) = (local, erasures) {
        local.send_soon();
    }
    let revision = record.as_ref().map(|record| record.revision);
    // A refresh serves no entry, but needs the epochs, the counter of erasures and the reservation that were read with
    // it.
    let servable = match hit.mode {
        CacheMode::Refresh => Err(Unservable::from(Reason::Refresh)),
        _ => check_servable(request, record, now, &counters, &epochs).await,
    };
    match servable {
        Ok(entry) => {
            // Without a stamp of the record and of every domain, the front could not detect a change.
            let may_be_fronted = stamp.is_some() && stamps.is_some();
            let front_entry = Arc::new(FrontEntry {
                entry,
                tally: engine.ledger.tally(request.call.kind, request.call.name),
                stamp: stamp.unwrap_or_default(),
                domains: stamps.unwrap_or_default(),
            });
            // A record that was not read together with the counter may be older than it.
            if let (Some(local), Some(erasures)) = (local, erasures)
                && (store.about().snapshot || before == Some(erasures))
            {
                local.keep_entry(&front_entry, erasures);
            }
            if may_be_fronted {
                engine.front.insert(request.key, Arc::clone(&front_entry));
            }
            Lookup::Hit(front_entry)
        }
        Err(Unservable { reason, stale }) => {
            let stale = stale.map(|entry| StaleEntry {
                front_entry: unfronted(request, *entry),
                now,
            });
            // For other callers, an entry that this one does not accept stays servable.
            if reason != Reason::OtherForm {
                engine.front.remove(&request.key);
            }
            Lookup::Miss(Box::new(LookupMiss {
                reason,
                local_epochs,
                epochs: Some(epochs),
                erased,
                erasures: erasures.map(Box::new),
                reservation,
                revision,
                stale,
            }))
        }
    }
}

async fn read(
    request: &Request<'_>,
    reservation_request: Option<ReservationRequest<'_>>,
    store: &Arc<dyn Store>,
    counters: &[&str],
) -> Result<EnterAnswer, Reason> {
    let (access, key, budget) = (&request.engine.access, &request.key, &request.budget);
    if let Some(reservation_request) = reservation_request {
        return get_or_reserve(access, store, key, counters, reservation_request, budget).await;
    }
    let asked = access.clock.now();
    let key = key.text();
    let found = store.get(space::CACHE, &key, counters);
    let found = access.await_read(found, budget).await?;
    access.record_clock_offset(asked, found.now);
    Ok((found, None))
}

/// The reason why an entry is not served.
struct Unservable {
    reason: Reason,
    /// The entry, if it has only expired, and is within one of the policy's windows.
    stale: Option<Box<Entry>>,
}

impl From<Reason> for Unservable {
    fn from(reason: Reason) -> Self {
        Self {
            reason,
            stale: None,
        }
    }
}

/// Decodes a record and applies every check that can make it unservable.
async fn check_servable(
    request: &Request<'_>,
    record: Option<Record>,
    now: Millis,
    counters: &[&str],
    epochs: &[u64],
) -> Result<Entry, Unservable> {
    let record = record.ok_or(Reason::Absent)?;
    let entry = Entry::decode_for(record, &request.key, request.call)?;
    let is_expired = entry.head.is_expired(now);
    let window = request.run.longest_stale_window();
    if is_expired && !entry.head.is_stale_within(window, now) {
        return Err(Reason::Expired.into());
    }
    // An expired entry passes the same checks as a current one: the windows excuse its age only.
    check_epochs(&entry.head.epochs, counters, epochs)?;
    check_form(request, &entry)?;
    let checked = entry.observations.check(SERVE_CHECK_TIMEOUT).await;
    checked.map_err(Reason::changed)?;
    if is_expired {
        Err(Unservable {
            reason: Reason::Expired,
            stale: Some(Box::new(entry)),
        })
    } else {
        Ok(entry)
    }
}

/// Returns an entry that is not kept in the front.
pub(crate) fn unfronted(request: &Request<'_>, entry: Entry) -> Arc<FrontEntry> {
    let (ledger, call) = (&request.engine.ledger, request.call);
    Arc::new(FrontEntry {
        entry,
        tally: ledger.tally(call.kind, call.name),
        stamp: Stamp::default(),
        domains: Vec::new(),
    })
}

/// Checks that the caller accepts the form of an entry's answer.
fn check_form(request: &Request<'_>, entry: &Entry) -> Result<(), Reason> {
    if request.hit.is_accepted(&entry.body.bytes) {
        Ok(())
    } else {
        Err(Reason::OtherForm)
    }
}

/// Returns the answer of a frozen run: an entry of any age and epochs whose files still have the same
/// content.
pub(crate) async fn find_frozen(request: &Request<'_>) -> Result<Arc<FrontEntry>, Reason> {
    let engine = request.engine;
    let store = engine.access.store()?;
    let key = request.key.text();
    let found = store.get(space::CACHE, &key, &[]);
    let found = engine.access.await_read(found, &request.budget).await?;
    let record = found.record.ok_or(Reason::Absent)?;
    let entry = Entry::decode_for(record, &request.key, request.call)?;
    check_form(request, &entry)?;
    entry
        .observations
        .check_frozen()
        .await
        .map_err(Reason::changed)?;
    Ok(unfronted(request, entry))
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

/// Returns the local copy of an entry if the store did not answer. Fails with the reason of the miss.
async fn find_local_copy(
    request: &Request<'_>,
    reason: &Reason,
) -> Result<Arc<FrontEntry>, Reason> {
    let (Some(local), Reason::StoreUnavailable(_)) = (&request.engine.local, reason) else {
        return Err(reason.clone());
    };
    let (key, call) = (&request.key, request.call);
    let Some(entry) = local.find(key, call, request.hit, request.run).await else {
        return Err(reason.clone());
    };
    if !request.hit.is_accepted(&entry.body.bytes) {
        return Err(Reason::OtherForm);
    }
    local.record_use(&entry);
    Ok(unfronted(request, entry))
}

/// Implements [`crate::Cache::probe`].
pub(crate) async fn probe(
    engine: &Arc<Engine>,
    KeyedCall { call, key }: KeyedCall<'_>,
    policy: &Policy,
) -> Result<Outcome, Reason> {
    let request = Request::new(engine, key, call, &policy.hit, &policy.run);
    let found = match policy.hit.mode {
        CacheMode::Off => Err(Reason::Off),
        CacheMode::Refresh => Err(Reason::Refresh),
        CacheMode::Frozen => find_frozen(&request).await,
        CacheMode::On | CacheMode::ReadOnly => match find_entry(&request).await {
            Lookup::Hit(front_entry) => Ok(front_entry),
            Lookup::Miss(mut missed) => {
                match missed.take_stale_within(policy.run.stale_while_revalidate) {
                    Some(front_entry) => {
                        let status = CacheStatus::Stale;
                        return Ok(Outcome::from_entry(request.key, &front_entry.entry, status));
                    }
                    None => Err(missed.reason),
                }
            }
        },
    };
    found.map(|found| Outcome::from_entry(request.key, &found.entry, CacheStatus::Hit))
}
