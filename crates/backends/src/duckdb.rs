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
    check_page, deduplicate, has_equal_content, label_texts, lease_end, matches_all, time_left,
};
use cachalot_store::{
    Error, ErrorKind, Finding, GetOrReserve, GetOrReserveResult, GetResult, Label, Lease, Millis,
    PageRequest, PutAllResult, PutCondition, PutResult, Record, RecordFilter, RecordPage,
    ReserveResult, SpaceUsage, Store, StoreInfo, StoreReply,
};
use duckdb::types::Value;
use duckdb::{Connection, params};
use futures_util::stream::{self, StreamExt as _};

use call::{Call, Draft, ObjectChanges, Selected, text};
use file::{File, Locked};
use row::Found;
use values::{CONCURRENT, LargeValues, Object, Unreferenced};

use crate::open::OpenOptions;
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

fn drafts<'a>(records: impl IntoIterator<Item = (&'a str, Record)>) -> Vec<Draft<'a>> {
    let draft = |(space, record)| Draft {
        space,
        record,
        is_large: false,
        object: None,
    };
    records.into_iter().map(draft).collect()
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
            name: "duckdb",
            location: location.clone(),
            shared: false,
            reservations: true,
            largest_value: LARGEST_VALUE,
            longest_name: LONGEST_NAME,
            snapshot: true,
        };
        Self {
            about,
            file: File::new(path.to_owned(), location, clock),
            values: None,
        }
    }

    /// Checks, and executes a call in one transaction: at once, if no other call uses the file, and if it leaves no
    /// object to be deleted.
    fn run<'a, T: Send + 'a>(
        &'a self,
        checked: Result<(), Error>,
        work: impl FnOnce(&Call<'_>) -> Result<T, Error> + Send + 'a,
    ) -> StoreReply<'a, T> {
        let done = self.transact(checked, work);
        done.and_then(|(result, removed)| match removed.is_empty() {
            true => StoreReply::Now(Ok(result)),
            false => StoreReply::later(async move {
                removed.delete().await;
                Ok(result)
            }),
        })
    }

    /// Executes a call like [`Self::run`]; returns the objects to which no record refers any more, too.
    fn transact<'a, T: Send + 'a>(
        &'a self,
        checked: Result<(), Error>,
        work: impl FnOnce(&Call<'_>) -> Result<T, Error> + Send + 'a,
    ) -> StoreReply<'a, (T, Unreferenced)> {
        if let Err(error) = checked {
            return StoreReply::Now(Err(error));
        }
        let execute = |file| {
            let (result, objects) = self.execute(file, work)?;
            Ok((result, self.unreferenced(objects.removed)))
        };
        match self.file.try_lock() {
            Some(file) => StoreReply::Now(execute(file)),
            None => StoreReply::later(async move { execute(self.file.lock().await) }),
        }
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
    fn change<'a, T: Send + 'a>(
        &'a self,
        checked: Result<(), Error>,
        mut drafts: Vec<Draft<'a>>,
        work: impl Fn(&Call<'_>, &[Draft<'a>]) -> Result<Change<T>, Error> + Send + Sync + 'a,
    ) -> StoreReply<'a, T> {
        for draft in &mut drafts {
            let size = draft.record.value.len();
            draft.is_large = self.values.is_some() && LargeValues::is_large(size);
        }
        if checked.is_err() || !drafts.iter().any(|draft| draft.is_large) {
            return self.run(checked, move |call| match work(call, &drafts)? {
                Change::Done(result) => Ok(result),
                Change::Needs(_) => Err(self.without_values()),
            });
        }
        StoreReply::later(async move {
            let mut written = self.unreferenced(Vec::new());
            loop {
                let file = self.file.lock().await;
                let (change, objects) = self.execute(file, |call| work(call, &drafts))?;
                match change {
                    Change::Done(result) => {
                        written.keep(&objects.stored);
                        let removed = self.unreferenced(objects.removed);
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
        })
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
                Err(error) if error.kind == ErrorKind::Corrupt => {
                    let now = self.run(Ok(()), |call| call.record(space, &record.key));
                    let now = now.settle().await?.and_then(|found| found.object);
                    return match now == Some(object) {
                        true => Err(error),
                        false => Ok(None),
                    };
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
            let now = self.run(Ok(()), |call| call.record(space, &record.key));
            let Some(now) = now.settle().await? else {
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
    fn about(&self) -> &StoreInfo {
        &self.about
    }

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> StoreReply<'a, GetResult> {
        let names = [space, key].into_iter().chain(counters.iter().copied());
        let first = self.run(self.about.check_names(names), |call| {
            call.get(space, key, counters)
        });
        first.and_then(move |first| match first {
            (found, None) => StoreReply::Now(Ok(found)),
            mut read => StoreReply::later(async move {
                loop {
                    if let Some(found) = self.complete(space, read).await? {
                        return Ok(found);
                    }
                    let again = self.run(Ok(()), |call| call.get(space, key, counters));
                    read = again.settle().await?;
                }
            }),
        })
    }

    fn get_or_reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        request: GetOrReserve<'a>,
    ) -> StoreReply<'a, GetOrReserveResult> {
        let own = [space, key].into_iter().chain(label_texts(request.labels));
        let names = own.chain(request.counters.iter().copied());
        let get_or_reserve = move |call: &Call<'_>| {
            let (found, object) = call.get(space, key, request.counters)?;
            let reserved = match request.stale.is_answered_by(&found) {
                true => None,
                false => Some(call.reserve(space, key, request.labels, request.hold)?),
            };
            Ok(((found, object), reserved))
        };
        let first = self.run(self.about.check_names(names), get_or_reserve);
        first.and_then(move |first| match first {
            ((found, None), reserved) => {
                StoreReply::Now(Ok(GetOrReserveResult { found, reserved }))
            }
            (mut read, mut reserved) => StoreReply::later(async move {
                loop {
                    match self.complete(space, read).await {
                        Ok(Some(found)) => return Ok(GetOrReserveResult { found, reserved }),
                        Ok(None) => {}
                        Err(error) => {
                            if let Some(ReserveResult::Held(lease)) = reserved {
                                let _ = self.release(lease).settle().await;
                            }
                            return Err(error);
                        }
                    }
                    if reserved.is_some() {
                        let again = self.run(Ok(()), |call| call.get(space, key, request.counters));
                        read = again.settle().await?;
                    } else {
                        let again = self.run(Ok(()), get_or_reserve);
                        (read, reserved) = again.settle().await?;
                    }
                }
            }),
        })
    }

    fn put<'a>(
        &'a self,
        space: &'a str,
        mut record: Record,
        lease: Option<&'a Lease>,
        counters: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, PutResult> {
        record.labels = deduplicate(record.labels);
        let checked = self.about.check_put(space, &record, lease, counters);
        self.change(checked, drafts([(space, record)]), move |call, drafts| {
            if let Some(lease) = lease
                && !call.is_current(lease)?
            {
                return Ok(Change::Done(PutResult::LeaseLost));
            }
            for (counter, (name, value)) in counters.iter().enumerate() {
                if call.count(space, name)? != *value {
                    return Ok(Change::Done(PutResult::CounterChanged { counter }));
                }
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
    }

    fn put_all<'a>(
        &'a self,
        condition: PutCondition<'a>,
        mut records: Vec<(&'a str, Record)>,
    ) -> StoreReply<'a, PutAllResult> {
        for (_, record) in &mut records {
            record.labels = deduplicate(std::mem::take(&mut record.labels));
        }
        let checked = self.about.check_put_all(&condition, &records);
        self.change(checked, drafts(records), move |call, drafts| {
            let (space, key) = (condition.space, condition.key);
            if let Some(lease) = call.lease(space, key)?
                && lease.is_current
                && lease.until > call.now
            {
                let left = time_left(lease.until, call.now);
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
    }

    fn reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        labels: &'a [Label],
        hold: Duration,
    ) -> StoreReply<'a, ReserveResult> {
        let names = [space, key].into_iter().chain(label_texts(labels));
        self.run(self.about.check_names(names), move |call| {
            call.reserve(space, key, labels, hold)
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, hold: Duration) -> StoreReply<'a, bool> {
        self.run(Ok(()), move |call| {
            if !call.is_current(lease)? {
                return Ok(false);
            }
            let renew = "UPDATE cachalot_leases SET until = ? WHERE space = ? AND key = ?";
            let until = lease_end(call.now, hold);
            call.execute(renew, params![until, lease.space, lease.key])?;
            Ok(true)
        })
    }

    fn release(&self, lease: Lease) -> StoreReply<'_, ()> {
        self.run(Ok(()), move |call| match call.is_current(&lease)? {
            true => call.end_lease(&lease.space, &lease.key),
            false => Ok(()),
        })
    }

    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        let checked = check_page(filter, &page).and_then(|()| self.about.check_names([space]));
        let selected = self.run(checked, move |call| call.page(space, filter, &page));
        selected.and_then(move |selected| match selected.has_objects() {
            false => StoreReply::Now(Ok(selected.page)),
            true => StoreReply::later(async move {
                let request = page;
                let Selected { mut page, objects } = selected;
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
            }),
        })
    }

    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        let checked = check_page(filter, &page).and_then(|()| self.about.check_names([space]));
        let erased = self.transact(checked, move |call| call.erase(space, filter, &page));
        erased.and_then(move |(erased, removed)| match removed.is_empty() {
            true => StoreReply::Now(Ok(erased.page)),
            false => StoreReply::later(async move {
                let Selected { mut page, objects } = erased;
                for (record, object) in page.records.iter_mut().zip(objects) {
                    if let Some(object) = object {
                        record.value = self.read(&object).await?;
                    }
                }
                removed.delete().await;
                Ok(page)
            }),
        })
    }

    fn add<'a>(
        &'a self,
        space: &'a str,
        additions: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, Vec<u64>> {
        let names = additions.iter().map(|(name, _)| *name);
        let checked = self.about.check_names([space].into_iter().chain(names));
        self.run(checked, move |call| {
            let add = |(name, count): &(&str, u64)| {
                let value = call.count(space, name)?.saturating_add(*count);
                call.set_count(space, name, value)
            };
            additions.iter().map(add).collect()
        })
    }

    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> StoreReply<'a, u64> {
        self.run(self.about.check_names([space, counter]), move |call| {
            let value = call.count(space, counter)?.max(value);
            call.set_count(space, counter, value)
        })
    }

    fn counters<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> StoreReply<'a, Vec<(String, u64)>> {
        self.run(self.about.check_names([space]), move |call| {
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
    }

    fn touch<'a>(&'a self, space: &'a str, used: &'a [(&'a str, Millis)]) -> StoreReply<'a, ()> {
        self.run(self.about.check_names([space]), move |call| {
            let touch =
                "UPDATE cachalot_records SET used = ? WHERE space = ? AND key = ? AND used < ?";
            for (key, at) in used {
                call.execute(touch, params![at, space, key, at])?;
            }
            Ok(())
        })
    }

    fn amend<'a>(&'a self, space: &'a str, record: Record) -> StoreReply<'a, Option<u64>> {
        let checked = self.about.check_amend(space, &record);
        let revision = record.revision + 1;
        self.change(checked, drafts([(space, record)]), move |call, drafts| {
            Ok(match call.amend(&drafts[0])? {
                Some(is_amended) => Change::Done(is_amended.then_some(revision)),
                None => Change::Needs(vec![0]),
            })
        })
    }

    fn usage<'a>(&'a self, space: &'a str) -> StoreReply<'a, SpaceUsage> {
        self.run(self.about.check_names([space]), move |call| {
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
    }

    fn inspect(&self) -> StoreReply<'_, Vec<Finding>> {
        self.run(Ok(()), move |call| {
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
    }
}
