//! Copies of entries in a store on this machine, behind a store on a server that may not answer.
//!
//! A copy answers a call only while the server does not, and only where its age is bounded: before its expiry, and for
//! calls without domains, since the server alone knows of writes by other machines. Answers that the server did not
//! accept are sent to it when it answers again, unless anything was erased in the meantime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cachalot_store::{
    Label, LabelMatch, PageRequest, PutResult, Record, RecordFilter, RecordPage, counter, space,
};
use tokio::task::JoinSet;

use crate::access::{StoreAccess, TimeBudget};
use crate::entry::Entry;
use crate::evict::Eviction;
use crate::front::FrontEntry;
use crate::policy::{DEFAULT_LOOKUP_TIMEOUT, DEFAULT_STORE_TIMEOUT, Policy};
use crate::sync::{Mutex, lock};
use crate::witness::SERVE_CHECK_TIMEOUT;
use crate::{Call, Key, Reason};

/// The counter with the last value of the server's [`counter::ERASED`] that was read.
const ERASED_ON_SERVER: &str = "erased-on-server";

/// The counters of [`ErasureState`].
const COUNTERS: [&str; 2] = [ERASED_ON_SERVER, counter::ERASED];

/// The label with the state of erasures under which a copy is valid.
const STATE_LABEL: &str = "copy:erasures";

/// The label of copies that the server does not have.
const UNSENT_LABEL: &str = "copy:unsent";

/// Maximum number of copies that are being written at the same time; further ones are left out.
const MAX_RUNNING: usize = 64;

/// Number of copies that are read from the local store at once.
const COPIES_PER_PAGE: u32 = 16;

/// Maximum number of expired copies that a process removes at its end.
const EXPIRED_PER_PROCESS: u32 = 200;

/// The erasures that this machine knows of. Copies from before another one are not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ErasureState {
    /// [`counter::ERASED`] of the server.
    pub(crate) on_server: u64,
    /// [`counter::ERASED`] of the local store.
    local: u64,
}

impl ErasureState {
    fn new(counters: &[u64]) -> Option<Self> {
        match *counters {
            [on_server, local] => Some(Self { on_server, local }),
            _ => None,
        }
    }

    fn label(self) -> Label {
        Label::new(STATE_LABEL, format!("{}.{}", self.on_server, self.local))
    }

    fn conditions(self) -> [(&'static str, u64); 2] {
        [
            (ERASED_ON_SERVER, self.on_server),
            (counter::ERASED, self.local),
        ]
    }
}

/// The local store, and the tasks that write to it.
pub(crate) struct LocalCopies {
    local: Arc<StoreAccess>,
    server: Arc<StoreAccess>,
    eviction: Arc<Eviction>,
    /// False if copies are only erased.
    is_served: bool,
    /// False if all copies are known to be on the server.
    may_have_unsent: AtomicBool,
    running: Mutex<JoinSet<()>>,
}

/// True if calls with this policy may be answered by a copy.
pub(crate) fn is_permitted(policy: &Policy) -> bool {
    policy.ttl.is_some() && policy.domains.is_empty()
}

impl LocalCopies {
    pub(crate) fn new(
        local: Arc<StoreAccess>,
        server: Arc<StoreAccess>,
        eviction: Arc<Eviction>,
        is_served: bool,
    ) -> Self {
        Self {
            local,
            server,
            eviction,
            is_served,
            may_have_unsent: AtomicBool::new(true),
            running: Mutex::default(),
        }
    }

    /// Returns the erasures that this machine knows of now; `None` if the local store fails, or copies are not served.
    pub(crate) async fn erasures(&self) -> Option<ErasureState> {
        if !self.is_served {
            return None;
        }
        let budget = TimeBudget::new(DEFAULT_LOOKUP_TIMEOUT);
        let found = self
            .local
            .store()
            .ok()?
            .get(space::CACHE, STATE_LABEL, &COUNTERS);
        let found = self.local.await_store(found, &budget).await.ok()?;
        ErasureState::new(&found.counters)
    }

    /// Notes that the server has answered, with this counter of erasures; `before` is the state before the question.
    /// Returns the state at the time of the answer.
    pub(crate) async fn note_answer(
        self: &Arc<Self>,
        before: ErasureState,
        erased: u64,
    ) -> Option<ErasureState> {
        if erased > before.on_server {
            let budget = TimeBudget::new(DEFAULT_STORE_TIMEOUT);
            let store = self.local.store().ok()?;
            let raised = store.raise_to(space::CACHE, ERASED_ON_SERVER, erased);
            self.local.await_store(raised, &budget).await.ok()?;
        }
        if self.may_have_unsent.swap(false, Ordering::AcqRel) {
            let this = Arc::clone(self);
            lock(&self.running).spawn(async move {
                if this.send_all().await.is_err() {
                    this.may_have_unsent.store(true, Ordering::Release);
                }
            });
        }
        Some(ErasureState {
            on_server: erased,
            ..before
        })
    }

    /// Returns the copy that answers a call, if one may.
    pub(crate) async fn find(&self, key: &Key, call: &Call<'_>, policy: &Policy) -> Option<Entry> {
        if !self.is_served || !is_permitted(policy) {
            return None;
        }
        let text = key.text();
        let budget = TimeBudget::new(DEFAULT_LOOKUP_TIMEOUT);
        let found = self.local.store().ok()?.get(space::CACHE, &text, &COUNTERS);
        let found = self.local.await_store(found, &budget).await.ok()?;
        let (record, state) = without_own_labels(found.record?);
        if state? != ErasureState::new(&found.counters)?.label().value {
            return None;
        }
        let entry = Entry::decode_for(record, key, call).ok()?;
        let head = &entry.head;
        if head.expires.is_none()
            || head.is_expired(self.server.now())
            || !head.epochs.is_empty()
            || entry.observations.check(SERVE_CHECK_TIMEOUT).await.is_err()
        {
            return None;
        }
        Some(entry)
    }

    /// Copies an entry of the server in the background. It was read under these erasures.
    pub(crate) fn keep_entry(self: &Arc<Self>, front_entry: &Arc<FrontEntry>, state: ErasureState) {
        let head = &front_entry.entry.head;
        if head.expires.is_none() || !head.epochs.is_empty() {
            return;
        }
        let mut running = lock(&self.running);
        while running.try_join_next().is_some() {}
        if running.len() >= MAX_RUNNING {
            return;
        }
        let (this, front_entry) = (Arc::clone(self), Arc::clone(front_entry));
        running.spawn(async move {
            // Encoding a large answer takes long.
            let record =
                tokio::task::spawn_blocking(move || front_entry.entry.updated_record()).await;
            if let Ok(Ok(record)) = record {
                this.keep(record, state).await;
            }
        });
    }

    /// Copies a record that the server has.
    pub(crate) async fn keep(&self, record: Record, state: ErasureState) {
        self.put(record, state, None).await;
    }

    /// Copies a record that the server did not accept, to be sent when it answers again.
    pub(crate) async fn keep_unsent(&self, record: Record, state: ErasureState) -> bool {
        let is_kept = self
            .put(record, state, Some(Label::new(UNSENT_LABEL, "1")))
            .await;
        if is_kept {
            self.may_have_unsent.store(true, Ordering::Release);
        }
        is_kept
    }

    /// Stores a record under the condition that nothing was erased since.
    async fn put(&self, mut record: Record, state: ErasureState, label: Option<Label>) -> bool {
        let Ok(key) = record.key.parse::<Key>() else {
            return false;
        };
        let Ok(store) = self.local.store() else {
            return false;
        };
        record.labels.push(state.label());
        record.labels.extend(label);
        let budget = TimeBudget::new(DEFAULT_STORE_TIMEOUT);
        let found = store.get(space::CACHE, &record.key, &[]);
        let found = self.local.await_store(found, &budget).await;
        let is_present = found.is_ok_and(|found| {
            found
                .record
                .is_some_and(|found| found.value == record.value && found.labels == record.labels)
        });
        if is_present {
            return true;
        }
        let conditions = state.conditions();
        let put = store.put(space::CACHE, record, None, &conditions);
        let put = self.local.await_store(put, &budget).await;
        self.eviction.after_store(&key).await;
        matches!(put, Ok(PutResult::Stored { .. }))
    }

    /// Removes all copies. Copies of what was read before are not served.
    pub(crate) async fn erase_all(&self) -> Result<(), cachalot_store::Error> {
        let Ok(store) = self.local.store() else {
            return Ok(());
        };
        let (all, page) = (RecordFilter::default(), PageRequest::keys(COPIES_PER_PAGE));
        loop {
            let erased = store.erase(space::CACHE, &all, page);
            if erased.settle().await?.next.is_none() {
                return Ok(());
            }
        }
    }

    /// Sends the copies that the server does not have.
    async fn send_all(&self) -> Result<(), Reason> {
        let labels = [LabelMatch::Is {
            name: UNSENT_LABEL,
            value: "1",
        }];
        let filter = RecordFilter {
            labels: &labels,
            ..RecordFilter::default()
        };
        let mut after = None;
        loop {
            let page = PageRequest {
                after: after.as_deref(),
                ..PageRequest::first(COPIES_PER_PAGE)
            };
            let budget = TimeBudget::new(DEFAULT_STORE_TIMEOUT);
            let found = self.local.store()?.find(space::CACHE, &filter, page);
            let RecordPage { records, next, .. } = self.local.await_store(found, &budget).await?;
            for record in records {
                self.send(record).await?;
            }
            match next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Sends a copy, unless it has expired, the server has another one, or anything was erased since it was made.
    async fn send(&self, record: Record) -> Result<(), Reason> {
        let (record, state) = without_own_labels(record);
        let erasures = self.erasures().await.ok_or(Reason::NoStore)?;
        let budget = TimeBudget::new(DEFAULT_STORE_TIMEOUT);
        let server = self.server.store()?;
        let found = server.get(space::CACHE, &record.key, &[]);
        let found = self.server.await_store(found, &budget).await?;
        let is_expired = |record: &Record| record.expires.is_some_and(|at| at <= found.now);
        let is_valid = state == Some(erasures.label().value)
            && !is_expired(&record)
            && found.record.as_ref().is_none_or(is_expired);
        if is_valid {
            let conditions = [(counter::ERASED, erasures.on_server)];
            let put = server.put(space::CACHE, record.clone(), None, &conditions);
            if let PutResult::Stored { .. } = self.server.await_store(put, &budget).await? {
                self.keep(record, erasures).await;
                return Ok(());
            }
        }
        // Without a state it is never served, and remains until it expires.
        let put = self.local.store()?.put(space::CACHE, record, None, &[]);
        self.local.await_store(put, &budget).await.map(drop)
    }

    /// Resolves when nothing is being written or sent; removes some of the expired copies.
    pub(crate) async fn finish(&self) {
        let mut running = std::mem::take(&mut *lock(&self.running));
        while running.join_next().await.is_some() {}
        let Ok(store) = self.local.store() else {
            return;
        };
        let expired = RecordFilter {
            expired_before: Some(self.server.now()),
            ..RecordFilter::default()
        };
        let budget = TimeBudget::new(DEFAULT_LOOKUP_TIMEOUT);
        let erased = store.erase(
            space::CACHE,
            &expired,
            PageRequest::keys(EXPIRED_PER_PROCESS),
        );
        // The fault has been reported.
        let _ = self.local.await_store(erased, &budget).await;
    }
}

/// Returns a record as the server has it, and the text of its [`ErasureState`].
fn without_own_labels(mut record: Record) -> (Record, Option<String>) {
    let mut state = None;
    record.labels.retain(|label| match label.name.as_str() {
        STATE_LABEL => {
            state = Some(label.value.clone());
            false
        }
        UNSENT_LABEL => false,
        _ => true,
    });
    (record, state)
}
