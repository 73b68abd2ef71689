//! A store in Firestore, shared by any number of machines.
//!
//! The documents of a space are in collections below one document: `records`, `labels` (one document for each label of
//! a record), `counters`, and `leases`. A lookup is one request. A call that writes under conditions reads in a
//! transaction, or makes its writes depend on the documents that it has read, and is repeated if these were changed.
//! The times are those of the server.

mod client;
mod document;
mod find;
mod leases;
mod name;
mod reader;
mod space;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cachalot_store::implementation::{
    StoredLease, deduplicate, has_equal_content, labels_to_json, lease_end, next_erasure,
    reaches_reservations, refusal, signed, too_new, weight,
};
use cachalot_store::{
    Error, ErrorKind, Finding, GetOrReserve, GetOrReserveResult, GetResult, Label, Lease, Millis,
    PageRequest, PutAllResult, PutCondition, PutResult, Record, RecordFilter, RecordPage,
    ReserveResult, SpaceUsage, Store, StoreInfo, counter,
};
use serde_json::{Value, json};

use document::{
    Document, Fields, check_labels, check_sum, damaged, delete, expiry_order, integer,
    unless_changed, use_order,
};
use find::{BATCH, Selection, WITHOUT_VALUE};
use name::IdRange;
use reader::{Documents, Query, Reader};
use space::{Space, counter_fields, counter_value, ended, stored_lease, transform};

use crate::open_options::OpenOptions;
use crate::pause::random_pause;
use crate::url::{StoreUrl, StoreUrlError};

pub use client::Server;

/// Maximum length of a name, in bytes. An identifier of a document has at most 1,500.
const LONGEST_NAME: u64 = 480;

/// The part of a document that is not a record's key, value and labels, in bytes at most.
const OVERHEAD: u64 = 16 << 10;

/// Maximum size of a record, in bytes. A document has at most 1 MiB.
const LARGEST_VALUE: u64 = (1 << 20) - OVERHEAD;

/// The version of the layout.
const LAYOUT: i64 = 1;

/// The time after which the version of the layout is compared again, in milliseconds: the service has no condition by
/// which a write could compare it.
const LAYOUT_VALIDITY: i64 = 60_000;

/// Attempts of a call, if others change the same documents.
const MAX_ATTEMPTS: u32 = 40;

/// A store in a collection of Firestore. See the [module](self).
pub struct FirestoreStore {
    about: StoreInfo,
    server: Arc<Server>,
    /// Added to the server's time, in milliseconds. Zero but in tests.
    shift: Arc<AtomicI64>,
    /// The time of the last comparison of the layout, in milliseconds since the creation of the store.
    layout_compared: tokio::sync::Mutex<Option<i64>>,
    created: Instant,
}

pub(crate) fn open(url: &StoreUrl, options: &OpenOptions) -> Result<Arc<dyn Store>, StoreUrlError> {
    let server = Server::new(url, &options.environment, options.http_client(None)?)?;
    Ok(Arc::new(FirestoreStore::new(server)))
}

impl FirestoreStore {
    /// Creates a store on a server. Connects with the first call.
    #[must_use]
    pub fn new(server: Server) -> Self {
        Self::with_shift(server, Arc::default())
    }

    /// Creates a store whose time is that of the server plus `shift` milliseconds, for tests: time passes
    /// without waiting for it.
    #[must_use]
    pub fn with_shift(server: Server, shift: Arc<AtomicI64>) -> Self {
        let about = StoreInfo {
            // The server does not promise one moment for all documents of a request.
            snapshot: false,
            ..StoreInfo::new("firestore", server.location(), LARGEST_VALUE, LONGEST_NAME)
        };
        Self {
            about,
            server: Arc::new(server),
            shift,
            layout_compared: tokio::sync::Mutex::default(),
            created: Instant::now(),
        }
    }

    fn space(&self, space: &str) -> Space {
        Space(self.server.path(&name::id(space)))
    }

    /// Returns the store's time of a read.
    fn time(&self, documents: &Documents) -> Millis {
        documents.micros / 1000 + self.shift.load(Ordering::Relaxed)
    }

    /// Returns a reader outside of transactions, once the layout is known.
    async fn reader(&self) -> Result<Reader, Error> {
        let elapsed = i64::try_from(self.created.elapsed().as_millis()).unwrap_or(i64::MAX);
        let now = elapsed.saturating_add(self.shift.load(Ordering::Relaxed));
        // Held during the comparison, so that concurrent calls share one.
        let mut compared = self.layout_compared.lock().await;
        if compared.is_none_or(|at| now.saturating_sub(at) >= LAYOUT_VALIDITY) {
            self.repeat(|| self.check_layout()).await?;
            *compared = Some(now);
        }
        drop(compared);
        Ok(Reader::new(Arc::clone(&self.server)))
    }

    /// Compares the version of the layout, or writes it. Fails with [`ErrorKind::Busy`] if another process writes it.
    async fn check_layout(&self) -> Result<(), Error> {
        let path = self.server.path("layout");
        let reader = Reader::new(Arc::clone(&self.server));
        let read = reader.get(std::slice::from_ref(&path), None).await?;
        let Some(layout) = read.get(&path) else {
            // On the condition that there is still none: another process may write the layout of another version.
            let write = Fields::default().number("version", LAYOUT).replace(&path);
            return reader
                .commit(&[unless_changed(write, None)])
                .await
                .map(drop);
        };
        if layout.number("version")? > LAYOUT {
            return Err(too_new(&self.about.location));
        }
        Ok(())
    }

    /// Makes a change in a transaction: `change` reads, and returns the writes and the result. It is repeated if others
    /// have changed what it has read.
    async fn transaction<T, F>(&self, change: impl Fn(Reader) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<(Vec<Value>, T), Error>>,
    {
        self.repeat(|| async {
            // Only to compare the layout.
            self.reader().await?;
            let reader = Reader::begin(Arc::clone(&self.server)).await?;
            let (writes, result) = change(reader.clone()).await?;
            reader.commit(&writes).await?;
            Ok(result)
        })
        .await
    }

    /// Makes a change whose writes depend on the documents that it has read; see [`Self::transaction`].
    async fn conditional<T, F>(&self, change: impl Fn(Reader) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<(Vec<Value>, T), Error>>,
    {
        self.repeat(|| async {
            let reader = self.reader().await?;
            let (writes, result) = change(reader.clone()).await?;
            if !writes.is_empty() {
                reader.commit(&writes).await?;
            }
            Ok(result)
        })
        .await
    }

    async fn repeat<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        for number in 1..MAX_ATTEMPTS {
            match attempt().await {
                Err(error) if error.kind == ErrorKind::Busy => {
                    tokio::time::sleep(random_pause(number)).await;
                }
                done => return done,
            }
        }
        attempt().await
    }

    /// Returns the paths that [`Self::get_result`] needs.
    fn get_paths(space: &Space, key: &str, counters: &[&str]) -> Vec<String> {
        let counters = counters.iter().map(|name| space.counter(name));
        std::iter::once(space.record(key)).chain(counters).collect()
    }

    fn get_result(
        &self,
        read: &Documents,
        space: &Space,
        key: &str,
        counters: &[&str],
    ) -> Result<GetResult, Error> {
        let record = read.get(&space.record(key)).map(Document::record);
        let counters = counters.iter().map(|name| counter_value(read, space, name));
        Ok(GetResult {
            record: record.transpose()?,
            counters: counters.collect::<Result<_, _>>()?,
            now: self.time(read),
        })
    }

    /// Returns the state of a reservation that was read, or the write that reserves the key and the new lease.
    fn reservation(
        &self,
        read: &Documents,
        space: (&Space, &str),
        key: &str,
        labels: &[Label],
        hold: Duration,
    ) -> Result<(Option<Value>, ReserveResult), Error> {
        let now = self.time(read);
        let path = space.0.lease(key);
        let document = read.get(&path);
        let before = stored_lease(document)?;
        if let Some(busy) = before.and_then(|before| before.busy(now)) {
            return Ok((None, busy));
        }
        let fence = StoredLease::next_fence(before.as_ref(), read.micros.unsigned_abs());
        let write = Fields::default()
            .text("key", key)
            .text("labels", &labels_to_json(labels))
            .number("fence", signed(fence))
            .number("until", lease_end(now, hold))
            .flag("current", true)
            .replace(&path);
        let held = ReserveResult::held(space.1, key, fence);
        Ok((Some(unless_changed(write, document)), held))
    }

    /// Returns the writes that store a record, and its revision. `number` is that of the record among those of the call.
    fn put_writes(
        &self,
        read: &Documents,
        space: &Space,
        record: &Record,
        number: usize,
    ) -> Result<(Vec<Value>, u64), Error> {
        let key = &record.key;
        let path = space.record(key);
        let before = read.get(&path);
        let revision = before.map_or(Ok(0), |before| before.count("revision"))? + 1;
        let now = self.time(read);
        // Writes of one transaction are ordered by their number, others by the time of their reads.
        let order = read.micros * 1000 + number as i64;
        let size = weight(key, record.value.len(), &record.labels);
        let write = Fields::default()
            .text("key", key)
            .bytes("value", &record.value)
            .text("labels", &labels_to_json(&record.labels))
            .number("revision", signed(revision))
            .number("updated", now)
            .optional_number("expires", record.expires)
            .text("use", &use_order(now, order))
            .text("expiry", &expiry_order(record.expires, order))
            .number("order", order)
            .number("size", signed(record.value.len() as u64))
            .number("weight", signed(size));
        let old = before.map_or(Ok(Vec::new()), Document::labels)?;
        let mut writes = vec![write.replace(&path)];
        for label in record.labels.iter().filter(|label| !old.contains(label)) {
            let write = Fields::default().text("key", key);
            writes.push(write.replace(&space.label(label, key)));
        }
        for label in old.iter().filter(|label| !record.labels.contains(label)) {
            writes.push(delete(&space.label(label, key)));
        }
        Ok((writes, revision))
    }

    /// Returns the writes that erase a page of at most a number of records, and the page.
    async fn erasure(
        &self,
        reader: &Reader,
        space: &Space,
        filter: &RecordFilter<'_>,
        page: &PageRequest<'_>,
        maximum: u32,
    ) -> Result<(Vec<Value>, RecordPage), Error> {
        let selection = Selection {
            reader,
            parent: &space.0,
            filter,
            request: page,
            erase: Some(maximum),
        };
        let selected = selection.page().await?;
        let mut writes = Vec::new();
        for (document, record) in &selected.records {
            writes.push(delete(&document.path));
            let labels = record.labels.iter();
            writes.extend(labels.map(|label| delete(&space.label(label, &record.key))));
        }
        if reaches_reservations(filter) {
            let path = space.counter(counter::ERASED);
            let read = reader.get(std::slice::from_ref(&path), None).await?;
            let before = counter_value(&read, space, counter::ERASED)?;
            let value = next_erasure(before, self.time(&read));
            writes.push(counter_fields(counter::ERASED, value).replace(&path));
            writes.extend(leases::revocations(reader, space, filter, page.after).await?);
        }
        Ok((writes, selected.page))
    }
}

#[cfg(feature = "testing")]
impl cachalot_store::conformance::layouts::ChangeLayout for FirestoreStore {
    /// Lets pass the time after which other handles with the same shift compare the layout again.
    fn set_newer_layout(&self, is_newer: bool) -> cachalot_store::StoreReply<'_, ()> {
        cachalot_store::StoreReply::later(async move {
            let path = self.server.path("layout");
            let version = LAYOUT + i64::from(is_newer);
            let write = Fields::default().number("version", version).replace(&path);
            let reader = Reader::new(Arc::clone(&self.server));
            reader.commit(&[write]).await?;
            self.shift.fetch_add(LAYOUT_VALIDITY, Ordering::Relaxed);
            Ok(())
        })
    }
}

impl Store for FirestoreStore {
    cachalot_store::forward_to_store!(checked: get get_or_reserve reserve find erase add raise_to counters);
    cachalot_store::forward_to_store!(checked: touch amend usage);
    cachalot_store::forward_to_store!(async: put put_all renew release inspect);

    fn about(&self) -> &StoreInfo {
        &self.about
    }
}

/// The calls of [`Store`].
impl FirestoreStore {
    async fn get(&self, space: &str, key: &str, counters: &[&str]) -> Result<GetResult, Error> {
        let space = self.space(space);
        let reader = self.reader().await?;
        let paths = Self::get_paths(&space, key, counters);
        let read = reader.get(&paths, None).await?;
        self.get_result(&read, &space, key, counters)
    }

    async fn get_or_reserve(
        &self,
        space: &str,
        key: &str,
        request: GetOrReserve<'_>,
    ) -> Result<GetOrReserveResult, Error> {
        let paths = &self.space(space);
        let result = self.conditional(|reader| async move {
            let mut documents = Self::get_paths(paths, key, request.counters);
            documents.push(paths.lease(key));
            let read = reader.get(&documents, None).await?;
            let found = self.get_result(&read, paths, key, request.counters)?;
            if request.stale.is_answered_by(&found) {
                let reserved = None;
                return Ok((Vec::new(), GetOrReserveResult { found, reserved }));
            }
            let (labels, hold) = (request.labels, request.hold);
            let (write, reserved) = self.reservation(&read, (paths, space), key, labels, hold)?;
            let reserved = Some(reserved);
            let writes = write.into_iter().collect();
            Ok((writes, GetOrReserveResult { found, reserved }))
        });
        let result = result.await?;
        if let Some(reserved) = &result.reserved {
            leases::after_reservation(&self.server, paths, reserved, result.found.now);
        }
        Ok(result)
    }

    async fn put(
        &self,
        space: &str,
        mut record: Record,
        lease: Option<&Lease>,
        counters: &[(&str, u64)],
    ) -> Result<PutResult, Error> {
        record.labels = deduplicate(record.labels);
        self.about.check_put(space, &record, lease, counters)?;
        check_labels(&record)?;
        let (space, record) = (&self.space(space), &record);
        self.transaction(|reader| async move {
            let mut paths = vec![space.record(&record.key)];
            paths.extend(counters.iter().map(|(name, _)| space.counter(name)));
            paths.extend(lease.map(|lease| space.lease(&lease.key)));
            let mask = ["revision", "labels", "count", "fence", "until", "current"];
            let read = reader.get(&paths, Some(&mask)).await?;
            let stored = |lease: &Lease| stored_lease(read.get(&space.lease(&lease.key)));
            let count = |name: &str| counter_value(&read, space, name);
            if let Some(refused) = refusal(lease, counters, stored, count)? {
                return Ok((Vec::new(), refused));
            }
            let lease = lease.map(|lease| ended(&space.lease(&lease.key)));
            let mut writes: Vec<_> = lease.into_iter().collect();
            let (puts, revision) = self.put_writes(&read, space, record, 0)?;
            writes.extend(puts);
            Ok((writes, PutResult::Stored { revision }))
        })
        .await
    }

    async fn put_all(
        &self,
        condition: PutCondition<'_>,
        mut records: Vec<(&str, Record)>,
    ) -> Result<PutAllResult, Error> {
        for (_, record) in &mut records {
            record.labels = deduplicate(std::mem::take(&mut record.labels));
        }
        self.about.check_put_all(&condition, &records)?;
        check_sum(records.iter().map(|(_, record)| record))?;
        records
            .iter()
            .try_for_each(|(_, record)| check_labels(record))?;
        let (condition, records) = (&condition, &records);
        self.transaction(|reader| async move {
            let space = self.space(condition.space);
            let (lease, expected) = (space.lease(condition.key), space.record(condition.key));
            let mut paths = vec![lease.clone(), expected.clone()];
            for (space, record) in records {
                paths.push(self.space(space).record(&record.key));
            }
            let read = reader.get(&paths, None).await?;
            let now = self.time(&read);
            let mut writes = Vec::new();
            if let Some(found) = stored_lease(read.get(&lease))?
                && found.is_current
            {
                if let Some(left) = found.left(now) {
                    return Ok((writes, PutAllResult::Busy { left }));
                }
                writes.push(ended(&lease));
            }
            let found = read.get(&expected).map(Document::record).transpose()?;
            if found.map(|found| found.value) != condition.value {
                return Ok((Vec::new(), PutAllResult::Changed));
            }
            for (number, (space, record)) in records.iter().enumerate() {
                let space = self.space(space);
                let before = read.get(&space.record(&record.key));
                let before = before.map(Document::record).transpose()?;
                if !before.is_some_and(|before| has_equal_content(&before, record)) {
                    writes.extend(self.put_writes(&read, &space, record, number)?.0);
                }
            }
            Ok((writes, PutAllResult::Stored))
        })
        .await
    }

    async fn reserve(
        &self,
        space: &str,
        key: &str,
        labels: &[Label],
        hold: Duration,
    ) -> Result<ReserveResult, Error> {
        let paths = &self.space(space);
        let result = self.conditional(|reader| async move {
            let read = reader.get(&[paths.lease(key)], None).await?;
            let (write, reserved) = self.reservation(&read, (paths, space), key, labels, hold)?;
            Ok((write.into_iter().collect(), (reserved, self.time(&read))))
        });
        let (reserved, now) = result.await?;
        leases::after_reservation(&self.server, paths, &reserved, now);
        Ok(reserved)
    }

    async fn renew(&self, lease: &Lease, hold: Duration) -> Result<bool, Error> {
        let path = &self.space(&lease.space).lease(&lease.key);
        self.conditional(|reader| async move {
            let read = reader.get(std::slice::from_ref(path), None).await?;
            let document = read.get(path);
            if !stored_lease(document)?.is_some_and(|found| found.is(lease)) {
                return Ok((Vec::new(), false));
            }
            let until = lease_end(self.time(&read), hold);
            let write = Fields::default().number("until", until).change(path);
            Ok((vec![unless_changed(write, document)], true))
        })
        .await
    }

    async fn release(&self, lease: Lease) -> Result<(), Error> {
        let lease = &lease;
        let path = &self.space(&lease.space).lease(&lease.key);
        self.conditional(|reader| async move {
            let read = reader.get(std::slice::from_ref(path), None).await?;
            let document = read.get(path);
            let found = stored_lease(document)?.filter(|found| found.is(lease));
            let writes = found.map(|_| unless_changed(ended(path), document));
            let writes = writes.into_iter().collect();
            Ok((writes, ()))
        })
        .await
    }

    async fn find(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: PageRequest<'_>,
    ) -> Result<RecordPage, Error> {
        let (reader, space) = (self.reader().await?, self.space(space));
        let selection = Selection {
            reader: &reader,
            parent: &space.0,
            filter,
            request: &page,
            erase: None,
        };
        Ok(selection.page().await?.page)
    }

    async fn erase(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: PageRequest<'_>,
    ) -> Result<RecordPage, Error> {
        let space = &self.space(space);
        if !reaches_reservations(filter) {
            // Erases of what has expired are those that clean up.
            let lease = [space.lease("")];
            let read = self.reader().await?.get(&lease, Some(&["fence"])).await?;
            leases::remove_old(Arc::clone(&self.server), space, self.time(&read)).await?;
        }
        let mut maximum = BATCH;
        loop {
            let selected = &AtomicU32::new(0);
            let erased = self.transaction(|reader| async move {
                let (writes, page) = self.erasure(&reader, space, filter, &page, maximum).await?;
                selected.store(page.records.len() as u32, Ordering::Relaxed);
                Ok((writes, page))
            });
            match erased.await {
                // More than was computed.
                Err(error)
                    if error.kind == ErrorKind::TooLarge
                        && selected.load(Ordering::Relaxed) > 1 =>
                {
                    maximum = selected.load(Ordering::Relaxed) / 2;
                }
                erased => return erased,
            }
        }
    }

    async fn add(&self, space: &str, additions: &[(&str, u64)]) -> Result<Vec<u64>, Error> {
        let space = self.space(space);
        // The server stops at the largest number.
        let write = |(name, count): &(&str, u64)| transform(&space, name, "increment", *count);
        let writes: Vec<_> = additions.iter().map(write).collect();
        self.transformed(&writes).await
    }

    async fn raise_to(&self, space: &str, counter: &str, value: u64) -> Result<u64, Error> {
        let write = transform(&self.space(space), counter, "maximum", value);
        let values = self.transformed(&[write]).await?;
        values.first().copied().ok_or_else(|| damaged("count"))
    }

    async fn counters(
        &self,
        space: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, u64)>, Error> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let space = self.space(space);
        let named = Query {
            parent: &space.0,
            collection: "counters",
            field: None,
            descending: false,
            conditions: Vec::new(),
            select: &["name", "count"],
            limit: limit.min(BATCH),
        };
        let range = IdRange::of(name::id(prefix));
        let named = named.within(&range, after.map(name::id).as_deref());
        let (reader, mut last) = (self.reader().await?, None);
        let mut counters = Vec::new();
        loop {
            let documents = reader.query(&named, last.as_ref()).await?;
            for document in &documents {
                let count = document.count("count")?;
                // One that was raised by nothing is not there.
                if count > 0 {
                    counters.push((document.text("name")?.to_owned(), count));
                }
            }
            if documents.len() < named.limit as usize || counters.len() >= limit as usize {
                counters.truncate(limit as usize);
                return Ok(counters);
            }
            last = documents.into_iter().next_back();
        }
    }

    async fn touch(&self, space: &str, used: &[(&str, Millis)]) -> Result<(), Error> {
        let space = self.space(space);
        for used in used.chunks(BATCH as usize) {
            let paths: Vec<_> = used.iter().map(|(key, _)| space.record(key)).collect();
            let mask = ["use", "order"];
            let read = self.reader().await?.get(&paths, Some(&mask)).await?;
            let mut writes = std::collections::BTreeMap::new();
            for ((_, at), path) in used.iter().zip(&paths) {
                let Some(record) = read.get(path) else {
                    continue;
                };
                let new = use_order(*at, record.number("order")?);
                let last = writes
                    .get(path)
                    .map_or(record.text("use")?, |(last, _): &(String, Value)| last);
                if *new > *last {
                    let write = Fields::default().text("use", &new).change(path);
                    writes.insert(path, (new, unless_changed(write, Some(record))));
                }
            }
            let writes: Vec<_> = writes.into_values().map(|(_, write)| write).collect();
            self.server.write_each(&writes).await?;
        }
        Ok(())
    }

    async fn amend(&self, space: &str, record: Record) -> Result<Option<u64>, Error> {
        let (path, record) = (&self.space(space).record(&record.key), &record);
        self.conditional(|reader| async move {
            let paths = std::slice::from_ref(path);
            let read = reader.get(paths, Some(&WITHOUT_VALUE)).await?;
            let Some(before) = read.get(path) else {
                return Ok((Vec::new(), None));
            };
            let revision = before.count("revision")?;
            if revision != record.revision || before.number("updated")? != record.updated {
                return Ok((Vec::new(), None));
            }
            let size = weight(&record.key, record.value.len(), &before.labels()?);
            let write = Fields::default()
                .bytes("value", &record.value)
                .number("revision", signed(revision + 1))
                .number("size", signed(record.value.len() as u64))
                .number("weight", signed(size))
                .change(path);
            Ok((
                vec![unless_changed(write, Some(before))],
                Some(revision + 1),
            ))
        })
        .await
    }

    async fn usage(&self, space: &str) -> Result<SpaceUsage, Error> {
        self.reader().await?;
        let content = json!({"structuredAggregationQuery": {
            "structuredQuery": {"from": [{"collectionId": "records"}]},
            "aggregations": [
                {"alias": "records", "count": {}},
                {"alias": "bytes", "sum": {"field": {"fieldPath": "weight"}}},
            ],
        }});
        let space = self.space(space);
        let answer = self
            .server
            .call_at(&space.0, "runAggregationQuery", &content);
        let (parts, _) = self.server.parts(answer.await?)?;
        let fields = parts
            .iter()
            .find_map(|part| part["result"].get("aggregateFields"));
        let fields = fields.ok_or_else(|| damaged("aggregateFields"))?;
        let count = |name: &str| {
            let count = integer(&fields[name]).ok_or_else(|| damaged(name))?;
            u64::try_from(count).map_err(|_| damaged(name))
        };
        Ok(SpaceUsage {
            records: count("records")?,
            bytes: count("bytes")?,
        })
    }

    async fn inspect(&self) -> Result<Vec<Finding>, Error> {
        self.reader().await?;
        Ok(vec![Finding::good("version", "Firestore, REST API v1")])
    }
}

impl FirestoreStore {
    /// Executes writes that each transform a counter; returns the new values.
    async fn transformed(&self, writes: &[Value]) -> Result<Vec<u64>, Error> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        let results = self
            .repeat(|| async { self.reader().await?.commit(writes).await })
            .await?;
        let value = |result: &Value| {
            let value = integer(&result["transformResults"][0]);
            value.and_then(|value| u64::try_from(value).ok())
        };
        let values: Option<Vec<_>> = results.iter().map(value).collect();
        values
            .filter(|values| values.len() == writes.len())
            .ok_or_else(|| damaged("count"))
    }
}
