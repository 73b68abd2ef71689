//! A store in a file of DuckDB, for analyses of what is stored, in one process at a time.
//!
//! A call is one transaction. DuckDB has no indexes for ranges: finding and counting read columns of all records, which
//! is fast up to some hundred thousand records. The times are those of this machine.

mod call;
mod file;
mod row;
mod values;

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_core::Clock;
use cachalot_storage::Storage;
use cachalot_store::implementation::{
    deduplicate, has_equal_content, lease_end, matches_all, refusal,
};
use cachalot_store::{
    Error, ErrorKind, Finding, GetOrReserve, GetOrReserveResult, GetResult, Label, Lease, Millis,
    PageRequest, PutAllResult, PutCondition, PutResult, Record, RecordFilter, RecordPage,
    ReserveResult, SpaceUsage, Store, StoreInfo,
};
use duckdb::types::Value;
use duckdb::{Connection, params};
use futures_util::stream::{self, StreamExt as _};

use call::{Call, Draft, ObjectChanges, Selected, text};
use file::{File, Locked};
use row::Found;
use values::{CONCURRENT, LargeValues, Object, Unreferenced};

use crate::open_options::OpenOptions;
use crate::url::{StoreUrl, StoreUrlError};

/// Maximum size of a record, in bytes.
const LARGEST_VALUE: u64 = 64 << 20;

/// Maximum length of a name, in bytes.
const LONGEST_NAME: u64 = 64 << 10;

/// A store in a file of DuckDB. See the [module](self).
pub struct DuckdbStore {
    about: StoreInfo,
    file: File,
    /// The place of large values; `None`: they are in the file.
    values: Option<LargeValues>,
}

/// The result of a call that stores records.
enum Change<T> {
    Done(T),
    /// The records with these numbers need their objects before. Nothing was changed.
    Needs(Vec<usize>),
}

pub(crate) fn open(url: &StoreUrl, options: &OpenOptions) -> Result<Arc<dyn Store>, StoreUrlError> {
    let store = DuckdbStore::new(url, options.storage(None)?, Arc::clone(&options.clock))?;
    Ok(Arc::new(store))
}

impl DuckdbStore {
    /// Creates a store in the file that a URL `duckdb:PATH` names; opens it with the first call. With `?values=PLACE`,
    /// large values are objects in that place.
    ///
    /// # Errors
    /// The URL names no file, or no place.
    pub fn new(
        url: &StoreUrl,
        storage: Storage,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreUrlError> {
        let invalid = |fault: &str| StoreUrlError::Invalid(fault.to_owned());
        let path = url.text().split_once(':').map_or("", |(_, path)| path);
        let path = path.strip_prefix("//").unwrap_or(path);
        let (path, parameters) = path.split_once('?').unwrap_or((path, ""));
        if path.is_empty() || path.starts_with(':') {
            return Err(invalid("the URL names no file: write duckdb:PATH"));
        }
        let is_word = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        // One letter is a drive of Windows.
        if let Some((name, _)) = path.split_once(':')
            && name.len() > 1
            && is_word(name)
        {
            return Err(StoreUrlError::Invalid(format!(
                "`{name}:` names an extension of DuckDB; write duckdb:./PATH for a file of that name"
            )));
        }
        let mut store = Self::open(Path::new(path), clock);
        if !parameters.is_empty() {
            // The rest of the URL, as it is written.
            let place = parameters.strip_prefix("values=");
            let place = place.ok_or_else(|| invalid("`values` is the only parameter"))?;
            store.values = Some(LargeValues::new(place, storage)?);
        }
        Ok(store)
    }

    /// Creates a store in a file; opens it with the first call.
    #[must_use]
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Self {
        let location = format!("duckdb:{}", path.display());
        let about = StoreInfo {
            shared: false,
            ..StoreInfo::new("duckdb", &*location, LARGEST_VALUE, LONGEST_NAME)
        };
        Self {
            about,
            file: File::new(path.to_owned(), location, clock),
            values: None,
        }
    }

    /// Executes a call in one transaction, without waiting if no other call uses the file; deletes the objects that it
    /// leaves.
    async fn run<T>(&self, work: impl FnOnce(&Call<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let (result, removed) = self.transact(work).await?;
        removed.delete().await;
        Ok(result)
    }

    /// Executes a call like [`Self::run`]; returns the objects to which no record refers any more, too.
    async fn transact<T>(
        &self,
        work: impl FnOnce(&Call<'_>) -> Result<T, Error>,
    ) -> Result<(T, Unreferenced), Error> {
        let (result, objects) = self.execute(self.file.lock().await, work)?;
        Ok((result, self.unreferenced(objects.removed)))
    }

    fn execute<T>(
        &self,
        file: Locked<'_>,
        work: impl FnOnce(&Call<'_>) -> Result<T, Error>,
    ) -> Result<(T, ObjectChanges), Error> {
        self.file.execute(file, |transaction, now| {
            let call = Call {
                transaction,
                now,
                location: self.file.location(),
                objects: RefCell::default(),
            };
            let result = work(&call)?;
            Ok((result, call.objects.into_inner()))
        })
    }

    /// Stores records: writes the objects that `work` needs, and executes it again. It changes nothing before.
    async fn change<T>(
        &self,
        records: impl IntoIterator<Item = (&str, Record)>,
        work: impl Fn(&Call<'_>, &[Draft<'_>]) -> Result<Change<T>, Error>,
    ) -> Result<T, Error> {
        let draft = |(space, record): (_, Record)| Draft {
            space,
            is_large: self.values.is_some() && LargeValues::is_large(record.value.len()),
            record,
            object: None,
        };
        let mut drafts: Vec<_> = records.into_iter().map(draft).collect();
        let mut written = self.unreferenced(Vec::new());
        loop {
            let file = self.file.lock().await;
            let (change, objects) = self.execute(file, |call| work(call, &drafts))?;
            match change {
                Change::Done(result) => {
                    written.keep(&objects.stored);
                    let removed = self.unreferenced(objects.removed);
                    // After the transaction: no object is deleted while a record refers to it.
                    written.delete().await;
                    removed.delete().await;
                    return Ok(result);
                }
                Change::Needs(needed) => {
                    for index in needed {
                        let value = drafts[index].record.value.clone();
                        let object = Object::new(&value)?;
                        written.add(&object);
                        self.write(&object, value).await?;
                        drafts[index].object = Some(object);
                    }
                }
            }
        }
    }

    fn unreferenced(&self, names: Vec<String>) -> Unreferenced {
        Unreferenced::new(self.values.as_ref(), names)
    }

    fn without_values(&self) -> Error {
        let location = self.file.location();
        Error::new(
            ErrorKind::Unsupported,
            format!(
                "a value of {location} is an object in another place: add ?values=PLACE to the URL"
            ),
        )
    }

    async fn write(&self, object: &Object, value: Bytes) -> Result<(), Error> {
        match &self.values {
            Some(values) => values.write(object, value).await,
            None => Err(self.without_values()),
        }
    }

    async fn read(&self, object: &Object) -> Result<Bytes, Error> {
        match &self.values {
            Some(values) => values.read(object).await,
            None => Err(self.without_values()),
        }
    }

    /// Completes the record of a lookup; `None` if it was replaced or erased meanwhile.
    async fn complete(
        &self,
        space: &str,
        (mut found, object): (GetResult, Option<Object>),
    ) -> Result<Option<GetResult>, Error> {
        if let (Some(record), Some(object)) = (&mut found.record, object) {
            match self.read(&object).await {
                Ok(value) => record.value = value,
                // The object may be gone because the record was replaced. It is damaged only if the record still names
                // it.
                Err(error) if error.kind == ErrorKind::Corrupt => {
                    let now = self.run(|call| call.record(space, &record.key)).await?;
                    if now.and_then(|found| found.object) == Some(object) {
                        return Err(error);
                    }
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(found))
    }

    /// Completes a record of a page; `None` if it does not match any more.
    async fn complete_match(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: &PageRequest<'_>,
        (mut record, mut size, mut object): (Record, u64, Option<Object>),
    ) -> Result<Option<(Record, u64)>, Error> {
        while let Some(known) = object {
            let error = match self.read(&known).await {
                Ok(value) => {
                    record.value = value;
                    break;
                }
                Err(error) if error.kind == ErrorKind::Corrupt => error,
                Err(error) => return Err(error),
            };
            let now = self.run(|call| call.record(space, &record.key)).await?;
            let Some(now) = now else {
                return Ok(None);
            };
            if now.object.as_ref() == Some(&known) {
                return Err(error);
            }
            let expires = now.record.expires;
            let is_expired = |moment| expires.is_some_and(|expires| expires < moment);
            if !matches_all(filter.labels, &now.record.labels)
                || !filter.expired_before.is_none_or(is_expired)
            {
                return Ok(None);
            }
            (size, object) = (now.size, now.object_for(page.values));
            record = now.record;
            if !page.labels {
                record.labels.clear();
            }
        }
        Ok(Some((record, size)))
    }
}

/// Converts a CSV file, with a header and with columns of these names and types, to Parquet. An empty field is null.
///
/// # Errors
/// A file cannot be read or written.
pub fn csv_to_parquet(csv: &Path, columns: &[(&str, &str)], parquet: &Path) -> duckdb::Result<()> {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let column =
        |(name, sql_type): &(&str, &str)| format!("{}: {}", quoted(name), quoted(sql_type));
    let columns: Vec<_> = columns.iter().map(column).collect();
    let copy = format!(
        "COPY (SELECT * FROM read_csv({}, header = true, delim = ',', quote = '\"', escape = '\"', columns = {{{}}})) \
         TO {} (FORMAT parquet)",
        quoted(&csv.to_string_lossy()),
        columns.join(", "),
        quoted(&parquet.to_string_lossy())
    );
    let connection = file::without_extensions().and_then(Connection::open_in_memory_with_flags);
    connection?.execute_batch(&copy)
}

impl Store for DuckdbStore {
    cachalot_store::forward_to_store!(checked inline: get get_or_reserve reserve find erase add raise_to);
    cachalot_store::forward_to_store!(checked inline: counters touch amend usage);
    cachalot_store::forward_to_store!(inline: put put_all renew release inspect);

    fn about(&self) -> &StoreInfo {
        &self.about
    }
}

/// The calls of [`Store`].
impl DuckdbStore {
    async fn get(&self, space: &str, key: &str, counters: &[&str]) -> Result<GetResult, Error> {
        loop {
            let read = self.run(|call| call.get(space, key, counters)).await?;
            if let Some(found) = self.complete(space, read).await? {
                return Ok(found);
            }
        }
    }

    async fn get_or_reserve(
        &self,
        space: &str,
        key: &str,
        request: GetOrReserve<'_>,
    ) -> Result<GetOrReserveResult, Error> {
        let mut reserved = None;
        loop {
            let read = self.run(|call| {
                let read = call.get(space, key, request.counters)?;
                // Reserved once: in a further attempt, the key would be busy with this very lease.
                if reserved.is_none() && !request.stale.is_answered_by(&read.0) {
                    reserved = Some(call.reserve(space, key, request.labels, request.hold)?);
                }
                Ok(read)
            });
            let read = read.await?;
            match self.complete(space, read).await {
                Ok(Some(found)) => return Ok(GetOrReserveResult { found, reserved }),
                Ok(None) => {}
                Err(error) => {
                    // The caller does not receive the lease, which would keep others from the key until it lapses.
                    if let Some(ReserveResult::Held(lease)) = reserved {
                        let _ = self.release(lease).await;
                    }
                    return Err(error);
                }
            }
        }
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
        self.change([(space, record)], |call, drafts| {
            let stored = |lease: &Lease| call.lease(&lease.space, &lease.key);
            let count = |name: &str| call.count(space, name);
            if let Some(refused) = refusal(lease, counters, stored, count)? {
                return Ok(Change::Done(refused));
            }
            let draft = &drafts[0];
            if draft.needs_object() {
                return Ok(Change::Needs(vec![0]));
            }
            if lease.is_some() {
                call.end_lease(space, &draft.record.key)?;
            }
            let revision = call.put(draft)?;
            Ok(Change::Done(PutResult::Stored { revision }))
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
        self.change(records, |call, drafts| {
            let (space, key) = (condition.space, condition.key);
            let lease = call.lease(space, key)?;
            if let Some(left) = lease.and_then(|lease| lease.left(call.now)) {
                return Ok(Change::Done(PutAllResult::Busy { left }));
            }
            let is_expected = match (call.record(space, key)?, &condition.value) {
                (Some(found), Some(expected)) => found.has_value(expected),
                (found, expected) => found.is_none() && expected.is_none(),
            };
            if !is_expected {
                return Ok(Change::Done(PutAllResult::Changed));
            }
            let mut changed = Vec::new();
            for (index, draft) in drafts.iter().enumerate() {
                let mut before = call.record(draft.space, &draft.record.key)?;
                if let Some(before) = &mut before
                    && before.has_value(&draft.record.value)
                {
                    before.record.value = draft.record.value.clone();
                }
                let is_same = |before: &Found| has_equal_content(&before.record, &draft.record);
                if !before.as_ref().is_some_and(is_same) {
                    changed.push(index);
                }
            }
            let needs_object = |index: &&usize| drafts[**index].needs_object();
            let needed: Vec<_> = changed.iter().filter(needs_object).copied().collect();
            if !needed.is_empty() {
                return Ok(Change::Needs(needed));
            }
            call.end_lease(space, key)?;
            for index in changed {
                call.put(&drafts[index])?;
            }
            Ok(Change::Done(PutAllResult::Stored))
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
        self.run(|call| call.reserve(space, key, labels, hold))
            .await
    }

    async fn renew(&self, lease: &Lease, hold: Duration) -> Result<bool, Error> {
        self.run(|call| {
            if !call.is_current(lease)? {
                return Ok(false);
            }
            let renew = "UPDATE cachalot_leases SET until = ? WHERE space = ? AND key = ?";
            let until = lease_end(call.now, hold);
            call.execute(renew, params![until, lease.space, lease.key])?;
            Ok(true)
        })
        .await
    }

    async fn release(&self, lease: Lease) -> Result<(), Error> {
        self.run(|call| {
            if call.is_current(&lease)? {
                call.end_lease(&lease.space, &lease.key)?;
            }
            Ok(())
        })
        .await
    }

    async fn find(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        request: PageRequest<'_>,
    ) -> Result<RecordPage, Error> {
        let selected = self.run(|call| call.page(space, filter, &request)).await?;
        let has_objects = selected.has_objects();
        let Selected { mut page, objects } = selected;
        if !has_objects {
            return Ok(page);
        }
        let records = std::mem::take(&mut page.records).into_iter();
        let sizes = std::mem::take(&mut page.sizes);
        let found = records.zip(sizes).zip(objects);
        let found = stream::iter(found).map(|((record, size), object)| {
            self.complete_match(space, filter, &request, (record, size, object))
        });
        let mut found = found.buffered(CONCURRENT);
        while let Some(found) = found.next().await {
            if let Some((record, size)) = found? {
                page.records.push(record);
                page.sizes.push(size);
            }
        }
        drop(found);
        Ok(page)
    }

    async fn erase(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: PageRequest<'_>,
    ) -> Result<RecordPage, Error> {
        let erased = self.transact(|call| call.erase(space, filter, &page));
        let (Selected { mut page, objects }, removed) = erased.await?;
        for (record, object) in page.records.iter_mut().zip(objects) {
            if let Some(object) = object {
                record.value = self.read(&object).await?;
            }
        }
        removed.delete().await;
        Ok(page)
    }

    async fn add(&self, space: &str, additions: &[(&str, u64)]) -> Result<Vec<u64>, Error> {
        self.run(|call| {
            let add = |(name, count): &(&str, u64)| {
                let value = call.count(space, name)?.saturating_add(*count);
                call.set_count(space, name, value)
            };
            additions.iter().map(add).collect()
        })
        .await
    }

    async fn raise_to(&self, space: &str, counter: &str, value: u64) -> Result<u64, Error> {
        self.run(|call| {
            let value = call.count(space, counter)?.max(value);
            call.set_count(space, counter, value)
        })
        .await
    }

    async fn counters(
        &self,
        space: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, u64)>, Error> {
        self.run(|call| {
            let read = format!(
                "SELECT name, value FROM cachalot_counters WHERE space = ? AND value > 0 \
                 AND starts_with(name, ?) AND (? OR name > ?) ORDER BY name LIMIT {limit}"
            );
            let parameters = [
                text(space),
                text(prefix),
                Value::Boolean(after.is_none()),
                text(after.unwrap_or_default()),
            ];
            call.many(&read, &parameters, |row| {
                Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
            })
        })
        .await
    }

    async fn touch(&self, space: &str, used: &[(&str, Millis)]) -> Result<(), Error> {
        self.run(|call| {
            let touch =
                "UPDATE cachalot_records SET used = ? WHERE space = ? AND key = ? AND used < ?";
            for (key, at) in used {
                call.execute(touch, params![at, space, key, at])?;
            }
            Ok(())
        })
        .await
    }

    async fn amend(&self, space: &str, record: Record) -> Result<Option<u64>, Error> {
        let revision = record.revision + 1;
        self.change([(space, record)], |call, drafts| {
            Ok(match call.amend(&drafts[0])? {
                Some(is_amended) => Change::Done(is_amended.then_some(revision)),
                None => Change::Needs(vec![0]),
            })
        })
        .await
    }

    async fn usage(&self, space: &str) -> Result<SpaceUsage, Error> {
        self.run(|call| {
            let read = "SELECT count(*), coalesce(sum(weight), 0)::BIGINT FROM cachalot_records \
                        WHERE space = ?";
            let usage = call.one(read, params![space], |row| {
                Ok(SpaceUsage {
                    records: row.get::<_, i64>(0)?.unsigned_abs(),
                    bytes: row.get::<_, i64>(1)?.unsigned_abs(),
                })
            })?;
            Ok(usage.unwrap_or_default())
        })
        .await
    }

    async fn inspect(&self) -> Result<Vec<Finding>, Error> {
        self.run(|call| {
            let version = call.one("SELECT version()", [], |row| row.get::<_, String>(0))?;
            let version = format!("DuckDB {}", version.unwrap_or_default());
            let values = self.values.as_ref();
            let values = values.map(|values| Finding::good("large values", values.shown()));
            let mut findings = vec![
                Finding::good("version", version),
                Finding::degraded(
                    "processes",
                    "one at a time",
                    "for several processes, use a SQLite file or a server",
                ),
            ];
            findings.extend(values);
            Ok(findings)
        })
        .await
    }
}
