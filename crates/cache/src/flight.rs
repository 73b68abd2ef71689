//! Runs under way, and who waits for them.

use std::collections::HashMap;
use std::sync::Arc;

use cachalot_memory::{Label, Lease};
use tokio::sync::{Notify, watch};

use crate::body::Growing;
use crate::epoch::Moment;
use crate::outcome::Settled;
use crate::sync::{Mutex, lock};
use crate::witness::Witness;
use crate::Key;

/// One run of one call.
pub(crate) struct Flight {
    pub(crate) key: Key,
    pub(crate) body: Growing,
    pub(crate) labels: Vec<Label>,
    /// The domains' state before the run began, in this process and in the memory.
    pub(crate) moment: Moment,
    pub(crate) epochs: Option<Vec<u64>>,
    pub(crate) witness: Witness,
    pub(crate) settled: watch::Sender<Option<Settled>>,
    state: Mutex<State>,
    left: Notify,
}

struct State {
    joinable: bool,
    revoked: bool,
    readers: usize,
    ever_read: bool,
    lease: Option<Lease>,
}

/// Somebody reads a flight's answer; counted, so that the run knows when nobody does.
pub(crate) struct Presence(Arc<Flight>);

impl Clone for Presence {
    fn clone(&self) -> Self {
        lock(&self.0.state).readers += 1;
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.readers -= 1;
        if state.readers == 0 {
            drop(state);
            self.0.left.notify_waiters();
        }
    }
}

impl Presence {
    pub(crate) fn flight(&self) -> &Arc<Flight> {
        &self.0
    }
}

/// What a new flight starts from.
pub(crate) struct Departure {
    pub(crate) joinable: bool,
    pub(crate) labels: Vec<Label>,
    pub(crate) moment: Moment,
    pub(crate) epochs: Option<Vec<u64>>,
}

impl Flight {
    pub(crate) fn new(key: Key, departure: Departure) -> Arc<Self> {
        let Departure { joinable, labels, moment, epochs } = departure;
        Arc::new(Self {
            key,
            body: Growing::default(),
            labels,
            moment,
            epochs,
            witness: Witness::default(),
            settled: watch::Sender::new(None),
            state: Mutex::new(State {
                joinable,
                revoked: false,
                readers: 0,
                ever_read: false,
                lease: None,
            }),
            left: Notify::new(),
        })
    }

    /// One more reader.
    pub(crate) fn attend(self: &Arc<Self>) -> Presence {
        let mut state = lock(&self.state);
        state.readers += 1;
        state.ever_read = true;
        drop(state);
        Presence(Arc::clone(self))
    }

    /// One more reader, unless the flight is closed to newcomers.
    fn attend_if_joinable(self: &Arc<Self>) -> Option<Presence> {
        let mut state = lock(&self.state);
        if !state.joinable || state.revoked {
            return None;
        }
        state.readers += 1;
        state.ever_read = true;
        drop(state);
        Some(Presence(Arc::clone(self)))
    }

    /// Closes the flight to newcomers.
    pub(crate) fn close(&self) {
        lock(&self.state).joinable = false;
    }

    pub(crate) fn revoke(&self) {
        let mut state = lock(&self.state);
        state.joinable = false;
        state.revoked = true;
    }

    pub(crate) fn is_revoked(&self) -> bool {
        lock(&self.state).revoked
    }

    pub(crate) fn hold(&self, lease: Lease) {
        lock(&self.state).lease = Some(lease);
    }

    pub(crate) fn lease(&self) -> Option<Lease> {
        lock(&self.state).lease.clone()
    }

    pub(crate) fn take_lease(&self) -> Option<Lease> {
        lock(&self.state).lease.take()
    }

    /// Resolves once there were readers and all have left; with `close`, nobody can join after that.
    pub(crate) async fn deserted(&self, close: bool) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            {
                let mut state = lock(&self.state);
                if state.ever_read && state.readers == 0 {
                    state.joinable &= !close;
                    return;
                }
            }
            left.await;
        }
    }

    /// Resolves when somebody reads again.
    pub(crate) fn has_readers(&self) -> bool {
        lock(&self.state).readers > 0
    }
}

/// The runs under way in this process.
#[derive(Default)]
pub(crate) struct Flights {
    running: Mutex<HashMap<Key, Vec<Arc<Flight>>>>,
}

/// What became of a caller that found no entry.
pub(crate) enum Entered {
    /// It reads what another one produces.
    Joined(Presence),
    /// It runs. Flights of the same key that could not be joined are outdated: their leases are void.
    Leads { flight: Arc<Flight>, outdated: Vec<Arc<Flight>> },
}

impl Flights {
    /// Joins the newest flight that `current` approves of, or registers a new one. Atomic: of any
    /// number of callers that may join each other, one leads.
    pub(crate) fn enter(
        &self,
        key: Key,
        may_join: bool,
        current: impl Fn(&Flight) -> bool,
        departure: impl FnOnce() -> Departure,
    ) -> Entered {
        let mut running = lock(&self.running);
        let flights = running.entry(key).or_default();
        let mut outdated = Vec::new();
        if may_join {
            for flight in flights.iter().rev() {
                if current(flight) {
                    if let Some(presence) = flight.attend_if_joinable() {
                        return Entered::Joined(presence);
                    }
                } else {
                    outdated.push(Arc::clone(flight));
                }
            }
        }
        let flight = Flight::new(key, departure());
        flights.push(Arc::clone(&flight));
        Entered::Leads { flight, outdated }
    }

    /// Takes an ended flight out.
    pub(crate) fn leave(&self, flight: &Arc<Flight>) {
        let mut running = lock(&self.running);
        if let Some(flights) = running.get_mut(&flight.key) {
            flights.retain(|other| !Arc::ptr_eq(other, flight));
            if flights.is_empty() {
                running.remove(&flight.key);
            }
        }
    }

    /// Revokes what matches; returns how many.
    pub(crate) fn revoke(&self, matches: impl Fn(&Flight) -> bool) -> usize {
        let running = lock(&self.running);
        let matching = running.values().flatten().filter(|flight| matches(flight));
        matching.map(|flight| flight.revoke()).count()
    }
}
