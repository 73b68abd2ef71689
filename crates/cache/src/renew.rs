//! Renewal of reservations for as long as their runs continue: one ticker per runtime, not a task per run.

use std::sync::{Arc, Weak};
use std::time::Duration;

use cachalot_store::{Lease, Store};

use crate::engine::Engine;
use crate::flight::Flight;
use crate::sync::{Mutex, RuntimeId, lock, runtime_id, sleep, spawn};

/// The duration of a lease, which is renewed three times in that span while the run continues: a holder that
/// dies blocks other processes for no longer than this.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(4);

/// The time between two renewals of a lease.
const INTERVAL: Duration = Duration::from_secs(1);

/// A lease that is younger than this is not renewed yet: most runs end before. With `shuttle`, time stands
/// still.
pub(crate) const MIN_LEASE_AGE: Duration = match cfg!(feature = "shuttle") {
    true => Duration::ZERO,
    false => Duration::from_millis(500),
};

/// The runtimes that have a ticker. A ticker renews the leases of its own runtime's flights only: the task of
/// a runtime that nothing drives does not run.
#[derive(Default)]
pub(crate) struct Renewals(Mutex<Vec<RuntimeId>>);

impl Engine {
    /// Renews the lease of a flight until [`Flight::stop_renewal`].
    pub(crate) fn renew_lease(self: &Arc<Self>, flight: &Flight) {
        let runtime = runtime_id();
        // Set before the table is locked: a ticker that ends looks for such flights under that lock.
        flight.start_renewal(runtime);
        let mut ticking = lock(&self.renewals.0);
        if !ticking.contains(&runtime) {
            ticking.push(runtime);
            drop(ticking);
            let ticker = Ticker {
                engine: Arc::downgrade(self),
                runtime,
                is_listed: true,
            };
            spawn(ticker.run());
        }
    }

    async fn renew(self: Arc<Self>, store: Arc<dyn Store>, flight: Arc<Flight>, lease: Lease) {
        let renewed = store.renew(&lease, LEASE_DURATION).within(INTERVAL).await;
        match renewed {
            Ok(true) => {}
            Ok(false) => {
                // Another process has revoked it, or it has expired. The answer will not be stored, and
                // callers from now on may know of the write or erasure that revoked it, so they must not
                // join.
                if flight.stop_renewal() {
                    flight.close();
                }
            }
            Err(error) => {
                self.fault(&error);
            }
        }
    }
}

/// Renews the leases of the flights of one runtime. If the runtime drops it, the next lease starts another.
struct Ticker {
    engine: Weak<Engine>,
    runtime: RuntimeId,
    /// True while [`Renewals`] has the entry of this ticker, not of one that has started since.
    is_listed: bool,
}

impl Ticker {
    async fn run(mut self) {
        loop {
            sleep(INTERVAL).await;
            let Some(engine) = self.engine.upgrade() else {
                return;
            };
            if !engine.flights.any_renewed_in(self.runtime) {
                let mut ticking = lock(&engine.renewals.0);
                if !engine.flights.any_renewed_in(self.runtime) {
                    ticking.retain(|runtime| *runtime != self.runtime);
                    self.is_listed = false;
                    return;
                }
            }
            let Ok(store) = engine.store().map(Arc::clone) else {
                return;
            };
            for (flight, lease) in engine.flights.leases_to_renew(self.runtime) {
                spawn(Arc::clone(&engine).renew(Arc::clone(&store), flight, lease));
            }
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if let (true, Some(engine)) = (self.is_listed, self.engine.upgrade()) {
            lock(&engine.renewals.0).retain(|runtime| *runtime != self.runtime);
        }
    }
}
