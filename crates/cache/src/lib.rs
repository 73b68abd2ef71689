//! The cache engine, which serves every memoized kind of work through one API.
//!
//! An adapter turns its request into a [`Call`] and a [`Policy`]. Everything else exists once, here: time
//! to live, single-flight, validation, eviction, sweeping, isolation, frozen runs, statistics and
//! explanations. This crate knows no model, tool, hook, YAML or HTTP.

mod begin;
mod body;
mod cassette;
mod decoded;
mod engine;
mod entry;
mod epoch;
mod erase;
mod evict;
mod explain;
mod flight;
mod front;
mod key;
mod ledger;
mod outcome;
mod policy;
mod quota;
mod reason;
mod renew;
mod reserve;
mod run_start;
mod store_answer;
mod sync;
mod ticket;
mod witness;
mod write_back;
mod write_guard;

use std::borrow::Borrow;
use std::sync::Arc;

pub use body::{Body, BodyReader};
pub use cassette::{CASSETTE_VERSION, CassetteError, ExportReport, ImportReport};
pub use decoded::{DecodeError, Decoded};
pub use engine::{CacheBounds, CacheOptions};
pub use erase::{EntryFilter, EntryInfo, EraseReport, ErasedEntry, LabelCriterion, StoredEntry};
pub use explain::{Difference, Explanation};
pub use key::{Call, CallKind, Key, Scope};
pub use ledger::{
    CallStatus, HANDLE_LABEL, Ledger, LedgerError, LedgerLimits, LedgerRow, LedgerSelection,
    LedgerTotals, Payment, PruneReport,
};
pub use outcome::{CacheStatus, CallSummary, EntryProvenance, Outcome, Revision};
pub use policy::{
    CacheMode, DEFAULT_LOOKUP_TIMEOUT, DEFAULT_MAX_BYTES, DEFAULT_STORE_TIMEOUT, Domain, HitPolicy,
    OrphanPolicy, Policy, Quota, SingleFlight,
};
pub use reason::{Failure, FrozenMiss, Reason};
pub use ticket::{RunResult, Ticket};
pub use witness::{Observation, Witness, WitnessSnapshot};
pub use write_guard::WriteGuard;

/// The engine. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Cache(Arc<engine::Engine>);

/// The result of [`Cache::begin`]: an answer to read, or a ticket to run the call.
pub enum BeginResult {
    /// Answered by an entry, or by a run that another caller leads.
    Served(Outcome),
    /// The caller has to run the call. `CacheMode::Off` and bypasses get a ticket too, so that every run takes one
    /// path and gets one row in the ledger.
    Run(Ticket),
}

impl Cache {
    /// Creates an engine over a store.
    #[must_use]
    pub fn new(options: CacheOptions) -> Self {
        Self(Arc::new(engine::Engine::new(options, false)))
    }

    /// Creates an engine that enforces its bounds after every write and records the time of every single
    /// use: for small caches over an in-process store. An engine from [`Cache::new`] records uses of an entry
    /// at most once a minute, and may exceed its bounds for a moment.
    #[must_use]
    pub fn exact(options: CacheOptions) -> Self {
        Self(Arc::new(engine::Engine::new(options, true)))
    }

    /// True if both handles share one engine.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Registers the eviction listener, which gets the name of each entry that is evicted to keep within
    /// [`CacheBounds`]. Only the first registration takes effect.
    pub fn on_eviction(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        self.0.eviction.set_listener(Box::new(listener));
    }

    /// Serves an entry, joins a flight (only if its epochs are still current), or returns a ticket. A store
    /// that fails or is slow delays the call by at most [`Policy::lookup_timeout`], then results in [`BeginResult::Run`].
    ///
    /// # Errors
    /// In [`CacheMode::Frozen`], if no entry answers the call.
    pub async fn begin(&self, call: &Call<'_>, policy: &Policy) -> Result<BeginResult, FrozenMiss> {
        self.begin_with(call, &policy.for_hit(), || policy).await
    }

    /// Calls [`Cache::begin`], with a policy that is created only if the in-process front does not answer the
    /// call. `hit` is the part of that policy that a hit needs.
    ///
    /// # Errors
    /// In [`CacheMode::Frozen`], if no entry answers the call.
    pub async fn begin_with<P: Borrow<Policy> + Send + Sync>(
        &self,
        call: &Call<'_>,
        hit: &HitPolicy<'_>,
        policy: impl FnOnce() -> P,
    ) -> Result<BeginResult, FrozenMiss> {
        self.0.begin_with(call, hit, policy).await
    }

    /// Returns a ticket for a call that must not use the cache, because its dependencies cannot be
    /// determined. The call runs, is not stored, and gets a ledger row with the reason.
    pub fn bypass(&self, call: &Call<'_>, policy: &Policy, reason: Reason) -> Ticket {
        self.0.bypass(call, policy, reason)
    }

    /// Returns the entry that would answer a call now. Records no call and changes nothing.
    ///
    /// # Errors
    /// The reason why the call would run.
    pub async fn probe(&self, call: &Call<'_>, policy: &Policy) -> Result<Outcome, Reason> {
        self.0.probe(call, policy).await
    }

    /// Calls [`Cache::begin`] and runs the work of a ticket in a task of its own. Returns as soon as there is
    /// a body to read, before it is complete. When the last reader leaves, the policy's orphan rule decides
    /// when `work` is dropped.
    ///
    /// # Errors
    /// In [`CacheMode::Frozen`], if no entry answers the call.
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
            BeginResult::Served(outcome) => Ok(outcome),
            BeginResult::Run(ticket) => {
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

    /// The ledger that accounts for all calls of this engine.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    /// Writes everything that is still pending to the store and the ledger: uses, ends of announced writes,
    /// statuses of files, rows. Call it before the process ends.
    pub async fn close(&self) {
        // The fault has been reported as a warning; a task retries for as long as the engine lives.
        let _ = self.0.raise_pending().await;
        self.0.finish_write_backs().await;
        self.0.flush_uses().await;
        self.0.ledger.flush().await;
    }
}
