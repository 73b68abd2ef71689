//! The input of the phases that a call goes through before it runs.

use std::sync::Arc;

use cachalot_store::{Label, Stale};

use crate::access::TimeBudget;
use crate::engine::Engine;
use crate::entry::{KIND_LABEL, NAME_LABEL};
use crate::lease::{LateLookup, ReservationRequest};
use crate::ledger::{CallStatus, PendingRow};
use crate::policy::{CacheMode, HitPolicy, RunPolicy};
use crate::{Call, Key, Reason};

/// A call that is being begun.
pub(crate) struct Request<'a> {
    pub(crate) engine: &'a Arc<Engine>,
    pub(crate) key: Key,
    pub(crate) call: &'a Call<'a>,
    pub(crate) hit: &'a HitPolicy,
    pub(crate) run: &'a RunPolicy,
    /// The labels of the flight, its reservation and its entry.
    pub(crate) labels: Vec<Label>,
    /// The remaining time that the call may wait for the store.
    pub(crate) budget: TimeBudget,
    /// The answer of a lookup that timed out.
    pub(crate) late: LateLookup,
}

impl<'a> Request<'a> {
    pub(crate) fn new(
        engine: &'a Arc<Engine>,
        key: Key,
        call: &'a Call<'a>,
        hit: &'a HitPolicy,
        run: &'a RunPolicy,
    ) -> Self {
        Self {
            engine,
            key,
            call,
            hit,
            run,
            labels: labels(call, run),
            budget: TimeBudget::new(engine.bounds.lookup_timeout_of(run)),
            late: LateLookup::default(),
        }
    }

    /// Returns the call's row of the ledger.
    pub(crate) fn ledger_row(&self, answered: CallStatus) -> PendingRow {
        PendingRow::new(
            &self.engine.access,
            self.call,
            self.key,
            self.hit,
            self.run,
            answered,
        )
    }

    /// Fails with the reason if an answer with the labels of the call must not be stored.
    pub(crate) fn check_labels(&self) -> Result<(), Reason> {
        let labels = &self.labels;
        let access = &self.engine.access;
        if access.has_secret_label(labels) {
            return Err(Reason::HoldsSecret);
        }
        let longest = access.store()?.about().longest_name;
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

    /// True if the call may reserve its key in the store.
    pub(crate) fn reserves(&self) -> bool {
        self.hit.stores_answers()
            && self
                .engine
                .access
                .store()
                .is_ok_and(|store| store.about().reservations)
    }

    /// The reservation that the call needs: over any record if a fresh answer is requested, else over the
    /// record of this revision, which does not answer the call.
    pub(crate) fn reservation(&self, revision: Option<u64>) -> ReservationRequest<'_> {
        let stale = match (self.hit.mode, revision) {
            (CacheMode::Refresh, _) => Stale::Any,
            (_, Some(revision)) => Stale::Revision(revision),
            (_, None) => Stale::None,
        };
        ReservationRequest {
            labels: &self.labels,
            stale,
            late: &self.late,
        }
    }
}

fn labels(call: &Call<'_>, run: &RunPolicy) -> Vec<Label> {
    let own = [
        Label::new(NAME_LABEL, call.name),
        Label::new(KIND_LABEL, call.kind.as_str()),
    ];
    own.into_iter().chain(run.labels.iter().cloned()).collect()
}
