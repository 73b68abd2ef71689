//! The right and the duty to run a call once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cachalot_core::{Canonical, Spend};
use cachalot_memory::Label;

use crate::body::{Body, End, Whole};
use crate::engine::{Patience, Shared};
use crate::flight::{Flight, Presence};
use crate::outcome::{How, Outcome, Revision, Settled, Settling};
use crate::policy::{DEFAULT_PATIENCE, Orphan, Policy};
use crate::witness::Witness;
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
        Self { value: Some(value), keep: Ok(()), spent, labels: Vec::new() }
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
    pub(crate) started: Instant,
    /// Time of this run that calls inside it have accounted for.
    pub(crate) accounted: AtomicU64,
    pub(crate) renewal: Option<tokio::task::AbortHandle>,
    /// Whether it was handed out: before that, nothing ran and nothing was paid.
    pub(crate) begun: bool,
    pub(crate) ended: bool,
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
        self.started.elapsed()
    }

    /// Says that calls made by this run have accounted for so much of its time themselves: it is not
    /// paid for twice. What the entry says that it cost to make stays the whole.
    pub fn account_elsewhere(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.accounted.fetch_add(nanos, Ordering::Relaxed);
    }

    /// What this call itself has to account for.
    fn own(&self, spent: Spend) -> Spend {
        let accounted = Duration::from_nanos(self.accounted.load(Ordering::Relaxed));
        Spend { time: spent.time.saturating_sub(accounted), ..spent }
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
            settling: Settling::Running { settled: self.flight.settled.subscribe(), follower },
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
        let Product { value, keep, spent, labels } = product;
        let answer = value.unwrap_or_else(|| self.flight.body.collected());
        // The readers need not wait for the disk; newcomers join until the entry is there.
        self.flight.body.end(End::Whole(Whole::new(answer.clone())));
        let storable = std::mem::replace(&mut self.storable, Ok(())).and(keep);
        let stored = match storable {
            Ok(()) => self.shared.clone().store(&self, &answer, spent, labels).await,
            Err(reason) => Err(reason),
        };
        let (stored, expires) = match stored {
            Ok((revision, expires)) => (Ok(revision), expires),
            Err(reason) => (Err(reason), None),
        };
        let settled = Settled { stored, expires, paid: self.own(spent), saved: Spend::default() };
        self.end(settled.clone(), None).await;
        settled
    }

    /// Ends the run with a failure, which every waiter gets; stores nothing.
    pub async fn fail(mut self, failure: Failure) {
        let spent = self.own(Spend::one(self.elapsed()));
        // Nobody joins a flight that is known to have failed.
        self.flight.close();
        self.flight.body.end(End::Failed(failure.clone()));
        let settled = Settled {
            stored: Err(Reason::Failed),
            expires: None,
            paid: spent,
            saved: Spend::default(),
        };
        self.end(settled, Some(failure)).await;
    }

    /// Ends a run that need not begin: another process has stored the answer meanwhile.
    pub(crate) async fn answer_with(mut self, entry: &Arc<crate::entry::Entry>) {
        self.flight.body.end(End::Whole(Arc::clone(&entry.body)));
        let settled = Settled {
            stored: Ok(Revision(entry.revision)),
            expires: entry.head.expires,
            // What the other process paid; whoever followed us saved as much.
            paid: entry.head.spent,
            saved: Spend::default(),
        };
        self.end(settled, None).await;
    }

    async fn end(&mut self, settled: Settled, failure: Option<Failure>) {
        self.ended = true;
        self.stop_renewal();
        self.tell(settled, failure.as_ref());
        if let Some(lease) = self.flight.lease() {
            // The answer is not stored, and whoever leads next need not wait for the memory to hear of it.
            self.flight.close();
            self.shared.release(lease, self.patience.left()).await;
        }
        self.shared.flights.leave(&self.flight);
    }

    fn stop_renewal(&mut self) {
        if let Some(renewal) = self.renewal.take() {
            renewal.abort();
        }
    }

    /// Tells everybody who is interested how the run ended. Rows first: who knows that a call is
    /// settled finds it in the ledger.
    fn tell(&self, settled: Settled, failure: Option<&Failure>) {
        if self.begun {
            self.shared.ledger.paid(&self.shared, self, &settled, failure);
        }
        for row in self.flight.followers.close(settled.paid) {
            self.shared.ledger.send(row);
        }
        self.flight.settled.send_replace(Some(settled));
    }
}

pub(crate) async fn abandoned(flight: &Arc<Flight>, orphan: Orphan) {
    loop {
        let known = flight.deserted().await;
        if let Orphan::Finish { within } = orphan {
            if tokio::time::timeout(within, flight.attended(known)).await.is_ok() {
                continue;
            }
        }
        if flight.close_if_deserted() {
            return;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        self.stop_renewal();
        // Closed first: whoever wakes up and looks must not join it again.
        self.flight.close();
        let vacant = self.flight.body.is_empty();
        self.tell(
            Settled {
                stored: Err(Reason::Abandoned),
                expires: None,
                paid: if self.begun { self.own(Spend::one(self.elapsed())) } else { Spend::default() },
                saved: Spend::default(),
            },
            None,
        );
        self.flight.body.end(if vacant { End::Vacant } else { End::Failed(Failure::dropped()) });
        let (shared, flight) = (Arc::clone(&self.shared), Arc::clone(&self.flight));
        match (flight.lease(), tokio::runtime::Handle::try_current()) {
            (Some(lease), Ok(runtime)) => {
                runtime.spawn(async move {
                    shared.release(lease, DEFAULT_PATIENCE).await;
                    shared.flights.leave(&flight);
                });
            }
            _ => shared.flights.leave(&flight),
        }
    }
}
