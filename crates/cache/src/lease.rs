//! Leases on keys, held against other processes, that permit storing the answer of a run.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use cachalot_store::{
    Error, GetOrReserve, GetOrReserveResult, GetResult, Label, Lease, ReserveResult, Stale, Store,
    StoreReply, space,
};
use tokio::task::JoinHandle;

use crate::access::{RELEASE_TIMEOUT, StoreAccess, TimeBudget};
use crate::sync::{Mutex, lock, spawn};
use crate::{Key, Reason};

/// The duration of a lease, which is renewed three times in that span while the run continues: a holder that
/// dies blocks other processes for no longer than this.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(4);

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
    access: Arc<StoreAccess>,
    /// `None` once it is claimed.
    lease: Option<Lease>,
}

impl UnclaimedLease {
    /// Returns the lease, which stays unclaimed.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Returns the lease; from now on, the caller releases it.
    pub(crate) fn claim(mut self) -> Option<Lease> {
        self.lease.take()
    }
}

impl Drop for UnclaimedLease {
    fn drop(&mut self) {
        // Without a runtime, nothing can release the lease. It then expires after `LEASE_DURATION`.
        let (Some(lease), Ok(_)) = (self.lease.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let access = Arc::clone(&self.access);
        spawn(async move { access.release(lease, RELEASE_TIMEOUT).await });
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

pub(crate) type EnterAnswer = (GetResult, Option<Reservation>);

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
    access: Arc<StoreAccess>,
    late: &'a LateLookup,
    /// Set when the request has been sent.
    asked: bool,
    /// `None` once the store has answered.
    answer: Option<Pin<Box<EnterFuture>>>,
}

impl Future for PendingEnter<'_> {
    type Output = Result<GetOrReserveResult, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The request is sent when the future is polled for the first time. A lookup that is dropped before has
        // reserved nothing.
        self.asked = true;
        let Some(answer) = self.answer.as_mut() else {
            return Poll::Pending;
        };
        let answered = answer.as_mut().poll(context);
        // The caller receives this answer, and the lease in it: the drop must not continue the lookup.
        if answered.is_ready() {
            self.answer = None;
        }
        answered
    }
}

impl Drop for PendingEnter<'_> {
    fn drop(&mut self) {
        // The store may still make the reservation. Without a task that waits for it, other processes would wait until
        // the lease expires.
        let answer = self.answer.take().filter(|_| self.asked);
        let (Some(answer), Ok(runtime)) = (answer, tokio::runtime::Handle::try_current()) else {
            return;
        };
        let access = Arc::clone(&self.access);
        let waiting = runtime.spawn(async move {
            let entered = tokio::time::timeout(RELEASE_TIMEOUT, answer).await;
            Some(guard_lease(&access, entered.ok()?.ok()?))
        });
        *lock(&self.late.0) = Some(waiting);
    }
}

/// Looks a key up, and reserves it unless the record answers the call, in one round trip.
pub(crate) async fn get_or_reserve(
    access: &Arc<StoreAccess>,
    store: &Arc<dyn Store>,
    key: &Key,
    counters: &[&str],
    reservation_request: ReservationRequest<'_>,
    budget: &TimeBudget,
) -> Result<EnterAnswer, Reason> {
    let asked = access.clock.now();
    // Owned copies, because the request continues after this call if the caller stops waiting (`PendingEnter`).
    let (store, key) = (Arc::clone(store), *key);
    let counters: Vec<String> = counters.iter().map(|&name| name.to_owned()).collect();
    let ReservationRequest {
        labels,
        stale,
        late,
    } = reservation_request;
    let labels = labels.to_vec();
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
        access: Arc::clone(access),
        late,
        asked: false,
        answer: Some(answer),
    };
    let entered = access
        .await_read(StoreReply::later(pending), budget)
        .await?;
    access.record_clock_offset(asked, entered.found.now);
    Ok(guard_lease(access, entered))
}

fn guard_lease(access: &Arc<StoreAccess>, entered: GetOrReserveResult) -> EnterAnswer {
    let reservation = entered.reserved.map(|reserved| match reserved {
        ReserveResult::Held(lease) => Reservation::Held(UnclaimedLease {
            access: Arc::clone(access),
            lease: Some(lease),
        }),
        ReserveResult::Busy { left, .. } => Reservation::Busy { left },
    });
    (entered.found, reservation)
}
