//! Reservations: leases on keys, held against other processes, that permit storing the answer of a run.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use cachalot_store::{
    Error, GetOrReserve, GetOrReserveResult, GetResult, Label, Lease, ReserveResult, Stale, Store,
    StoreReply, space,
};
use tokio::task::JoinHandle;

use crate::begin::Request;
use crate::engine::{Engine, Lookup, LookupRequest, TimeBudget};
use crate::flight::Flight;
use crate::front::FrontEntry;
use crate::policy::{CacheMode, SingleFlight};
use crate::renew::LEASE_DURATION;
use crate::sync::{Mutex, lock, sleep, spawn};
use crate::ticket::Ticket;
use crate::{Key, Reason};

/// Maximum time to wait for a late lease in order to release it, and maximum time for the release.
pub(crate) const RELEASE_TIMEOUT: Duration = Duration::from_secs(30);

/// A caller that waits longer than this for another process gets a message.
const WAIT_NOTICE_DELAY: Duration = Duration::from_secs(1);

/// The result of reserving the key of a flight.
pub(crate) enum ReservationOutcome {
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

/// The reservation that a lookup returned.
pub(crate) enum Reservation {
    Held(UnclaimedLease),
    /// Another call holds the key, for `left` if it does not renew.
    Busy {
        left: Duration,
    },
}

/// A lease that no flight holds yet. If it is dropped, it is released in the background.
pub(crate) struct UnclaimedLease {
    engine: Arc<Engine>,
    lease: Option<Lease>,
}

impl UnclaimedLease {
    /// Moves the lease to the flight, whose ticket releases it.
    pub(crate) fn claim(mut self, flight: &Flight) {
        if let Some(lease) = self.lease.take() {
            flight.set_lease(lease);
        }
    }
}

impl Drop for UnclaimedLease {
    fn drop(&mut self) {
        let (Some(lease), Ok(_)) = (self.lease.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let engine = Arc::clone(&self.engine);
        spawn(async move { engine.release(lease, RELEASE_TIMEOUT).await });
    }
}

/// A reservation to be made by a lookup.
#[derive(Clone, Copy)]
pub(crate) struct ReservationRequest<'a> {
    pub(crate) labels: &'a [Label],
    pub(crate) stale: Stale,
    /// Receives an answer that comes too late.
    pub(crate) late: &'a LateLookup,
}

/// An answer to a lookup for which the caller has stopped waiting. Unless it is taken from here, its lease is
/// released, so that the key does not stay reserved for a call that is gone.
#[derive(Default)]
pub(crate) struct LateLookup(Mutex<Option<JoinHandle<Option<EnterAnswer>>>>);

type EnterAnswer = (GetResult, Option<Reservation>);

impl LateLookup {
    /// Moves the pending answer into a new value.
    pub(crate) fn take(&self) -> Self {
        Self(Mutex::new(lock(&self.0).take()))
    }

    /// Waits for the answer; `None` if there is none, or it does not arrive in time.
    pub(crate) async fn wait(&self, time: &TimeBudget) -> Option<EnterAnswer> {
        let answer = lock(&self.0).take()?;
        let asked = tokio::time::Instant::now();
        let answered = tokio::time::timeout(time.remaining(), answer).await;
        time.consume(asked.elapsed());
        answered.ok()?.ok()?
    }
}

/// The pending answer of the store to a lookup.
type EnterFuture = dyn Future<Output = Result<GetOrReserveResult, Error>> + Send;

/// A lookup in progress. If it is dropped before it is answered, it continues in the background.
struct PendingEnter<'a> {
    engine: Arc<Engine>,
    late: &'a LateLookup,
    /// Set when the request has been sent.
    asked: bool,
    /// `None` once the store has answered.
    answer: Option<Pin<Box<EnterFuture>>>,
}

impl Future for PendingEnter<'_> {
    type Output = Result<GetOrReserveResult, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.asked = true;
        let Some(answer) = self.answer.as_mut() else {
            return Poll::Pending;
        };
        let answered = answer.as_mut().poll(context);
        if answered.is_ready() {
            self.answer = None;
        }
        answered
    }
}

impl Drop for PendingEnter<'_> {
    fn drop(&mut self) {
        let answer = self.answer.take().filter(|_| self.asked);
        let (Some(answer), Ok(runtime)) = (answer, tokio::runtime::Handle::try_current()) else {
            return;
        };
        let engine = Arc::clone(&self.engine);
        let waiting = runtime.spawn(async move {
            let entered = tokio::time::timeout(RELEASE_TIMEOUT, answer).await;
            Some(engine.guard_lease(entered.ok()?.ok()?))
        });
        *lock(&self.late.0) = Some(waiting);
    }
}

impl Engine {
    /// Looks a key up, and reserves it unless the record answers the call, in one round trip.
    pub(crate) async fn get_or_reserve(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        key: &Key,
        counters: &[&str],
        reservation_request: ReservationRequest<'_>,
        budget: &TimeBudget,
    ) -> Result<EnterAnswer, Reason> {
        let asked = self.clock.now();
        let (store, key) = (Arc::clone(store), *key);
        let counters: Vec<String> = counters.iter().map(|&name| name.to_owned()).collect();
        let (labels, stale) = (
            reservation_request.labels.to_vec(),
            reservation_request.stale,
        );
        let answer = Box::pin(async move {
            let counters: Vec<&str> = counters.iter().map(String::as_str).collect();
            let request = GetOrReserve {
                counters: &counters,
                labels: &labels,
                hold: LEASE_DURATION,
                stale,
            };
            store
                .get_or_reserve(space::CACHE, &key.text(), request)
                .settle()
                .await
        });
        let pending = PendingEnter {
            engine: Arc::clone(self),
            late: reservation_request.late,
            asked: false,
            answer: Some(answer),
        };
        let entered = self.await_store(StoreReply::later(pending), budget).await?;
        self.record_clock_offset(asked, entered.found.now);
        Ok(self.guard_lease(entered))
    }

    fn guard_lease(self: &Arc<Self>, entered: GetOrReserveResult) -> EnterAnswer {
        let reservation = entered.reserved.map(|reserved| match reserved {
            ReserveResult::Held(lease) => Reservation::Held(UnclaimedLease {
                engine: Arc::clone(self),
                lease: Some(lease),
            }),
            ReserveResult::Busy { left, .. } => Reservation::Busy { left },
        });
        (entered.found, reservation)
    }
}

impl Request<'_> {
    /// Reserves the key for the ticket's flight: takes the lease that the lookup returned, or waits for the
    /// process that holds it, for as long as the policy allows.
    pub(crate) async fn reserve(
        &self,
        ticket: &Ticket,
        mut reservation: Option<Reservation>,
        mut revision: Option<u64>,
    ) -> ReservationOutcome {
        let asked = tokio::time::Instant::now();
        let wait = match self.policy.join {
            SingleFlight::AllProcesses { wait } => wait,
            SingleFlight::Off | SingleFlight::Process => Duration::ZERO,
        };
        let mut pause = Duration::from_millis(2);
        let (mut waited, mut reported) = (false, false);
        loop {
            let left = match reservation.take() {
                Some(Reservation::Held(lease)) => {
                    lease.claim(&ticket.flight);
                    return ReservationOutcome::Held;
                }
                Some(Reservation::Busy { left }) => left,
                None => {
                    // The answer may have been stored since the last lookup.
                    let ask = LookupRequest::Enter(
                        self.reservation_request(&ticket.flight.labels, revision),
                    );
                    let missed = match self.find_in_store(ask).await {
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
                self.report_waiting();
            }
            let remaining = wait.saturating_sub(asked.elapsed());
            if remaining.is_zero() {
                return ReservationOutcome::Unreserved(Reason::BusyElsewhere);
            }
            self.budget.refill(self.policy);
            sleep(pause.min(remaining).min(left.max(Duration::from_millis(1)))).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    /// The reservation that the call needs: over any record if a fresh answer is requested, else over the
    /// record of this revision, which does not answer the call.
    pub(crate) fn reservation_request<'a>(
        &'a self,
        labels: &'a [Label],
        revision: Option<u64>,
    ) -> ReservationRequest<'a> {
        let stale = match (self.policy.mode, revision) {
            (CacheMode::Refresh, _) => Stale::Any,
            (_, Some(revision)) => Stale::Revision(revision),
            (_, None) => Stale::None,
        };
        ReservationRequest {
            labels,
            stale,
            late: &self.late,
        }
    }

    fn report_waiting(&self) {
        let name = self.call.name;
        self.engine.report(&format!(
            "{name}: waiting for another process that is at work on the same call"
        ));
    }
}
