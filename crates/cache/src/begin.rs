//! The start of a call: composes the phases that serve an entry, join a flight, or hand out a ticket.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::Millis;
use cachalot_store::Label;

use crate::engine::Engine;
use crate::flight::{EndedFlights, Flight, FlightEntry, LookupGuard};
use crate::front::FrontEntry;
use crate::join;
use crate::lease::{LateLookup, Reservation};
use crate::ledger::{CallStatus, PendingRow};
use crate::lookup::{
    Lookup, LookupMiss, find_entry, find_frozen, find_in_front, find_in_store, unfronted,
};
use crate::outcome::Outcome;
use crate::policy::{CacheMode, HitPolicy, Policy, RunPolicy};
use crate::request::Request;
use crate::reserve::{ReservationOutcome, reserve};
use crate::summary::CacheStatus;
use crate::ticket::Ticket;
use crate::{Call, FrozenMiss, Key, Reason};

/// The result of [`crate::Cache::begin`]: an answer to read, or a ticket to run the call.
pub enum BeginResult {
    /// Answered by an entry, or by a run that another caller leads.
    Served(Outcome),
    /// Answered by an entry that expired less than [`RunPolicy::stale_while_revalidate`] ago.
    Stale {
        /// The answer.
        outcome: Outcome,
        /// The caller has to run the call, while the answer is read, so that the entry is replaced. `None` if another
        /// caller does so already, or the answer could not be stored.
        refresh: Option<Box<Ticket>>,
    },
    /// The caller has to run the call. `CacheMode::Off` and bypasses get a ticket too, so that every run takes one
    /// path and gets one row in the ledger.
    Run(Ticket),
}

/// Implements [`crate::Cache::begin_with`].
pub(crate) async fn begin<R: Borrow<RunPolicy> + Send + Sync>(
    engine: &Arc<Engine>,
    call: &Call<'_>,
    hit: &HitPolicy,
    run: impl FnOnce() -> R,
) -> Result<BeginResult, FrozenMiss> {
    let key = Key::for_call(call);
    if hit.serves_entries() {
        let now = engine.access.clock.now();
        let found = find_in_front(engine, &key, hit, now).await;
        if let Some(front_entry) = found {
            let outcome = serve_hit(engine, key, &front_entry, CacheStatus::Hit, hit, now);
            return Ok(BeginResult::Served(outcome));
        }
    }
    // Large, and not needed for a hit.
    Box::pin(async move {
        let run = run();
        let request = Request::new(engine, key, call, hit, run.borrow());
        begin_without_front(&request).await
    })
    .await
}

async fn begin_without_front(request: &Request<'_>) -> Result<BeginResult, FrozenMiss> {
    Ok(match request.hit.mode {
        CacheMode::Off => BeginResult::Run(uncached(
            request,
            CacheStatus::Bypass(Reason::Off),
            Reason::Off,
        )),
        CacheMode::Frozen => BeginResult::Served(frozen(request).await?),
        CacheMode::Refresh => refresh(request).await,
        CacheMode::On if request.run.is_new_key && request.hit.domains.is_empty() => {
            BeginResult::Run(lead_new_key(request).await)
        }
        CacheMode::On | CacheMode::ReadOnly => serve_or_lead(request).await,
    })
}

/// Implements [`crate::Cache::bypass`].
pub(crate) fn bypass(
    engine: &Arc<Engine>,
    call: &Call<'_>,
    policy: &Policy,
    reason: Reason,
) -> Ticket {
    let request = Request::new(engine, Key::for_call(call), call, &policy.hit, &policy.run);
    uncached(&request, CacheStatus::Bypass(reason.clone()), reason)
}

/// Implements [`crate::Cache::probe`].
pub(crate) async fn probe(
    engine: &Arc<Engine>,
    call: &Call<'_>,
    policy: &Policy,
) -> Result<Outcome, Reason> {
    let request = Request::new(engine, Key::for_call(call), call, &policy.hit, &policy.run);
    let found = match policy.hit.mode {
        CacheMode::Off => Err(Reason::Off),
        CacheMode::Refresh => Err(Reason::Refresh),
        CacheMode::Frozen => find_frozen(&request).await,
        CacheMode::On | CacheMode::ReadOnly => match find_entry(&request).await {
            Lookup::Hit(front_entry) => Ok(front_entry),
            Lookup::Miss(mut missed) => match stale_entry(&request, &mut missed) {
                Some(front_entry) => {
                    let status = CacheStatus::Stale;
                    return Ok(Outcome::from_entry(request.key, &front_entry.entry, status));
                }
                None => Err(missed.reason),
            },
        },
    };
    found.map(|found| Outcome::from_entry(request.key, &found.entry, CacheStatus::Hit))
}

/// Records a hit, at `now` by this machine's clock, and returns its outcome.
fn serve_hit(
    engine: &Engine,
    key: Key,
    front_entry: &Arc<FrontEntry>,
    status: CacheStatus,
    hit: &HitPolicy,
    now: Millis,
) -> Outcome {
    // Only `CacheMode::On` may write to the store here.
    if hit.mode == CacheMode::On {
        engine.write_backs.write_back(front_entry);
    }
    let at = engine.access.store_time(now);
    engine.eviction.record_use(&front_entry.entry, at);
    account_hit(engine, key, front_entry, status, hit, now)
}

/// Accounts for a hit, and returns its outcome.
fn account_hit(
    engine: &Engine,
    key: Key,
    front_entry: &FrontEntry,
    status: CacheStatus,
    hit: &HitPolicy,
    now: Millis,
) -> Outcome {
    let entry = &front_entry.entry;
    let answered = CallStatus::from_status(&status);
    let tally = &front_entry.tally;
    engine
        .ledger
        .record_hit(entry, tally, now, answered, hit.session.as_ref());
    Outcome::from_entry(key, entry, status)
}

/// Serves an entry that was not found in the front.
fn serve(request: &Request<'_>, front_entry: &Arc<FrontEntry>, status: CacheStatus) -> Outcome {
    let (hit, now) = (request.hit, request.engine.access.clock.now());
    serve_hit(request.engine, request.key, front_entry, status, hit, now)
}

/// Serves the local copy of an entry if the store did not answer. Fails with the reason of the miss.
async fn serve_local_copy(request: &Request<'_>, reason: &Reason) -> Result<Outcome, Reason> {
    let (Some(local), Reason::StoreUnavailable(_)) = (&request.engine.local, reason) else {
        return Err(reason.clone());
    };
    let (engine, key) = (request.engine, request.key);
    let hit = request.hit;
    let Some(entry) = local
        .find(&key, request.call, request.hit, request.run)
        .await
    else {
        return Err(reason.clone());
    };
    if !hit.is_accepted(&entry.body.bytes) {
        return Err(Reason::OtherForm);
    }
    local.record_use(&entry);
    let front_entry = unfronted(request, entry);
    let status = CacheStatus::LocalHit(reason.clone());
    let now = engine.access.clock.now();
    Ok(account_hit(engine, key, &front_entry, status, hit, now))
}

/// Returns a ticket that no caller can join and whose answer is not stored.
fn uncached(request: &Request<'_>, status: CacheStatus, why_not_stored: Reason) -> Ticket {
    let flight = join::detach(request);
    Ticket::new(request, flight, status, Err(why_not_stored)).start()
}

/// Serves an entry, joins a flight or leads one, for a call that the front does not answer.
async fn serve_or_lead(request: &Request<'_>) -> BeginResult {
    let (engine, key) = (request.engine, &request.key);
    let labels = request.labels();
    loop {
        let ended_flights = engine.flights.ended_flights(key);
        let lookup_guard = join::lookup_guard(request, &labels);
        let reservation = lookup_guard
            .as_ref()
            .map(|_| request.reservation(&labels, None));
        let mut missed = match find_in_store(request, reservation).await {
            Lookup::Hit(front_entry) => {
                return BeginResult::Served(serve(request, &front_entry, CacheStatus::Hit));
            }
            Lookup::Miss(missed) => *missed,
        };
        if let Some(front_entry) = stale_entry(request, &mut missed) {
            let refresh = refresh_stale(request, ended_flights, lookup_guard, missed, &labels);
            match refresh.await {
                StaleRefresh::Answered(outcome) => return BeginResult::Served(*outcome),
                StaleRefresh::Retry => continue,
                StaleRefresh::Ticket(refresh) => {
                    let outcome = serve(request, &front_entry, CacheStatus::Stale);
                    return BeginResult::Stale { outcome, refresh };
                }
            }
        }
        let reason = match serve_local_copy(request, &missed.reason).await {
            Ok(outcome) => return BeginResult::Served(outcome),
            Err(reason) => reason,
        };
        match join::join(request, ended_flights, lookup_guard, &missed, &labels).await {
            FlightEntry::Retry | FlightEntry::Wait | FlightEntry::Occupied => {}
            FlightEntry::Joined(reader) => {
                drop(missed.reservation);
                if let Some(outcome) = join::follow(request, reader).await {
                    return BeginResult::Served(outcome);
                }
            }
            FlightEntry::Lead { flight, superseded } => {
                let storable = join::check_storable(&flight, &missed);
                let status = CacheStatus::Miss(reason);
                // The ticket is created before the next await: a flight without a ticket would never end.
                let ticket = Ticket::new(request, flight, status, storable);
                let wait = request.run.wait_for_processes();
                return run(reserve_ticket(request, ticket, superseded, missed, wait).await);
            }
        }
        // Another caller may have stored the answer in the meantime.
        let now = engine.access.clock.now();
        let hit = request.hit;
        if let Some(front_entry) = find_in_front(engine, key, hit, now).await {
            return BeginResult::Served(serve(request, &front_entry, CacheStatus::Hit));
        }
    }
}

/// Runs the call without serving an entry. If the key is reserved in a shared store, waits for the
/// reservation, so that the answer can be stored.
async fn refresh(request: &Request<'_>) -> BeginResult {
    let labels = request.labels();
    let lookup_guard = join::lookup_guard(request, &labels);
    let reservation = lookup_guard
        .as_ref()
        .map(|_| request.reservation(&labels, None));
    let Lookup::Miss(missed) = find_in_store(request, reservation).await else {
        unreachable!("a refresh serves nothing")
    };
    let storable = match &missed.local_epochs.being_written {
        Some(domain) => Err(Reason::Written(domain.to_string())),
        None => Ok(()),
    };
    let entered = join::supersede(request, storable.is_ok(), lookup_guard, &missed, &labels);
    let (flight, superseded) = entered.await;
    let ticket = Ticket::new(
        request,
        flight,
        CacheStatus::Miss(Reason::Refresh),
        storable,
    );
    let wait = request.run.wait_for_processes();
    run(reserve_ticket(request, ticket, superseded, *missed, wait).await)
}

/// Leads the first run of a key, without asking the store.
async fn lead_new_key(request: &Request<'_>) -> Ticket {
    let labels = request.labels();
    let local_epochs = request.engine.writes.local_epochs(&[]);
    let missed = LookupMiss::unread(Reason::Absent, local_epochs, request.hit);
    let (flight, _) = join::supersede(request, true, None, &missed, &labels).await;
    let storable = request.check_labels(&labels);
    let status = CacheStatus::Miss(missed.reason);
    let mut ticket = Ticket::new(request, flight, status, storable);
    ticket.unreserved = Some(LateLookup::default());
    ticket.start()
}

/// Hands out a ticket, or serves the answer of another process.
fn run(reserved: Result<Ticket, Outcome>) -> BeginResult {
    match reserved {
        Ok(ticket) => BeginResult::Run(ticket.start()),
        Err(outcome) => BeginResult::Served(outcome),
    }
}

/// Takes the entry of a miss that is served while it is refreshed.
fn stale_entry(request: &Request<'_>, missed: &mut LookupMiss) -> Option<Arc<FrontEntry>> {
    let stale = missed.stale.take()?;
    stale
        .is_within(request.run.stale_while_revalidate)
        .then_some(stale.front_entry)
}

/// The result of [`refresh_stale`].
enum StaleRefresh {
    /// The stale entry is served, and refreshed with this ticket if it is given.
    Ticket(Option<Box<Ticket>>),
    /// Another process has stored an answer.
    Answered(Box<Outcome>),
    /// The answer of a run that has ended may have been stored.
    Retry,
}

/// Returns the ticket for a run that refreshes a stale entry, unless another caller or process does so, or the answer
/// could not be stored. Waits for no run.
async fn refresh_stale(
    request: &Request<'_>,
    ended_flights: EndedFlights,
    lookup_guard: Option<LookupGuard<'_>>,
    missed: LookupMiss,
    labels: &[Label],
) -> StaleRefresh {
    if request.hit.mode != CacheMode::On {
        return StaleRefresh::Ticket(None);
    }
    let entered = join::refresh_alone(request, ended_flights, lookup_guard, &missed, labels);
    let (flight, superseded) = match entered.await {
        FlightEntry::Lead { flight, superseded } => (flight, superseded),
        FlightEntry::Retry => return StaleRefresh::Retry,
        FlightEntry::Joined(_) | FlightEntry::Wait | FlightEntry::Occupied => {
            return StaleRefresh::Ticket(None);
        }
    };
    let storable = join::check_storable(&flight, &missed);
    let status = CacheStatus::Miss(missed.reason.clone());
    // The ticket is created before the next await: a flight without a ticket would never end.
    let ticket = Ticket::new(request, flight, status, storable);
    let reserved = reserve_ticket(request, ticket, superseded, missed, Duration::ZERO);
    match reserved.await {
        Ok(ticket) if ticket.storable.is_ok() => {
            StaleRefresh::Ticket(Some(Box::new(ticket.start())))
        }
        // Dropped before it starts, the ticket records nothing.
        Ok(_) => StaleRefresh::Ticket(None),
        Err(outcome) => StaleRefresh::Answered(Box::new(outcome)),
    }
}

/// Reserves the key where possible, unless the lookup has done so. Waits at most `wait` for other processes. Fails
/// with the answer that another process has stored.
async fn reserve_ticket(
    request: &Request<'_>,
    mut ticket: Ticket,
    superseded: Vec<Arc<Flight>>,
    missed: LookupMiss,
    wait: Duration,
) -> Result<Ticket, Outcome> {
    let LookupMiss {
        erased,
        erasures,
        mut reservation,
        revision,
        reason,
        ..
    } = missed;
    ticket.run_start.erased = erased;
    ticket.run_start.erasures = erasures;
    if !superseded.is_empty() {
        // The superseded flights may have held the key.
        join::revoke(request, superseded).await;
        reservation = reservation.filter(|reservation| matches!(reservation, Reservation::Held(_)));
    }
    if ticket.storable.is_ok() {
        ticket.storable = request.check_labels(&ticket.flight.labels);
    }
    if ticket.storable.is_err() || !request.reserves() {
        return Ok(ticket);
    }
    let reserved = match erased {
        // The store does not answer. The reservation is requested again when there is an answer to store.
        None => ReservationOutcome::Unreserved(reason),
        Some(_) => reserve(request, &ticket.flight, wait, reservation, revision).await,
    };
    match reserved {
        ReservationOutcome::Held => request.engine.renewals.start(&ticket.flight),
        ReservationOutcome::Unreserved(reason) if reason.is_store_fault() => {
            ticket.unreserved = Some(request.late.take());
        }
        ReservationOutcome::Unreserved(reason) => ticket.storable = Err(reason),
        ReservationOutcome::Answered {
            front_entry,
            waited,
        } => {
            ticket.finish_with_entry(&front_entry.entry).await;
            let status = if waited {
                CacheStatus::Coalesced
            } else {
                CacheStatus::Hit
            };
            return Err(serve(request, &front_entry, status));
        }
    }
    Ok(ticket)
}

async fn frozen(request: &Request<'_>) -> Result<Outcome, FrozenMiss> {
    let reason = match find_frozen(request).await {
        Ok(front_entry) => return Ok(serve(request, &front_entry, CacheStatus::Hit)),
        Err(reason) => reason,
    };
    request.engine.ledger.send(PendingRow {
        reason: Some(reason.to_string()),
        ..request.ledger_row(CallStatus::Refused)
    });
    Err(FrozenMiss {
        name: request.call.name.to_owned(),
        key: request.key,
        reason,
    })
}
