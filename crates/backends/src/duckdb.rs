//! A store in a file of DuckDB, for analyses of what is stored, in one process at a time.
//!
//! A call is one transaction. DuckDB has no indexes for ranges: finding and counting read columns of all records, which
//! is fast up to some hundred thousand records. The times are those of this machine.

mod call;
mod file;
mod row;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::Clock;
use cachalot_store::implementation::{
    check_amend, check_names, check_page, check_put, check_put_all, deduplicate, has_equal_content,
    label_texts, labels_from_json, lease_end, matches_all, next_erasure, reaches_reservations,
    signed, time_left,
};
use cachalot_store::{
    Error, Finding, GetOrReserve, GetOrReserveResult, GetResult, Label, Lease, Millis, PageRequest,
    PutAllResult, PutCondition, PutResult, Record, RecordFilter, RecordPage, ReserveResult,
    SpaceUsage, Store, StoreInfo, StoreReply, counter,
};
use duckdb::types::Value;
use duckdb::{Connection, params};

use call::{Call, text};
use file::{File, Locked};

use crate::url::StoreUrl;

/// Maximum size of a record, in bytes.
const LARGEST_VALUE: u64 = 64 << 20;

/// Maximum length of a name, in bytes.
const LONGEST_NAME: u64 = 64 << 10;

/// A store in a file of DuckDB. See the [module](self).
pub struct DuckdbStore {
    about: StoreInfo,
    file: File,
}

impl std::fmt::Debug for DuckdbStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let about = &self.about;
        f.debug_struct("DuckdbStore")
            .field("about", about)
            .finish_non_exhaustive()
    }
}

impl DuckdbStore {
    /// Creates a store in the file that a URL `duckdb:PATH` names; opens it with the first call.
    ///
    /// # Errors
    /// A message, if the URL names no file.
    pub fn new(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let path = url.text().split_once(':').map_or("", |(_, path)| path);
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() || path.starts_with(':') || path.contains('?') {
            return Err("the URL names no file: write duckdb:PATH".to_owned());
        }
        let is_word = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        // One letter is a drive of Windows.
        if let Some((name, _)) = path.split_once(':')
            && name.len() > 1
            && is_word(name)
        {
            return Err(format!(
                "`{name}:` names an extension of DuckDB; write duckdb:./PATH for a file of that name"
            ));
        }
        Ok(Self::open(Path::new(path), clock))
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
        }
    }

    /// Checks, and executes a call in one transaction: at once, if no other call uses the file.
    fn run<'a, T: Send + 'a>(
        &'a self,
        checked: Result<(), Error>,
        work: impl FnOnce(&Call<'_>) -> Result<T, Error> + Send + 'a,
    ) -> StoreReply<'a, T> {
        if let Err(error) = checked {
            return StoreReply::Now(Err(error));
        }
        match self.file.try_lock() {
            Some(file) => StoreReply::Now(self.execute(file, work)),
            None => StoreReply::later(async move { self.execute(self.file.lock().await, work) }),
        }
    }

    fn execute<T>(
        &self,
        file: Locked<'_>,
        work: impl FnOnce(&Call<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.file.execute(file, |transaction, now| {
            work(&Call {
                transaction,
                now,
                location: self.file.location(),
            })
        })
    }

    fn check_names<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<(), Error> {
        check_names(&self.about, names)
    }
}

/// Converts a CSV file, with a header and with columns of these names and types, to Parquet. An empty field is null.
///
/// # Errors
/// A message, if a file cannot be read or written.
pub fn csv_to_parquet(csv: &Path, columns: &[(&str, &str)], parquet: &Path) -> Result<(), String> {
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
    let connection = connection.map_err(|error| error.to_string())?;
    let copied = connection.execute_batch(&copy);
    copied.map_err(|error| error.to_string())
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
        self.run(self.check_names(names), move |call| {
            call.get(space, key, counters)
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
        self.run(self.check_names(names), move |call| {
            let found = call.get(space, key, request.counters)?;
            let reserved = match request.stale.is_answered_by(&found) {
                true => None,
                false => Some(call.reserve(space, key, request.labels, request.hold)?),
            };
            Ok(GetOrReserveResult { found, reserved })
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
        let checked = check_put(&self.about, space, &record, lease, counters);
        self.run(checked, move |call| {
            if let Some(lease) = lease
                && !call.is_current(lease)?
            {
                return Ok(PutResult::LeaseLost);
            }
            for (counter, (name, value)) in counters.iter().enumerate() {
                if call.count(space, name)? != *value {
                    return Ok(PutResult::CounterChanged { counter });
                }
            }
            if lease.is_some() {
                call.end_lease(space, &record.key)?;
            }
            let revision = call.put(space, &record)?;
            Ok(PutResult::Stored { revision })
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
        let checked = check_put_all(&self.about, &condition, &records);
        self.run(checked, move |call| {
            let (space, key) = (condition.space, condition.key);
            if let Some(lease) = call.lease(space, key)?
                && lease.is_current
                && lease.until > call.now
            {
                let left = time_left(lease.until, call.now);
                return Ok(PutAllResult::Busy { left });
            }
            let found = call.record(space, key)?;
            if found.map(|found| found.record.value) != condition.value {
                return Ok(PutAllResult::Changed);
            }
            call.end_lease(space, key)?;
            for (space, record) in &records {
                let before = call.record(space, &record.key)?;
                if !before.is_some_and(|found| has_equal_content(&found.record, record)) {
                    call.put(space, record)?;
                }
            }
            Ok(PutAllResult::Stored)
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
        self.run(self.check_names(names), move |call| {
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
        let checked = check_page(filter, &page).and_then(|()| self.check_names([space]));
        self.run(checked, move |call| call.page(space, filter, &page))
    }

    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        let checked = check_page(filter, &page).and_then(|()| self.check_names([space]));
        self.run(checked, move |call| {
            let erased = call.page(space, filter, &page)?;
            for record in &erased.records {
                call.remove(space, &record.key)?;
            }
            if reaches_reservations(filter) {
                let before = call.count(space, counter::ERASED)?;
                call.set_count(space, counter::ERASED, next_erasure(before, call.now))?;
                let current =
                    "SELECT key, labels FROM cachalot_leases WHERE space = ? AND is_current";
                let read = |row: &duckdb::Row<'_>| Ok((row.get(0)?, row.get(1)?));
                let leases: Vec<(String, String)> = call.many(current, &[text(space)], read)?;
                for (key, labels) in leases {
                    let is_after = page.after.is_none_or(|after| *key > *after);
                    let matches = key.starts_with(filter.prefix)
                        && is_after
                        && matches_all(filter.labels, &labels_from_json(&labels)?);
                    if matches {
                        call.end_lease(space, &key)?;
                    }
                }
            }
            Ok(erased)
        })
    }

    fn add<'a>(
        &'a self,
        space: &'a str,
        additions: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, Vec<u64>> {
        let names = additions.iter().map(|(name, _)| *name);
        let checked = self.check_names([space].into_iter().chain(names));
        self.run(checked, move |call| {
            let add = |(name, count): &(&str, u64)| {
                let value = call.count(space, name)?.saturating_add(*count);
                call.set_count(space, name, value)
            };
            additions.iter().map(add).collect()
        })
    }

    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> StoreReply<'a, u64> {
        self.run(self.check_names([space, counter]), move |call| {
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
        self.run(self.check_names([space]), move |call| {
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
        self.run(self.check_names([space]), move |call| {
            let touch =
                "UPDATE cachalot_records SET used = ? WHERE space = ? AND key = ? AND used < ?";
            for (key, at) in used {
                call.execute(touch, params![at, space, key, at])?;
            }
            Ok(())
        })
    }

    fn amend<'a>(&'a self, space: &'a str, record: Record) -> StoreReply<'a, Option<u64>> {
        let checked = check_amend(space, &record, self.about.largest_value);
        self.run(checked, move |call| {
            let amended = call.execute(
                "UPDATE cachalot_records SET weight = weight - size + ?, size = ?, value = ?, \
                 revision = revision + 1 WHERE space = ? AND key = ? AND revision = ? AND updated = ?",
                params![
                    signed(record.value.len() as u64),
                    signed(record.value.len() as u64),
                    &record.value[..],
                    space,
                    record.key,
                    signed(record.revision),
                    record.updated,
                ],
            )?;
            Ok((amended > 0).then_some(record.revision + 1))
        })
    }

    fn usage<'a>(&'a self, space: &'a str) -> StoreReply<'a, SpaceUsage> {
        self.run(self.check_names([space]), move |call| {
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
            Ok(vec![
                Finding::good("version", version),
                Finding::degraded(
                    "processes",
                    "one at a time",
                    "for several processes, use a SQLite file or a server",
                ),
            ])
        })
    }

    /// Reading the record is as cheap.
    fn stamp(&self, _space: &str, _name: &str) -> Option<u64> {
        None
    }
}
