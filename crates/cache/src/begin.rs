//! The start of a call: serve an entry, join a flight, or hand out a ticket.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Instant;

use cachalot_core::Millis;
use cachalot_store::{Label, Store, space};

use crate::body::Body;
use crate::engine::{Engine, Lookup, LookupMiss, LookupRequest, TimeBudget};
use crate::entry::Entry;
use crate::epoch::LocalEpochs;
use crate::flight::{
    EndedFlights, Flight, FlightEntry, FlightStart, JoinMode, LookupGuard, ReaderGuard,
};
use crate::front::{FrontEntry, Stamp};
use crate::outcome::{CacheStatus, Outcome, OutcomeState, Revision};
use crate::policy::{CacheMode, HitPolicy, Policy, SingleFlight};
use crate::reserve::{LateLookup, Reservation, ReservationOutcome};
use crate::run_start::RunStart;
use crate::store_answer::{KIND_LABEL, NAME_LABEL};
use crate::ticket::{OwnedCall, Ticket, TicketStage};
use crate::{BeginResult, Call, FrozenMiss, Key, Reason};

/// The state of one `begin` call.
pub(crate) struct Request<'a> {
    pub(crate) engine: &'a Arc<Engine>,
    pub(crate) key: Key,
    pub(crate) call: &'a Call<'a>,
    pub(crate) policy: &'a Policy,
    pub(crate) budget: TimeBudget,
    /// The answer of a lookup that timed out.
    pub(crate) late: LateLookup,
}

impl Engine {
    async fn begin_keyed(
        self: &Arc<Self>,
        key: Key,
        call: &Call<'_>,
        policy: &Policy,
    ) -> Result<BeginResult, FrozenMiss> {
        let request = Request {
            engine: self,
            key,
            call,
            policy,
            budget: TimeBudget::for_policy(policy),
            late: LateLookup::default(),
        };
        match policy.mode {
            CacheMode::Off => Ok(BeginResult::Run(
                request.uncached_ticket(CacheStatus::Bypass(Reason::Off), Reason::Off),
            )),
            CacheMode::Frozen => request.frozen().await.map(BeginResult::Served),
            CacheMode::Refresh => Ok(request.refresh().await),
            CacheMode::On | CacheMode::ReadOnly => Ok(request.serve_or_lead().await),
        }
    }

    /// Implements [`crate::Cache::begin_with`].
    pub(crate) async fn begin_with<P: Borrow<Policy> + Send + Sync>(
        self: &Arc<Self>,
        call: &Call<'_>,
        hit: &HitPolicy<'_>,
        policy: impl FnOnce() -> P,
    ) -> Result<BeginResult, FrozenMiss> {
        let key = Key::for_call(call);
        if matches!(hit.mode, CacheMode::On | CacheMode::ReadOnly) {
            let now = self.clock.now();
            let local_epochs = self.epochs.local_epochs(hit.domains);
            let front_entry = self.front_entry(&key, hit.domains, &local_epochs, now);
            if let Some(front_entry) = front_entry.await {
                let outcome = self.serve_hit(key, &front_entry, CacheStatus::Hit, hit, now);
                return Ok(BeginResult::Served(outcome));
            }
        }
        let policy = policy();
        debug_assert_eq!(
            (hit.mode, hit.domains),
            (policy.borrow().mode, &*policy.borrow().domains)
        );
        // Large, and not needed for a hit.
        Box::pin(self.begin_keyed(key, call, policy.borrow())).await
    }

    /// Records a hit, at `now` by this machine's clock, and returns its outcome.
    fn serve_hit(
        self: &Arc<Self>,
        key: Key,
        front_entry: &Arc<FrontEntry>,
        status: CacheStatus,
        hit: &HitPolicy<'_>,
        now: Millis,
    ) -> Outcome {
        // Only `CacheMode::On` may write to the store here.
        if hit.mode == CacheMode::On {
            self.write_back(front_entry);
        }
        self.record_use(&front_entry.entry, self.store_time(now));
        self.ledger
            .record_hit(front_entry, now, &status, hit.session);
        hit_outcome(key, &front_entry.entry, status)
    }
}

fn hit_outcome(key: Key, entry: &Entry, status: CacheStatus) -> Outcome {
    Outcome {
        key,
        status,
        body: Body::from_complete(Arc::clone(&entry.body)),
        entry: Some(entry.provenance()),
        state: OutcomeState::Stored {
            revision: Revision(entry.revision),
            expires: entry.head.expires,
            saved: entry.head.spent,
            observations: Arc::clone(&entry.observations),
        },
    }
}

impl Request<'_> {
    fn serve_hit(&self, front_entry: &Arc<FrontEntry>, status: CacheStatus) -> Outcome {
        let (hit, now) = (self.policy.for_hit(), self.engine.clock.now());
        self.engine
            .serve_hit(self.key, front_entry, status, &hit, now)
    }

    /// Creates a ticket that no caller can join and whose answer is not stored.
    fn uncached_ticket(&self, status: CacheStatus, why_not_stored: Reason) -> Ticket {
        let flight_start = self.flight_start(false, self.labels(), LocalEpochs::default(), None);
        let entered = self.engine.flights.enter(
            self.key,
            JoinMode::Detached,
            None,
            |_| false,
            || flight_start,
        );
        let FlightEntry::Lead { flight, .. } = entered else {
            unreachable!("an isolated call never joins")
        };
        self.start_ticket(self.ticket(flight, status, Err(why_not_stored)))
    }

    /// Marks the ticket as running and starts its clock.
    fn start_ticket(&self, mut ticket: Ticket) -> Ticket {
        ticket.budget = self.budget.clone();
        ticket.run_start = self.run_start(ticket.run_start.erased);
        ticket.stage = TicketStage::Running;
        ticket
    }

    fn run_start(&self, erased: Option<u64>) -> RunStart {
        RunStart {
            erased,
            instant: Instant::now(),
            clock: self.engine.clock.now(),
        }
    }

    /// The labels of the flight, its reservation and its entry.
    fn labels(&self) -> Vec<Label> {
        let own = [
            Label::new(NAME_LABEL, self.call.name),
            Label::new(KIND_LABEL, self.call.kind.as_str()),
        ];
        own.into_iter()
            .chain(self.policy.labels.iter().cloned())
            .collect()
    }

    /// Fails with the reason if an answer with these labels must not be stored.
    fn check_labels(&self, labels: &[Label]) -> Result<(), Reason> {
        if self.engine.has_secret_label(labels) {
            return Err(Reason::HoldsSecret);
        }
        let longest = self.engine.store()?.about().longest_name;
        let too_long = |text: &str| text.len() as u64 > longest;
        let label = labels
            .iter()
            .find(|label| too_long(&label.name) || too_long(&label.value));
        match label {
            None => Ok(()),
            Some(label) => Err(Reason::Declined(format!(
                "the label `{:.40}` is too long: the store accepts at most {longest} bytes",
                label.name
            ))),
        }
    }

    /// Acquires the right to look the call up and reserve it in one step. `None` if the call is not to be
    /// reserved, or another caller of this process holds the right or leads a flight of the key.
    fn lookup_guard(&self, labels: &[Label]) -> Option<LookupGuard<'_>> {
        let store = self.engine.store().ok()?;
        let reserves = store.about().reservations
            && matches!(self.policy.mode, CacheMode::On | CacheMode::Refresh)
            && self.check_labels(labels).is_ok();
        reserves
            .then(|| self.engine.flights.lookup_guard(self.key))
            .flatten()
    }

    fn flight_start(
        &self,
        joinable: bool,
        labels: Vec<Label>,
        local_epochs: LocalEpochs,
        epochs: Option<Vec<u64>>,
    ) -> FlightStart {
        FlightStart {
            joinable,
            labels,
            domains: self.policy.domains.clone(),
            local_epochs,
            epochs,
        }
    }

    fn ticket(
        &self,
        flight: Arc<Flight>,
        status: CacheStatus,
        storable: Result<(), Reason>,
    ) -> Ticket {
        Ticket {
            engine: Arc::clone(self.engine),
            flight,
            call: OwnedCall {
                kind: self.call.kind,
                scope: self.call.scope.clone(),
                name: self.call.name.to_owned(),
                input: self.call.input.clone(),
            },
            policy: self.policy.clone(),
            budget: self.budget.clone(),
            status,
            storable,
            unreserved: None,
            run_start: self.run_start(None),
            costs: Box::default(),
            stage: TicketStage::Waiting,
        }
    }

    async fn find_entry(&self) -> Lookup {
        self.engine
            .find_entry(&self.key, self.call, self.policy, &self.budget)
            .await
    }

    /// Looks the call up in the store.
    pub(crate) async fn find_in_store(&self, ask: LookupRequest<'_>) -> Lookup {
        let local_epochs = self.engine.epochs.local_epochs(&self.policy.domains);
        self.engine
            .find_in_store(
                ask,
                &self.key,
                self.call,
                self.policy,
                &self.budget,
                local_epochs,
            )
            .await
    }

    async fn serve_or_lead(&self) -> BeginResult {
        let mut labels = Vec::new();
        loop {
            let ended_flights = self.engine.flights.ended_flights(&self.key);
            let local_epochs = self.engine.epochs.local_epochs(&self.policy.domains);
            let (domains, now) = (&self.policy.domains, self.engine.clock.now());
            let front_entry = self
                .engine
                .front_entry(&self.key, domains, &local_epochs, now)
                .await;
            if let Some(front_entry) = front_entry {
                return BeginResult::Served(self.serve_hit(&front_entry, CacheStatus::Hit));
            }
            if labels.is_empty() {
                labels = self.labels();
            }
            let lookup_guard = self.lookup_guard(&labels);
            let ask = match lookup_guard {
                Some(_) => LookupRequest::Enter(self.reservation_request(&labels, None)),
                None => LookupRequest::Read,
            };
            let missed = match self.find_in_store(ask).await {
                Lookup::Hit(front_entry) => {
                    return BeginResult::Served(self.serve_hit(&front_entry, CacheStatus::Hit));
                }
                Lookup::Miss(missed) => missed,
            };
            let entered = self
                .enter_flights(ended_flights, lookup_guard, &missed, &labels)
                .await;
            match entered {
                FlightEntry::Retry | FlightEntry::Wait => {}
                FlightEntry::Joined(reader) => {
                    drop(missed.reservation);
                    if let Some(outcome) = self.follow(reader).await {
                        return BeginResult::Served(outcome);
                    }
                }
                FlightEntry::Lead { flight, superseded } => {
                    let has_unknown_epochs = self.has_unknown_epochs(&missed);
                    let reason = missed.reason.clone();
                    let storable = if has_unknown_epochs {
                        Err(reason.clone())
                    } else {
                        Ok(())
                    };
                    // The ticket is created before the next await: a flight without a ticket would never end.
                    let ticket = self.ticket(flight, CacheStatus::Miss(reason), storable);
                    return self.reserve_and_run(ticket, superseded, missed).await;
                }
            }
        }
    }

    /// True if the epochs under which the call would run are unknown.
    fn has_unknown_epochs(&self, missed: &LookupMiss) -> bool {
        missed.local_epochs.being_written.is_some() || missed.epochs.is_none()
    }

    /// Joins a flight of this process or registers a new one; waits while another caller holds the lookup.
    async fn enter_flights(
        &self,
        ended_flights: EndedFlights,
        lookup_guard: Option<LookupGuard<'_>>,
        missed: &LookupMiss,
        labels: &[Label],
    ) -> FlightEntry {
        let (local_epochs, epochs) = (&missed.local_epochs, &missed.epochs);
        let flight_is_current = |flight: &Flight| {
            flight.began_under(&self.policy.domains, local_epochs, epochs.as_deref())
        };
        let joins = self.policy.join != SingleFlight::Off && !self.has_unknown_epochs(missed);
        let join_mode = match missed.reservation {
            _ if self.has_unknown_epochs(missed) => JoinMode::Detached,
            // The key is reserved: an answer that this process stored before would have been found.
            Some(Reservation::Held(_)) => JoinMode::Lead,
            _ if joins => JoinMode::Join(ended_flights),
            _ => JoinMode::Lead,
        };
        loop {
            let entered = self.engine.flights.enter(
                self.key,
                join_mode,
                lookup_guard.as_ref(),
                flight_is_current,
                || self.flight_start(joins, labels.to_vec(), local_epochs.clone(), epochs.clone()),
            );
            match entered {
                FlightEntry::Wait => self.engine.flights.lookup_released(&self.key).await,
                entered => return entered,
            }
        }
    }

    /// Runs the call without serving an entry. If the key is reserved in a shared store, waits for the
    /// reservation, so that the answer can be stored.
    async fn refresh(&self) -> BeginResult {
        let labels = self.labels();
        let lookup_guard = self.lookup_guard(&labels);
        let ask = match lookup_guard {
            Some(_) => LookupRequest::Enter(self.reservation_request(&labels, None)),
            None => LookupRequest::Read,
        };
        let Lookup::Miss(missed) = self.find_in_store(ask).await else {
            unreachable!("a refresh serves nothing")
        };
        let storable = match &missed.local_epochs.being_written {
            Some(domain) => Err(Reason::Written(domain.to_string())),
            None => Ok(()),
        };
        let join_mode = if storable.is_ok() {
            JoinMode::Supersede
        } else {
            JoinMode::Detached
        };
        let joinable = self.policy.join != SingleFlight::Off;
        let (flight, superseded) = loop {
            let entered = self.engine.flights.enter(
                self.key,
                join_mode,
                lookup_guard.as_ref(),
                |_| false,
                || {
                    let (local_epochs, epochs) =
                        (missed.local_epochs.clone(), missed.epochs.clone());
                    self.flight_start(joinable, labels.clone(), local_epochs, epochs)
                },
            );
            match entered {
                FlightEntry::Lead { flight, superseded } => break (flight, superseded),
                FlightEntry::Wait => self.engine.flights.lookup_released(&self.key).await,
                FlightEntry::Joined(_) | FlightEntry::Retry => {
                    unreachable!("a superseding or isolated call never joins")
                }
            }
        };
        drop(lookup_guard);
        let ticket = self.ticket(flight, CacheStatus::Miss(Reason::Refresh), storable);
        self.reserve_and_run(ticket, superseded, missed).await
    }

    /// Reads the answer of another caller's run; `None` if its ticket was dropped without an answer.
    async fn follow(&self, reader: ReaderGuard) -> Option<Outcome> {
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
        let row = self
            .engine
            .ledger
            .follower(self.engine, self.call, self.key, self.policy);
        if let Some(row) = flight.followers.add(row) {
            self.engine.ledger.send(row);
        }
        Some(Outcome {
            key: self.key,
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

    /// Revokes flights whose answers must not be stored any more, and releases their reservations for the
    /// new run.
    async fn revoke_superseded(&self, superseded: Vec<Arc<Flight>>) {
        for flight in superseded {
            flight.revoke();
            if let Some(lease) = flight.take_lease() {
                self.engine.release(lease, self.policy.lookup_timeout).await;
            }
        }
    }

    /// Reserves the key where possible, unless the lookup has done so, then hands out the ticket or serves
    /// the answer of another process.
    async fn reserve_and_run(
        &self,
        mut ticket: Ticket,
        superseded: Vec<Arc<Flight>>,
        missed: LookupMiss,
    ) -> BeginResult {
        let LookupMiss {
            erased,
            mut reservation,
            revision,
            reason,
            ..
        } = missed;
        ticket.run_start.erased = erased;
        if !superseded.is_empty() {
            // The superseded flights may have held the key.
            self.revoke_superseded(superseded).await;
            reservation =
                reservation.filter(|reservation| matches!(reservation, Reservation::Held(_)));
        }
        if ticket.storable.is_ok() {
            ticket.storable = self.check_labels(&ticket.flight.labels);
        }
        if ticket.storable.is_err() || self.policy.mode == CacheMode::ReadOnly {
            return BeginResult::Run(self.start_ticket(ticket));
        }
        let reserves = |store: &Arc<dyn Store>| store.about().reservations;
        if !self.engine.store().is_ok_and(reserves) {
            return BeginResult::Run(self.start_ticket(ticket));
        }
        let secured = match erased {
            // The store does not answer. The reservation is requested again when there is an answer to store.
            None => ReservationOutcome::Unreserved(reason),
            Some(_) => self.reserve(&ticket, reservation, revision).await,
        };
        match secured {
            ReservationOutcome::Held => {
                self.engine.renew_lease(&ticket.flight);
                BeginResult::Run(self.start_ticket(ticket))
            }
            ReservationOutcome::Unreserved(Reason::StoreFault(_)) => {
                ticket.unreserved = Some(self.late.take());
                BeginResult::Run(self.start_ticket(ticket))
            }
            ReservationOutcome::Unreserved(reason) => {
                ticket.storable = Err(reason);
                BeginResult::Run(self.start_ticket(ticket))
            }
            ReservationOutcome::Answered {
                front_entry,
                waited,
            } => {
                ticket.finish_with_entry(&front_entry.entry).await;
                let status = if waited {
                    CacheStatus::Coalesced
                } else {
                    CacheStatus::Hit
                };
                BeginResult::Served(self.serve_hit(&front_entry, status))
            }
        }
    }

    async fn frozen(&self) -> Result<Outcome, FrozenMiss> {
        match self.frozen_entry().await {
            Ok(front_entry) => Ok(self.serve_hit(&front_entry, CacheStatus::Hit)),
            Err(reason) => {
                self.engine.ledger.record_refused(
                    self.engine,
                    self.call,
                    self.key,
                    self.policy,
                    &reason,
                );
                Err(FrozenMiss {
                    name: self.call.name.to_owned(),
                    key: self.key,
                    reason,
                })
            }
        }
    }

    /// Returns the answer of a frozen run: an entry of any age and epochs whose files still have the same
    /// content.
    async fn frozen_entry(&self) -> Result<Arc<FrontEntry>, Reason> {
        let store = self.engine.store()?;
        let key = self.key.to_string();
        let found = store.get(space::CACHE, &key, &[]);
        let found = self.engine.await_store(found, &self.budget).await?;
        let entry = Entry::decode_for(found.record.ok_or(Reason::Absent)?, &self.key, self.call)?;
        entry
            .observations
            .check_frozen()
            .await
            .map_err(Reason::Changed)?;
        Ok(Arc::new(FrontEntry {
            entry,
            tally: self.engine.ledger.tally(self.call.kind, self.call.name),
            stamp: Stamp::default(),
            domains: Vec::new(),
        }))
    }
}

impl Engine {
    /// Implements [`crate::Cache::bypass`].
    pub(crate) fn bypass(
        self: &Arc<Self>,
        call: &Call<'_>,
        policy: &Policy,
        reason: Reason,
    ) -> Ticket {
        let key = Key::for_call(call);
        let request = Request {
            engine: self,
            key,
            call,
            policy,
            budget: TimeBudget::for_policy(policy),
            late: LateLookup::default(),
        };
        request.uncached_ticket(CacheStatus::Bypass(reason.clone()), reason)
    }

    /// Implements [`crate::Cache::probe`].
    pub(crate) async fn probe(
        self: &Arc<Self>,
        call: &Call<'_>,
        policy: &Policy,
    ) -> Result<Outcome, Reason> {
        let key = Key::for_call(call);
        let request = Request {
            engine: self,
            key,
            call,
            policy,
            budget: TimeBudget::for_policy(policy),
            late: LateLookup::default(),
        };
        match policy.mode {
            CacheMode::Off => Err(Reason::Off),
            CacheMode::Refresh => Err(Reason::Refresh),
            CacheMode::Frozen => request
                .frozen_entry()
                .await
                .map(|front_entry| hit_outcome(key, &front_entry.entry, CacheStatus::Hit)),
            CacheMode::On | CacheMode::ReadOnly => match request.find_entry().await {
                Lookup::Hit(front_entry) => {
                    Ok(hit_outcome(key, &front_entry.entry, CacheStatus::Hit))
                }
                Lookup::Miss(missed) => Err(missed.reason),
            },
        }
    }
}
