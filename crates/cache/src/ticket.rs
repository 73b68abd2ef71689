//! Tickets: the exclusive permission, and the obligation, to run a call once.

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

/// The result of a run.
#[derive(Debug)]
pub struct Product {
    /// The answer; `None`: the concatenation of the emitted chunks.
    pub value: Option<Bytes>,
    /// The adapter's decision on storing the answer, with the reason if it must not be stored.
    pub keep: Result<(), Reason>,
    /// The cost of the run.
    pub spent: Spend,
    /// Additional labels for the entry.
    pub labels: Vec<Label>,
}

impl Product {
    /// Creates a product that may be stored.
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

/// An owned copy of the call that a ticket is for.
pub(crate) struct Errand {
    pub(crate) kind: Kind,
    pub(crate) scope: Scope,
    pub(crate) name: String,
    pub(crate) input: Canonical,
}

/// The exclusive permission to run a call once, ended by [`Ticket::finish`] or [`Ticket::fail`].
///
/// If it is dropped before the first chunk, a waiting caller becomes the leader; if it is dropped later,
/// the readers get a failure. In both cases nothing is stored.
#[must_use = "a ticket that is dropped makes others wait for nothing"]
pub struct Ticket {
    pub(crate) shared: Arc<Shared>,
    pub(crate) flight: Arc<Flight>,
    pub(crate) errand: Errand,
    pub(crate) policy: Policy,
    /// The remaining time budget of the call for waiting for the store.
    pub(crate) patience: Patience,
    pub(crate) how: How,
    /// Set to a reason if it is known before the run that the answer must not be stored.
    pub(crate) storable: Result<(), Reason>,
    /// Set if the key could not be reserved because the store did not answer. The reservation is requested
    /// again when there is an answer to store, unless the late answer to the first request brings it.
    pub(crate) unreserved: Option<Late>,
    pub(crate) beginning: Beginning,
    /// Costs reported during the run. Boxed, because they are rarely used and tickets should be small.
    pub(crate) accounts: Box<Mutex<Accounts>>,
    pub(crate) renewal: Option<AbortHandle>,
    pub(crate) stage: Stage,
}

/// Costs that a run reports while it runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Accounts {
    /// Tokens and money that the run was charged for.
    charged: Spend,
    /// The part of the run's costs for which nested calls have rows of their own in the ledger.
    elsewhere: Spend,
    /// Set if the answer reports an error.
    is_error: bool,
}

/// The lifecycle stage of a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Not handed out yet: nothing runs, and nothing is paid.
    Waiting,
    Running,
    /// The end is published to all readers and the ledger; the reservation may still have to be released.
    Told,
    Gone,
}

impl Ticket {
    /// The list in which the work records what it reads, before it reads it.
    #[must_use]
    pub fn witness(&self) -> &Witness {
        &self.flight.witness
    }

    /// The outcome of the lookup: a miss or a bypass, with the reason.
    #[must_use]
    pub fn how(&self) -> &How {
        &self.how
    }

    /// The duration of the run so far.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.beginning.instant.elapsed()
    }

    /// Adds tokens and money that the run was charged for, whether it succeeds or fails. Calls and time are
    /// counted by the ticket itself.
    pub fn charge(&self, spent: Spend) {
        lock(&self.accounts).charged += Spend {
            calls: 0,
            time: Duration::ZERO,
            ..spent
        };
    }

    /// Subtracts time, tokens and money from the ledger row of this run, because calls that it made have rows
    /// of their own for them. The cost in the entry stays the total.
    pub fn account_elsewhere(&self, spent: Spend) {
        lock(&self.accounts).elsewhere += spent;
    }

    /// Records that the answer reports an error: if the run is charged nothing, the ledger counts it as
    /// failed, not as paid.
    pub fn note_error(&self) {
        lock(&self.accounts).is_error = true;
    }

    pub(crate) fn answers_with_an_error(&self) -> bool {
        lock(&self.accounts).is_error
    }

    /// The total cost of the run, charges included; `spent` is what the run itself reports.
    fn whole(&self, mut spent: Spend) -> Spend {
        spent += lock(&self.accounts).charged;
        spent
    }

    /// The part of the total cost that goes into this call's own ledger row.
    fn own(&self, whole: Spend) -> Spend {
        whole.without(lock(&self.accounts).elsewhere)
    }

    /// Limits the time to live of the answer to `lifetime`, which its producer returned along with it. It
    /// shortens the policy's time to live and never extends it.
    pub fn expire_within(&mut self, lifetime: Duration) {
        let ttl = self.policy.ttl.unwrap_or(Duration::MAX);
        self.policy.ttl = Some(ttl.min(lifetime));
    }

    /// Returns the reading end of the run, for callers that drive the ticket themselves.
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

    /// Sends a chunk to all readers; never waits. Past the policy's `max_bytes` the run continues, but is not
    /// stored, and new callers cannot join it.
    pub fn emit(&self, chunk: Bytes) {
        if self.flight.body.push(chunk) > self.policy.max_bytes {
            self.flight.close();
        }
    }

    /// Resolves when the orphan rule stops the run: it had readers, and all of them have left.
    pub async fn abandoned(&self) {
        abandoned(&self.flight, self.policy.orphan).await;
    }

    /// Ends the run with its answer: publishes it to the readers, then stores it if it may be kept, every
    /// witness still holds, no epoch has passed and nothing revoked the run. Resolves when that is decided.
    pub async fn finish(mut self, product: Product) -> Settled {
        let Product {
            value,
            keep,
            spent,
            labels,
        } = product;
        let spent = self.whole(spent);
        let answer = value.unwrap_or_else(|| self.flight.body.collected());
        // Readers do not wait for the store; new callers join this flight until the entry is stored.
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

    /// Ends the run with a failure, which every waiting reader gets; stores nothing. Returns the cost.
    pub async fn fail(mut self, failure: Failure) -> Settled {
        let spent = self.whole(Spend::one(self.elapsed()));
        // Prevents callers from joining a flight that is known to have failed.
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

    /// Ends a run before it starts: another process has stored the answer in the meantime.
    pub(crate) async fn answer_with(mut self, entry: &crate::entry::Entry) {
        // Followers read the witnesses of the answer from the flight.
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
            // The answer is not stored. The next leader need not wait until the store has released the lease.
            self.flight.close();
            self.shared.release(lease, self.policy.patience).await;
        }
        self.leave();
    }

    /// Removes the flight from the table, so that no caller finds it any more.
    fn leave(&mut self) {
        self.shared.flights.leave(&self.flight);
        self.stage = Stage::Gone;
    }

    fn stop_renewal(&mut self) {
        if let Some(renewal) = self.renewal.take() {
            renewal.abort();
        }
    }

    /// Publishes the end of the run. The ledger rows are sent first, so that a caller that sees the call as
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
    /// Ends a run whose ticket was dropped without `finish` or `fail`.
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
        // Closed first, so that a waiter that wakes up and looks again does not join this flight.
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
