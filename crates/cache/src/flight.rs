//! Flights: runs in progress, and the callers that wait for them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cachalot_core::Spend;
use cachalot_store::{Label, Lease};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::epoch::LocalEpochs;
use crate::ledger::PendingRow;
use crate::policy::{Domain, Form};
use crate::stream::{Pushed, ReaderId, Step, StreamingBody};
use crate::summary::RunEnd;
use crate::sync::{Mutex, RuntimeId, lock, wait_until};
use crate::witness::Witness;
use crate::{Key, Reason};

/// One run of one call.
pub(crate) struct Flight {
    pub(crate) key: Key,
    form: Form,
    /// False if it is known from the start that the answer is not stored.
    stores: bool,
    /// Set if a flight of another form was running at the start, which stores its answer.
    beside: bool,
    pub(crate) body: StreamingBody,
    pub(crate) labels: Vec<Label>,
    /// The domains of the call that started the flight. `local_epochs` and `epochs` are their state before the run
    /// began, in this process and in the store.
    domains: Vec<Domain>,
    pub(crate) local_epochs: LocalEpochs,
    pub(crate) epochs: Option<Vec<u64>>,
    pub(crate) witness: Witness,
    pub(crate) ended: watch::Sender<Option<RunEnd>>,
    pub(crate) followers: Followers,
    state: Mutex<State>,
    /// Signalled when a reader joins, or the last one leaves.
    readers_changed: Notify,
}

#[derive(Default)]
struct State {
    joinable: bool,
    /// Set if the next leader may take over the reservation, because this answer will not be stored.
    yields_lease: bool,
    revoked: bool,
    /// The reason why the answer is not stored, if it became known during the run.
    declined: Option<Reason>,
    readers: usize,
    /// Set if the run is to end, unless a reader joins it: too many runs continue without readers.
    given_up: bool,
    /// Total number of readers since the start.
    total_readers: u64,
    lease: Option<Lease>,
    /// The runtime whose ticker renews the lease, and the start of the renewal.
    renewal: Option<(RuntimeId, Instant)>,
}

/// Guard of one reader of a flight; counted, so that the run detects when there are no readers left.
///
/// A new guard holds all chunks of the answer.
pub(crate) struct ReaderGuard {
    flight: Arc<Flight>,
    id: ReaderId,
}

impl Clone for ReaderGuard {
    fn clone(&self) -> Self {
        // Not counted in `total_readers`: a clone exists beside its original, so it cannot be the reader that joins a
        // run without readers.
        lock(&self.flight.state).readers += 1;
        Self {
            id: self.flight.body.add_reader(),
            flight: Arc::clone(&self.flight),
        }
    }
}

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        // A reader that was too slow has been removed before.
        if self.flight.body.remove_reader(self.id) {
            self.flight.remove_readers(1);
        }
    }
}

impl ReaderGuard {
    pub(crate) fn flight(&self) -> &Arc<Flight> {
        &self.flight
    }

    /// Holds only the chunks that [`ReaderGuard::next`] has not returned.
    pub(crate) fn stop_holding(&self) {
        self.flight.body.stop_holding(self.id);
    }

    /// Returns the next item of the answer.
    pub(crate) async fn next(&self) -> Step {
        self.flight.body.next(self.id).await
    }
}

/// The initial state of a new flight.
pub(crate) struct FlightStart {
    /// False if it is known that the answer is not stored.
    pub(crate) stores: bool,
    pub(crate) joinable: bool,
    pub(crate) labels: Vec<Label>,
    pub(crate) domains: Vec<Domain>,
    pub(crate) local_epochs: LocalEpochs,
    pub(crate) epochs: Option<Vec<u64>>,
}

impl Flight {
    fn new(key: Key, form: Form, start: FlightStart, beside: bool) -> Arc<Self> {
        let FlightStart {
            stores,
            joinable,
            labels,
            domains,
            local_epochs,
            epochs,
        } = start;
        Arc::new(Self {
            key,
            form,
            // Two concurrent flights of one key must not both store: the earlier one does.
            stores: stores && !beside,
            beside,
            body: StreamingBody::default(),
            labels,
            domains,
            local_epochs,
            epochs,
            witness: Witness::default(),
            ended: watch::Sender::new(None),
            followers: Followers::default(),
            state: Mutex::new(State {
                joinable,
                ..State::default()
            }),
            readers_changed: Notify::new(),
        })
    }

    /// True if a flight of another form, which stores its answer, was running when this one began.
    pub(crate) fn runs_beside(&self) -> bool {
        self.beside
    }

    /// True if the run began under exactly these domains, in any order, each at the epoch that it has in
    /// `local_epochs` (in this process) and in `epochs` (in the store).
    pub(crate) fn began_under(
        &self,
        domains: &[Domain],
        local_epochs: &LocalEpochs,
        epochs: Option<&[u64]>,
    ) -> bool {
        // Compared by domain, not by position: callers may list the same domains in another order.
        let is_current = |(at, domain): (usize, &Domain)| {
            self.domains
                .iter()
                .position(|own| own == domain)
                .is_some_and(|own| {
                    self.local_epochs.generations.get(own) == local_epochs.generations.get(at)
                        && self.epochs.as_ref().map(|epochs| epochs.get(own))
                            == epochs.map(|epochs| epochs.get(at))
                })
        };
        // A run that began during a write may have read the state before it or after it, so it is never joined.
        self.local_epochs.being_written.is_none()
            && local_epochs.being_written.is_none()
            && domains.iter().enumerate().all(is_current)
            && self.domains.iter().all(|own| domains.contains(own))
    }

    /// Adds a reader.
    pub(crate) fn add_reader(self: &Arc<Self>) -> ReaderGuard {
        self.register_reader(&mut lock(&self.state))
    }

    /// Adds a reader, unless the flight is closed to new callers.
    fn try_join(self: &Arc<Self>) -> Option<ReaderGuard> {
        // The check and the count are one step: `close_if_unread` closes the flight under the same lock, so no caller
        // joins a run that was just stopped.
        let mut state = lock(&self.state);
        (state.joinable && !state.revoked).then(|| self.register_reader(&mut state))
    }

    fn register_reader(self: &Arc<Self>, state: &mut State) -> ReaderGuard {
        state.readers += 1;
        state.total_readers += 1;
        self.readers_changed.notify_waiters();
        ReaderGuard {
            // Added under the lock of the state: an answer that callers may join keeps all its chunks.
            id: self.body.add_reader(),
            flight: Arc::clone(self),
        }
    }

    fn remove_readers(&self, number: usize) {
        let mut state = lock(&self.state);
        state.readers -= number;
        if state.readers == 0 {
            drop(state);
            self.readers_changed.notify_waiters();
        }
    }

    /// Adds a chunk for every reader; readers of a pipe that are too slow leave.
    pub(crate) fn push(&self, chunk: Bytes) -> Pushed {
        let pushed = self.body.push(chunk);
        if pushed.removed > 0 {
            self.remove_readers(pushed.removed);
        }
        pushed
    }

    /// Closes the flight, because its answer is not stored, and turns the answer into a pipe. Only the first reason
    /// counts.
    pub(crate) fn decline(&self, reason: Reason, max_lag: u64) {
        let mut state = lock(&self.state);
        state.joinable = false;
        state.yields_lease = true;
        state.declined.get_or_insert(reason);
        drop(state);
        // Only after the flight is closed: a caller that joined a pipe could miss chunks that are freed already.
        self.become_pipe(max_lag);
    }

    /// Turns the answer into a pipe. Callers can no longer join.
    pub(crate) fn become_pipe(&self, max_lag: u64) {
        self.body.become_pipe(max_lag);
        // Wakes `readers_after`: a run without readers ends once its answer is not stored any more.
        self.readers_changed.notify_waiters();
    }

    /// The reason for which [`Flight::decline`] was called.
    pub(crate) fn declined(&self) -> Option<Reason> {
        lock(&self.state).declined.clone()
    }

    pub(crate) fn is_joinable(&self) -> bool {
        lock(&self.state).joinable
    }

    /// Closes the flight to new callers; the next leader may take over its reservation.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.joinable = false;
        state.yields_lease = true;
    }

    fn yields_lease(&self) -> bool {
        lock(&self.state).yields_lease
    }

    pub(crate) fn revoke(&self) {
        let mut state = lock(&self.state);
        state.joinable = false;
        state.yields_lease = true;
        state.revoked = true;
    }

    pub(crate) fn is_revoked(&self) -> bool {
        lock(&self.state).revoked
    }

    pub(crate) fn set_lease(&self, lease: Option<Lease>) {
        lock(&self.state).lease = lease;
    }

    pub(crate) fn lease(&self) -> Option<Lease> {
        lock(&self.state).lease.clone()
    }

    pub(crate) fn take_lease(&self) -> Option<Lease> {
        lock(&self.state).lease.take()
    }

    pub(crate) fn start_renewal(&self, runtime: RuntimeId) {
        lock(&self.state).renewal = Some((runtime, Instant::now()));
    }

    /// Ends the renewal of the lease; returns false if it has ended already.
    pub(crate) fn stop_renewal(&self) -> bool {
        lock(&self.state).renewal.take().is_some()
    }

    fn is_renewed_in(&self, runtime: RuntimeId) -> bool {
        let renewal = lock(&self.state).renewal;
        renewal.is_some_and(|(own, _)| own == runtime)
    }

    /// The lease, if it is renewed in this runtime and has at least this age.
    fn lease_to_renew(&self, runtime: RuntimeId, min_age: Duration) -> Option<Lease> {
        let state = lock(&self.state);
        let (own, since) = state.renewal?;
        let due = own == runtime && since.elapsed() >= min_age;
        due.then(|| state.lease.clone()).flatten()
    }

    /// Resolves once there have been readers and all have left while the answer was incomplete; returns the
    /// number of readers so far. A complete answer is being stored, which is never abandoned.
    pub(crate) async fn without_readers(&self) -> u64 {
        let total_readers = self.wait_for_state(|state| {
            (state.readers == 0 && state.total_readers > 0).then_some(state.total_readers)
        });
        let total_readers = total_readers.await;
        if self.body.has_ended() {
            std::future::pending::<()>().await;
        }
        total_readers
    }

    /// Resolves with true when there have been more than `known` readers, or with false when the run without
    /// readers is given up, or its answer is not stored any more.
    pub(crate) async fn readers_after(&self, known: u64) -> bool {
        self.wait_for_state(|state| {
            let has_more = state.total_readers > known;
            let has_ended = state.given_up || self.body.is_pipe();
            (has_more || has_ended).then_some(has_more)
        })
        .await
    }

    /// Begins a time without readers.
    pub(crate) fn begin_orphan(&self) {
        lock(&self.state).given_up = false;
    }

    /// Ends a time without readers before its time.
    pub(crate) fn give_up(&self) {
        lock(&self.state).given_up = true;
        self.readers_changed.notify_waiters();
    }

    /// True if there are no readers and the answer is incomplete.
    pub(crate) fn is_unread(&self) -> bool {
        lock(&self.state).readers == 0 && !self.body.has_ended()
    }

    /// Closes the flight if it has no reader and its answer is incomplete; returns true if it did. A complete
    /// answer is being stored, which continues without readers.
    pub(crate) fn close_if_unread(&self) -> bool {
        let mut state = lock(&self.state);
        // Checked under the lock in which callers join: a caller that has joined since the last reader left keeps the
        // run.
        let is_unread = state.readers == 0 && !self.body.has_ended();
        if is_unread {
            state.joinable = false;
            state.yields_lease = true;
        }
        is_unread
    }

    async fn wait_for_state<T>(&self, ready: impl Fn(&State) -> Option<T>) -> T {
        wait_until(&self.readers_changed, || ready(&lock(&self.state))).await
    }
}

/// The ledger rows of the calls that follow a flight, held until their savings are known.
#[derive(Default)]
pub(crate) struct Followers(Mutex<FollowerRows>);

enum FollowerRows {
    Open(Vec<PendingRow>),
    Closed(Spend),
}

impl Default for FollowerRows {
    fn default() -> Self {
        Self::Open(Vec::new())
    }
}

impl Followers {
    /// Takes the row of one more follower; returns it with its saving if that is known already.
    pub(crate) fn add(&self, mut row: PendingRow) -> Option<PendingRow> {
        match &mut *lock(&self.0) {
            FollowerRows::Open(rows) => {
                rows.push(row);
                None
            }
            FollowerRows::Closed(saved) => {
                row.saved = *saved;
                Some(row)
            }
        }
    }

    /// Returns the rows: each follower saved the cost of the run.
    pub(crate) fn close(&self, saved: Spend) -> Vec<PendingRow> {
        // The savings are set in the step that takes the rows: a follower that comes later gets its row back at once,
        // so no row is lost or sent twice.
        match std::mem::replace(&mut *lock(&self.0), FollowerRows::Closed(saved)) {
            FollowerRows::Open(mut rows) => {
                rows.iter_mut().for_each(|row| row.saved = saved);
                rows
            }
            FollowerRows::Closed(_) => Vec::new(),
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
    lookup_released: Notify,
    /// Number of flights that have ended, by a part of their keys. Written under the lock; every call reads
    /// it without the lock.
    ended: [AtomicU64; 32],
}

/// The exclusive right to look a key up and reserve it in one step. Until it is dropped, no other caller of
/// this process leads a flight of the key that needs the reservation.
pub(crate) struct LookupGuard<'a> {
    flights: &'a Flights,
    key: Key,
}

impl Drop for LookupGuard<'_> {
    fn drop(&mut self) {
        // Removed before the waiters are woken, because they read the set again.
        lock(&self.flights.lookups).remove(&self.key);
        self.flights.lookup_released.notify_waiters();
    }
}

/// Number of flights of a key, and of some other keys, that had ended at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndedFlights(u64);

/// The result of [`Flights::enter`], for a caller that found no entry.
pub(crate) enum FlightEntry {
    /// The caller reads the answer of another one's run.
    Joined(ReaderGuard),
    /// The caller runs the call. The leases of the superseded flights are void.
    Lead {
        flight: Arc<Flight>,
        superseded: Vec<Arc<Flight>>,
    },
    /// A flight may have ended, and its answer may have been stored, since the caller looked for an entry.
    Retry,
    /// For [`JoinMode::Alone`]: another caller leads, or is about to.
    Occupied,
    /// Another caller has the [`LookupGuard`] of the key: to be tried again after [`Flights::lookup_released`].
    Wait,
}

/// Behavior of a new caller towards the flights of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JoinMode {
    /// Joins a current flight of its own form; supersedes flights that are not current, or that yield. Leads only if
    /// no flight has ended since `EndedFlights` was read.
    Join(EndedFlights),
    /// Joins none; supersedes flights that are not current, or that yield.
    Lead,
    /// The same for a caller that has reserved the key: its answer is stored, also beside flights of other forms.
    Reserved,
    /// Joins none; leads only if no current flight stores its answer, no other caller is about to lead, and no flight
    /// has ended since `EndedFlights` was read.
    Alone(EndedFlights),
    /// Joins none and supersedes all: its answer replaces theirs.
    Supersede,
    /// Joins none and supersedes none: its answer is not stored.
    Detached,
}

impl Flights {
    /// Acquires the lookup of a key, unless another caller holds it or leads a flight.
    pub(crate) fn lookup_guard(&self, key: Key) -> Option<LookupGuard<'_>> {
        let running = lock(&self.running);
        // Under the lock of `running`, in which `enter` registers flights: no other caller becomes the leader between
        // the two checks.
        let vacant = !running.contains_key(&key) && lock(&self.lookups).insert(key);
        vacant.then(|| LookupGuard { flights: self, key })
    }

    /// Resolves when no caller holds the lookup of a key.
    pub(crate) async fn lookup_released(&self, key: &Key) {
        let is_released = || (!lock(&self.lookups).contains(key)).then_some(());
        wait_until(&self.lookup_released, is_released).await;
    }

    /// Joins the newest flight of this form for which `current` returns true, or registers a new one.
    /// Atomic: of any number of callers that may join each other, one leads. `lookup_guard` is the caller's own.
    pub(crate) fn enter(
        &self,
        key: Key,
        join_mode: JoinMode,
        lookup_guard: Option<&LookupGuard<'_>>,
        current: impl Fn(&Flight) -> bool,
        form: Form,
        start: impl FnOnce() -> FlightStart,
    ) -> FlightEntry {
        let mut running = lock(&self.running);
        let flights = running.get(&key).map_or(&[][..], Vec::as_slice);
        let (mut superseded, mut beside) = (Vec::new(), false);
        for flight in flights.iter().rev() {
            let is_current = current(flight);
            if is_current
                && flight.form == form
                && matches!(join_mode, JoinMode::Join(_))
                && let Some(reader) = flight.try_join()
            {
                return FlightEntry::Joined(reader);
            }
            // After the attempt to join: a flight that is closed in between has to yield its reservation.
            let worth_keeping = is_current && !flight.yields_lease();
            match join_mode {
                JoinMode::Alone(_) if worth_keeping && flight.stores => {
                    return FlightEntry::Occupied;
                }
                JoinMode::Alone(_) if worth_keeping => {}
                JoinMode::Join(_) | JoinMode::Lead if worth_keeping => {
                    beside |= flight.form != form && flight.stores;
                }
                JoinMode::Reserved if worth_keeping => {}
                JoinMode::Detached => {}
                JoinMode::Join(_)
                | JoinMode::Lead
                | JoinMode::Reserved
                | JoinMode::Alone(_)
                | JoinMode::Supersede => {
                    superseded.push(Arc::clone(flight));
                }
            }
        }
        // Compared under the lock in which `leave` counts. A flight that has ended since may have stored its answer
        // after the caller's lookup. Several keys share a count, so a retry may be unnecessary but is never left out.
        if let JoinMode::Join(ended_flights) | JoinMode::Alone(ended_flights) = join_mode
            && ended_flights != self.ended_flights(&key)
        {
            return FlightEntry::Retry;
        }
        let is_free = lookup_guard.is_some() || !lock(&self.lookups).contains(&key);
        if matches!(join_mode, JoinMode::Alone(_)) && !is_free {
            return FlightEntry::Occupied;
        }
        // The holder of the lookup reserves the key in the store. A second leader would find the key reserved by its
        // own process.
        let waits = matches!(join_mode, JoinMode::Join(_) | JoinMode::Supersede);
        // A flight beside another one needs no reservation.
        if waits && !beside && !is_free {
            return FlightEntry::Wait;
        }
        let flight = Flight::new(key, form, start(), beside);
        running.entry(key).or_default().push(Arc::clone(&flight));
        FlightEntry::Lead { flight, superseded }
    }

    /// Returns the number of ended flights; to be read before an entry is looked for.
    pub(crate) fn ended_flights(&self, key: &Key) -> EndedFlights {
        EndedFlights(self.ended(key).load(Ordering::Acquire))
    }

    fn ended(&self, key: &Key) -> &AtomicU64 {
        &self.ended[usize::from(key.digest().as_bytes()[0]) % self.ended.len()]
    }

    /// Removes an ended flight.
    pub(crate) fn leave(&self, flight: &Arc<Flight>) {
        let mut running = lock(&self.running);
        // Under the lock of the table: a caller that does not find the flight in `enter` sees the new count there, and
        // looks for the stored answer again.
        self.ended(&flight.key).fetch_add(1, Ordering::Release);
        if let Some(flights) = running.get_mut(&flight.key) {
            flights.retain(|other| !Arc::ptr_eq(other, flight));
            if flights.is_empty() {
                running.remove(&flight.key);
            }
        }
    }

    /// True if a flight's lease is renewed in this runtime.
    pub(crate) fn any_renewed_in(&self, runtime: RuntimeId) -> bool {
        let running = lock(&self.running);
        let mut flights = running.values().flatten();
        flights.any(|flight| flight.is_renewed_in(runtime))
    }

    /// Returns the flights whose leases are renewed in this runtime and have at least this age.
    pub(crate) fn leases_to_renew(
        &self,
        runtime: RuntimeId,
        min_age: Duration,
    ) -> Vec<(Arc<Flight>, Lease)> {
        let running = lock(&self.running);
        let flights = running.values().flatten();
        flights
            .filter_map(|flight| {
                Some((Arc::clone(flight), flight.lease_to_renew(runtime, min_age)?))
            })
            .collect()
    }

    /// Revokes the flights that match; returns the number of those that were not revoked before.
    pub(crate) fn revoke(&self, matches: impl Fn(&Flight) -> bool) -> usize {
        let running = lock(&self.running);
        let running = running.values().flatten();
        let matching = running.filter(|flight| matches(flight) && !flight.is_revoked());
        matching.map(|flight| flight.revoke()).count()
    }
}
