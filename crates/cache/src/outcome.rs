//! How a call was answered.

use std::sync::Arc;

use cachalot_core::{Millis, Spend, Witnesses};
use cachalot_memory::Label;
use tokio::sync::watch;

use crate::witness::{Watched, Witness, travelling};
use crate::{Body, Key, Reason};

/// How a call was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// From the cache.
    Hit,
    /// By a run that somebody else had started.
    Coalesced,
    /// By a run of its own, and why.
    Miss(Reason),
    /// By a run of its own, because the cache was not asked, and why.
    Bypass(Reason),
}

impl How {
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

    /// Why it was not a hit.
    #[must_use]
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Hit | Self::Coalesced => None,
            Self::Miss(reason) | Self::Bypass(reason) => Some(reason),
        }
    }
}

/// Where an entry comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// When it was made.
    pub created: Millis,
    /// Until when it may be served.
    pub expires: Option<Millis>,
    /// What making it cost.
    pub spent: Spend,
    /// By what it is found.
    pub labels: Vec<Label>,
    /// The memory's revision of it.
    pub revision: u64,
}

/// The revision under which an answer was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revision(pub u64);

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The stored revision, or why nothing was stored. For a hit, the revision that was served.
    pub stored: Result<Revision, Reason>,
    /// Until when the stored entry may be served.
    pub expires: Option<Millis>,
    /// What this call cost.
    pub paid: Spend,
    /// What it would have cost without the cache.
    pub saved: Spend,
}

/// The answer to a call.
pub struct Outcome {
    /// The call's key.
    pub key: Key,
    /// How it was answered.
    pub how: How,
    /// The answer, possibly still growing.
    pub body: Body,
    /// The entry that answered it, if one did.
    pub entry: Option<Provenance>,
    pub(crate) settling: Settling,
}

pub(crate) enum Settling {
    /// By an entry.
    Stored {
        revision: Revision,
        expires: Option<Millis>,
        saved: Spend,
        watched: Arc<Watched>,
    },
    Running {
        ended: watch::Receiver<Option<Ended>>,
        follower: bool,
        witness: Witness,
    },
}

/// How a run ended.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    /// For the call that ran.
    pub(crate) settled: Settled,
    /// What a call that followed the run saves: the cost of all that the run did, calls of its own
    /// included. Nothing if the run gave no answer, or one that reports an error.
    pub(crate) worth: Spend,
}

impl Outcome {
    /// What the answer was built from, as far as it was noted: of an entry, what it carries; of a run,
    /// what the run has noted so far, which is all of it once the outcome is settled. An answer that
    /// somebody's word makes last (a time to live, a domain) may depend on more.
    #[must_use]
    pub fn witnesses(&self) -> Witnesses {
        match &self.settling {
            Settling::Stored { watched, .. } => travelling(watched),
            Settling::Running { witness, .. } => witness.witnesses(),
        }
    }

    /// Resolves when the store is durable or refused; whoever does not ask does not wait.
    pub async fn settled(&self) -> Settled {
        let (mut ended, follower) = match &self.settling {
            Settling::Stored {
                revision,
                expires,
                saved,
                watched: _,
            } => {
                return Settled {
                    stored: Ok(*revision),
                    expires: *expires,
                    paid: Spend::default(),
                    saved: *saved,
                };
            }
            Settling::Running {
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
            Some(Ended { settled, worth }) if follower => Settled {
                paid: Spend::default(),
                saved: worth,
                ..settled
            },
            Some(Ended { settled, .. }) => settled,
            None => Settled {
                stored: Err(Reason::Abandoned),
                expires: None,
                paid: Spend::default(),
                saved: Spend::default(),
            },
        }
    }
}
