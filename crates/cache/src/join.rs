//! The join phase: of the callers of one key in this process, one leads a flight and the others follow it.

use std::sync::Arc;

use cachalot_store::Label;

use crate::Reason;
use crate::body::Body;
use crate::epoch::LocalEpochs;
use crate::flight::{
    EndedFlights, Flight, FlightEntry, FlightStart, JoinMode, LookupGuard, ReaderGuard,
};
use crate::lease::Reservation;
use crate::ledger::CallStatus;
use crate::lookup::LookupMiss;
use crate::outcome::{Outcome, OutcomeState};
use crate::policy::SingleFlight;
use crate::request::Request;
use crate::summary::CacheStatus;

/// Acquires the right to look the call up and reserve it in one step. `None` if the call is not to be
/// reserved, or another caller of this process holds the right or leads a flight of the key.
pub(crate) fn lookup_guard<'a>(request: &Request<'a>, labels: &[Label]) -> Option<LookupGuard<'a>> {
    let reserves = request.reserves() && request.check_labels(labels).is_ok();
    reserves
        .then(|| request.engine.flights.lookup_guard(request.key))
        .flatten()
}

/// Joins a flight of this process or registers a new one; waits while another caller holds the lookup.
/// `ended_flights` was read before the lookup that missed.
pub(crate) async fn join(
    request: &Request<'_>,
    ended_flights: EndedFlights,
    lookup_guard: Option<LookupGuard<'_>>,
    missed: &LookupMiss,
    labels: &[Label],
) -> FlightEntry {
    let is_current = |flight: &Flight| is_current(request, flight, missed);
    let has_unknown_epochs = missed.has_unknown_epochs();
    let joins = request.run.join != SingleFlight::Off && !has_unknown_epochs;
    let join_mode = match missed.reservation {
        _ if has_unknown_epochs => JoinMode::Detached,
        // The key is reserved: an answer that this process stored before would have been found.
        Some(Reservation::Held(_)) => JoinMode::Reserved,
        _ if joins => JoinMode::Join(ended_flights),
        _ => JoinMode::Lead,
    };
    let start = || flight_start(request, joins, labels, missed);
    enter(request, join_mode, lookup_guard.as_ref(), is_current, start).await
}

/// Registers a new flight that refreshes a stale entry, unless another caller does.
pub(crate) async fn refresh_alone(
    request: &Request<'_>,
    ended_flights: EndedFlights,
    lookup_guard: Option<LookupGuard<'_>>,
    missed: &LookupMiss,
    labels: &[Label],
) -> FlightEntry {
    let join_mode = match missed.reservation {
        Some(Reservation::Held(_)) => JoinMode::Reserved,
        _ => JoinMode::Alone(ended_flights),
    };
    let joinable = request.run.join != SingleFlight::Off;
    let start = || flight_start(request, joinable, labels, missed);
    let is_current = |flight: &Flight| is_current(request, flight, missed);
    enter(request, join_mode, lookup_guard.as_ref(), is_current, start).await
}

/// True if a flight began under the state in which the call was looked up.
fn is_current(request: &Request<'_>, flight: &Flight, missed: &LookupMiss) -> bool {
    flight.began_under(
        &request.hit.domains,
        &missed.local_epochs,
        missed.epochs.as_deref(),
    )
}

/// Registers a new flight that no flight of the key is joined for. With `storable`, its answer replaces
/// theirs; without, it is not stored. Returns the superseded flights, too.
pub(crate) async fn supersede(
    request: &Request<'_>,
    storable: bool,
    lookup_guard: Option<LookupGuard<'_>>,
    missed: &LookupMiss,
    labels: &[Label],
) -> (Arc<Flight>, Vec<Arc<Flight>>) {
    let join_mode = if storable {
        JoinMode::Supersede
    } else {
        JoinMode::Detached
    };
    let joinable = request.run.join != SingleFlight::Off;
    let start = || flight_start(request, joinable, labels, missed);
    let entered = enter(request, join_mode, lookup_guard.as_ref(), |_| false, start);
    match entered.await {
        FlightEntry::Lead { flight, superseded } => (flight, superseded),
        FlightEntry::Joined(_) | FlightEntry::Retry | FlightEntry::Wait | FlightEntry::Occupied => {
            unreachable!("these modes join no flight")
        }
    }
}

/// Registers a flight that no caller can join and whose answer is not stored.
pub(crate) fn detach(request: &Request<'_>) -> Arc<Flight> {
    let start = || FlightStart {
        stores: false,
        joinable: false,
        labels: request.labels(),
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

async fn enter(
    request: &Request<'_>,
    join_mode: JoinMode,
    lookup_guard: Option<&LookupGuard<'_>>,
    is_current: impl Fn(&Flight) -> bool,
    start: impl Fn() -> FlightStart,
) -> FlightEntry {
    let flights = &request.engine.flights;
    loop {
        match flights.enter(
            request.key,
            join_mode,
            lookup_guard,
            &is_current,
            request.run.form,
            &start,
        ) {
            FlightEntry::Wait => flights.lookup_released(&request.key).await,
            entered => return entered,
        }
    }
}

fn flight_start(
    request: &Request<'_>,
    joinable: bool,
    labels: &[Label],
    missed: &LookupMiss,
) -> FlightStart {
    FlightStart {
        stores: request.hit.stores_answers() && !missed.has_unknown_epochs(),
        joinable,
        labels: labels.to_vec(),
        domains: request.hit.domains.clone(),
        local_epochs: missed.local_epochs.clone(),
        epochs: missed.epochs.clone(),
    }
}

/// Reads the answer of another caller's run; `None` if its ticket was dropped without an answer.
pub(crate) async fn follow(request: &Request<'_>, reader: ReaderGuard) -> Option<Outcome> {
    let flight = Arc::clone(reader.flight());
    // Changes of files are not announced: the flight is joined only if everything that it has read so far
    // is unchanged. Files that it has not read yet, it will read in their current state.
    flight.witness.observations_recorded().await;
    if flight.witness.snapshot().holds().await.is_err() {
        flight.close();
        return None;
    }
    if !flight.body.readable().await {
        return None;
    }
    let row = request.ledger_row(CallStatus::Coalesced);
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

/// Revokes flights whose answers must not be stored any more, and releases their reservations for the new
/// run.
pub(crate) async fn revoke(request: &Request<'_>, superseded: Vec<Arc<Flight>>) {
    for flight in superseded {
        flight.revoke();
        if let Some(lease) = flight.take_lease() {
            let access = &request.engine.access;
            access.release(lease, request.run.lookup_timeout).await;
        }
    }
}

/// The reason why the answer of a flight that starts now could not be stored: the epochs under which it would
/// run are unknown, or a flight of another form stores its answer.
pub(crate) fn check_storable(flight: &Flight, missed: &LookupMiss) -> Result<(), Reason> {
    if missed.has_unknown_epochs() {
        Err(missed.reason.clone())
    } else if flight.runs_beside() {
        Err(Reason::RunsInOtherForm)
    } else {
        Ok(())
    }
}
