//! Runs under way, and who waits for them.

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
    /// The domains of the call that started it, and their state before the run began: in this process
    /// and in the memory.
    domains: Vec<Domain>,
    pub(crate) moment: Moment,
    pub(crate) epochs: Option<Vec<u64>>,
    pub(crate) witness: Witness,
    pub(crate) ended: watch::Sender<Option<Ended>>,
    pub(crate) followers: Followers,
    state: Mutex<State>,
    /// A reader came, or the last one left.
    attendance: Notify,
}

struct State {
    joinable: bool,
    /// Whoever leads next may take its reservation: what it will answer is not worth storing any more.
    yields: bool,
    revoked: bool,
    readers: usize,
    /// How many readers there ever were.
    arrivals: u64,
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
            self.0.attendance.notify_waiters();
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

    /// Whether the run began under exactly these domains, in any order, each of them at the epoch that
    /// it has in `moment` (in this process) and in `epochs` (in the memory).
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

    /// One more reader.
    pub(crate) fn attend(self: &Arc<Self>) -> Presence {
        self.arrive(&mut lock(&self.state))
    }

    /// One more reader, unless the flight is closed to newcomers.
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

    /// Closes the flight to newcomers; the next to lead may take its reservation.
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

    /// Resolves once there were readers and all have left while the answer was not complete; tells how
    /// many there had been. A complete answer is on its way into the memory: nobody abandons that.
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

    /// Resolves when somebody reads who was not among the first `known` readers.
    pub(crate) async fn attended(&self, known: u64) {
        self.attendance(|state| (state.arrivals > known).then_some(()))
            .await;
    }

    /// Closes the flight if it has no reader and its answer is not complete; returns whether it did. A
    /// complete answer is being stored, which goes on without readers.
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
            // Registered before the state is looked at, so that nothing is missed in between.
            changed.as_mut().enable();
            if let Some(answer) = ready(&lock(&self.state)) {
                return answer;
            }
            changed.await;
        }
    }
}

/// The calls that follow a flight, until it is known what they saved.
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
    /// Takes the row of one more follower; gives it back with what it saved if that is known already.
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

    /// Gives the rows back: each follower saved what the run cost.
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

/// The runs under way in this process.
#[derive(Default)]
pub(crate) struct Flights {
    running: Mutex<HashMap<Key, Vec<Arc<Flight>>>>,
    /// Keys of which one caller is about to lead; only locked alone, or while `running` is.
    lookups: Mutex<HashSet<Key>>,
    /// A lookup ended.
    looked_up: Notify,
    /// How many flights have ended, by a part of their keys. Written under the lock; read without it
    /// by every call.
    ended: [AtomicU64; 32],
}

/// The right to look a key up and to reserve it in one step: until it is dropped, no other caller of this
/// process leads a flight of the key that needs the reservation.
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

/// How many flights of a key, and of some others, had ended at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen(u64);

/// What became of a caller that found no entry.
pub(crate) enum Entered {
    /// It reads what another one produces.
    Joined(Presence),
    /// It runs. The leases of the flights that it supersedes are void.
    Leads {
        flight: Arc<Flight>,
        superseded: Vec<Arc<Flight>>,
    },
    /// A flight may have ended, and its answer have been stored, since the caller looked for an entry.
    LooksAgain,
    /// Another caller has the [`Lookup`] of the key: to be tried again after [`Flights::looked_up`].
    Waits,
}

/// What a newcomer makes of the flights that are under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manners {
    /// Joins a current one; supersedes those that are not, or that yield. Leads only if no flight
    /// has ended since this was seen.
    Joins(Seen),
    /// Joins none; supersedes those that are not current, or that yield.
    Leads,
    /// Joins none and supersedes all: its answer is the one to keep.
    Supersedes,
    /// Joins none and leaves all alone: its answer is not stored.
    KeepsOut,
}

impl Flights {
    /// The right to look a key up and reserve it, unless another caller has it, or leads a flight.
    pub(crate) fn lookup(&self, key: Key) -> Option<Lookup<'_>> {
        let running = lock(&self.running);
        let vacant = !running.contains_key(&key) && lock(&self.lookups).insert(key);
        vacant.then(|| Lookup { flights: self, key })
    }

    /// Resolves when no caller has the lookup of a key.
    pub(crate) async fn looked_up(&self, key: &Key) {
        loop {
            let ended = self.looked_up.notified();
            tokio::pin!(ended);
            // Registered before the table is looked at, so that nothing is missed in between.
            ended.as_mut().enable();
            if !lock(&self.lookups).contains(key) {
                return;
            }
            ended.await;
        }
    }

    /// Joins the newest flight that `current` approves of, or registers a new one. Atomic: of any
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

    /// To be asked before an entry is looked for.
    pub(crate) fn seen(&self, key: &Key) -> Seen {
        Seen(self.ended(key).load(Ordering::Acquire))
    }

    fn ended(&self, key: &Key) -> &AtomicU64 {
        &self.ended[usize::from(key.digest().as_bytes()[0]) % self.ended.len()]
    }

    /// Takes an ended flight out.
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

    /// Revokes what matches; returns how many.
    pub(crate) fn revoke(&self, matches: impl Fn(&Flight) -> bool) -> usize {
        let running = lock(&self.running);
        let matching = running.values().flatten().filter(|flight| matches(flight));
        matching.map(|flight| flight.revoke()).count()
    }
}
