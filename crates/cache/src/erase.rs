//! Inspection and erasure of entries, selected by their properties.

use cachalot_core::{Millis, Spend};
use cachalot_store::{
    self as store, Error, Label, LabelMatch, Order, PageRequest, Pages, Record, ValuePart, space,
};

use crate::body::Body;
use crate::engine::Engine;
use crate::entry::{Entry, EntryHead, KIND_LABEL, NAME_LABEL, PartialHead};
use crate::erase_all::erase_all;
use crate::flight::Flight;
use crate::summary::EntryProvenance;
use crate::{CallKind, Key, Scope};

/// A criterion on an entry's labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelCriterion {
    /// The entry has this label.
    Is(Label),
    /// The entry has a label of this name whose value matches: `*` matches any text, every other character
    /// itself.
    Glob {
        /// The label's name.
        name: String,
        /// The pattern for the whole value.
        pattern: String,
    },
}

/// Selects entries that meet all criteria. The default matches every entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryFilter {
    /// The entry of this key.
    pub key: Option<Key>,
    /// The kind of work that the entry answers.
    pub kind: Option<CallKind>,
    /// The name of the call.
    pub name: Option<String>,
    /// Criteria on labels.
    pub criteria: Vec<LabelCriterion>,
    /// Only entries that had expired before this time.
    pub expired_before: Option<Millis>,
}

/// The result of an erasure or its dry run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EraseReport {
    /// The entries that were erased, or would be.
    pub entries: Vec<ErasedEntry>,
    /// Number of runs of this process that were revoked: their answers will not be stored. 0 in a dry run.
    pub revoked: usize,
}

/// An entry that was erased, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasedEntry {
    /// The key in the store.
    pub key: String,
    /// The labels of the entry.
    pub labels: Vec<Label>,
}

/// The properties of an entry, without its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryInfo {
    /// Its key.
    pub key: Key,
    /// The kind of work that it answers.
    pub kind: CallKind,
    /// The scope in which it is shared.
    pub scope: String,
    /// The name of the call.
    pub name: String,
    /// Origin and age.
    pub provenance: EntryProvenance,
    /// Set if the entry has expired.
    pub expired: bool,
    /// The size of the answer.
    pub bytes: u64,
    /// The cost of producing the answer.
    pub spent: Spend,
}

/// A stored entry, whether it may be served or not.
pub struct StoredEntry {
    /// Everything but the answer.
    pub entry_info: EntryInfo,
    /// The answer.
    pub body: Body,
}

impl EntryInfo {
    fn new(head: &EntryHead, provenance: EntryProvenance, bytes: u64, now: Millis) -> Self {
        Self {
            key: Key::from_digest(head.key),
            kind: head.kind,
            scope: head.scope.clone(),
            name: head.name.clone(),
            provenance,
            expired: head.is_expired(now),
            bytes,
            spent: head.spent,
        }
    }
}

impl StoredEntry {
    fn new(entry: &Entry, now: Millis) -> Self {
        let bytes = entry.body.bytes.len() as u64;
        Self {
            entry_info: EntryInfo::new(&entry.head, entry.provenance(), bytes, now),
            body: Body::from_complete(entry.body.clone()),
        }
    }
}

/// Maximum number of records per request to the store.
const RECORDS_PER_REQUEST: u32 = 500;

/// Number of bytes of a value that nearly always contain the head of the entry.
const HEAD_BYTES: u32 = 4_096;

/// Implements [`crate::Cache::erase`].
pub(crate) async fn erase(
    engine: &Engine,
    which: &EntryFilter,
    dry_run: bool,
) -> Result<EraseReport, Error> {
    if dry_run {
        return erase_in_store(engine, which, dry_run).await;
    }
    // Before, so that no copy outlives the erasure if this process ends in between; after, because entries are copied
    // in the meantime. A fault of the copies does not keep the entries.
    let before = erase_copies(engine).await;
    let erased = erase_in_store(engine, which, dry_run).await;
    let after = erase_copies(engine).await;
    let erased = erased?;
    before.and(after)?;
    Ok(erased)
}

/// Erases the copies on this machine.
pub(crate) async fn erase_copies(engine: &Engine) -> Result<(), Error> {
    match &engine.local {
        Some(local) => local.erase_all().await,
        None => Ok(()),
    }
}

async fn erase_in_store(
    engine: &Engine,
    which: &EntryFilter,
    dry_run: bool,
) -> Result<EraseReport, Error> {
    // Before the records are erased: a run that stores in between is found revoked, or its record is erased below.
    let revoked = if dry_run {
        0
    } else {
        engine.flights.revoke(|flight| which.matches_flight(flight))
    };
    let mut erased = EraseReport {
        entries: Vec::new(),
        revoked,
    };
    let Ok(store) = engine.access.store() else {
        return Ok(erased);
    };
    let query = Query::new(which, which.kind);
    let (filter, page) = (
        query.filter(which),
        PageRequest::labels(RECORDS_PER_REQUEST),
    );
    if dry_run {
        let mut pages = Pages::new(&**store, space::CACHE, filter, page);
        while let Some(page) = pages.next().await? {
            erased.add(page.records);
        }
    } else {
        if erase_all(&**store, &filter, page, |records| erased.add(records)).await? > 1 {
            // A run that began meanwhile may have been given an entry that was erased later.
            erased.revoked += engine.flights.revoke(|flight| which.matches_flight(flight));
        }
    }
    // The query above selects by the label of the kind, which entries of earlier versions do not have.
    if let Some(kind) = which.kind {
        let without_kind_label = without_kind_label(engine, which, kind).await?;
        if !dry_run {
            erase_each(engine, &without_kind_label).await?;
        }
        erased.add(without_kind_label);
    }
    Ok(erased)
}

/// Implements [`crate::Cache::peek`].
pub(crate) async fn peek(engine: &Engine, key: &Key) -> Result<Option<StoredEntry>, Error> {
    let Ok(store) = engine.access.store() else {
        return Ok(None);
    };
    let found = store
        .get(space::CACHE, &key.to_string(), &[])
        .settle()
        .await?;
    let entry = found.record.and_then(|record| Entry::decode(record).ok());
    Ok(entry.map(|entry| StoredEntry::new(&entry, found.now)))
}

/// Implements [`crate::Cache::newest`].
pub(crate) async fn newest(
    engine: &Engine,
    which: &EntryFilter,
    scopes: &[Scope],
) -> Result<Option<StoredEntry>, Error> {
    let Ok(store) = engine.access.store() else {
        return Ok(None);
    };
    // Entries of earlier versions have no label of their kind.
    let query = Query::new(which, None);
    let scopes: Vec<String> = scopes.iter().map(Scope::to_string).collect();
    let wanted = |entry_info: &EntryInfo| {
        scopes.contains(&entry_info.scope) && which.kind.is_none_or(|kind| kind == entry_info.kind)
    };
    let newest_first = store::RecordFilter {
        order: Order::Newest,
        ..query.filter(which)
    };
    // One of the newest entries is usually in one of the scopes.
    for limit in [1, RECORDS_PER_REQUEST] {
        let page = head_page(limit);
        let batch = store
            .find(space::CACHE, &newest_first, page)
            .settle()
            .await?;
        let all = batch.records.len() < limit as usize;
        for (record, size) in batch.records.into_iter().zip(batch.sizes) {
            if let Some(entry_info) = entry_info(engine, record, size).await?.filter(wanted)
                && let Some(stored) = peek(engine, &entry_info.key).await?
            {
                return Ok(Some(stored));
            }
        }
        if all {
            return Ok(None);
        }
    }
    let mut newest: Option<(Millis, Key)> = None;
    let page = head_page(RECORDS_PER_REQUEST);
    let mut pages = Pages::new(&**store, space::CACHE, query.filter(which), page);
    while let Some(page) = pages.next().await? {
        for (record, size) in page.records.into_iter().zip(page.sizes) {
            let updated = record.updated;
            if newest.is_none_or(|(newest, _)| updated >= newest)
                && let Some(entry_info) = entry_info(engine, record, size).await?.filter(wanted)
            {
                newest = Some((updated, entry_info.key));
            }
        }
    }
    match newest {
        Some((_, key)) => peek(engine, &key).await,
        None => Ok(None),
    }
}

/// Implements [`crate::Cache::try_each`].
pub(crate) async fn try_each<E: From<Error>>(
    engine: &Engine,
    which: &EntryFilter,
    mut each: impl FnMut(EntryInfo) -> Result<(), E>,
) -> Result<(), E> {
    let Ok(store) = engine.access.store() else {
        return Ok(());
    };
    let query = Query::new(which, None);
    read_store_time(engine).await?;
    let page = head_page(RECORDS_PER_REQUEST);
    let mut pages = Pages::new(&**store, space::CACHE, query.filter(which), page);
    while let Some(page) = pages.next().await? {
        for (record, size) in page.records.into_iter().zip(page.sizes) {
            if let Some(entry_info) = entry_info(engine, record, size).await?
                && which.kind.is_none_or(|kind| kind == entry_info.kind)
            {
                each(entry_info)?;
            }
        }
    }
    Ok(())
}

/// Implements [`crate::Cache::sweep`].
pub(crate) async fn sweep(engine: &Engine, limit: Option<u32>) -> Result<u64, Error> {
    let Ok(store) = engine.access.store() else {
        return Ok(0);
    };
    read_store_time(engine).await?;
    let filter = store::RecordFilter {
        // An entry expires in the millisecond of its `expires`.
        expired_before: Some(engine.access.now().saturating_add(1)),
        order: Order::Expiry,
        ..store::RecordFilter::default()
    };
    let mut swept = 0;
    loop {
        let left = limit.map_or(RECORDS_PER_REQUEST, |limit| {
            (limit - swept as u32).min(RECORDS_PER_REQUEST)
        });
        if left == 0 {
            return Ok(swept);
        }
        let batch = store
            .erase(space::CACHE, &filter, PageRequest::keys(left))
            .settle()
            .await?;
        // A store may erase fewer records at once.
        if batch.records.is_empty() {
            return Ok(swept);
        }
        swept += batch.records.len() as u64;
    }
}

/// Implements [`crate::Cache::usage`].
pub(crate) async fn usage(engine: &Engine) -> Result<store::SpaceUsage, Error> {
    match engine.access.store() {
        Ok(store) => store.usage(space::CACHE).settle().await,
        Err(_) => Ok(store::SpaceUsage::default()),
    }
}

/// A page whose values are cut to the length that nearly always contains the head of an entry.
fn head_page(limit: u32) -> PageRequest<'static> {
    PageRequest {
        values: ValuePart::First(HEAD_BYTES),
        ..PageRequest::labels(limit)
    }
}

/// Reads the store's current time.
async fn read_store_time(engine: &Engine) -> Result<(), Error> {
    if let Ok(store) = engine.access.store() {
        let asked = engine.access.clock.now();
        let found = store.get(space::CACHE, "", &[]).settle().await?;
        engine.access.record_clock_offset(asked, found.now);
    }
    Ok(())
}

async fn erase_each(engine: &Engine, records: &[Record]) -> Result<(), Error> {
    let store = match engine.access.store() {
        Ok(store) => store,
        Err(_) => return Ok(()),
    };
    for record in records {
        // All keys have the same length, so that a key is a prefix only of itself.
        let filter = store::RecordFilter {
            prefix: &record.key,
            ..store::RecordFilter::default()
        };
        store
            .erase(space::CACHE, &filter, PageRequest::keys(1))
            .settle()
            .await?;
    }
    Ok(())
}

/// Returns the entries of a kind that match otherwise but have no label of their kind, because an earlier
/// version stored them.
async fn without_kind_label(
    engine: &Engine,
    which: &EntryFilter,
    kind: CallKind,
) -> Result<Vec<Record>, Error> {
    let Ok(store) = engine.access.store() else {
        return Ok(Vec::new());
    };
    let query = Query::new(which, None);
    let mut found = Vec::new();
    let page = PageRequest::labels(RECORDS_PER_REQUEST);
    let mut pages = Pages::new(&**store, space::CACHE, query.filter(which), page);
    while let Some(page) = pages.next().await? {
        for record in page.records {
            if record.labels.iter().any(|label| label.name == KIND_LABEL) {
                continue;
            }
            let filter = store::RecordFilter {
                prefix: &record.key,
                ..store::RecordFilter::default()
            };
            let page = head_page(1);
            let mut batch = store.find(space::CACHE, &filter, page).settle().await?;
            if let (Some(record), Some(size)) = (batch.records.pop(), batch.sizes.pop())
                && let Some(entry_info) = entry_info(engine, record.clone(), size).await?
                && entry_info.kind == kind
            {
                found.push(record);
            }
        }
    }
    Ok(found)
}

/// Reads the properties of an entry from a record with the beginning of its value; `None` if it is
/// damaged.
async fn entry_info(
    engine: &Engine,
    record: Record,
    size: u64,
) -> Result<Option<EntryInfo>, Error> {
    let now = engine.access.now();
    if record.value.len() as u64 == size {
        let entry = Entry::decode(record).ok();
        return Ok(entry.map(|entry| StoredEntry::new(&entry, now).entry_info));
    }
    match PartialHead::decode(&record.value, size) {
        PartialHead::Complete(head, bytes) if *Key::from_digest(head.key).text() == *record.key => {
            let provenance = head.provenance(record.labels.into(), record.revision);
            Ok(Some(EntryInfo::new(&head, provenance, bytes, now)))
        }
        PartialHead::Truncated => {
            let Ok(store) = engine.access.store() else {
                return Ok(None);
            };
            let found = store.get(space::CACHE, &record.key, &[]).settle().await?;
            let entry = found.record.and_then(|record| Entry::decode(record).ok());
            Ok(entry.map(|entry| StoredEntry::new(&entry, now).entry_info))
        }
        PartialHead::Complete(..) | PartialHead::Damaged => Ok(None),
    }
}

impl EraseReport {
    fn add(&mut self, records: Vec<Record>) {
        let entries = records.into_iter().map(|record| ErasedEntry {
            key: record.key,
            labels: record.labels,
        });
        self.entries.extend(entries);
    }
}

/// An [`EntryFilter`] in the terms of the store. Its kind is that passed to [`Query::new`].
struct Query<'a> {
    key: String,
    labels: Vec<LabelMatch<'a>>,
}

impl<'a> Query<'a> {
    fn new(which: &'a EntryFilter, kind: Option<CallKind>) -> Self {
        let own = [
            which.name.as_deref().map(|name| (NAME_LABEL, name)),
            kind.map(|kind| (KIND_LABEL, kind.as_str())),
        ];
        let own = own
            .into_iter()
            .flatten()
            .map(|(name, value)| LabelMatch::Is { name, value });
        let criteria = which.criteria.iter().map(LabelCriterion::as_match);
        Self {
            key: which.key.map(|key| key.to_string()).unwrap_or_default(),
            labels: own.chain(criteria).collect(),
        }
    }

    fn filter<'b>(&'b self, which: &EntryFilter) -> store::RecordFilter<'b> {
        store::RecordFilter {
            prefix: &self.key,
            labels: &self.labels,
            expired_before: which.expired_before,
            order: Order::Key,
        }
    }
}

impl LabelCriterion {
    fn as_match(&self) -> LabelMatch<'_> {
        match self {
            Self::Is(Label { name, value }) => LabelMatch::Is { name, value },
            Self::Glob { name, pattern } => LabelMatch::Glob { name, pattern },
        }
    }
}

impl EntryFilter {
    fn matches_flight(&self, flight: &Flight) -> bool {
        self.expired_before.is_none()
            && self.key.is_none_or(|key| key == flight.key)
            && Query::new(self, self.kind)
                .labels
                .iter()
                .all(|criterion| criterion.matches(&flight.labels))
    }
}
