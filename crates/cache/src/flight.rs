//! Flights: runs in progress, and the callers that wait for them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cachalot_core::Spend;
use cachalot_memory::{Label, Lease};
use tokio::sync::{Notify, watch};

use crate::Key;
use crate::body::Growing;
use crate::epoch::Moment;
use crate::ledger::Unwritten;
use crate::outcome::Ended;
use crate::policy::Domain;
use crate::sync::{Mutex, lock};
use crate::witness::Witness;

/// One run of one call.
pub(crate) struct Flight {
    pub(crate) key: Key,
    pub(crate) body: Growing,
    pub(crate) labels: Vec<Label>,
    /// The domains of the call that started the flight. `moment` and `epochs` are their state before the run
    /// began, in this process and in the store.
    domains: Vec<Domain>,
    pub(crate) moment: Moment,
    pub(crate) epochs: Option<Vec<u64>>,
    pub(crate) witness: Witness,
    pub(crate) ended: watch::Sender<Option<Ended>>,
    pub(crate) followers: Followers,
    state: Mutex<State>,
    /// Signalled when a reader joins, or the last one leaves.
    attendance: Notify,
}

struct State {
    joinable: bool,
    /// Set if the next leader may take over the reservation, because this answer will not be stored.
    yields: bool,
    revoked: bool,
    readers: usize,
    /// Total number of readers since the start.
    arrivals: u64,
    lease: Option<Lease>,
}

/// Guard of one reader of a flight; counted, so that the run detects when there are no readers left.
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
            self.0.attendance.notify_waiters();
        }
    }
}

impl Presence {
    pub(crate) fn flight(&self) -> &Arc<Flight> {
        &self.0
    }
}

/// The initial state of a new flight.
pub(crate) struct Departure {
    pub(crate) joinable: bool,
    pub(crate) labels: Vec<Label>,
    pub(crate) domains: Vec<Domain>,
    pub(crate) moment: Moment,
    pub(crate) epochs: Option<Vec<u64>>,
}

impl Flight {
    pub(crate) fn new(key: Key, departure: Departure) -> Arc<Self> {
        let Departure {
            joinable,
            labels,
            domains,
            moment,
            epochs,
        } = departure;
        Arc::new(Self {
            key,
            body: Growing::default(),
            labels,
            domains,
            moment,
            epochs,
            witness: Witness::default(),
            ended: watch::Sender::new(None),
            followers: Followers::default(),
            state: Mutex::new(State {
                joinable,
                yields: false,
                revoked: false,
                readers: 0,
                arrivals: 0,
                lease: None,
            }),
            attendance: Notify::new(),
        })
    }

    /// True if the run began under exactly these domains, in any order, each at the epoch that it has in
    /// `moment` (in this process) and in `epochs` (in the store).
    pub(crate) fn began_under(
        &self,
        domains: &[Domain],
        moment: &Moment,
        epochs: Option<&[u64]>,
    ) -> bool {
        let is_current = |(at, domain): (usize, &Domain)| {
            self.domains
                .iter()
                .position(|own| own == domain)
                .is_some_and(|own| {
                    self.moment.generations.get(own) == moment.generations.get(at)
                        && self.epochs.as_ref().map(|epochs| epochs.get(own))
                            == epochs.map(|epochs| epochs.get(at))
                })
        };
        self.moment.being_written.is_none()
            && moment.being_written.is_none()
            && domains.iter().enumerate().all(is_current)
            && self.domains.iter().all(|own| domains.contains(own))
    }

    /// Adds a reader.
    pub(crate) fn attend(self: &Arc<Self>) -> Presence {
        self.arrive(&mut lock(&self.state))
    }

    /// Adds a reader, unless the flight is closed to new callers.
    fn attend_if_joinable(self: &Arc<Self>) -> Option<Presence> {
        let mut state = lock(&self.state);
        (state.joinable && !state.revoked).then(|| self.arrive(&mut state))
    }

    fn arrive(self: &Arc<Self>, state: &mut State) -> Presence {
        state.readers += 1;
        state.arrivals += 1;
        self.attendance.notify_waiters();
        Presence(Arc::clone(self))
    }

    /// Closes the flight to new callers; the next leader may take over its reservation.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.joinable = false;
        state.yields = true;
    }

    fn yields(&self) -> bool {
        lock(&self.state).yields
    }

    pub(crate) fn revoke(&self) {
        let mut state = lock(&self.state);
        state.joinable = false;
        state.yields = true;
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

    /// Resolves once there have been readers and all have left while the answer was incomplete; returns the
    /// number of readers so far. A complete answer is being stored, which is never abandoned.
    pub(crate) async fn deserted(&self) -> u64 {
        let arrivals = self.attendance(|state| {
            (state.readers == 0 && state.arrivals > 0).then_some(state.arrivals)
        });
        let arrivals = arrivals.await;
        if self.body.has_ended() {
            std::future::pending::<()>().await;
        }
        arrivals
    }

    /// Resolves when there have been more than `known` readers.
    pub(crate) async fn attended(&self, known: u64) {
        self.attendance(|state| (state.arrivals > known).then_some(()))
            .await;
    }

    /// Closes the flight if it has no reader and its answer is incomplete; returns true if it did. A complete
    /// answer is being stored, which continues without readers.
    pub(crate) fn close_if_deserted(&self) -> bool {
        let mut state = lock(&self.state);
        let deserted = state.readers == 0 && !self.body.has_ended();
        if deserted {
            state.joinable = false;
            state.yields = true;
        }
        deserted
    }

    async fn attendance<T>(&self, ready: impl Fn(&State) -> Option<T>) -> T {
        loop {
            let changed = self.attendance.notified();
            tokio::pin!(changed);
            // Registered before the state is read, so that no notification is missed in between.
            changed.as_mut().enable();
            if let Some(answer) = ready(&lock(&self.state)) {
                return answer;
            }
            changed.await;
        }
    }
}

/// The ledger rows of the calls that follow a flight, held until their savings are known.
#[derive(Default)]
pub(crate) struct Followers(Mutex<Accounts>);

enum Accounts {
    Open(Vec<Unwritten>),
    Closed(Spend),
}

impl Default for Accounts {
    fn default() -> Self {
        Self::Open(Vec::new())
    }
}

impl Followers {
    /// Takes the row of one more follower; returns it with its saving if that is known already.
    pub(crate) fn add(&self, mut row: Unwritten) -> Option<Unwritten> {
        match &mut *lock(&self.0) {
            Accounts::Open(rows) => {
                rows.push(row);
                None
            }
            Accounts::Closed(saved) => {
                row.saved = *saved;
                Some(row)
            }
        }
    }

    /// Returns the rows: each follower saved the cost of the run.
    pub(crate) fn close(&self, saved: Spend) -> Vec<Unwritten> {
        match std::mem::replace(&mut *lock(&self.0), Accounts::Closed(saved)) {
            Accounts::Open(mut rows) => {
                rows.iter_mut().for_each(|row| row.saved = saved);
                rows
            }
            Accounts::Closed(_) => Vec::new(),
        }
    }
}

/// The flights in progress in this process.
#[derive(Default)]
pub(crate) struct Flights {
    running: Mutex<HashMap<Key, Vec<Arc<Flight>>>>,
    /// Keys whose lookup is held by a caller that is about to lead; locked alone, or while `running` is.
    lookups: Mutex<HashSet<Key>>,
    /// Signalled when a lookup ends.
    looked_up: Notify,
    /// Number of flights that have ended, by a part of their keys. Written under the lock; every call reads
    /// it without the lock.
    ended: [AtomicU64; 32],
}

/// The exclusive right to look a key up and reserve it in one step. Until it is dropped, no other caller of
/// this process leads a flight of the key that needs the reservation.
pub(crate) struct Lookup<'a> {
    flights: &'a Flights,
    key: Key,
}

impl Drop for Lookup<'_> {
    fn drop(&mut self) {
        lock(&self.flights.lookups).remove(&self.key);
        self.flights.looked_up.notify_waiters();
    }
}

/// Number of flights of a key, and of some other keys, that had ended at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen(u64);

/// The result of [`Flights::enter`], for a caller that found no entry.
pub(crate) enum Entered {
    /// The caller reads the answer of another one's run.
    Joined(Presence),
    /// The caller runs the call. The leases of the superseded flights are void.
    Leads {
        flight: Arc<Flight>,
        superseded: Vec<Arc<Flight>>,
    },
    /// A flight may have ended, and its answer may have been stored, since the caller looked for an entry.
    LooksAgain,
    /// Another caller has the [`Lookup`] of the key: to be tried again after [`Flights::looked_up`].
    Waits,
}

/// Behavior of a new caller towards the flights of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manners {
    /// Joins a current flight; supersedes flights that are not current, or that yield. Leads only if no
    /// flight has ended since `Seen` was read.
    Joins(Seen),
    /// Joins none; supersedes flights that are not current, or that yield.
    Leads,
    /// Joins none and supersedes all: its answer replaces theirs.
    Supersedes,
    /// Joins none and supersedes none: its answer is not stored.
    KeepsOut,
}

impl Flights {
    /// Acquires the lookup of a key, unless another caller holds it or leads a flight.
    pub(crate) fn lookup(&self, key: Key) -> Option<Lookup<'_>> {
        let running = lock(&self.running);
        let vacant = !running.contains_key(&key) && lock(&self.lookups).insert(key);
        vacant.then(|| Lookup { flights: self, key })
    }

    /// Resolves when no caller holds the lookup of a key.
    pub(crate) async fn looked_up(&self, key: &Key) {
        loop {
            let ended = self.looked_up.notified();
            tokio::pin!(ended);
            // Registered before the table is read, so that no notification is missed in between.
            ended.as_mut().enable();
            if !lock(&self.lookups).contains(key) {
                return;
            }
            ended.await;
        }
    }

    /// Joins the newest flight for which `current` returns true, or registers a new one. Atomic: of any
    /// number of callers that may join each other, one leads. `lookup` is the caller's own.
    pub(crate) fn enter(
        &self,
        key: Key,
        manners: Manners,
        lookup: Option<&Lookup<'_>>,
        current: impl Fn(&Flight) -> bool,
        departure: impl FnOnce() -> Departure,
    ) -> Entered {
        let mut running = lock(&self.running);
        let flights = running.get(&key).map_or(&[][..], Vec::as_slice);
        let mut superseded = Vec::new();
        for flight in flights.iter().rev() {
            let is_current = current(flight);
            if is_current
                && matches!(manners, Manners::Joins(_))
                && let Some(presence) = flight.attend_if_joinable()
            {
                return Entered::Joined(presence);
            }
            // After the attempt to join: a flight that is closed in between has to yield its reservation.
            let worth_keeping = is_current && !flight.yields();
            match manners {
                Manners::Joins(_) | Manners::Leads if worth_keeping => {}
                Manners::KeepsOut => {}
                Manners::Joins(_) | Manners::Leads | Manners::Supersedes => {
                    superseded.push(Arc::clone(flight));
                }
            }
        }
        if matches!(manners, Manners::Joins(seen) if seen != self.seen(&key)) {
            return Entered::LooksAgain;
        }
        let waits = matches!(manners, Manners::Joins(_) | Manners::Supersedes);
        if waits && lookup.is_none() && lock(&self.lookups).contains(&key) {
            return Entered::Waits;
        }
        let flight = Flight::new(key, departure());
        running.entry(key).or_default().push(Arc::clone(&flight));
        Entered::Leads { flight, superseded }
    }

    /// Returns the number of ended flights; to be read before an entry is looked for.
    pub(crate) fn seen(&self, key: &Key) -> Seen {
        Seen(self.ended(key).load(Ordering::Acquire))
    }

    fn ended(&self, key: &Key) -> &AtomicU64 {
        &self.ended[usize::from(key.digest().as_bytes()[0]) % self.ended.len()]
    }

    /// Removes an ended flight.
    pub(crate) fn leave(&self, flight: &Arc<Flight>) {
        let mut running = lock(&self.running);
        self.ended(&flight.key).fetch_add(1, Ordering::Release);
        if let Some(flights) = running.get_mut(&flight.key) {
            flights.retain(|other| !Arc::ptr_eq(other, flight));
            if flights.is_empty() {
                running.remove(&flight.key);
            }
        }
    }

    /// Revokes the flights that match; returns their number.
    pub(crate) fn revoke(&self, matches: impl Fn(&Flight) -> bool) -> usize {
        let running = lock(&self.running);
        let matching = running.values().flatten().filter(|flight| matches(flight));
        matching.map(|flight| flight.revoke()).count()
    }
}
