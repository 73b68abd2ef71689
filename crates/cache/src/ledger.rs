//! The ledger: records calls, the sources of their answers, and their costs or savings.
//!
//! A local file of its own, separate from the store. Every payment, miss and bypass is a row; hits are summed
//! by name, and the most recent ones are rows, too. Payments and hits have separate limits ([`LedgerLimits`]).
//! Inputs are kept only here, redacted and bounded. A call never waits for the ledger: rows are sent to a
//! thread that writes them in batches, and keeps rows that the file cannot take yet.

mod append;
mod erase;
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

pub use erase::{LedgerSelection, PruneReport};
pub use file::LedgerError;
pub use limits::LedgerLimits;
pub use payment::Payment;
pub use row::{CallStatus, LedgerRow, LedgerTotals};
use tally::RecentHits;
pub(crate) use tally::Tally;
use writer::Writer;

use crate::engine::Engine;
use crate::front::FrontEntry;
use crate::outcome::{CacheStatus, CallSummary};
use crate::policy::Policy;
use crate::ticket::Ticket;
use crate::{Call, CallKind, Failure, Key, Reason};

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
    when: Instant,
    at: Millis,
    kind: CallKind,
    scope: String,
    name: String,
    key: Key,
    handle: Option<String>,
    session: Option<Arc<str>>,
    input: Canonical,
    secret_set: Arc<SecretSet>,
    answered: CallStatus,
    reason: Option<String>,
    not_stored: Option<String>,
    failure: Option<String>,
    /// Set if the run gave no answer and cost nothing but time.
    failed: bool,
    paid: Spend,
    pub(crate) saved: Spend,
}

impl PendingRow {
    /// Creates the row of a call that ran nothing itself.
    fn new(
        engine: &Engine,
        call: &Call<'_>,
        key: Key,
        policy: &Policy,
        answered: CallStatus,
    ) -> Self {
        Self {
            when: Instant::now(),
            at: engine.clock.now(),
            kind: call.kind,
            scope: call.scope.to_string(),
            name: call.name.to_owned(),
            key,
            handle: find_handle(&policy.labels),
            session: policy.session.clone(),
            input: call.input.clone(),
            secret_set: Arc::clone(&engine.secret_set),
            answered,
            reason: None,
            not_stored: None,
            failure: None,
            failed: false,
            paid: Spend::default(),
            saved: Spend::default(),
        }
    }

    /// The approximate size in memory, in bytes.
    fn size(&self) -> usize {
        const REST: usize = 512;
        let texts = [&self.handle, &self.reason, &self.not_stored, &self.failure];
        let texts = texts.into_iter().flatten().map(String::len);
        REST + self.input.as_bytes().len() + texts.sum::<usize>()
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

    pub(crate) fn record_hit(
        &self,
        front_entry: &FrontEntry,
        at: Millis,
        status: &CacheStatus,
        session: Option<&Arc<str>>,
    ) {
        let Some(inner) = &self.0 else { return };
        inner.writer();
        let (entry, coalesced) = (&front_entry.entry, matches!(status, CacheStatus::Coalesced));
        front_entry.tally.add(coalesced, &entry.head.spent);
        inner.hits.recent.record(entry, at, coalesced, session);
    }

    /// Creates the row of a call that follows another caller's run in this process. Its saving is known when
    /// that run ends.
    pub(crate) fn follower(
        &self,
        engine: &Engine,
        call: &Call<'_>,
        key: Key,
        policy: &Policy,
    ) -> PendingRow {
        PendingRow::new(engine, call, key, policy, CallStatus::Coalesced)
    }

    /// Records a call of a frozen run that no entry answers.
    pub(crate) fn record_refused(
        &self,
        engine: &Engine,
        call: &Call<'_>,
        key: Key,
        policy: &Policy,
        reason: &Reason,
    ) {
        let row = PendingRow::new(engine, call, key, policy, CallStatus::Refused);
        self.send(PendingRow {
            reason: Some(reason.to_string()),
            ..row
        });
    }

    /// Records a run that ended.
    pub(crate) fn record_run(
        &self,
        engine: &Engine,
        ticket: &Ticket,
        settled: &CallSummary,
        failure: Option<&Failure>,
    ) {
        if self.0.is_none() {
            return;
        }
        let is_answered = failure.is_none()
            && settled.stored != Err(Reason::Abandoned)
            && !ticket.answers_with_an_error();
        self.send(PendingRow {
            when: Instant::now(),
            at: engine.clock.now(),
            kind: ticket.call.kind,
            scope: ticket.call.scope.to_string(),
            name: ticket.call.name.clone(),
            key: ticket.flight.key,
            handle: find_handle(&ticket.flight.labels),
            session: ticket.policy.session.clone(),
            input: ticket.call.input.clone(),
            secret_set: Arc::clone(&engine.secret_set),
            answered: CallStatus::from_status(&ticket.status),
            reason: ticket.status.reason().map(ToString::to_string),
            not_stored: settled.stored.as_ref().err().map(ToString::to_string),
            failure: failure.map(ToString::to_string),
            failed: !is_answered && settled.paid.is_free(),
            paid: settled.paid,
            saved: settled.saved,
        });
    }

    pub(crate) fn send(&self, mut row: PendingRow) {
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
