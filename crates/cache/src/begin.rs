//! The door: serve, join, or hand out the one ticket.

use std::sync::Arc;
use std::time::Instant;

use cachalot_memory::{Label, space};

use crate::body::Body;
use crate::engine::{Looked, Missed, Patience, Shared};
use crate::entry::Entry;
use crate::epoch::Moment;
use crate::flight::{Departure, Entered, Flight, Manners, Presence};
use crate::front::Fronted;
use crate::outcome::{How, Outcome, Revision, Settling};
use crate::policy::{Join, Mode, Policy};
use crate::reserve::{self, Secured};
use crate::store::NAME_LABEL;
use crate::ticket::{Errand, Stage, Ticket};
use crate::{Begun, Call, FrozenMiss, Key, Reason};

/// What `begin` carries from step to step.
pub(crate) struct Request<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) key: Key,
    pub(crate) call: &'a Call<'a>,
    pub(crate) policy: &'a Policy,
    pub(crate) patience: Patience,
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

    /// Accounts for a hit and serves it.
    pub(crate) fn hit(self: &Arc<Self>, key: Key, fronted: &Fronted, how: How) -> Outcome {
        let now = self.clock.now();
        self.note_use(&fronted.entry, now);
        self.ledger.hit(fronted, now, &how);
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
    /// A ticket that nobody can join and whose answer is not stored.
    fn alone(&self, how: How, why_not_stored: Reason) -> Ticket {
        let departure = self.departure(false, Moment::default(), None);
        let entered =
            self.shared
                .flights
                .enter(self.key, Manners::KeepsOut, |_| false, || departure);
        let Entered::Leads { flight, .. } = entered else {
            unreachable!("who keeps out joins nobody")
        };
        self.hand_out(self.ticket(flight, how, Err(why_not_stored)))
    }

    /// From here on it runs.
    fn hand_out(&self, mut ticket: Ticket) -> Ticket {
        ticket.patience = self.patience.clone();
        ticket.started = Instant::now();
        ticket.stage = Stage::Running;
        ticket
    }

    fn departure(&self, joinable: bool, moment: Moment, epochs: Option<Vec<u64>>) -> Departure {
        let name = Label::new(NAME_LABEL, self.call.name);
        let labels = std::iter::once(name)
            .chain(self.policy.labels.iter().cloned())
            .collect();
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
            started: Instant::now(),
            accounts: Box::default(),
            renewal: None,
            stage: Stage::Waiting,
        }
    }

    pub(crate) async fn look(&self) -> Looked {
        self.shared
            .look(&self.key, self.call, self.policy, &self.patience)
            .await
    }

    async fn serve_or_lead(&self) -> Begun {
        loop {
            let seen = self.shared.flights.seen(&self.key);
            let Missed {
                reason,
                moment,
                epochs,
                stamp,
            } = match self.look().await {
                Looked::Hit(fronted) => {
                    return Begun::Served(self.shared.hit(self.key, &fronted, How::Hit));
                }
                Looked::Miss(missed) => missed,
            };
            let flight_is_current = |flight: &Flight| {
                flight.began_under(&self.policy.domains, &moment, epochs.as_deref())
            };
            let unclear = moment.being_written.is_some()
                || (!self.policy.domains.is_empty() && epochs.is_none());
            let manners = match self.policy.join {
                _ if unclear => Manners::KeepsOut,
                Join::Alone => Manners::Leads,
                Join::Process | Join::Fleet { .. } => Manners::Joins(seen),
            };
            let entered = self
                .shared
                .flights
                .enter(self.key, manners, flight_is_current, || {
                    self.departure(
                        matches!(manners, Manners::Joins(_)),
                        moment.clone(),
                        epochs.clone(),
                    )
                });
            match entered {
                Entered::LooksAgain => {}
                Entered::Joined(presence) => {
                    if let Some(outcome) = self.follow(presence).await {
                        return Begun::Served(outcome);
                    }
                }
                Entered::Leads { flight, superseded } => {
                    let storable = if unclear { Err(reason.clone()) } else { Ok(()) };
                    // A ticket before anything is awaited: a flight without one would never end.
                    let ticket = self.ticket(flight, How::Miss(reason), storable);
                    self.void(superseded).await;
                    return self.secure_and_run(ticket, stamp).await;
                }
            }
        }
    }

    /// Runs without looking; waits its turn where the memory is shared, so that it can be stored.
    async fn refresh(&self) -> Begun {
        let moment = self.shared.epochs.moment(&self.policy.domains);
        let (moment, epochs) = match self.look().await {
            Looked::Miss(Missed { moment, epochs, .. }) => (moment, epochs),
            Looked::Hit(fronted) => {
                // An entry is served only under current epochs: those of its head are the current ones.
                let epoch = |counter: &String| {
                    let epochs = &fronted.entry.head.epochs;
                    epochs
                        .iter()
                        .find(|(name, _)| name == counter)
                        .map(|(_, epoch)| *epoch)
                };
                let counters = self.policy.domains.iter().map(|domain| domain.counter());
                (moment, counters.map(|counter| epoch(&counter)).collect())
            }
        };
        let storable = match &moment.being_written {
            Some(domain) => Err(Reason::Written(domain.to_string())),
            None => Ok(()),
        };
        let manners = if storable.is_ok() {
            Manners::Supersedes
        } else {
            Manners::KeepsOut
        };
        let departure = self.departure(self.policy.join != Join::Alone, moment, epochs);
        let entered = self
            .shared
            .flights
            .enter(self.key, manners, |_| false, || departure);
        let Entered::Leads { flight, superseded } = entered else {
            unreachable!("who supersedes or keeps out joins nobody")
        };
        let ticket = self.ticket(flight, How::Miss(Reason::Refresh), storable);
        self.void(superseded).await;
        self.secure_and_run(ticket, None).await
    }

    /// Reads what another caller produces; `None` if that caller left without a word.
    async fn follow(&self, presence: Presence) -> Option<Outcome> {
        let flight = Arc::clone(presence.flight());
        // Files are not announced when they change: the flight is joined only if all that it has
        // looked at so far is still so. What it has not looked at yet, it will see as it is.
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

    /// Flights whose answers are not worth storing any more: their reservations are given back for
    /// the new run.
    async fn void(&self, superseded: Vec<Arc<Flight>>) {
        for flight in superseded {
            flight.close();
            if let Some(lease) = flight.take_lease() {
                self.shared.release(lease, self.patience.left()).await;
            }
        }
    }

    /// Reserves the key where that is possible, then hands out the ticket, or another process' answer.
    /// `stamp` is that of the record when it was looked at.
    async fn secure_and_run(&self, mut ticket: Ticket, stamp: Option<u64>) -> Begun {
        if self.shared.secrets_in(&ticket.flight.labels) {
            ticket.storable = Err(Reason::HoldsSecret);
        }
        if ticket.storable.is_err() || self.policy.mode == Mode::ReadOnly {
            return Begun::Run(self.hand_out(ticket));
        }
        let memory = match self.shared.memory() {
            Ok(memory) if memory.about().reservations => Arc::clone(memory),
            Ok(_) => return Begun::Run(self.hand_out(ticket)),
            Err(reason) => {
                ticket.storable = Err(reason);
                return Begun::Run(self.hand_out(ticket));
            }
        };
        match self.secure(&memory, &ticket, stamp).await {
            Secured::Held => {
                ticket.renewal = Some(reserve::renew(self.shared, &memory, &ticket.flight));
                Begun::Run(self.hand_out(ticket))
            }
            Secured::Unsecured(reason) => {
                ticket.storable = Err(reason);
                Begun::Run(self.hand_out(ticket))
            }
            Secured::Answered { fronted, waited } => {
                ticket.answer_with(&fronted.entry).await;
                let how = if waited { How::Coalesced } else { How::Hit };
                Begun::Served(self.shared.hit(self.key, &fronted, how))
            }
        }
    }

    async fn frozen(&self) -> Result<Outcome, FrozenMiss> {
        match self.frozen_entry().await {
            Ok(fronted) => Ok(self.shared.hit(self.key, &fronted, How::Hit)),
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

    /// The answer of a frozen run: whatever its age and epochs, if the files it was built from hold the same.
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
    /// The ticket of a call that the cache cannot be asked about: it runs, and is accounted for.
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
        };
        request.alone(How::Bypass(reason.clone()), reason)
    }

    /// What would answer a call now, or why it would run. Counts as no call.
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
