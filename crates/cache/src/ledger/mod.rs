//! The ledger: records calls, the sources of their answers, and their costs or savings.
//!
//! A local file of its own, separate from the store. Every payment, miss and bypass is a row; hits are summed
//! by name, and the most recent ones are rows, too. Payments and hits have separate limits ([`Limits`]).
//! Inputs are kept only here, redacted and bounded. A call never waits for the ledger: rows are sent to a
//! thread that writes them in batches, and keeps rows that the file cannot take yet.

mod append;
mod erase;
mod file;
mod layout;
mod limits;
mod payment;
mod pending;
mod query;
mod row;
mod tally;
mod writer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use cachalot_core::{Canonical, Millis, Seals, Spend};
use cachalot_memory::Label;

pub use erase::{Pruned, Selection};
pub use file::LedgerError;
pub use limits::Limits;
pub use payment::Payment;
pub use row::{Answered, Row, Totals};
use tally::Recent;
pub(crate) use tally::Tally;
use writer::Writer;

use crate::engine::Shared;
use crate::front::Fronted;
use crate::outcome::{How, Settled};
use crate::policy::Policy;
use crate::ticket::Ticket;
use crate::{Call, Failure, Key, Kind, Reason};

/// The label whose value is shown to users as an entry's key.
pub const HANDLE_LABEL: &str = "handle";

/// The record of calls and their costs. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Ledger(Option<Arc<Inner>>);

struct Inner {
    path: PathBuf,
    run: String,
    limits: Limits,
    hits: Arc<Hits>,
    writer: OnceLock<Writer>,
    warn: Arc<dyn Fn(&str) + Send + Sync>,
}

#[derive(Default)]
struct Hits {
    tallies: RwLock<HashMap<String, HashMap<Kind, Arc<Tally>>>>,
    recent: Recent,
}

/// A row before redaction.
pub(crate) struct Unwritten {
    /// The time of sending, which orders rows and recent hits.
    when: Instant,
    at: Millis,
    kind: Kind,
    scope: String,
    name: String,
    key: Key,
    handle: Option<String>,
    session: Option<Arc<str>>,
    input: Canonical,
    seals: Arc<Seals>,
    answered: Answered,
    reason: Option<String>,
    not_stored: Option<String>,
    failure: Option<String>,
    /// Set if the run gave no answer and cost nothing but time.
    failed: bool,
    paid: Spend,
    pub(crate) saved: Spend,
}

impl Unwritten {
    /// Creates the row of a call that ran nothing itself.
    fn of(shared: &Shared, call: &Call<'_>, key: Key, policy: &Policy, answered: Answered) -> Self {
        Self {
            when: Instant::now(),
            at: shared.clock.now(),
            kind: call.kind,
            scope: call.scope.to_string(),
            name: call.name.to_owned(),
            key,
            handle: handle_of(&policy.labels),
            session: policy.session.clone(),
            input: call.input.clone(),
            seals: Arc::clone(&shared.seals),
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
    pub fn none() -> Self {
        Self(None)
    }

    /// Creates a ledger in the file at `path`, which is created when the first row is written. Rows contain
    /// `run`, which distinguishes the calls of one run from those of another. Faults are reported to `warn`.
    pub fn at(path: &Path, run: impl Into<String>, warn: Arc<dyn Fn(&str) + Send + Sync>) -> Self {
        Self::limited(path, run, Limits::default(), warn)
    }

    /// Creates a ledger like [`Ledger::at`], with limits of its own, which also apply to rows of other
    /// processes.
    pub fn limited(
        path: &Path,
        run: impl Into<String>,
        limits: Limits,
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

    pub(crate) fn tally(&self, kind: Kind, name: &str) -> Arc<Tally> {
        let Some(inner) = &self.0 else {
            return Arc::default();
        };
        inner.hits.tally(kind, name)
    }

    pub(crate) fn hit(&self, fronted: &Fronted, at: Millis, how: &How, policy: &Policy) {
        let Some(inner) = &self.0 else { return };
        inner.writer();
        let (entry, coalesced) = (&fronted.entry, matches!(how, How::Coalesced));
        fronted.tally.add(coalesced, &entry.head.spent);
        let session = policy.session.as_ref();
        inner.hits.recent.note(entry, at, coalesced, session);
    }

    /// Creates the row of a call that follows another caller's run in this process. Its saving is known when
    /// that run ends.
    pub(crate) fn follower(
        &self,
        shared: &Shared,
        call: &Call<'_>,
        key: Key,
        policy: &Policy,
    ) -> Unwritten {
        Unwritten::of(shared, call, key, policy, Answered::Coalesced)
    }

    /// Records a call of a frozen run that no entry answers.
    pub(crate) fn refused(
        &self,
        shared: &Shared,
        call: &Call<'_>,
        key: Key,
        policy: &Policy,
        reason: &Reason,
    ) {
        let row = Unwritten::of(shared, call, key, policy, Answered::Refused);
        self.send(Unwritten {
            reason: Some(reason.to_string()),
            ..row
        });
    }

    /// Records a run that ended.
    pub(crate) fn paid(
        &self,
        shared: &Shared,
        ticket: &Ticket,
        settled: &Settled,
        failure: Option<&Failure>,
    ) {
        if self.0.is_none() {
            return;
        }
        let is_answered = failure.is_none()
            && settled.stored != Err(Reason::Abandoned)
            && !ticket.answers_with_an_error();
        self.send(Unwritten {
            when: Instant::now(),
            at: shared.clock.now(),
            kind: ticket.errand.kind,
            scope: ticket.errand.scope.to_string(),
            name: ticket.errand.name.clone(),
            key: ticket.flight.key,
            handle: handle_of(&ticket.flight.labels),
            session: ticket.policy.session.clone(),
            input: ticket.errand.input.clone(),
            seals: Arc::clone(&shared.seals),
            answered: Answered::of(&ticket.how),
            reason: ticket.how.reason().map(ToString::to_string),
            not_stored: settled.stored.as_ref().err().map(ToString::to_string),
            failure: failure.map(ToString::to_string),
            failed: !is_answered && settled.paid.is_free(),
            paid: settled.paid,
            saved: settled.saved,
        });
    }

    pub(crate) fn send(&self, mut row: Unwritten) {
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
    fn tally(&self, kind: Kind, name: &str) -> Arc<Tally> {
        let known = self.tallies.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(tally) = known.get(name).and_then(|kinds| kinds.get(&kind)) {
            return Arc::clone(tally);
        }
        drop(known);
        let mut known = self.tallies.write().unwrap_or_else(PoisonError::into_inner);
        let kinds = known.entry(name.to_owned()).or_default();
        Arc::clone(kinds.entry(kind).or_default())
    }

    /// Returns the hits since the last call, by name.
    fn take_sums(&self) -> Vec<(Kind, String, Totals)> {
        let known = self.tallies.read().unwrap_or_else(PoisonError::into_inner);
        let sums = known.iter().flat_map(|(name, kinds)| {
            kinds
                .iter()
                .map(|(kind, tally)| (*kind, name.clone(), tally.take()))
        });
        sums.filter(|(_, _, totals)| totals.hits + totals.coalesced > 0)
            .collect()
    }
}

fn handle_of(labels: &[Label]) -> Option<String> {
    labels
        .iter()
        .find(|label| label.name == HANDLE_LABEL)
        .map(|label| label.value.clone())
}
