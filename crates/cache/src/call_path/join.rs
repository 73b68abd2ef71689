//! The join phase: of the callers of one key in this process, one leads a flight and the others follow it.

use std::sync::Arc;

use crate::Reason;
use crate::body::Body;
use crate::epoch::LocalEpochs;
use crate::flight::{Flight, FlightEntry, FlightStart, JoinMode, ReaderGuard};
use crate::front::FrontEntry;
use crate::lease::Reservation;
use crate::ledger::CallStatus;
use crate::outcome::{Outcome, OutcomeState};
use crate::policy::{CacheMode, SingleFlight};
use crate::summary::CacheStatus;

use super::lookup::{LookupMiss, Missed};
use super::request::Request;
use super::ticket::Ticket;

/// The result of the join phase.
pub(super) enum Entered {
    /// The call leads a flight.
    Lead(Box<Lead>),
    /// Another caller leads the flight that the call follows.
    Follow(ReaderGuard),
    /// A flight has ended since the lookup, and its answer may have been stored.
    Changed,
    /// Another caller leads, or is about to.
    Occupied,
}

/// A call that leads a flight.
pub(super) struct Lead {
    pub(super) ticket: Ticket,
    pub(super) superseded: Vec<Arc<Flight>>,
    pub(super) miss: Box<LookupMiss>,
    /// The entry that the run refreshes while it answers.
    pub(super) stale: Option<Arc<FrontEntry>>,
}

impl Lead {
    /// Called without an await after the registration of the flight: a flight without a ticket would never end.
    fn new(
        request: &Request<'_>,
        flight: Arc<Flight>,
        superseded: Vec<Arc<Flight>>,
        missed: Missed<'_>,
        stale: Option<Arc<FrontEntry>>,
    ) -> Self {
        let storable = check_storable(request, &flight, &missed.miss);
        let status = CacheStatus::Miss(missed.reason);
        Self {
            ticket: Ticket::new(request, flight, status, storable),
            superseded,
            miss: missed.miss,
            stale,
        }
    }
}

/// Joins a flight of this process or leads a new one.
pub(super) async fn join(request: &Request<'_>, missed: Missed<'_>) -> Entered {
    let miss = &missed.miss;
    let join_mode = match (request.hit.mode, &miss.reservation) {
        // A refresh revokes older runs only if its own answer can be stored: not while a domain is being written.
        (CacheMode::Refresh, _) if miss.local_epochs.being_written.is_none() => JoinMode::Supersede,
        (CacheMode::Refresh, _) => JoinMode::Detached,
        // It is unknown which writes such a run would see, so no caller joins it and its answer is not stored.
        _ if miss.has_unknown_epochs() => JoinMode::Detached,
        // The key is reserved: an answer that this process stored before would have been found.
        (_, Some(Reservation::Held(_))) => JoinMode::Reserved,
        _ if request.run.join != SingleFlight::Off => JoinMode::Join(missed.ended_flights),
        _ => JoinMode::Lead,
    };
    enter(request, join_mode, missed, None).await
}

/// Leads a new flight that refreshes a stale entry, unless another caller does.
pub(super) async fn revalidate(
    request: &Request<'_>,
    missed: Missed<'_>,
    stale: Arc<FrontEntry>,
) -> Entered {
    let join_mode = match missed.miss.reservation {
        Some(Reservation::Held(_)) => JoinMode::Reserved,
        _ => JoinMode::Alone(missed.ended_flights),
    };
    enter(request, join_mode, missed, Some(stale)).await
}

/// Leads a new flight whose answer replaces those of all others of the key.
pub(super) async fn supersede(request: &Request<'_>, missed: Missed<'_>) -> Entered {
    enter(request, JoinMode::Supersede, missed, None).await
}

/// Waits while another caller holds the lookup. Ends the right to the lookup of this one.
async fn enter(
    request: &Request<'_>,
    join_mode: JoinMode,
    mut missed: Missed<'_>,
    stale: Option<Arc<FrontEntry>>,
) -> Entered {
    let flights = &request.engine.flights;
    let (miss, lookup_guard) = (&missed.miss, missed.lookup_guard.take());
    let is_current = |flight: &Flight| is_current(request, flight, miss);
    loop {
        let entered = flights.enter(
            request.key,
            join_mode,
            lookup_guard.as_ref(),
            is_current,
            request.run.form,
            || flight_start(request, miss),
        );
        match entered {
            FlightEntry::Wait => flights.lookup_released(&request.key).await,
            FlightEntry::Lead { flight, superseded } => {
                // The flight is registered: callers that wait for the guard find it in the table and may join it.
                drop(lookup_guard);
                let lead = Lead::new(request, flight, superseded, missed, stale);
                return Entered::Lead(Box::new(lead));
            }
            FlightEntry::Joined(reader) => return Entered::Follow(reader),
            FlightEntry::Retry => return Entered::Changed,
            FlightEntry::Occupied => return Entered::Occupied,
        }
    }
}

/// True if a flight began under the state in which the call was looked up.
fn is_current(request: &Request<'_>, flight: &Flight, miss: &LookupMiss) -> bool {
    flight.began_under(
        &request.hit.domains,
        &miss.local_epochs,
        miss.epochs.as_deref(),
    )
}

/// Registers a flight that no caller can join and whose answer is not stored.
pub(super) fn detach(request: &Request<'_>) -> Arc<Flight> {
    let start = || FlightStart {
        stores: false,
        joinable: false,
        labels: request.labels.clone(),
        domains: request.hit.domains.clone(),
        local_epochs: LocalEpochs::default(),
        epochs: None,
    };
    let flights = &request.engine.flights;
    match flights.enter(
        request.key,
        JoinMode::Detached,
        None,
        |_| false,
        request.run.form,
        start,
    ) {
        FlightEntry::Lead { flight, .. } => flight,
        FlightEntry::Joined(_) | FlightEntry::Retry | FlightEntry::Wait | FlightEntry::Occupied => {
            unreachable!("a detached flight joins none and waits for none")
        }
    }
}

fn flight_start(request: &Request<'_>, miss: &LookupMiss) -> FlightStart {
    let is_refresh = request.hit.mode == CacheMode::Refresh;
    FlightStart {
        stores: request.hit.stores_answers() && !miss.has_unknown_epochs(),
        joinable: request.run.join != SingleFlight::Off
            && (is_refresh || !miss.has_unknown_epochs()),
        labels: request.labels.clone(),
        domains: request.hit.domains.clone(),
        local_epochs: miss.local_epochs.clone(),
        epochs: miss.epochs.clone(),
    }
}

/// Reads the answer of another caller's run; `None` if its ticket was dropped without an answer.
pub(super) async fn follow(request: &Request<'_>, reader: ReaderGuard) -> Option<Outcome> {
    let flight = Arc::clone(reader.flight());
    // Changes of files are not announced: the flight is joined only if everything that it has read so far
    // is unchanged. Files that it has not read yet, it will read in their current state.
    flight.witness.observations_recorded().await;
    if flight.witness.snapshot().holds().await.is_err() {
        // Every later caller would find the same change, so the flight is closed and the next caller leads.
        flight.close();
        return None;
    }
    if !flight.body.readable().await {
        return None;
    }
    let row = request.ledger_row(CallStatus::Coalesced);
    // A follower saves the cost of the run, which is known at its end. The flight keeps the row until then.
    if let Some(row) = flight.followers.add(row) {
        request.engine.ledger.send(row);
    }
    Some(Outcome {
        key: request.key,
        status: CacheStatus::Coalesced,
        state: OutcomeState::Running {
            ended: flight.ended.subscribe(),
            follower: true,
            witness: flight.witness.clone(),
        },
        body: Body::from_flight(reader),
        entry: None,
    })
}

/// The reason why the answer of a flight that starts now could not be stored: the epochs under which it would
/// run are unknown, or a flight of another form stores its answer. A refresh reads the epochs again when it stores.
fn check_storable(request: &Request<'_>, flight: &Flight, miss: &LookupMiss) -> Result<(), Reason> {
    let has_unknown_epochs = match request.hit.mode {
        CacheMode::Refresh => miss.local_epochs.being_written.is_some(),
        _ => miss.has_unknown_epochs(),
    };
    if has_unknown_epochs {
        Err(miss.reason.clone())
    } else if flight.runs_beside() {
        Err(Reason::RunsInOtherForm)
    } else {
        Ok(())
    }
}
