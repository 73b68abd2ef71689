//! The ledger: records calls, the sources of their answers, and their costs or savings.
//!
//! A local file of its own, separate from the store. Every payment, miss and bypass is a row; hits are summed
//! by name, and the most recent ones are rows, too. Payments and hits have separate limits ([`LedgerLimits`]).
//! Inputs are kept only here, redacted and bounded. A call never waits for the ledger: rows are sent to a
//! thread that writes them in batches, and keeps rows that the file cannot take yet.

mod append;
mod erase;
mod error;
mod explain;
mod file;
mod limits;
mod payment;
mod pending;
mod query;
mod row;
mod schema;
mod tally;
mod writer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use cachalot_core::{Canonical, Millis, SecretSet, Spend};
use cachalot_store::Label;
use parking_lot::RwLock;
use rusqlite::Connection;

pub use erase::{LedgerSelection, PruneReport};
pub use error::LedgerError;
pub use explain::{Difference, Explanation};
pub use limits::LedgerLimits;
pub use payment::Payment;
pub use row::{CallStatus, LedgerRow, LedgerTotals};
use tally::RecentHits;
pub(crate) use tally::Tally;
use writer::Writer;

use crate::access::StoreAccess;
use crate::entry::Entry;
use crate::policy::{HitPolicy, RunPolicy};
use crate::{Call, CallKind, Key};

/// The label whose value is shown to users as an entry's key.
pub const HANDLE_LABEL: &str = "handle";

/// The record of calls and their costs. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Ledger(Option<Arc<Inner>>);

struct Inner {
    path: PathBuf,
    run: String,
    limits: LedgerLimits,
    hits: Arc<Hits>,
    writer: OnceLock<Writer>,
    warn: Arc<dyn Fn(&str) + Send + Sync>,
}

#[derive(Default)]
struct Hits {
    tallies: RwLock<HashMap<String, HashMap<CallKind, Arc<Tally>>>>,
    recent: RecentHits,
}

/// A row before redaction.
pub(crate) struct PendingRow {
    /// The time of sending, which orders rows and recent hits.
    pub(crate) when: Instant,
    pub(crate) at: Millis,
    pub(crate) kind: CallKind,
    pub(crate) scope: String,
    pub(crate) name: String,
    pub(crate) key: Key,
    pub(crate) handle: Option<String>,
    pub(crate) session: Option<Arc<str>>,
    pub(crate) input: Canonical,
    pub(crate) secret_set: Arc<SecretSet>,
    pub(crate) answered: CallStatus,
    pub(crate) reason: Option<String>,
    pub(crate) not_stored: Option<String>,
    pub(crate) failure: Option<String>,
    pub(crate) unpriced: Option<String>,
    /// Set if the run gave no answer and cost nothing but time.
    pub(crate) failed: bool,
    pub(crate) paid: Spend,
    pub(crate) saved: Spend,
}

impl PendingRow {
    /// Creates the row of a call that ran nothing itself, as of now.
    pub(crate) fn new(
        access: &StoreAccess,
        call: &Call<'_>,
        key: Key,
        hit: &HitPolicy,
        run: &RunPolicy,
        answered: CallStatus,
    ) -> Self {
        Self {
            when: Instant::now(),
            at: access.clock.now(),
            kind: call.kind,
            scope: call.scope.to_string(),
            name: call.name.to_owned(),
            key,
            handle: find_handle(&run.labels),
            session: hit.session.clone(),
            input: call.input.clone(),
            secret_set: Arc::clone(&access.secret_set),
            answered,
            reason: None,
            not_stored: None,
            failure: None,
            unpriced: None,
            failed: false,
            paid: Spend::default(),
            saved: Spend::default(),
        }
    }

    /// Writes the call to the debug log. Failures are left out: they may contain what a model or a tool has returned.
    fn log(&self) {
        let redacted = |text: &Option<String>| {
            let text = text.as_deref().unwrap_or_default();
            self.secret_set.redact(text).into_owned()
        };
        tracing::debug!(
            kind = self.kind.as_str(),
            name = self.name.as_str(),
            key = %format_args!("{:.10}", self.key.to_string()),
            answered = self.answered.as_str(),
            reason = ?redacted(&self.reason),
            not_stored = ?redacted(&self.not_stored),
            has_failed = self.failed || self.failure.is_some(),
            "a call has ended"
        );
    }

    /// The approximate size in memory, in bytes.
    fn size(&self) -> usize {
        const REST: usize = 512;
        let texts = [
            &self.handle,
            &self.reason,
            &self.not_stored,
            &self.failure,
            &self.unpriced,
        ];
        let texts = texts.into_iter().flatten().map(String::len);
        REST + self.input.len() + texts.sum::<usize>()
    }
}

impl Ledger {
    /// Creates a ledger that records nothing.
    #[must_use]
    pub fn disabled() -> Self {
        Self(None)
    }

    /// Creates a ledger in the file at `path`, which is created when the first row is written. Rows contain
    /// `run`, which distinguishes the calls of one run from those of another. Faults are reported to `warn`.
    pub fn at(path: &Path, run: impl Into<String>, warn: Arc<dyn Fn(&str) + Send + Sync>) -> Self {
        Self::with_limits(path, run, LedgerLimits::default(), warn)
    }

    /// Creates a ledger like [`Ledger::at`], with limits of its own, which also apply to rows of other
    /// processes.
    pub fn with_limits(
        path: &Path,
        run: impl Into<String>,
        limits: LedgerLimits,
        warn: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        Self(Some(Arc::new(Inner {
            path: path.to_owned(),
            run: run.into(),
            limits,
            hits: Arc::default(),
            writer: OnceLock::new(),
            warn,
        })))
    }

    /// The path of the file, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.as_ref().map(|inner| inner.path.as_path())
    }

    pub(crate) fn tally(&self, kind: CallKind, name: &str) -> Arc<Tally> {
        let Some(inner) = &self.0 else {
            return Arc::default();
        };
        inner.hits.tally(kind, name)
    }

    /// Records a model's answer in a conversation.
    pub fn record_payment(&self, payment: Payment<'_>) {
        self.send(payment.into());
    }

    /// Returns the last `limit` calls, newest first.
    ///
    /// # Errors
    /// If the file cannot be read. A ledger without a file is empty.
    pub fn recent(&self, limit: u32) -> Result<Vec<LedgerRow>, LedgerError> {
        self.read(|connection| query::recent(connection, limit))
    }

    /// Returns the first `limit` calls whose numbers are larger than `id`, oldest first.
    ///
    /// # Errors
    /// If the file cannot be read. A ledger without a file is empty.
    pub fn calls_after(&self, id: i64, limit: u32) -> Result<Vec<LedgerRow>, LedgerError> {
        self.read(|connection| query::calls_after(connection, id, limit))
    }

    /// Returns what [`Ledger::calls_after`] does, without inputs and their digests: a copy for other machines.
    ///
    /// # Errors
    /// If the file cannot be read. A ledger without a file is empty.
    pub fn calls_to_copy(&self, id: i64, limit: u32) -> Result<Vec<LedgerRow>, LedgerError> {
        self.read(|connection| query::calls_to_copy(connection, id, limit))
    }

    /// Returns a name that tells this ledger from those of other machines, and gives it one first; `None` without a file.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn identity(&self) -> Result<Option<String>, LedgerError> {
        self.read(query::identity)
    }

    /// Adds calls and sums of other ledgers to the file, which is created if it does not exist. Inputs are left out. The
    /// calls get numbers in the given order.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn import(
        &self,
        calls: &[LedgerRow],
        totals: &[(String, String, LedgerTotals)],
    ) -> Result<(), LedgerError> {
        let Some(path) = self.path() else {
            return Ok(());
        };
        let mut connection = schema::open(path)?;
        append::import(&mut connection, calls, totals)
            .map_err(|error| LedgerError::new(path, error))
    }

    /// Number of calls whose rows were dropped, because the file could not be written for too long. The
    /// totals include them.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn dropped(&self) -> Result<u64, LedgerError> {
        self.read(query::dropped)
    }

    /// Returns the calls under a key or a handle, newest first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn calls_by_key(
        &self,
        key_or_handle: &str,
        limit: u32,
    ) -> Result<Vec<LedgerRow>, LedgerError> {
        self.read(|connection| query::calls_by_key(connection, key_or_handle, limit))
    }

    /// Returns the keys and handles of cacheable calls that begin with `beginning`, and the handles whose last
    /// 64 characters do, in no particular order; at most `limit`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn keys(&self, beginning: &str, limit: u32) -> Result<Vec<String>, LedgerError> {
        self.read(|connection| query::keys(connection, beginning, limit))
    }

    /// Returns the runs with cacheable calls whose IDs begin with `beginning`, in no particular order; at most `limit`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn runs(&self, beginning: &str, limit: u32) -> Result<Vec<String>, LedgerError> {
        self.read(|connection| query::runs(connection, beginning, limit))
    }

    /// Returns the run of the last cacheable call.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn last_run(&self) -> Result<Option<String>, LedgerError> {
        let last = self.read(query::last_call)?;
        Ok(last.map(|call| call.run))
    }

    /// Returns the keys of the cacheable calls of a run.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn keys_of_run(&self, run: &str) -> Result<Vec<String>, LedgerError> {
        self.read(|connection| query::keys_of_run(connection, run))
    }

    /// Returns false if the file may not have all hits of a run: the oldest ones are deleted, and of many in a short time
    /// only a sample is kept.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn has_all_hits(&self, run: &str) -> Result<bool, LedgerError> {
        self.read(|connection| query::has_all_hits(connection, run))
    }

    /// Returns the keys of all cacheable calls of runs in which the handle of a call begins with `beginning`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn keys_of_runs_with(&self, beginning: &str) -> Result<Vec<String>, LedgerError> {
        self.read(|connection| query::keys_of_runs_with(connection, beginning))
    }

    /// Returns the sessions with payments to models whose names begin with `beginning`, most recent payment
    /// first; at most `limit`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn sessions(&self, beginning: &str, limit: u32) -> Result<Vec<String>, LedgerError> {
        self.read(|connection| query::sessions(connection, beginning, limit))
    }

    /// Returns the sessions of all calls, paid or not, whose names begin with `beginning`, in no particular
    /// order; at most `limit`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn sessions_of_calls(
        &self,
        beginning: &str,
        limit: u32,
    ) -> Result<Vec<String>, LedgerError> {
        self.read(|connection| query::sessions_of_calls(connection, beginning, limit))
    }

    /// Returns the answers of models whose prefix broke, oldest first: those recorded after row `after` and
    /// requested at `since` or later, along with the number of the newest row of any kind. Pass that number
    /// as `after` of the next call, so that no row is returned twice and none is missed. With [`i64::MAX`] as `after`, returns only
    /// the number.
    ///
    /// # Errors
    /// If the file cannot be read. A ledger without a file is empty.
    pub fn broken_prefixes(
        &self,
        after: i64,
        since: Millis,
    ) -> Result<(Vec<LedgerRow>, i64), LedgerError> {
        self.read(|connection| query::broken_prefixes(connection, after, since))
    }

    /// Returns the latest payments whose input has this member, up to `limit`, oldest first.
    ///
    /// # Errors
    /// If the file cannot be read. A ledger without a file is empty.
    pub fn payments_with(&self, member: &str, limit: u32) -> Result<Vec<LedgerRow>, LedgerError> {
        self.read(|connection| query::payments_with(connection, member, limit))
    }

    /// Returns the totals of all calls by kind and name, largest saving of time first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn totals(&self) -> Result<Vec<(String, String, LedgerTotals)>, LedgerError> {
        self.read(query::totals)
    }

    /// Explains the last call under a key or a handle (for a payment of a conversation: its session). Without
    /// one, explains the last call that an entry could have answered. `None` if the ledger has no such call.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn explain(&self, key_or_handle: Option<&str>) -> Result<Option<Explanation>, LedgerError> {
        self.read(|connection| explain::explain(connection, key_or_handle))
    }

    /// Explains calls of this ledger's run that were refused because no entry answers them: the first one under each of
    /// up to `limit` keys, oldest first, with the number of refused calls under the key. Refused calls are not compared
    /// with others of their kind.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn explain_refused(&self, limit: u32) -> Result<Vec<(Explanation, u64)>, LedgerError> {
        let Some(inner) = &self.0 else {
            return Ok(Vec::new());
        };
        self.read(|connection| explain::explain_refused(connection, &inner.run, limit))
    }

    /// Returns the reasons why answers that misses of this ledger's run were given are not stored, with their numbers.
    /// Calls that failed and cost nothing are left out.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn unstored_misses(&self) -> Result<Vec<(String, u64)>, LedgerError> {
        let Some(inner) = &self.0 else {
            return Ok(Vec::new());
        };
        self.read(|connection| query::unstored_misses(connection, &inner.run))
    }

    /// Erases inputs, keys, handles, scopes, sessions, runs, reasons and failures of the selected calls.
    /// Time, kind, name, outcome and amounts stay, and so do the totals. Returns the number of calls that had
    /// content to erase. With `dry_run`, only counts them.
    ///
    /// Does not cover calls that a running process has not written yet. Blocks for as long as rebuilding the
    /// file takes.
    ///
    /// # Errors
    /// If the file cannot be read or written. If another process keeps reading, the calls are erased, but
    /// their content may be in the files until the next erasure.
    pub fn erase(&self, which: LedgerSelection<'_>, dry_run: bool) -> Result<u64, LedgerError> {
        match self.open()? {
            Some((path, mut connection)) => erase::erase(&path, &mut connection, which, dry_run),
            None => Ok(0),
        }
    }

    /// Deletes the selected calls; the totals stay. With `dry_run`, only counts them. Blocks for as long
    /// as rebuilding the file takes.
    ///
    /// # Errors
    /// The errors of [`Ledger::erase`].
    pub fn prune(
        &self,
        which: LedgerSelection<'_>,
        dry_run: bool,
    ) -> Result<PruneReport, LedgerError> {
        match self.open()? {
            Some((path, mut connection)) => erase::prune(&path, &mut connection, which, dry_run),
            None => Ok(PruneReport::default()),
        }
    }

    /// Runs a query; without a file, there is nothing to find.
    fn read<T: Default>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, LedgerError> {
        match self.open()? {
            Some((path, connection)) => {
                query(&connection).map_err(|error| LedgerError::new(&path, error))
            }
            None => Ok(T::default()),
        }
    }

    /// Opens the file to read or delete rows; `None` if there is none.
    fn open(&self) -> Result<Option<(PathBuf, Connection)>, LedgerError> {
        let Some(path) = self.path() else {
            return Ok(None);
        };
        let connection = schema::open_to_read(path)?;
        Ok(connection.map(|connection| (path.to_owned(), connection)))
    }

    /// True if the ledger records anything.
    pub(crate) fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Records a hit on an entry, which `tally` counts.
    pub(crate) fn record_hit(
        &self,
        entry: &Entry,
        tally: &Tally,
        at: Millis,
        answered: CallStatus,
        session: Option<&Arc<str>>,
    ) {
        let Some(inner) = &self.0 else { return };
        // Starts the thread, which adds the counted hits to the file.
        inner.writer();
        tally.add(answered, &entry.head.spent);
        inner.hits.recent.record(entry, at, answered, session);
    }

    pub(crate) fn send(&self, mut row: PendingRow) {
        row.log();
        let Some(inner) = &self.0 else { return };
        row.when = Instant::now();
        inner.writer().send(row);
    }

    /// Resolves when everything that was recorded so far is in the file, or cannot be written; the user is
    /// then warned. Waits up to ten seconds for another process that holds the file's lock.
    pub async fn flush(&self) {
        let Some(inner) = &self.0 else { return };
        if let Some(writer) = inner.writer.get() {
            writer.flush().await;
        }
    }
}

impl Inner {
    fn writer(&self) -> &Writer {
        self.writer.get_or_init(|| {
            Writer::start(&self.path, &self.run, self.limits, &self.hits, &self.warn)
        })
    }
}

impl Hits {
    fn tally(&self, kind: CallKind, name: &str) -> Arc<Tally> {
        let known = self.tallies.read();
        if let Some(tally) = known.get(name).and_then(|kinds| kinds.get(&kind)) {
            return Arc::clone(tally);
        }
        drop(known);
        // Another thread may have added the tally in between: `or_default` then finds it.
        let mut known = self.tallies.write();
        let kinds = known.entry(name.to_owned()).or_default();
        Arc::clone(kinds.entry(kind).or_default())
    }

    /// Returns the hits since the last call, by name.
    fn take_sums(&self) -> Vec<(CallKind, String, LedgerTotals)> {
        let known = self.tallies.read();
        let sums = known.iter().flat_map(|(name, kinds)| {
            kinds
                .iter()
                .map(|(kind, tally)| (*kind, name.clone(), tally.take()))
        });
        sums.filter(|(_, _, totals)| totals.hits + totals.coalesced > 0)
            .collect()
    }
}

fn find_handle(labels: &[Label]) -> Option<String> {
    labels
        .iter()
        .find(|label| label.name == HANDLE_LABEL)
        .map(|label| label.value.clone())
}
