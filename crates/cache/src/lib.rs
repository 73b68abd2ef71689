//! The cache engine, which serves every memoized kind of work through one API.
//!
//! An adapter turns its request into a [`Call`] and a [`Policy`]. Everything else exists once, here: time
//! to live, single-flight, validation, eviction, sweeping, isolation, frozen runs, statistics and
//! explanations. This crate knows no model, tool, hook, YAML or HTTP.

mod access;
mod access_state;
mod body;
mod bounds;
mod breaker;
mod call_path;
mod cassette;
mod complete;
mod decoded;
mod engine;
mod entry;
mod epoch;
mod erase;
mod erase_all;
mod evict;
mod flight;
mod front;
mod key;
mod lease;
mod ledger;
mod local;
mod orphans;
mod outcome;
mod policy;
mod reason;
mod renew;
mod settings;
mod stream;
mod summary;
mod sync;
mod witness;
mod write_back;
mod write_guard;

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::sync::Arc;

use cachalot_core::DigestKey;
use cachalot_store::{Error, SpaceUsage};

pub use access_state::StoreAccessState;
pub use body::{Body, BodyReader};
pub use bounds::CacheBounds;
pub use call_path::{BeginResult, RunResult, Ticket};
pub use cassette::{CASSETTE_VERSION, CassetteError, ExportReport, ImportReport, is_cassette};
pub use decoded::{DecodeError, Decoded};
pub use engine::{CacheOptions, LocalStore};
pub use erase::{EntryFilter, EntryInfo, EraseReport, ErasedEntry, LabelCriterion, StoredEntry};
pub use key::{Call, CallKind, Key, KeyedCall, Scope};
pub use ledger::{
    CallStatus, Difference, Explanation, HANDLE_LABEL, Ledger, LedgerError, LedgerLimits,
    LedgerRow, LedgerSelection, LedgerTotals, Payment, PruneReport,
};
pub use outcome::Outcome;
pub use policy::{
    CacheMode, DEFAULT_LOOKUP_TIMEOUT, DEFAULT_MAX_BYTES, DEFAULT_STORE_TIMEOUT, Domain, Form,
    HitPolicy, OrphanPolicy, Policy, Quota, RunPolicy, SingleFlight,
};
pub use reason::{Failure, FrozenMiss, Reason};
pub use settings::{EngineSettings, SharedStoreSettings, WAITING};
pub use summary::{CacheStatus, CallSummary, EntryProvenance, Revision};
pub use witness::{Observation, ObservationError, Witness, WitnessSnapshot};
pub use write_guard::WriteGuard;

/// The engine. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Cache(Arc<engine::Engine>);

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
    /// that fails or is slow delays the call by at most [`CacheBounds::lookup_timeout`], then results in [`BeginResult::Run`].
    ///
    /// # Errors
    /// In [`CacheMode::Frozen`], if no entry answers the call.
    pub async fn begin(&self, call: &Call<'_>, policy: &Policy) -> Result<BeginResult, FrozenMiss> {
        self.begin_with(call, &policy.hit, || &policy.run).await
    }

    /// Calls [`Cache::begin`], with the two parts of a policy: `run` is created only if the in-process front does not
    /// answer the call.
    ///
    /// # Errors
    /// In [`CacheMode::Frozen`], if no entry answers the call.
    pub fn begin_with<'a, R: Borrow<RunPolicy> + Send + Sync>(
        &self,
        call: impl Into<KeyedCall<'a>>,
        hit: &HitPolicy,
        run: impl FnOnce() -> R,
    ) -> impl Future<Output = Result<BeginResult, FrozenMiss>> {
        call_path::begin(&self.0, call.into(), hit, run)
    }

    /// Returns a ticket for a call that must not use the cache, because its dependencies cannot be
    /// determined. The call runs, is not stored, and gets a ledger row with the reason.
    pub fn bypass<'a>(
        &self,
        call: impl Into<KeyedCall<'a>>,
        policy: &Policy,
        reason: Reason,
    ) -> Ticket {
        call_path::bypass(&self.0, call.into(), policy, reason)
    }

    /// Returns the entry that would answer a call now. Records no call and changes nothing.
    ///
    /// # Errors
    /// The reason why the call would run.
    pub async fn probe<'a>(
        &self,
        call: impl Into<KeyedCall<'a>>,
        policy: &Policy,
    ) -> Result<Outcome, Reason> {
        call_path::probe(&self.0, call.into(), policy).await
    }

    /// Calls [`Cache::begin`] and runs the work of a ticket in a task of its own. Returns as soon as there is
    /// a body to read, before it is complete. When the last reader leaves, the policy's orphan rule decides
    /// when `work` is dropped. The refresh of a stale entry has no reader, and runs to its end.
    ///
    /// # Errors
    /// In [`CacheMode::Frozen`], if no entry answers the call.
    pub async fn through<F>(
        &self,
        call: &Call<'_>,
        policy: &Policy,
        work: impl FnOnce(Ticket) -> F,
    ) -> Result<Outcome, FrozenMiss>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.through_with(call, &policy.hit, || &policy.run, work)
            .await
    }

    /// Calls [`Cache::through`], with the two parts of a policy: `run` is created only if the in-process front does not
    /// answer the call, and work that is prepared only if it runs.
    ///
    /// # Errors
    /// In [`CacheMode::Frozen`], if no entry answers the call.
    pub async fn through_with<'a, R, F>(
        &self,
        call: impl Into<KeyedCall<'a>>,
        hit: &HitPolicy,
        run: impl FnOnce() -> R,
        work: impl FnOnce(Ticket) -> F,
    ) -> Result<Outcome, FrozenMiss>
    where
        R: Borrow<RunPolicy> + Send + Sync,
        F: Future<Output = ()> + Send + 'static,
    {
        let begun = self.begin_with(call, hit, run).await?;
        Ok(call_path::drive(&self.0, begun, work))
    }

    /// Raises the domains' epochs now and again when the guard ends. In between, nothing of them is served,
    /// joined or stored in this process; other processes serve nothing that is older.
    ///
    /// Both raises are needed. With the first one alone, a read that starts in between stores old bytes. With
    /// the second one alone, a crash loses the invalidation.
    pub async fn write_guard(&self, domains: &[Domain]) -> WriteGuard {
        let write_guard = self.announce(domains);
        write_guard.raise_epochs().await;
        write_guard
    }

    /// Starts a write like [`Cache::write_guard`], without waiting for the store: from now on nothing of these
    /// domains is served, joined or stored in this process. Other processes do not know of it before
    /// [`WriteGuard::raise_epochs`].
    pub fn announce(&self, domains: &[Domain]) -> WriteGuard {
        self.0.writes.announce(domains)
    }

    /// Deletes the entries that match and revokes matching flights, in all processes. Afterwards nothing
    /// older is served or stored. Answers of matching flights in other processes are not stored either;
    /// callers there may join such a flight for up to a second. With `dry_run`, changes nothing and returns
    /// what would be erased. Reads no answers.
    ///
    /// # Errors
    /// Errors of the store; what was erased before the fault stays erased.
    pub async fn erase(&self, which: &EntryFilter, dry_run: bool) -> Result<EraseReport, Error> {
        erase::erase(&self.0, which, dry_run).await
    }

    /// Returns the stored entry, expired or not; records no call.
    ///
    /// # Errors
    /// Errors of the store. A damaged entry counts as absent.
    pub async fn peek(&self, key: &Key) -> Result<Option<StoredEntry>, Error> {
        erase::peek(&self.0, key).await
    }

    /// Returns the newest entry that matches, expired or not, in one of these scopes. Entries of other scopes
    /// are never returned. Records no call.
    ///
    /// # Errors
    /// Errors of the store. A damaged entry counts as absent.
    pub async fn newest(
        &self,
        which: &EntryFilter,
        scopes: &[Scope],
    ) -> Result<Option<StoredEntry>, Error> {
        erase::newest(&self.0, which, scopes).await
    }

    /// Calls `each` with the properties of every entry that matches, in the order of keys. Reads no answers
    /// except short ones.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn each(
        &self,
        which: &EntryFilter,
        mut each: impl FnMut(EntryInfo),
    ) -> Result<(), Error> {
        let each = |entry_info| {
            each(entry_info);
            Ok(())
        };
        self.try_each(which, each).await
    }

    /// Performs [`Cache::each`] until `each` fails. Holds one page of entries at a time.
    ///
    /// # Errors
    /// Those of `each`, and errors of the store.
    pub async fn try_each<E: From<Error>>(
        &self,
        which: &EntryFilter,
        each: impl FnMut(EntryInfo) -> Result<(), E>,
    ) -> Result<(), E> {
        erase::try_each(&self.0, which, each).await
    }

    /// Erases expired entries that are not kept to be served stale, at most `limit` of them; returns their number.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn sweep(&self, limit: Option<u32>) -> Result<u64, Error> {
        erase::sweep(&self.0, limit).await
    }

    /// Returns the size of the cache, expired entries included.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn usage(&self) -> Result<SpaceUsage, Error> {
        erase::usage(&self.0).await
    }

    /// Writes every entry. Entries whose keys contain secrets are skipped unless `digest_key` is given, which
    /// is then written too. With the digest key, a reader of the cassette can test guesses of the secrets.
    ///
    /// # Errors
    /// Errors of the store and of the file.
    pub async fn export(
        &self,
        to: &mut (dyn Write + Send),
        digest_key: Option<&DigestKey>,
    ) -> Result<ExportReport, CassetteError> {
        cassette::export(&self.0, to, None, digest_key).await
    }

    /// Writes the entries with these keys, as [`Cache::export`] does. A key without an entry is skipped.
    ///
    /// # Errors
    /// Errors of the store and of the file.
    pub async fn export_selected(
        &self,
        to: &mut (dyn Write + Send),
        keys: &BTreeSet<Key>,
        digest_key: Option<&DigestKey>,
    ) -> Result<ExportReport, CassetteError> {
        cassette::export(&self.0, to, Some(keys), digest_key).await
    }

    /// Stores every entry of a cassette in place of any other under its key. Entries with domains answer only
    /// frozen runs, because writes to those domains were not announced to this store.
    ///
    /// # Errors
    /// Errors of the store and of the file, or an invalid line; the entries before it are stored.
    pub async fn import(
        &self,
        from: &mut (dyn BufRead + Send),
    ) -> Result<ImportReport, CassetteError> {
        cassette::import(&self.0, from).await
    }

    /// The bounds of the engine.
    #[must_use]
    pub fn bounds(&self) -> &CacheBounds {
        &self.0.bounds
    }

    /// Returns how the engine uses its store at the moment. Asks the store nothing.
    #[must_use]
    pub fn store_access(&self) -> StoreAccessState {
        StoreAccessState::new(&self.0)
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
        let _ = self.0.writes.raise_pending().await;
        self.0.write_backs.finish().await;
        self.0.eviction.flush_uses().await;
        self.0.ledger.flush().await;
        if let Some(local) = &self.0.local {
            local.finish().await;
        }
    }
}
