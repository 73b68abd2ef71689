//! The right and the duty to run a call once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_core::{Canonical, Spend};
use cachalot_memory::Label;

use crate::body::{Body, End, Whole};
use crate::engine::{Patience, Shared};
use crate::erasures::Beginning;
use crate::flight::{Flight, Presence};
use crate::outcome::{Ended, How, Outcome, Revision, Settled, Settling};
use crate::policy::{DEFAULT_PATIENCE, Orphan, Policy};
use crate::reserve::Late;
use crate::sync::{AbortHandle, Mutex, lock, spawn};
use crate::witness::{Witness, travelling};
use crate::{Failure, Kind, Reason, Scope};

/// What a run produced.
#[derive(Debug)]
pub struct Product {
    /// The answer; `None`: what was emitted.
    pub value: Option<Bytes>,
    /// The adapter's verdict whether it may be kept, with its reason if not.
    pub keep: Result<(), Reason>,
    /// What it cost.
    pub spent: Spend,
    /// Further labels for the entry.
    pub labels: Vec<Label>,
}

impl Product {
    /// An answer that may be kept.
    #[must_use]
    pub fn kept(value: Bytes, spent: Spend) -> Self {
        Self {
            value: Some(value),
            keep: Ok(()),
            spent,
            labels: Vec::new(),
        }
    }
}

/// The call that a ticket is for, owned.
pub(crate) struct Errand {
    pub(crate) kind: Kind,
    pub(crate) scope: Scope,
    pub(crate) name: String,
    pub(crate) input: Canonical,
}

/// The right and the duty to run a call once, ended by [`Ticket::finish`] or [`Ticket::fail`].
///
/// Dropped before the first chunk, a waiter leads; dropped after it, the readers fail. Either way
/// nothing is stored.
#[must_use = "a ticket that is dropped makes others wait for nothing"]
pub struct Ticket {
    pub(crate) shared: Arc<Shared>,
    pub(crate) flight: Arc<Flight>,
    pub(crate) errand: Errand,
    pub(crate) policy: Policy,
    /// What is left of the call's patience.
    pub(crate) patience: Patience,
    pub(crate) how: How,
    /// Whether the answer may be stored as far as is known before the run.
    pub(crate) storable: Result<(), Reason>,
    /// Set if the key could not be reserved because the memory did not answer: it is asked again when
    /// there is something to store, unless it has answered meanwhile.
    pub(crate) unreserved: Option<Late>,
    pub(crate) beginning: Beginning,
    /// Told while it runs, and seldom: apart, so that tickets are small.
    pub(crate) accounts: Box<Mutex<Accounts>>,
    pub(crate) renewal: Option<AbortHandle>,
    pub(crate) stage: Stage,
}

/// What a run tells of its costs while it runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Accounts {
    /// Tokens and money that it was charged for.
    charged: Spend,
    /// What of it calls inside it have accounted for.
    elsewhere: Spend,
    /// Set if the answer tells of an error.
    is_error: bool,
}

/// How far a ticket has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Not handed out yet: nothing runs, and nothing is paid.
    Waiting,
    Running,
    /// Everybody knows how it ended; its reservation may have to be given back yet.
    Told,
    Gone,
}

impl Ticket {
    /// Where the work notes what it looks at, before it looks.
    #[must_use]
    pub fn witness(&self) -> &Witness {
        &self.flight.witness
    }

    /// Why it runs.
    #[must_use]
    pub fn how(&self) -> &How {
        &self.how
    }

    /// How long the run has taken so far.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.beginning.instant.elapsed()
    }

    /// Says that the run was charged for so many tokens and so much money, whether it ends well or
    /// not. Calls and time are counted by the ticket itself.
    pub fn charge(&self, spent: Spend) {
        lock(&self.accounts).charged += Spend {
            calls: 0,
            time: Duration::ZERO,
            ..spent
        };
    }

    /// Says that calls made by this run have accounted for so much of its time, tokens and money
    /// themselves: it is not paid for twice. What the entry says that it cost to make stays the whole.
    pub fn account_elsewhere(&self, spent: Spend) {
        lock(&self.accounts).elsewhere += spent;
    }

    /// Notes that the answer tells of an error: if the run is charged nothing, the ledger counts it as
    /// failed, not as paid.
    pub fn note_error(&self) {
        lock(&self.accounts).is_error = true;
    }

    pub(crate) fn answers_with_an_error(&self) -> bool {
        lock(&self.accounts).is_error
    }

    /// What the run cost, if it took so much by itself.
    fn whole(&self, mut spent: Spend) -> Spend {
        spent += lock(&self.accounts).charged;
        spent
    }

    /// What this call itself has to account for.
    fn own(&self, whole: Spend) -> Spend {
        whole.without(lock(&self.accounts).elsewhere)
    }

    /// Says that the answer lasts no longer than that: who made it said so, and only with it. It
    /// shortens what the policy says.
    pub fn expire_within(&mut self, lifetime: Duration) {
        let ttl = self.policy.ttl.unwrap_or(Duration::MAX);
        self.policy.ttl = Some(ttl.min(lifetime));
    }

    /// The reading end, for whoever drives the ticket itself.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.read_by(self.flight.attend(), false)
    }

    pub(crate) fn read_by(&self, presence: Presence, follower: bool) -> Outcome {
        Outcome {
            key: self.flight.key,
            how: self.how.clone(),
            settling: Settling::Running {
                ended: self.flight.ended.subscribe(),
                follower,
                witness: self.flight.witness.clone(),
            },
            body: Body::growing(presence),
            entry: None,
        }
    }

    /// Shows a chunk to all readers; never waits. Past the policy's `max_bytes` the run goes on,
    /// unstored and closed to newcomers.
    pub fn emit(&self, chunk: Bytes) {
        if self.flight.body.push(chunk) > self.policy.max_bytes {
            self.flight.close();
        }
    }

    /// Resolves when the orphan rule says stop: there were readers, and they are gone.
    pub async fn abandoned(&self) {
        abandoned(&self.flight, self.policy.orphan).await;
    }

    /// Ends the run with its answer: shows it to the readers, then stores it if it may be kept, every
    /// witness still holds, no epoch passed and nothing revoked it. Resolves when that is decided.
    pub async fn finish(mut self, product: Product) -> Settled {
        let Product {
            value,
            keep,
            spent,
            labels,
        } = product;
        let spent = self.whole(spent);
        let answer = value.unwrap_or_else(|| self.flight.body.collected());
        // The readers need not wait for the disk; newcomers join until the entry is there.
        self.flight.body.end(End::Whole(Whole::new(answer.clone())));
        let storable = std::mem::replace(&mut self.storable, Ok(())).and(keep);
        let stored = match storable {
            Ok(()) => {
                self.shared
                    .clone()
                    .store(&self, &answer, spent, labels)
                    .await
            }
            Err(reason) => Err(reason),
        };
        let (stored, expires) = match stored {
            Ok((revision, expires)) => (Ok(revision), expires),
            Err(reason) => (Err(reason), None),
        };
        let settled = Settled {
            stored,
            expires,
            paid: self.own(spent),
            saved: Spend::default(),
        };
        self.end(
            Ended {
                settled: settled.clone(),
                worth: spent,
            },
            None,
        )
        .await;
        settled
    }

    /// Ends the run with a failure, which every waiter gets; stores nothing. Tells what it cost.
    pub async fn fail(mut self, failure: Failure) -> Settled {
        let spent = self.whole(Spend::one(self.elapsed()));
        // Nobody joins a flight that is known to have failed.
        self.flight.close();
        self.flight.body.end(End::Failed(failure.clone()));
        let settled = Settled {
            stored: Err(Reason::Failed),
            expires: None,
            paid: self.own(spent),
            saved: Spend::default(),
        };
        self.end(
            Ended {
                settled: settled.clone(),
                worth: spent,
            },
            Some(failure),
        )
        .await;
        settled
    }

    /// Ends a run that need not begin: another process has stored the answer meanwhile.
    pub(crate) async fn answer_with(mut self, entry: &crate::entry::Entry) {
        // Whoever follows asks the run what the answer was built from.
        self.flight.witness.adopt(&travelling(&entry.watched));
        self.flight.body.end(End::Whole(Arc::clone(&entry.body)));
        let settled = Settled {
            stored: Ok(Revision(entry.revision)),
            expires: entry.head.expires,
            paid: Spend::default(),
            saved: entry.head.spent,
        };
        self.end(
            Ended {
                settled,
                worth: entry.head.spent,
            },
            None,
        )
        .await;
    }

    async fn end(&mut self, ended: Ended, failure: Option<Failure>) {
        self.stop_renewal();
        self.tell(ended, failure.as_ref());
        if let Some(lease) = self.flight.lease() {
            // The answer is not stored, and whoever leads next need not wait for the memory to hear of it.
            self.flight.close();
            self.shared.release(lease, self.policy.patience).await;
        }
        self.leave();
    }

    /// Out of the table: nobody finds the flight any more.
    fn leave(&mut self) {
        self.shared.flights.leave(&self.flight);
        self.stage = Stage::Gone;
    }

    fn stop_renewal(&mut self) {
        if let Some(renewal) = self.renewal.take() {
            renewal.abort();
        }
    }

    /// Tells everybody who is interested how the run ended. Rows first: who knows that a call is
    /// settled finds it in the ledger.
    fn tell(&mut self, mut ended: Ended, failure: Option<&Failure>) {
        if failure.is_some() || self.answers_with_an_error() {
            ended.worth = Spend::default();
        }
        if self.stage == Stage::Running {
            self.shared
                .ledger
                .paid(&self.shared, self, &ended.settled, failure);
        }
        self.stage = Stage::Told;
        for row in self.flight.followers.close(ended.worth) {
            self.shared.ledger.send(row);
        }
        self.flight.ended.send_replace(Some(ended));
    }
}

pub(crate) async fn abandoned(flight: &Arc<Flight>, orphan: Orphan) {
    loop {
        let known = flight.deserted().await;
        if let Orphan::Finish { within } = orphan
            && tokio::time::timeout(within, flight.attended(known))
                .await
                .is_ok()
        {
            continue;
        }
        if flight.close_if_deserted() {
            return;
        }
    }
}

impl Ticket {
    /// Ends a run that nobody ended.
    fn give_up(&mut self) {
        let spent = match self.stage {
            Stage::Waiting => Spend::default(),
            Stage::Running => self.whole(Spend::one(self.elapsed())),
            Stage::Told | Stage::Gone => return,
        };
        let settled = Settled {
            stored: Err(Reason::Abandoned),
            expires: None,
            paid: self.own(spent),
            saved: Spend::default(),
        };
        let worth = Spend::default();
        self.tell(Ended { settled, worth }, None);
        let vacant = self.flight.body.is_empty();
        self.flight.body.end(if vacant {
            End::Vacant
        } else {
            End::Failed(Failure::dropped())
        });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.stage == Stage::Gone {
            return;
        }
        self.stop_renewal();
        // Closed first: whoever wakes up and looks must not join it again.
        self.flight.close();
        self.give_up();
        let (shared, flight) = (Arc::clone(&self.shared), Arc::clone(&self.flight));
        match (flight.lease(), tokio::runtime::Handle::try_current()) {
            (Some(lease), Ok(_)) => {
                spawn(async move {
                    shared.release(lease, DEFAULT_PATIENCE).await;
                    shared.flights.leave(&flight);
                });
            }
            _ => self.leave(),
        }
    }
}
