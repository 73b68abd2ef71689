//! Copies of entries in a store on this machine, behind a store on a server that may not answer.
//!
//! A copy answers a call only while the server does not, and only where its age is bounded: before its expiry, and for
//! calls without domains, since the server alone knows of writes by other machines. Answers that the server could not
//! receive are sent to it when it answers again, unless anything was erased in the meantime.
//!
//! Counters of the local store hold the erasures that this machine knows of. A copy is labelled with their values, is
//! stored only while they have these values, and answers only as long as they have them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cachalot_store::{
    GetResult, Label, LabelMatch, PageRequest, PutResult, Record, RecordFilter, RecordPage, Stale,
    counter, space,
};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::access::{StoreAccess, TimeBudget};
use crate::entry::Entry;
use crate::erase_all::erase_all;
use crate::evict::Eviction;
use crate::front::FrontEntry;
use crate::lease::{LateLookup, Reservation, ReservationRequest, UnclaimedLease, get_or_reserve};
use crate::policy::{DEFAULT_LOOKUP_TIMEOUT, DEFAULT_STORE_TIMEOUT, HitPolicy, RunPolicy};
use crate::sync::{Mutex, lock};
use crate::witness::SERVE_CHECK_TIMEOUT;
use crate::{Call, Key, Reason};

/// The counter that is raised when the server's counter of erasures has gone back: it is another server, or an older
/// state of it.
const GENERATION: &str = "server-generation";

/// The label with the [`ErasureState`] under which a copy is valid.
const STATE_LABEL: &str = "copy:erasures";

/// The label with the expiry by the server's clock. The record itself has the one by this machine's clock, which a
/// process knows that has not reached the server.
const EXPIRES_LABEL: &str = "copy:expires";

/// The label of copies that the server does not have.
const UNSENT_LABEL: &str = "copy:unsent";

/// Maximum number of copies that are being written at the same time; further ones are left out.
const MAX_RUNNING: usize = 64;

/// Number of copies that are listed or erased at once.
const COPIES_PER_PAGE: u32 = 100;

/// Pause after a fault of the server while copies were sent.
const SEND_PAUSE: Duration = Duration::from_secs(30);

/// Maximum time that the end of a process waits for copies that are being written or sent.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of expired copies that a process removes at its end.
const EXPIRED_PER_PROCESS: u32 = 200;

/// The erasures that this machine knows of. Copies from before another one are not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ErasureState {
    /// The counter [`GENERATION`].
    generation: u64,
    /// [`counter::ERASED`] of the server, as last read.
    on_server: u64,
    /// [`counter::ERASED`] of the local store.
    local: u64,
}

/// The counter with the server's [`counter::ERASED`] as last read.
fn erased_on_server(generation: u64) -> String {
    format!("erased-on-server:{generation}")
}

impl ErasureState {
    fn label(self) -> Label {
        let Self {
            generation,
            on_server,
            local,
        } = self;
        Label::new(STATE_LABEL, format!("{generation}.{on_server}.{local}"))
    }
}

/// The result of sending a copy.
enum Sent {
    /// The server has it.
    Present,
    /// The server has another one, or it has expired, or something was erased.
    Dropped,
    /// Another process runs the call.
    Later,
}

/// The local store, and the tasks that write to it.
pub(crate) struct LocalCopies {
    local: Arc<StoreAccess>,
    server: Arc<StoreAccess>,
    eviction: Arc<Eviction>,
    /// False if copies are only erased.
    is_served: bool,
    /// The counter [`GENERATION`], as last read.
    generation: AtomicU64,
    /// The time from which copies are sent; `None` if all are known to be on the server.
    send_after: Mutex<Option<Instant>>,
    /// Number of calls that copies have answered.
    answered: AtomicU64,
    running: Mutex<JoinSet<()>>,
}

/// True if calls with this policy may be answered by a copy.
pub(crate) fn is_permitted(hit: &HitPolicy, run: &RunPolicy) -> bool {
    run.ttl.is_some() && hit.domains.is_empty()
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
            generation: AtomicU64::new(0),
            send_after: Mutex::new(Some(Instant::now())),
            answered: AtomicU64::new(0),
            running: Mutex::default(),
        }
    }

    /// Returns the erasures that this machine knows of now; `None` if the local store fails, or copies are not served.
    pub(crate) async fn erasures(&self) -> Option<ErasureState> {
        if !self.is_served {
            return None;
        }
        Some(self.get(STATE_LABEL).await.ok()?.1)
    }

    /// Reads a copy, and the erasures that this machine knows of.
    async fn get(&self, key: &str) -> Result<(GetResult, ErasureState), Reason> {
        let store = self.local.store()?;
        let budget = TimeBudget::new(DEFAULT_LOOKUP_TIMEOUT);
        loop {
            // The name of a counter contains the generation, and all counters have to be read in one step. If the
            // generation was another one, they are read again.
            let generation = self.generation.load(Ordering::Relaxed);
            let on_server = erased_on_server(generation);
            let names = [GENERATION, &on_server, counter::ERASED];
            let found = store.get(space::CACHE, key, &names);
            let found = self.local.await_read(found, &budget).await?;
            match found.counters[..] {
                [current, on_server, local] if current == generation => {
                    let state = ErasureState {
                        generation,
                        on_server,
                        local,
                    };
                    return Ok((found, state));
                }
                // Another process has raised it.
                [current, ..] => self.generation.store(current, Ordering::Relaxed),
                [] => return Err(Reason::StoreFault("a counter is missing".to_owned())),
            }
        }
    }

    /// Notes that the server has answered, with this counter of erasures; `before` is the state before the question.
    /// Returns the state at the time of the answer.
    pub(crate) async fn note_answer(
        &self,
        before: ErasureState,
        erased: u64,
    ) -> Option<ErasureState> {
        if erased == before.on_server {
            return Some(before);
        }
        let budget = TimeBudget::new(DEFAULT_STORE_TIMEOUT);
        let store = self.local.store().ok()?;
        let mut generation = before.generation;
        // Counters only grow, so a server whose counter has gone back gets a counter of its own, under a new
        // generation.
        if erased < before.on_server {
            let raised = store.add(space::CACHE, &[(GENERATION, 1)]);
            let raised = self.local.await_write(raised, &budget).await.ok()?;
            generation = *raised.first()?;
        }
        let name = erased_on_server(generation);
        // Never lowers the counter: two processes that note answers in reverse order end with the later one.
        let raised = store.raise_to(space::CACHE, &name, erased);
        self.local.await_write(raised, &budget).await.ok()?;
        // Not read back. If another process has noted a later erasure, the conditions of `put` are not met.
        Some(ErasureState {
            generation,
            on_server: erased,
            ..before
        })
    }

    /// Returns the copy that answers a call, if one may.
    pub(crate) async fn find(
        &self,
        key: &Key,
        call: &Call<'_>,
        hit: &HitPolicy,
        run: &RunPolicy,
    ) -> Option<Entry> {
        if !self.is_served || !is_permitted(hit, run) {
            return None;
        }
        let (found, state) = self.get(&key.text()).await.ok()?;
        let record = found.record?;
        if record.expires? <= self.local.clock.now() {
            return None;
        }
        let (record, valid_under) = without_own_labels(record);
        if valid_under? != state.label().value {
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

    /// Records that a copy has answered a call.
    pub(crate) fn record_use(&self, entry: &Entry) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.eviction.record_use(entry, self.local.clock.now());
    }

    /// Number of calls that copies have answered.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// True if copies may be missing on the server.
    pub(crate) fn has_unsent(&self) -> bool {
        lock(&self.send_after).is_some()
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

    /// Copies a record that the server did not receive, to be sent when it answers again.
    pub(crate) async fn keep_unsent(&self, record: Record, state: ErasureState) -> bool {
        let is_kept = self
            .put(record, state, Some(Label::new(UNSENT_LABEL, "1")))
            .await;
        if is_kept {
            lock(&self.send_after).get_or_insert_with(Instant::now);
        }
        is_kept
    }

    /// Stores a record under the condition that nothing was erased since.
    async fn put(&self, mut record: Record, state: ErasureState, label: Option<Label>) -> bool {
        let (Ok(key), Ok(store), Some(expires)) = (
            record.key.parse::<Key>(),
            self.local.store(),
            record.expires,
        ) else {
            return false;
        };
        let offset = self.server.store_time(0);
        record.expires = Some(expires.saturating_sub(offset));
        record.labels.push(state.label());
        record
            .labels
            .push(Label::new(EXPIRES_LABEL, expires.to_string()));
        record.labels.extend(label);
        // Every entry that a lookup finds on the server gets here. A copy that is unchanged is not written again.
        let found = self.get(&record.key).await;
        let is_present = found.is_ok_and(|(found, _)| {
            found
                .record
                .is_some_and(|found| found.value == record.value && found.labels == record.labels)
        });
        if is_present {
            return true;
        }
        let budget = TimeBudget::new(DEFAULT_STORE_TIMEOUT);
        let on_server = erased_on_server(state.generation);
        let conditions = [
            (GENERATION, state.generation),
            (on_server.as_str(), state.on_server),
            (counter::ERASED, state.local),
        ];
        let put = store.put(space::CACHE, record, None, &conditions);
        let put = self.local.await_write(put, &budget).await;
        self.eviction.after_store(&key).await;
        matches!(put, Ok(PutResult::Stored { .. }))
    }

    /// Keeps the copy of a key from being served and sent, if there is one; only that of `revision`, if it is given.
    pub(crate) async fn forget(&self, key: &str, revision: Option<u64>) {
        // A fault has been reported.
        let (Ok((found, state)), Ok(store)) = (self.get(key).await, self.local.store()) else {
            return;
        };
        let is_other =
            |record: &Record| revision.is_some_and(|revision| revision != record.revision);
        let Some(record) = found.record.filter(|record| !is_other(record)) else {
            return;
        };
        // It remains until it expires. Erasing it would invalidate all other copies.
        let record = Record {
            value: bytes::Bytes::new(),
            labels: Vec::new(),
            ..record
        };
        let conditions = [(counter::ERASED, state.local)];
        let put = store.put(space::CACHE, record, None, &conditions);
        let budget = TimeBudget::new(DEFAULT_STORE_TIMEOUT);
        let _ = self.local.await_write(put, &budget).await;
    }

    /// Removes all copies. Copies of what was read before are not served.
    pub(crate) async fn erase_all(&self) -> Result<(), cachalot_store::Error> {
        let Ok(store) = self.local.store() else {
            return Ok(());
        };
        let (all, page) = (RecordFilter::default(), PageRequest::keys(COPIES_PER_PAGE));
        erase_all(&**store, &all, page, drop).await.map(drop)
    }

    /// Sends the copies that the server does not have, in the background.
    pub(crate) fn send_soon(self: &Arc<Self>) {
        let mut send_after = lock(&self.send_after);
        if send_after.is_none_or(|at| at > Instant::now()) {
            return;
        }
        // Set under the lock, so that one task sends at a time. The task sets it again if some copies are left.
        *send_after = None;
        let this = Arc::clone(self);
        lock(&self.running).spawn(async move {
            if !this.send_all().await.is_ok_and(|is_complete| is_complete) {
                *lock(&this.send_after) = Some(Instant::now() + SEND_PAUSE);
            }
        });
    }

    /// Returns false if some are to be sent later. Fails if the server does not answer, or the local store fails.
    async fn send_all(&self) -> Result<bool, Reason> {
        let labels = [LabelMatch::Is {
            name: UNSENT_LABEL,
            value: "1",
        }];
        let filter = RecordFilter {
            labels: &labels,
            ..RecordFilter::default()
        };
        let (mut after, mut is_complete) = (None, true);
        loop {
            let page = PageRequest {
                after: after.as_deref(),
                ..PageRequest::keys(COPIES_PER_PAGE)
            };
            let budget = TimeBudget::new(DEFAULT_STORE_TIMEOUT);
            let found = self.local.store()?.find(space::CACHE, &filter, page);
            let RecordPage { records, next, .. } = self.local.await_read(found, &budget).await?;
            for record in records {
                is_complete &= self.send(&record.key).await?;
            }
            match next {
                Some(next) => after = Some(next),
                None => return Ok(is_complete),
            }
        }
    }

    /// Sends a copy, unless it has expired, the server has another one, or anything was erased since it was made. Returns
    /// false if it is to be sent later.
    async fn send(&self, key: &str) -> Result<bool, Reason> {
        let Ok((found, state)) = self.get(key).await else {
            // One that cannot be read does not keep others from being sent.
            return Ok(true);
        };
        let Some(record) = found.record else {
            return Ok(true);
        };
        let revision = record.revision;
        let (record, valid_under) = without_own_labels(record);
        let sent = if valid_under == Some(state.label().value) {
            self.send_record(&record, state).await
        } else {
            Ok(Sent::Dropped)
        };
        match sent {
            Ok(Sent::Present) => self.keep(record, state).await,
            Ok(Sent::Later) => return Ok(false),
            // With a fault, the server does not accept it.
            Ok(Sent::Dropped) | Err(Reason::StoreFault(_)) => {
                self.forget(key, Some(revision)).await;
            }
            Err(reason) => return Err(reason),
        }
        Ok(true)
    }

    async fn send_record(&self, record: &Record, state: ErasureState) -> Result<Sent, Reason> {
        let server = self.server.store()?;
        let budget = TimeBudget::new(DEFAULT_STORE_TIMEOUT);
        let (found, lease): (_, Option<UnclaimedLease>) = if server.about().reservations {
            let Ok(key) = record.key.parse::<Key>() else {
                return Ok(Sent::Dropped);
            };
            let late = LateLookup::default();
            let request = ReservationRequest {
                labels: &record.labels,
                stale: Stale::None,
                late: &late,
            };
            let (found, reservation) =
                get_or_reserve(&self.server, server, &key, &[], request, &budget).await?;
            match reservation {
                Some(Reservation::Held(lease)) => (found, Some(lease)),
                // Another process runs the call, and may store its answer.
                Some(Reservation::Busy { .. }) => return Ok(Sent::Later),
                None => (found, None),
            }
        } else {
            let found = server.get(space::CACHE, &record.key, &[]);
            (self.server.await_read(found, &budget).await?, None)
        };
        let is_expired = |record: &Record| record.expires.is_some_and(|at| at <= found.now);
        let is_replaceable = found.record.as_ref().is_none_or(is_expired);
        let is_present = if is_replaceable && !is_expired(record) {
            // The server refuses the record if anything was erased there since the copy was made.
            let conditions = [(counter::ERASED, state.on_server)];
            let held = lease.as_ref().and_then(UnclaimedLease::lease);
            let put = server.put(space::CACHE, record.clone(), held, &conditions);
            let put = self.server.await_write(put, &budget).await?;
            matches!(put, PutResult::Stored { .. })
        } else {
            found
                .record
                .is_some_and(|stored| stored.value == record.value)
        };
        if let (Some(lease), true) = (lease, is_present) {
            // The put has ended it.
            lease.claim();
        }
        Ok(if is_present {
            Sent::Present
        } else {
            Sent::Dropped
        })
    }

    /// Waits for some time until nothing is being written or sent; what is not sent then is sent by another process.
    /// Removes some of the expired copies.
    pub(crate) async fn finish(&self) {
        let mut running = std::mem::take(&mut *lock(&self.running));
        let ended = async { while running.join_next().await.is_some() {} };
        // The tasks that remain are aborted.
        let _ = tokio::time::timeout(FINISH_TIMEOUT, ended).await;
        self.eviction.flush_uses().await;
        let Ok(store) = self.local.store() else {
            return;
        };
        let expired = RecordFilter {
            expired_before: Some(self.local.clock.now()),
            ..RecordFilter::default()
        };
        let budget = TimeBudget::new(DEFAULT_LOOKUP_TIMEOUT);
        let erased = store.erase(
            space::CACHE,
            &expired,
            PageRequest::keys(EXPIRED_PER_PROCESS),
        );
        // The fault has been reported.
        let _ = self.local.await_write(erased, &budget).await;
    }
}

/// Returns a record as the server has it, and the text of its [`ErasureState`].
fn without_own_labels(mut record: Record) -> (Record, Option<String>) {
    let mut state = None;
    record.expires = None;
    record.labels.retain(|label| {
        match label.name.as_str() {
            STATE_LABEL => state = Some(label.value.clone()),
            EXPIRES_LABEL => record.expires = label.value.parse().ok(),
            UNSENT_LABEL => {}
            _ => return true,
        }
        false
    });
    (record, state)
}
