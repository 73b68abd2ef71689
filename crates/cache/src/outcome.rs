//! Outcomes of calls.

use std::sync::Arc;

use cachalot_core::{Millis, Spend, Witnesses};
use tokio::sync::watch;

use crate::body::Body;
use crate::entry::Entry;
use crate::summary::{CacheStatus, CallSummary, EntryProvenance, Revision, RunEnd};
use crate::witness::{ObservationSet, Witness, to_witnesses};
use crate::{Key, Reason};

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

impl Outcome {
    /// The outcome of a call that an entry answers.
    pub(crate) fn from_entry(key: Key, entry: &Entry, status: CacheStatus) -> Self {
        Self {
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
    ///
    /// The future does not borrow the outcome and is no reader: a caller that only waits drops the outcome first, so
    /// that a run without readers ends by the policy's orphan rule.
    pub fn settled(&self) -> impl Future<Output = CallSummary> + Send + use<> {
        let settled = match &self.state {
            OutcomeState::Stored {
                revision,
                expires,
                saved,
                observations: _,
            } => Ok(CallSummary {
                stored: Ok(*revision),
                expires: *expires,
                paid: Spend::default(),
                saved: *saved,
            }),
            // Large, and not needed for a hit.
            OutcomeState::Running {
                ended,
                follower,
                witness: _,
            } => Err(Box::pin(settled_run(ended.clone(), *follower))),
        };
        async move {
            match settled {
                Ok(settled) => settled,
                Err(run) => run.await,
            }
        }
    }
}

/// Returns the summary of a run, once it has ended, for its leader or a `follower`.
async fn settled_run(mut ended: watch::Receiver<Option<RunEnd>>, follower: bool) -> CallSummary {
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
        None => CallSummary::not_stored(Reason::Abandoned, Spend::default()),
    }
}
