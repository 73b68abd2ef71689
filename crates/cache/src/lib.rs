//! The engine: one door for every memoized piece of work.
//!
//! An adapter turns *its* call into a [`Call`] and a [`Policy`]; everything else — time to live,
//! single-flight, validation, eviction, sweeping, isolation, frozen runs, statistics, explanations —
//! exists once, here. This crate knows no model, tool, hook, YAML or HTTP.

mod begin;
mod body;
mod cassette;
mod decoded;
mod engine;
mod entry;
mod epoch;
mod erase;
mod erasures;
mod evict;
mod explain;
mod flight;
mod front;
mod key;
mod ledger;
mod outcome;
mod policy;
mod reason;
mod reserve;
mod share;
mod store;
mod sync;
mod ticket;
mod verified;
mod witness;
mod writing;

use std::sync::Arc;

pub use body::{Body, Reader};
pub use cassette::{CASSETTE_VERSION, CassetteError, Exported, Imported};
pub use decoded::{DecodeError, Decoded};
pub use engine::{Bounds, Options};
pub use erase::{Criterion, Erased, ErasedEntry, Filter, Listed, Stored};
pub use explain::{Difference, Explanation};
pub use key::{Call, Key, Kind, Scope};
pub use ledger::{
    Answered, HANDLE_LABEL, Ledger, LedgerError, Limits, Payment, Pruned, Row, Selection, Totals,
};
pub use outcome::{How, Outcome, Provenance, Revision, Settled};
pub use policy::{
    DEFAULT_MAX_BYTES, DEFAULT_PATIENCE, DEFAULT_STORE_TIMEOUT, Domain, Join, Mode, Orphan, Policy,
    Share,
};
pub use reason::{Failure, FrozenMiss, Reason};
pub use ticket::{Product, Ticket};
pub use witness::{Observation, Witness, Witnessed};
pub use writing::Writing;

/// The engine. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Cache(Arc<engine::Shared>);

/// What the door says: read the outcome, or lead.
pub enum Begun {
    /// Answered, by an entry or by a run that somebody else leads.
    Served(Outcome),
    /// Run it. `Mode::Off` and bypasses lead too: one path, one row in the ledger.
    Run(Ticket),
}

impl Cache {
    /// An engine over a memory.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self(Arc::new(engine::Shared::new(options, false)))
    }

    /// An engine whose bounds hold after every store, and whose order of use is that of every single
    /// use: for small caches over a memory in the process. Otherwise uses are noted a minute apart, and
    /// stores may overshoot the bounds for a moment.
    #[must_use]
    pub fn exact(options: Options) -> Self {
        Self(Arc::new(engine::Shared::new(options, true)))
    }

    /// Whether it is the same engine.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Says who is told the name of every entry that has to make room for others. The first to say
    /// so is told.
    pub fn tell_of_evictions(&self, told: impl Fn(&str) + Send + Sync + 'static) {
        self.0.housekeeping.tell(Box::new(told));
    }

    /// Serves, joins a flight (only if its epochs are still current), or hands out the ticket. A
    /// faulty memory costs at most the policy's patience, and means [`Begun::Run`].
    ///
    /// # Errors
    /// In [`Mode::Frozen`], if no entry answers the call.
    pub async fn begin(&self, call: &Call<'_>, policy: &Policy) -> Result<Begun, FrozenMiss> {
        self.0.begin(call, policy).await
    }

    /// The ticket of a call that the cache cannot be asked about, because what it depends on cannot
    /// be told: it runs, is not stored, and is accounted for with the reason.
    pub fn bypass(&self, call: &Call<'_>, policy: &Policy, reason: Reason) -> Ticket {
        self.0.bypass(call, policy, reason)
    }

    /// What would answer a call now, or why it would run. Counts as no call and changes nothing.
    ///
    /// # Errors
    /// The reason why the call would run.
    pub async fn probe(&self, call: &Call<'_>, policy: &Policy) -> Result<Outcome, Reason> {
        self.0.probe(call, policy).await
    }

    /// [`Cache::begin`], with a ticket run detached from the caller; returns when there is a body to
    /// read, not when it is complete. When the last reader leaves, the policy's orphan rule applies
    /// and `work` is dropped.
    ///
    /// # Errors
    /// In [`Mode::Frozen`], if no entry answers the call.
    pub async fn through<F>(
        &self,
        call: &Call<'_>,
        policy: &Policy,
        work: impl FnOnce(Ticket) -> F + Send + 'static,
    ) -> Result<Outcome, FrozenMiss>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match self.begin(call, policy).await? {
            Begun::Served(outcome) => Ok(outcome),
            Begun::Run(ticket) => {
                let outcome = ticket.outcome();
                let (flight, orphan) = (Arc::clone(&ticket.flight), policy.orphan);
                tokio::spawn(async move {
                    tokio::select! {
                        () = work(ticket) => {}
                        () = ticket::abandoned(&flight, orphan) => {}
                    }
                });
                Ok(outcome)
            }
        }
    }

    /// What is accounted for.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    /// Tells the memory and the ledger what they have not been told yet: uses, the ends of writes,
    /// statuses of files, rows.
    /// Call it before the process ends.
    pub async fn close(&self) {
        // A fault is warned of, and tried again for as long as the engine lives.
        let _ = self.0.raise_waiting().await;
        self.0.written_back().await;
        self.0.flush_uses().await;
        self.0.ledger.flush().await;
    }
}
