//! Renewal of reservations for as long as their runs continue: one ticker per runtime, not a task per run.

use std::sync::{Arc, Weak};
use std::time::Duration;

use cachalot_store::Lease;

use crate::access::StoreAccess;
use crate::flight::{Flight, Flights};
use crate::lease::LEASE_DURATION;
use crate::sync::{Mutex, RuntimeId, lock, runtime_id, sleep, spawn};

/// The time between two renewals of a lease.
const INTERVAL: Duration = Duration::from_secs(LEASE_DURATION.as_secs() / 4);

/// A lease that is younger than this is not renewed yet: most runs end before. With `shuttle`, time stands
/// still.
const MIN_LEASE_AGE: Duration = if cfg!(feature = "shuttle") {
    Duration::ZERO
} else {
    Duration::from_millis(500)
};

/// The renewal of all leases of an engine.
pub(crate) struct Renewals {
    access: Arc<StoreAccess>,
    flights: Arc<Flights>,
    /// The runtimes that have a ticker. A ticker renews the leases of its own runtime's flights only: the task
    /// of a runtime that nothing drives does not run.
    ticking: Mutex<Vec<RuntimeId>>,
}

impl Renewals {
    pub(crate) fn new(access: &Arc<StoreAccess>, flights: &Arc<Flights>) -> Self {
        Self {
            access: Arc::clone(access),
            flights: Arc::clone(flights),
            ticking: Mutex::default(),
        }
    }

    /// Renews the lease of a flight until [`Flight::stop_renewal`].
    pub(crate) fn start(self: &Arc<Self>, flight: &Flight) {
        let runtime = runtime_id();
        // Set before the table is locked: a ticker that ends looks for such flights under that lock.
        flight.start_renewal(runtime);
        let mut ticking = lock(&self.ticking);
        if !ticking.contains(&runtime) {
            ticking.push(runtime);
            drop(ticking);
            let ticker = Ticker {
                renewals: Arc::downgrade(self),
                runtime,
                is_listed: true,
            };
            spawn(ticker.run());
        }
    }
}

/// Renews the leases of the flights of one runtime. If the runtime drops it, the next lease starts another.
struct Ticker {
    renewals: Weak<Renewals>,
    runtime: RuntimeId,
    /// True while the list of [`Renewals`] has this ticker, not one that has started since.
    is_listed: bool,
}

impl Ticker {
    async fn run(mut self) {
        loop {
            sleep(INTERVAL).await;
            let Some(renewals) = self.renewals.upgrade() else {
                return;
            };
            if self.ends(&renewals) {
                return;
            }
            let due = renewals
                .flights
                .leases_to_renew(self.runtime, MIN_LEASE_AGE);
            for (flight, lease) in due {
                // In a task of its own: a slow answer about one lease must not let the others expire.
                spawn(renew(Arc::clone(&renewals.access), flight, lease));
            }
        }
    }

    /// Ends the ticker if no lease of its runtime is renewed.
    fn ends(&mut self, renewals: &Renewals) -> bool {
        if renewals.flights.any_renewed_in(self.runtime) {
            return false;
        }
        let mut ticking = lock(&renewals.ticking);
        // Checked again under the lock: `Renewals::start` sets the renewal before it looks for a ticker under that
        // lock, so no lease stays without one.
        if renewals.flights.any_renewed_in(self.runtime) {
            return false;
        }
        ticking.retain(|runtime| *runtime != self.runtime);
        self.is_listed = false;
        true
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if let (true, Some(renewals)) = (self.is_listed, self.renewals.upgrade()) {
            lock(&renewals.ticking).retain(|runtime| *runtime != self.runtime);
        }
    }
}

async fn renew(access: Arc<StoreAccess>, flight: Arc<Flight>, lease: Lease) {
    let Ok(store) = access.store() else { return };
    // A renewal that takes longer than the interval would overlap with the next one.
    let renewed = store.renew(&lease, LEASE_DURATION).within(INTERVAL).await;
    match renewed {
        Ok(true) => {}
        // Another process has revoked it, or it has expired. The answer will not be stored, and callers from
        // now on may know of the write or erasure that revoked it, so they must not join.
        Ok(false) => {
            if flight.stop_renewal() {
                flight.close();
            }
        }
        // The lease lasts for several intervals, so the next renewal may still be in time.
        Err(error) => {
            access.fault(&error);
        }
    }
}
