//! Outcomes of calls.

use std::sync::Arc;

use cachalot_core::{Millis, Spend, Witnesses};
use cachalot_store::Label;
use tokio::sync::watch;

use crate::witness::{ObservationSet, Witness, to_witnesses};
use crate::{Body, Key, Reason};

/// The source of the answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheStatus {
    /// An entry of the cache.
    Hit,
    /// A run that another caller had started.
    Coalesced,
    /// A run of the call's own, because the lookup found no servable entry, and why.
    Miss(Reason),
    /// A run of the call's own without a lookup, and why.
    Bypass(Reason),
}

impl CacheStatus {
    /// `hit`, `coalesced`, `miss` or `bypass`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Coalesced => "coalesced",
            Self::Miss(_) => "miss",
            Self::Bypass(_) => "bypass",
        }
    }

    /// The reason why the call was not a hit.
    #[must_use]
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Hit | Self::Coalesced => None,
            Self::Miss(reason) | Self::Bypass(reason) => Some(reason),
        }
    }
}

/// Origin and age of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryProvenance {
    /// The time of creation.
    pub created: Millis,
    /// The time of expiry; `None`: it never expires.
    pub expires: Option<Millis>,
    /// The cost of producing the answer.
    pub spent: Spend,
    /// Labels by which the entry can be found.
    pub labels: Arc<[Label]>,
    /// The store's revision of the record.
    pub revision: u64,
}

/// The revision under which an answer was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revision(pub u64);

/// The final state of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSummary {
    /// The stored revision, or the reason why nothing was stored. For a hit, the revision that was served.
    pub stored: Result<Revision, Reason>,
    /// The expiry of the stored entry; `None` if it never expires, or nothing was stored.
    pub expires: Option<Millis>,
    /// The cost of this call.
    pub paid: Spend,
    /// The cost that the call would have had without the cache.
    pub saved: Spend,
}

/// The answer to a call.
pub struct Outcome {
    /// The call's key.
    pub key: Key,
    /// The source of the answer.
    pub status: CacheStatus,
    /// The answer, possibly still growing.
    pub body: Body,
    /// The entry that answered the call, if any.
    pub entry: Option<EntryProvenance>,
    pub(crate) state: OutcomeState,
}

pub(crate) enum OutcomeState {
    /// Answered by an entry.
    Stored {
        revision: Revision,
        expires: Option<Millis>,
        saved: Spend,
        observations: Arc<ObservationSet>,
    },
    Running {
        ended: watch::Receiver<Option<RunEnd>>,
        follower: bool,
        witness: Witness,
    },
}

/// The end of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunEnd {
    /// The final state for the call that ran.
    pub(crate) settled: CallSummary,
    /// The saving of a call that followed the run: the total cost of the run, nested calls included. Zero if
    /// the run gave no answer, or one that reports an error.
    pub(crate) run_cost: Spend,
}

impl Outcome {
    /// Returns the witnesses of the answer: for an entry, those that it carries; for a run, those recorded
    /// so far, which are complete once the outcome is settled. An answer that is valid by a time to live or a
    /// domain may depend on more than its witnesses.
    #[must_use]
    pub fn witnesses(&self) -> Witnesses {
        match &self.state {
            OutcomeState::Stored { observations, .. } => to_witnesses(observations),
            OutcomeState::Running { witness, .. } => witness.witnesses(),
        }
    }

    /// Resolves when the answer is durably stored, or it is decided that it will not be stored. Readers of
    /// the answer need not wait for it.
    pub async fn settled(&self) -> CallSummary {
        let (mut ended, follower) = match &self.state {
            OutcomeState::Stored {
                revision,
                expires,
                saved,
                observations: _,
            } => {
                return CallSummary {
                    stored: Ok(*revision),
                    expires: *expires,
                    paid: Spend::default(),
                    saved: *saved,
                };
            }
            OutcomeState::Running {
                ended,
                follower,
                witness: _,
            } => (ended.clone(), *follower),
        };
        let ended = match ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone(),
            Err(_) => None,
        };
        match ended {
            Some(RunEnd { settled, run_cost }) if follower => CallSummary {
                paid: Spend::default(),
                saved: run_cost,
                ..settled
            },
            Some(RunEnd { settled, .. }) => settled,
            None => CallSummary {
                stored: Err(Reason::Abandoned),
                expires: None,
                paid: Spend::default(),
                saved: Spend::default(),
            },
        }
    }
}
