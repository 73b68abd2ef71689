//! The path of a call: one state machine, from the lookup of an entry to the end of a run.
//!
//! ```text
//! front ─► Lookup ─┬─► Serve
//!            ▲     ├─► Revalidate ─┬─► ServeStale
//!            │     │               └─► Reserve
//!            │     └─► Join ─┬─► Follow ─► Answered
//!          Front ◄───────────┤
//!                            └─► Reserve ─┬─► Serve, ServeStale
//!                                         └─► Run ─► finish, fail, abandon
//! ```
//!
//! A phase is a function from one state to the next one; only this file decides what comes next. Its child modules hold
//! the details of the phases.

mod join;
mod lookup;
mod request;
mod reserve;
mod run_start;
mod serve;
mod store_answer;
mod ticket;

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::Spend;

use crate::engine::Engine;
use crate::entry::Entry;
use crate::flight::ReaderGuard;
use crate::front::FrontEntry;
use crate::lease::LateLookup;
use crate::outcome::Outcome;
use crate::policy::{CacheMode, DEFAULT_LOOKUP_TIMEOUT, HitPolicy, Policy, RunPolicy};
use crate::reason::Failure;
use crate::stream::StreamEnd;
use crate::summary::{CacheStatus, CallSummary, Revision};
use crate::sync::spawn;
use crate::witness::to_witnesses;
use crate::{FrozenMiss, KeyedCall, Reason};

use join::{Entered, Lead};
use lookup::{LookedUp, Missed, find_in_front};
use request::Request;
use store_answer::FinishedRun;
use ticket::TicketStage;

pub(crate) use lookup::probe;
pub use ticket::{RunResult, Ticket};

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

/// The state of a call that the front did not answer at once.
enum State<'a> {
    /// Only an entry of the store may answer.
    Frozen,
    /// No other call can have had the key: the call runs without a lookup.
    NewKey,
    /// Another caller may have stored the answer since the lookup.
    Front,
    /// The store is asked for an entry, and to reserve the key if there is none.
    Lookup,
    /// Only an expired entry answers; one caller refreshes it.
    Revalidate(Missed<'a>, Arc<FrontEntry>),
    /// No entry answers.
    Join(Missed<'a>),
    /// Another caller of this process runs the call.
    Follow(ReaderGuard),
    /// The call leads a flight, which needs the reservation of the key.
    Reserve(Box<Lead>),
    /// An entry answers.
    Serve(Arc<FrontEntry>, CacheStatus),
    /// An expired entry answers, and the ticket refreshes it.
    ServeStale(Arc<FrontEntry>, Option<Box<Ticket>>),
    /// A run of another caller answers.
    Answered(Outcome),
    /// The caller runs the call.
    Run(Ticket),
    /// Nothing answers a frozen run.
    Refuse(Reason),
}

/// Implements [`crate::Cache::begin_with`].
pub(crate) async fn begin<R: Borrow<RunPolicy> + Send + Sync>(
    engine: &Arc<Engine>,
    KeyedCall { call, key }: KeyedCall<'_>,
    hit: &HitPolicy,
    run: impl FnOnce() -> R,
) -> Result<BeginResult, FrozenMiss> {
    if hit.serves_entries() {
        let now = engine.access.clock.now();
        if let Some(found) = find_in_front(engine, &key, hit, now).await {
            let outcome = serve::entry(engine, key, &found, CacheStatus::Hit, hit, now);
            return Ok(BeginResult::Served(outcome));
        }
    }
    // Large, and not needed for a hit.
    Box::pin(async move {
        let run = run();
        walk(&Request::new(engine, key, call, hit, run.borrow())).await
    })
    .await
}

/// Implements [`crate::Cache::bypass`].
pub(crate) fn bypass(
    engine: &Arc<Engine>,
    KeyedCall { call, key }: KeyedCall<'_>,
    policy: &Policy,
    reason: Reason,
) -> Ticket {
    let request = Request::new(engine, key, call, &policy.hit, &policy.run);
    uncached(&request, reason).start()
}

/// Walks a call from state to state until it is answered or has a ticket.
async fn walk(request: &Request<'_>) -> Result<BeginResult, FrozenMiss> {
    let mut state = first_state(request);
    loop {
        state = match state {
            State::Frozen => frozen(request).await,
            State::NewKey => lead_new_key(request).await,
            State::Front => look_into_front(request).await,
            State::Lookup => look_up(request).await,
            State::Revalidate(missed, stale) => revalidate(request, missed, stale).await,
            State::Join(missed) => join(request, missed).await,
            State::Follow(reader) => follow(request, reader).await,
            State::Reserve(lead) => reserve(request, lead).await,
            State::Serve(found, status) => {
                let outcome = serve::found(request, &found, status);
                return Ok(BeginResult::Served(outcome));
            }
            State::ServeStale(stale, refresh) => {
                let outcome = serve::found(request, &stale, CacheStatus::Stale);
                return Ok(BeginResult::Stale { outcome, refresh });
            }
            State::Answered(outcome) => return Ok(BeginResult::Served(outcome)),
            State::Run(ticket) => return Ok(BeginResult::Run(ticket.start())),
            State::Refuse(reason) => return Err(serve::refuse(request, reason)),
        }
    }
}

fn first_state<'a>(request: &Request<'_>) -> State<'a> {
    match request.hit.mode {
        CacheMode::Off => State::Run(uncached(request, Reason::Off)),
        CacheMode::Frozen => State::Frozen,
        // With domains, the epochs under which the run begins have to be read first.
        CacheMode::On if request.run.is_new_key && request.hit.domains.is_empty() => State::NewKey,
        CacheMode::On | CacheMode::ReadOnly | CacheMode::Refresh => State::Lookup,
    }
}

/// Returns a ticket that no caller can join and whose answer is not stored.
fn uncached(request: &Request<'_>, reason: Reason) -> Ticket {
    let flight = join::detach(request);
    let status = CacheStatus::Bypass(reason.clone());
    Ticket::new(request, flight, status, Err(reason))
}

/// `Frozen` → `Serve`, `Refuse`.
async fn frozen<'a>(request: &Request<'a>) -> State<'a> {
    match lookup::find_frozen(request).await {
        Ok(found) => State::Serve(found, CacheStatus::Hit),
        Err(reason) => State::Refuse(reason),
    }
}

/// `NewKey` → `Run`, without asking the store.
async fn lead_new_key<'a>(request: &Request<'a>) -> State<'a> {
    match join::supersede(request, Missed::unread(request)).await {
        Entered::Lead(lead) => {
            let mut ticket = lead.ticket;
            ticket.storable = request.check_labels();
            // No other process can run the call, so the reservation is requested only when there is an answer to store.
            ticket.unreserved = Some(LateLookup::default());
            State::Run(ticket)
        }
        Entered::Follow(_) | Entered::Changed | Entered::Occupied => State::Lookup,
    }
}

/// `Front` → `Serve`, `Lookup`.
async fn look_into_front<'a>(request: &Request<'a>) -> State<'a> {
    let now = request.engine.access.clock.now();
    match find_in_front(request.engine, &request.key, request.hit, now).await {
        Some(found) => State::Serve(found, CacheStatus::Hit),
        None => State::Lookup,
    }
}

/// `Lookup` → `Serve`, `Revalidate`, `Join`.
async fn look_up<'a>(request: &Request<'a>) -> State<'a> {
    match lookup::look_up(request).await {
        LookedUp::Found(found, status) => State::Serve(found, status),
        LookedUp::Stale(missed, stale) => State::Revalidate(missed, stale),
        LookedUp::Nothing(missed) => State::Join(missed),
    }
}

/// `Revalidate` → `ServeStale`, `Reserve`, `Lookup`. Waits for no run.
async fn revalidate<'a>(
    request: &Request<'a>,
    missed: Missed<'a>,
    stale: Arc<FrontEntry>,
) -> State<'a> {
    // A mode that stores nothing cannot replace the expired entry.
    if request.hit.mode != CacheMode::On {
        return State::ServeStale(stale, None);
    }
    match join::revalidate(request, missed, Arc::clone(&stale)).await {
        Entered::Lead(lead) => State::Reserve(lead),
        // The answer of a run that has ended may have been stored.
        Entered::Changed => State::Lookup,
        Entered::Follow(_) | Entered::Occupied => State::ServeStale(stale, None),
    }
}

/// `Join` → `Follow`, `Reserve`, `Front`.
async fn join<'a>(request: &Request<'a>, missed: Missed<'a>) -> State<'a> {
    match join::join(request, missed).await {
        Entered::Lead(lead) => State::Reserve(lead),
        Entered::Follow(reader) => State::Follow(reader),
        Entered::Changed | Entered::Occupied => State::Front,
    }
}

/// `Follow` → `Answered`, `Front`.
async fn follow<'a>(request: &Request<'a>, reader: ReaderGuard) -> State<'a> {
    match join::follow(request, reader).await {
        Some(outcome) => State::Answered(outcome),
        None => State::Front,
    }
}

/// `Reserve` → `Run`, `ServeStale`, `Serve`. Reserves the key where possible, unless the lookup has done so.
async fn reserve<'a>(request: &Request<'a>, lead: Box<Lead>) -> State<'a> {
    let Lead {
        mut ticket,
        superseded,
        miss,
        stale,
    } = *lead;
    // With an expired entry the caller has an answer, so it does not wait for a process that refreshes the entry.
    let wait = match stale {
        Some(_) => Duration::ZERO,
        None => request.run.wait_for_processes(),
    };
    match reserve::reserve(request, &mut ticket, superseded, *miss, wait).await {
        Some((found, status)) => {
            // Callers may follow the flight already. They receive the entry as its answer.
            finish_with_entry(ticket, &found.entry).await;
            State::Serve(found, status)
        }
        None => match stale {
            None => State::Run(ticket),
            Some(stale) if ticket.storable.is_ok() => {
                State::ServeStale(stale, Some(Box::new(ticket.start())))
            }
            // Dropped before it starts, the ticket records nothing.
            Some(stale) => State::ServeStale(stale, None),
        },
    }
}

/// Implements [`crate::Cache::through_with`]: `Run`, in a task of its own.
pub(crate) fn drive<F>(
    engine: &Arc<Engine>,
    begun: BeginResult,
    work: impl FnOnce(Ticket) -> F,
) -> Outcome
where
    F: Future<Output = ()> + Send + 'static,
{
    match begun {
        BeginResult::Served(outcome) => outcome,
        BeginResult::Stale { outcome, refresh } => {
            if let Some(refresh) = refresh {
                tokio::spawn(work(*refresh));
            }
            outcome
        }
        BeginResult::Run(ticket) => {
            // The caller becomes a reader before the run starts: without a reader, the chunks of a pipe are freed.
            let outcome = ticket.outcome();
            let (engine, flight) = (Arc::clone(engine), Arc::clone(&ticket.flight));
            let orphan = ticket.policy.run.orphan;
            let run = work(ticket);
            tokio::spawn(async move {
                // An abandoned run is dropped together with its ticket, whose drop ends the flight.
                tokio::select! {
                    () = run => {}
                    () = ticket::abandoned(&engine.orphans, &flight, orphan) => {}
                }
            });
            outcome
        }
    }
}

/// Implements [`Ticket::finish`]: publishes the answer to the readers, stores it, and ends the run.
pub(crate) async fn finish(mut ticket: Ticket, result: RunResult) -> CallSummary {
    let RunResult {
        value,
        storable,
        spent,
        labels,
    } = result;
    let spent = ticket.total_cost(spent);
    // Readers do not wait for the store; new callers join this flight until the entry is stored.
    let answer = ticket.flight.body.complete(value);
    let storable = std::mem::replace(&mut ticket.storable, Ok(()))
        .and(ticket.not_declined())
        .and(storable);
    let stored = match (storable, answer) {
        (Ok(()), Some(answer)) => {
            let finished = FinishedRun {
                engine: &ticket.engine,
                flight: &ticket.flight,
                call: &ticket.call,
                policy: &ticket.policy,
                run_start: &ticket.run_start,
                unreserved: ticket.unreserved.as_ref(),
            };
            finished.store(&answer, spent, labels).await
        }
        (Ok(()), None) => Err(Reason::Declined("its chunks were not kept".to_owned())),
        (Err(reason), _) => Err(reason),
    };
    let settled = CallSummary::of_run(stored, ticket.own_cost(spent));
    end(&mut ticket, settled.clone(), spent, None).await;
    settled
}

/// Implements [`Ticket::fail`].
pub(crate) async fn fail(mut ticket: Ticket, failure: Failure) -> CallSummary {
    let spent = ticket.total_cost(Spend::for_call(ticket.elapsed()));
    // Prevents callers from joining a flight that is known to have failed.
    ticket.flight.close();
    ticket.flight.body.end(StreamEnd::Failed(failure.clone()));
    let settled = CallSummary::not_stored(Reason::Failed, ticket.own_cost(spent));
    end(&mut ticket, settled.clone(), spent, Some(&failure)).await;
    settled
}

/// Ends a run before it starts: another process has stored the answer in the meantime.
async fn finish_with_entry(mut ticket: Ticket, entry: &Entry) {
    let flight = &ticket.flight;
    // Followers read the witnesses of the answer from the flight.
    flight.witness.adopt(&to_witnesses(&entry.observations));
    flight
        .body
        .end(StreamEnd::Complete(Arc::clone(&entry.body)));
    let settled = CallSummary {
        stored: Ok(Revision(entry.revision)),
        expires: entry.head.expires,
        paid: Spend::default(),
        saved: entry.head.spent,
    };
    end(&mut ticket, settled, entry.head.spent, None).await;
}

/// Ends the run; `run_cost` is its total cost.
async fn end(
    ticket: &mut Ticket,
    settled: CallSummary,
    run_cost: Spend,
    failure: Option<&Failure>,
) {
    ticket.flight.stop_renewal();
    ticket.publish(settled, run_cost, failure);
    if let Some(lease) = ticket.flight.lease() {
        // The answer is not stored. The next leader need not wait until the store has released the lease.
        ticket.flight.close();
        let access = &ticket.engine.access;
        let timeout = ticket.engine.bounds.lookup_timeout_of(&ticket.policy.run);
        access.release(lease, timeout).await;
    }
    // Last: until the lease is released, the next leader finds the flight and takes the lease over. Without the flight
    // in the table, a caller looks for the stored entry.
    ticket.leave();
}

/// Implements the drop of a ticket: ends a run without `finish` or `fail`.
fn abandon(ticket: &mut Ticket) {
    if ticket.stage == TicketStage::Ended {
        return;
    }
    ticket.flight.stop_renewal();
    // Closed first, so that a waiter that wakes up and looks again does not join this flight.
    ticket.flight.close();
    ticket.publish_abandoned();
    let (engine, flight) = (Arc::clone(&ticket.engine), Arc::clone(&ticket.flight));
    match (flight.lease(), tokio::runtime::Handle::try_current()) {
        (Some(lease), Ok(_)) => {
            // The flight stays in the table until its lease is released: the next leader may take the lease over from
            // it.
            spawn(async move {
                engine.access.release(lease, DEFAULT_LOOKUP_TIMEOUT).await;
                engine.flights.leave(&flight);
            });
        }
        _ => ticket.leave(),
    }
}
