//! Statuses and final states of calls.

use std::sync::Arc;

use cachalot_core::{Millis, Spend};
use cachalot_store::Label;

use crate::Reason;

/// The source of the answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheStatus {
    /// An entry of the cache.
    Hit,
    /// A copy of an entry on this machine, because the store failed, and how: it may have been replaced or erased by
    /// another machine.
    LocalHit(Reason),
    /// An entry that has expired, within the policy's time for it ([`crate::RunPolicy::stale_while_revalidate`],
    /// [`crate::RunPolicy::stale_if_error`]).
    Stale,
    /// A run that another caller had started.
    Coalesced,
    /// A run of the call's own, because the lookup found no servable entry, and why.
    Miss(Reason),
    /// A run of the call's own without a lookup, and why.
    Bypass(Reason),
}

impl CacheStatus {
    /// True if an entry answered, expired or not, or its local copy.
    #[must_use]
    pub fn is_hit(&self) -> bool {
        matches!(self, Self::Hit | Self::LocalHit(_) | Self::Stale)
    }

    /// `hit`, `stale`, `coalesced`, `miss` or `bypass`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Hit | Self::LocalHit(_) => "hit",
            Self::Stale => "stale",
            Self::Coalesced => "coalesced",
            Self::Miss(_) => "miss",
            Self::Bypass(_) => "bypass",
        }
    }

    /// The reason why the call was not a hit, or was answered by a local copy.
    #[must_use]
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Hit | Self::Stale | Self::Coalesced => None,
            Self::LocalHit(reason) | Self::Miss(reason) | Self::Bypass(reason) => Some(reason),
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

impl CallSummary {
    /// The final state of a run, with the revision and the expiry of its entry, or the reason why there is none.
    pub(crate) fn of_run(stored: Result<(Revision, Option<Millis>), Reason>, paid: Spend) -> Self {
        match stored {
            Ok((revision, expires)) => Self {
                stored: Ok(revision),
                expires,
                paid,
                saved: Spend::default(),
            },
            Err(reason) => Self::not_stored(reason, paid),
        }
    }

    /// The final state of a run whose answer is not stored.
    pub(crate) fn not_stored(reason: Reason, paid: Spend) -> Self {
        Self {
            stored: Err(reason),
            expires: None,
            paid,
            saved: Spend::default(),
        }
    }
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
