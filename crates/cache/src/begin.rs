//! The start of a call: serve an entry, join a flight, or hand out a ticket.

use std::sync::Arc;
use std::time::Instant;

use cachalot_memory::{Label, space};

use crate::body::Body;
use crate::engine::{Ask, Looked, Missed, Patience, Shared};
use crate::entry::Entry;
use crate::epoch::Moment;
use crate::erasures::Beginning;
use crate::flight::{Departure, Entered, Flight, Lookup, Manners, Presence, Seen};
use crate::front::Fronted;
use crate::outcome::{How, Outcome, Revision, Settling};
use crate::policy::{Join, Mode, Policy};
use crate::reserve::{self, Grant, Late, Secured};
use crate::store::{KIND_LABEL, NAME_LABEL};
use crate::ticket::{Errand, Stage, Ticket};
use crate::{Begun, Call, FrozenMiss, Key, Reason};

/// The state of one `begin` call.
pub(crate) struct Request<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) key: Key,
    pub(crate) call: &'a Call<'a>,
    pub(crate) policy: &'a Policy,
    pub(crate) patience: Patience,
    /// The answer of a lookup that timed out.
    pub(crate) late: Late,
}

impl Shared {
    pub(crate) async fn begin(
        self: &Arc<Self>,
        call: &Call<'_>,
        policy: &Policy,
    ) -> Result<Begun, FrozenMiss> {
        let key = Key::of(call);
        let request = Request {
            shared: self,
            key,
            call,
            policy,
            patience: Patience::of(policy),
            late: Late::default(),
        };
        match policy.mode {
            Mode::Off => Ok(Begun::Run(
                request.alone(How::Bypass(Reason::Off), Reason::Off),
            )),
            Mode::Frozen => request.frozen().await.map(Begun::Served),
            Mode::Refresh => Ok(request.refresh().await),
            Mode::On | Mode::ReadOnly => Ok(request.serve_or_lead().await),
        }
    }

    /// Records a hit and returns its outcome.
    fn hit(
        self: &Arc<Self>,
        key: Key,
        fronted: &Arc<Fronted>,
        how: How,
        policy: &Policy,
    ) -> Outcome {
        // Only `Mode::On` may write to the store here.
        if policy.mode == Mode::On {
            self.write_back(fronted);
        }
        self.note_use(&fronted.entry, self.now());
        self.ledger.hit(fronted, self.clock.now(), &how, policy);
        served(key, &fronted.entry, how)
    }
}

fn served(key: Key, entry: &Entry, how: How) -> Outcome {
    Outcome {
        key,
        how,
        body: Body::whole_of(Arc::clone(&entry.body)),
        entry: Some(entry.provenance()),
        settling: Settling::Stored {
            revision: Revision(entry.revision),
            expires: entry.head.expires,
            saved: entry.head.spent,
            watched: Arc::clone(&entry.watched),
        },
    }
}

impl Request<'_> {
    /// Creates a ticket that no caller can join and whose answer is not stored.
    fn alone(&self, how: How, why_not_stored: Reason) -> Ticket {
        let departure = self.departure(false, self.labels(), Moment::default(), None);
        let entered =
            self.shared
                .flights
                .enter(self.key, Manners::KeepsOut, None, |_| false, || departure);
        let Entered::Leads { flight, .. } = entered else {
            unreachable!("who keeps out joins nobody")
        };
        self.hand_out(self.ticket(flight, how, Err(why_not_stored)))
    }

    /// Marks the ticket as running and starts its clock.
    fn hand_out(&self, mut ticket: Ticket) -> Ticket {
        ticket.patience = self.patience.clone();
        ticket.beginning = self.beginning(ticket.beginning.erased);
        ticket.stage = Stage::Running;
        ticket
    }

    fn beginning(&self, erased: Option<u64>) -> Beginning {
        Beginning {
            erased,
            instant: Instant::now(),
            clock: self.shared.clock.now(),
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
    fn unstorable(&self, labels: &[Label]) -> Result<(), Reason> {
        if self.shared.secrets_in(labels) {
            return Err(Reason::HoldsSecret);
        }
        let longest = self.shared.memory()?.about().longest_name;
        let too_long = |text: &str| text.len() as u64 > longest;
        let label = labels
            .iter()
            .find(|label| too_long(&label.name) || too_long(&label.value));
        match label {
            None => Ok(()),
            Some(label) => Err(Reason::Declined(format!(
                "the label `{:.40}` is too long: the memory takes at most {longest} bytes",
                label.name
            ))),
        }
    }

    /// Acquires the right to look the call up and reserve it in one step. `None` if the call is not to be
    /// reserved, or another caller of this process holds the right or leads a flight of the key.
    fn lookup(&self, labels: &[Label]) -> Option<Lookup<'_>> {
        let memory = self.shared.memory().ok()?;
        let reserves = memory.about().reservations
            && matches!(self.policy.mode, Mode::On | Mode::Refresh)
            && self.unstorable(labels).is_ok();
        reserves
            .then(|| self.shared.flights.lookup(self.key))
            .flatten()
    }

    fn departure(
        &self,
        joinable: bool,
        labels: Vec<Label>,
        moment: Moment,
        epochs: Option<Vec<u64>>,
    ) -> Departure {
        Departure {
            joinable,
            labels,
            domains: self.policy.domains.clone(),
            moment,
            epochs,
        }
    }

    fn ticket(&self, flight: Arc<Flight>, how: How, storable: Result<(), Reason>) -> Ticket {
        Ticket {
            shared: Arc::clone(self.shared),
            flight,
            errand: Errand {
                kind: self.call.kind,
                scope: self.call.scope.clone(),
                name: self.call.name.to_owned(),
                input: self.call.input.clone(),
            },
            policy: self.policy.clone(),
            patience: self.patience.clone(),
            how,
            storable,
            unreserved: None,
            beginning: self.beginning(None),
            accounts: Box::default(),
            renewal: None,
            stage: Stage::Waiting,
        }
    }

    async fn look(&self) -> Looked {
        self.shared
            .look(&self.key, self.call, self.policy, &self.patience)
            .await
    }

    /// Looks the call up in the store.
    pub(crate) async fn look_up(&self, ask: Ask<'_>) -> Looked {
        let moment = self.shared.epochs.moment(&self.policy.domains);
        self.shared
            .look_up(
                ask,
                &self.key,
                self.call,
                self.policy,
                &self.patience,
                moment,
            )
            .await
    }

    async fn serve_or_lead(&self) -> Begun {
        let mut labels = Vec::new();
        loop {
            let seen = self.shared.flights.seen(&self.key);
            let moment = self.shared.epochs.moment(&self.policy.domains);
            let fronted = self.shared.fronted(&self.key, self.policy, &moment).await;
            if let Some(fronted) = fronted {
                return Begun::Served(self.shared.hit(self.key, &fronted, How::Hit, self.policy));
            }
            if labels.is_empty() {
                labels = self.labels();
            }
            let lookup = self.lookup(&labels);
            let ask = match lookup {
                Some(_) => Ask::Enter(self.wanted(&labels, None)),
                None => Ask::Read,
            };
            let missed = match self.look_up(ask).await {
                Looked::Hit(fronted) => {
                    return Begun::Served(self.shared.hit(
                        self.key,
                        &fronted,
                        How::Hit,
                        self.policy,
                    ));
                }
                Looked::Miss(missed) => missed,
            };
            let entered = self.enter_flights(seen, lookup, &missed, &labels).await;
            match entered {
                Entered::LooksAgain | Entered::Waits => {}
                Entered::Joined(presence) => {
                    drop(missed.grant);
                    if let Some(outcome) = self.follow(presence).await {
                        return Begun::Served(outcome);
                    }
                }
                Entered::Leads { flight, superseded } => {
                    let unclear = self.unclear(&missed);
                    let reason = missed.reason.clone();
                    let storable = if unclear { Err(reason.clone()) } else { Ok(()) };
                    // The ticket is created before the next await: a flight without a ticket would never end.
                    let ticket = self.ticket(flight, How::Miss(reason), storable);
                    return self.secure_and_run(ticket, superseded, missed).await;
                }
            }
        }
    }

    /// True if the epochs under which the call would run are unknown.
    fn unclear(&self, missed: &Missed) -> bool {
        missed.moment.being_written.is_some() || missed.epochs.is_none()
    }

    /// Joins a flight of this process or registers a new one; waits while another caller holds the lookup.
    async fn enter_flights(
        &self,
        seen: Seen,
        lookup: Option<Lookup<'_>>,
        missed: &Missed,
        labels: &[Label],
    ) -> Entered {
        let (moment, epochs) = (&missed.moment, &missed.epochs);
        let flight_is_current =
            |flight: &Flight| flight.began_under(&self.policy.domains, moment, epochs.as_deref());
        let joins = self.policy.join != Join::Alone && !self.unclear(missed);
        let manners = match missed.grant {
            _ if self.unclear(missed) => Manners::KeepsOut,
            // The key is reserved: an answer that this process stored before would have been found.
            Some(Grant::Held(_)) => Manners::Leads,
            _ if joins => Manners::Joins(seen),
            _ => Manners::Leads,
        };
        loop {
            let entered = self.shared.flights.enter(
                self.key,
                manners,
                lookup.as_ref(),
                flight_is_current,
                || self.departure(joins, labels.to_vec(), moment.clone(), epochs.clone()),
            );
            match entered {
                Entered::Waits => self.shared.flights.looked_up(&self.key).await,
                entered => return entered,
            }
        }
    }

    /// Runs the call without serving an entry. If the key is reserved in a shared store, waits for the
    /// reservation, so that the answer can be stored.
    async fn refresh(&self) -> Begun {
        let labels = self.labels();
        let lookup = self.lookup(&labels);
        let ask = match lookup {
            Some(_) => Ask::Enter(self.wanted(&labels, None)),
            None => Ask::Read,
        };
        let Looked::Miss(missed) = self.look_up(ask).await else {
            unreachable!("a refresh serves nothing")
        };
        let storable = match &missed.moment.being_written {
            Some(domain) => Err(Reason::Written(domain.to_string())),
            None => Ok(()),
        };
        let manners = if storable.is_ok() {
            Manners::Supersedes
        } else {
            Manners::KeepsOut
        };
        let joinable = self.policy.join != Join::Alone;
        let (flight, superseded) = loop {
            let entered = self.shared.flights.enter(
                self.key,
                manners,
                lookup.as_ref(),
                |_| false,
                || {
                    let (moment, epochs) = (missed.moment.clone(), missed.epochs.clone());
                    self.departure(joinable, labels.clone(), moment, epochs)
                },
            );
            match entered {
                Entered::Leads { flight, superseded } => break (flight, superseded),
                Entered::Waits => self.shared.flights.looked_up(&self.key).await,
                Entered::Joined(_) | Entered::LooksAgain => {
                    unreachable!("who supersedes or keeps out joins nobody")
                }
            }
        };
        drop(lookup);
        let ticket = self.ticket(flight, How::Miss(Reason::Refresh), storable);
        self.secure_and_run(ticket, superseded, missed).await
    }

    /// Reads the answer of another caller's run; `None` if its ticket was dropped without an answer.
    async fn follow(&self, presence: Presence) -> Option<Outcome> {
        let flight = Arc::clone(presence.flight());
        // Changes of files are not announced: the flight is joined only if everything that it has read so far
        // is unchanged. Files that it has not read yet, it will read in their current state.
        flight.witness.looked().await;
        if flight.witness.taken().holds().await.is_err() {
            flight.close();
            return None;
        }
        if !flight.body.readable().await {
            return None;
        }
        let row = self
            .shared
            .ledger
            .follower(self.shared, self.call, self.key, self.policy);
        if let Some(row) = flight.followers.add(row) {
            self.shared.ledger.send(row);
        }
        Some(Outcome {
            key: self.key,
            how: How::Coalesced,
            settling: Settling::Running {
                ended: flight.ended.subscribe(),
                follower: true,
                witness: flight.witness.clone(),
            },
            body: Body::growing(presence),
            entry: None,
        })
    }

    /// Revokes flights whose answers must not be stored any more, and releases their reservations for the
    /// new run.
    async fn void(&self, superseded: Vec<Arc<Flight>>) {
        for flight in superseded {
            flight.revoke();
            if let Some(lease) = flight.take_lease() {
                self.shared.release(lease, self.policy.patience).await;
            }
        }
    }

    /// Reserves the key where possible, unless the lookup has done so, then hands out the ticket or serves
    /// the answer of another process.
    async fn secure_and_run(
        &self,
        mut ticket: Ticket,
        superseded: Vec<Arc<Flight>>,
        missed: Missed,
    ) -> Begun {
        let Missed {
            erased,
            mut grant,
            revision,
            reason,
            ..
        } = missed;
        ticket.beginning.erased = erased;
        if !superseded.is_empty() {
            // The superseded flights may have held the key.
            self.void(superseded).await;
            grant = grant.filter(|grant| matches!(grant, Grant::Held(_)));
        }
        if ticket.storable.is_ok() {
            ticket.storable = self.unstorable(&ticket.flight.labels);
        }
        if ticket.storable.is_err() || self.policy.mode == Mode::ReadOnly {
            return Begun::Run(self.hand_out(ticket));
        }
        let memory = match self.shared.memory() {
            Ok(memory) if memory.about().reservations => Arc::clone(memory),
            _ => return Begun::Run(self.hand_out(ticket)),
        };
        let secured = match erased {
            // The store does not answer. The reservation is requested again when there is an answer to store.
            None => Secured::Unsecured(reason),
            Some(_) => self.secure(&ticket, grant, revision).await,
        };
        match secured {
            Secured::Held => {
                ticket.renewal = Some(reserve::renew(self.shared, &memory, &ticket.flight));
                Begun::Run(self.hand_out(ticket))
            }
            Secured::Unsecured(Reason::MemoryFault(_)) => {
                ticket.unreserved = Some(self.late.take());
                Begun::Run(self.hand_out(ticket))
            }
            Secured::Unsecured(reason) => {
                ticket.storable = Err(reason);
                Begun::Run(self.hand_out(ticket))
            }
            Secured::Answered { fronted, waited } => {
                ticket.answer_with(&fronted.entry).await;
                let how = if waited { How::Coalesced } else { How::Hit };
                Begun::Served(self.shared.hit(self.key, &fronted, how, self.policy))
            }
        }
    }

    async fn frozen(&self) -> Result<Outcome, FrozenMiss> {
        match self.frozen_entry().await {
            Ok(fronted) => Ok(self.shared.hit(self.key, &fronted, How::Hit, self.policy)),
            Err(reason) => {
                self.shared
                    .ledger
                    .refused(self.shared, self.call, self.key, self.policy, &reason);
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
    async fn frozen_entry(&self) -> Result<Arc<Fronted>, Reason> {
        let memory = self.shared.memory()?;
        let key = self.key.to_string();
        let found = memory.get(space::CACHE, &key, &[]);
        let found = self.shared.ask(found, &self.patience).await?;
        let entry = Entry::decode_for(found.record.ok_or(Reason::Absent)?, &self.key, self.call)?;
        entry
            .watched
            .check_frozen()
            .await
            .map_err(Reason::Changed)?;
        Ok(Arc::new(Fronted {
            entry,
            tally: self.shared.ledger.tally(self.call.kind, self.call.name),
            stamp: 0,
            domains: Vec::new(),
        }))
    }
}

impl Shared {
    /// Implements [`crate::Cache::bypass`].
    pub(crate) fn bypass(
        self: &Arc<Self>,
        call: &Call<'_>,
        policy: &Policy,
        reason: Reason,
    ) -> Ticket {
        let key = Key::of(call);
        let request = Request {
            shared: self,
            key,
            call,
            policy,
            patience: Patience::of(policy),
            late: Late::default(),
        };
        request.alone(How::Bypass(reason.clone()), reason)
    }

    /// Implements [`crate::Cache::probe`].
    pub(crate) async fn probe(
        self: &Arc<Self>,
        call: &Call<'_>,
        policy: &Policy,
    ) -> Result<Outcome, Reason> {
        let key = Key::of(call);
        let request = Request {
            shared: self,
            key,
            call,
            policy,
            patience: Patience::of(policy),
            late: Late::default(),
        };
        match policy.mode {
            Mode::Off => Err(Reason::Off),
            Mode::Refresh => Err(Reason::Refresh),
            Mode::Frozen => request
                .frozen_entry()
                .await
                .map(|fronted| served(key, &fronted.entry, How::Hit)),
            Mode::On | Mode::ReadOnly => match request.look().await {
                Looked::Hit(fronted) => Ok(served(key, &fronted.entry, How::Hit)),
                Looked::Miss(missed) => Err(missed.reason),
            },
        }
    }
}
