//! The reservation phase: secures the right to store the answer of a run, or finds the answer that another
//! process stores first.

use std::sync::Arc;
use std::time::Duration;

use crate::Reason;
use crate::flight::Flight;
use crate::front::FrontEntry;
use crate::lease::Reservation;
use crate::summary::CacheStatus;
use crate::sync::sleep;

use super::lookup::{Lookup, LookupMiss, find_in_store};
use super::request::Request;
use super::ticket::Ticket;

/// A caller that waits longer than this for another process gets a message.
const WAIT_NOTICE_DELAY: Duration = Duration::from_secs(1);

/// The result of reserving the key of a flight.
enum ReservationOutcome {
    Held,
    /// No reservation: the answer is not stored.
    Unreserved(Reason),
    /// Another process has stored an answer first.
    Answered {
        front_entry: Arc<FrontEntry>,
        /// Set if the caller waited for it while that process was running the call.
        waited: bool,
    },
}

/// Reserves the key for a ticket where possible, unless the lookup has done so. Waits at most `wait` for other
/// processes. Returns the answer that another process has stored first.
pub(super) async fn reserve(
    request: &Request<'_>,
    ticket: &mut Ticket,
    superseded: Vec<Arc<Flight>>,
    miss: LookupMiss,
    wait: Duration,
) -> Option<(Arc<FrontEntry>, CacheStatus)> {
    let LookupMiss {
        erased,
        erasures,
        mut reservation,
        revision,
        reason,
        ..
    } = miss;
    ticket.run_start.erased = erased;
    ticket.run_start.erasures = erasures;
    if !superseded.is_empty() {
        // The superseded flights may have held the key.
        revoke(request, superseded).await;
        // The key may have been busy because of the leases that were just released, so it is requested again.
        reservation = reservation.filter(|reservation| matches!(reservation, Reservation::Held(_)));
    }
    if ticket.storable.is_ok() {
        ticket.storable = request.check_labels();
    }
    if ticket.storable.is_err() || !request.reserves() {
        return None;
    }
    let reserved = match erased {
        // The store does not answer. The reservation is requested again when there is an answer to store.
        None => ReservationOutcome::Unreserved(reason),
        Some(_) => wait_for_reservation(request, &ticket.flight, wait, reservation, revision).await,
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
            let status = if waited {
                CacheStatus::Coalesced
            } else {
                CacheStatus::Hit
            };
            return Some((front_entry, status));
        }
    }
    None
}

/// Reserves the key for a flight: takes the lease that the lookup returned, or waits for the process that
/// holds it, for at most `wait`. `revision` is that of the record which does not answer the
/// call.
async fn wait_for_reservation(
    request: &Request<'_>,
    flight: &Flight,
    wait: Duration,
    mut reservation: Option<Reservation>,
    mut revision: Option<u64>,
) -> ReservationOutcome {
    let asked = tokio::time::Instant::now();
    let mut pause = Duration::from_millis(2);
    let (mut waited, mut reported) = (false, false);
    loop {
        let left = match reservation.take() {
            Some(Reservation::Held(lease)) => {
                flight.set_lease(lease.claim());
                return ReservationOutcome::Held;
            }
            Some(Reservation::Busy { left }) => left,
            None => {
                // The answer may have been stored since the last lookup.
                let ask = Some(request.reservation(revision));
                let missed = match find_in_store(request, ask).await {
                    Lookup::Hit(front_entry) => {
                        return ReservationOutcome::Answered {
                            front_entry,
                            waited,
                        };
                    }
                    Lookup::Miss(missed) => missed,
                };
                if missed.reservation.is_none()
                    && (missed.erased.is_none() || missed.revision == revision)
                {
                    return ReservationOutcome::Unreserved(missed.reason);
                }
                (reservation, revision) = (missed.reservation, missed.revision);
                continue;
            }
        };
        waited = true;
        if !reported && asked.elapsed() >= WAIT_NOTICE_DELAY {
            reported = true;
            let name = request.call.name;
            request.engine.access.report(&format!(
                "{name}: waiting for another process that is at work on the same call"
            ));
        }
        // A holder that continues renews its lease, so the lease alone never ends this wait.
        let remaining = wait.saturating_sub(asked.elapsed());
        if remaining.is_zero() {
            return ReservationOutcome::Unreserved(Reason::BusyElsewhere);
        }
        request.budget.refill();
        // Not longer than the lease lasts: a holder that died does not release it.
        sleep(pause.min(remaining).min(left.max(Duration::from_millis(1)))).await;
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// Revokes flights whose answers must not be stored any more, and releases their reservations for the new
/// run.
async fn revoke(request: &Request<'_>, superseded: Vec<Arc<Flight>>) {
    for flight in superseded {
        // Revoked first: a flight that has lost its lease must not store its answer by another proof
        // (`acquire_right_to_store`).
        flight.revoke();
        if let Some(lease) = flight.take_lease() {
            let access = &request.engine.access;
            access.release(lease, request.budget.full()).await;
        }
    }
}
