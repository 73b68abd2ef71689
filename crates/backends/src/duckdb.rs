//! A store in a file of DuckDB, for analyses of what is stored, in one process at a time.
//!
//! A call is one transaction. DuckDB has no indexes for ranges: finding and counting read columns of all records, which
//! is fast up to some hundred thousand records. The times are those of this machine.

mod row;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cachalot_core::Clock;
use cachalot_store::implementation::{
    MAX_COUNTER, MIN_LAPSED_LEASE_AGE, after_prefix, check_amend, check_names, check_page,
    check_put, check_put_all, deduplicate, has_equal_content, label_texts, labels_from_json,
    labels_to_json, lease_end, matches_all, next_cursor, next_erasure, reaches_reservations,
    signed, time_left, too_new, weight,
};
use cachalot_store::{
    Error, ErrorKind, Finding, GetOrReserve, GetOrReserveResult, GetResult, Label, LabelMatch,
    Lease, Millis, Order, PageRequest, PutAllResult, PutCondition, PutResult, Record, RecordFilter,
    RecordPage, ReserveResult, SpaceUsage, Store, StoreInfo, StoreReply, ValuePart, counter,
};
use duckdb::types::Value;
use duckdb::{Connection, OptionalExt as _, Transaction, params, params_from_iter};

use row::Found;

use crate::url::StoreUrl;

/// Maximum size of a record, in bytes.
const LARGEST_VALUE: u64 = 64 << 20;

/// Maximum length of a name, in bytes.
const LONGEST_NAME: u64 = 64 << 10;

/// The version of the tables.
const LAYOUT: i64 = 1;

/// Creates the tables. Their indexes are not unique: DuckDB checks unique ones before the end of a transaction.
const CREATE: &str = "
    CREATE TABLE IF NOT EXISTS cachalot_layout(version BIGINT NOT NULL);
    INSERT INTO cachalot_layout SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM cachalot_layout);
    CREATE SEQUENCE IF NOT EXISTS cachalot_writes;
    CREATE TABLE IF NOT EXISTS cachalot_records(
        space VARCHAR NOT NULL, key VARCHAR NOT NULL, id BIGINT NOT NULL, revision BIGINT NOT NULL,
        updated BIGINT NOT NULL, used BIGINT NOT NULL, expires BIGINT, labels VARCHAR NOT NULL, size BIGINT NOT NULL,
        weight BIGINT NOT NULL, value BLOB NOT NULL);
    CREATE INDEX IF NOT EXISTS cachalot_records_key ON cachalot_records(key);
    CREATE TABLE IF NOT EXISTS cachalot_labels(
        space VARCHAR NOT NULL, name VARCHAR NOT NULL, value VARCHAR NOT NULL, key VARCHAR NOT NULL);
    CREATE INDEX IF NOT EXISTS cachalot_labels_value ON cachalot_labels(value);
    CREATE INDEX IF NOT EXISTS cachalot_labels_key ON cachalot_labels(key);
    CREATE TABLE IF NOT EXISTS cachalot_counters(
        space VARCHAR NOT NULL, name VARCHAR NOT NULL, value BIGINT NOT NULL);
    CREATE INDEX IF NOT EXISTS cachalot_counters_name ON cachalot_counters(name);
    CREATE TABLE IF NOT EXISTS cachalot_leases(
        space VARCHAR NOT NULL, key VARCHAR NOT NULL, fence BIGINT NOT NULL, until BIGINT NOT NULL,
        is_current BOOLEAN NOT NULL, labels VARCHAR NOT NULL);
    CREATE INDEX IF NOT EXISTS cachalot_leases_key ON cachalot_leases(key);";

/// A store in a file of DuckDB. See the [module](self).
pub struct DuckdbStore {
    about: StoreInfo,
    file: File,
}

/// A file, and the connection to it.
struct File {
    path: PathBuf,
    location: String,
    clock: Arc<dyn Clock>,
    /// Opened by the first call.
    connection: Mutex<Option<Connection>>,
}

impl std::fmt::Debug for DuckdbStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let about = &self.about;
        f.debug_struct("DuckdbStore")
            .field("about", about)
            .finish_non_exhaustive()
    }
}

/// A lease that was read.
struct LeaseRead {
    fence: u64,
    until: Millis,
    is_current: bool,
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
        let file = File {
            path: path.to_owned(),
            location,
            clock,
            connection: Mutex::new(None),
        };
        Self { about, file }
    }

    fn check_names<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<(), Error> {
        check_names(&self.about, names)
    }
}

impl File {
    /// Executes a call in one transaction.
    fn execute<T>(&self, call: impl FnOnce(&Call<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let connection = self.connection.lock();
        let mut connection = connection.unwrap_or_else(PoisonError::into_inner);
        let open = match connection.take() {
            Some(open) => open,
            None => self.open()?,
        };
        let open = connection.insert(open);
        let failed = |error| self.failure(&error);
        let transaction = open.transaction().map_err(failed)?;
        let own = Call {
            transaction: &transaction,
            now: self.clock.now(),
            file: self,
        };
        // A transaction that is dropped is rolled back.
        let result = call(&own)?;
        transaction.commit().map_err(failed)?;
        Ok(result)
    }

    fn open(&self) -> Result<Connection, Error> {
        let failed = |error| self.failure(&error);
        let connection = Connection::open(&self.path).map_err(failed)?;
        connection.execute_batch(CREATE).map_err(failed)?;
        let version = "SELECT max(version) FROM cachalot_layout";
        let version: i64 = connection
            .query_row(version, [], |row| row.get(0))
            .map_err(failed)?;
        if version > LAYOUT {
            return Err(too_new(&self.location));
        }
        Ok(connection)
    }

    fn failure(&self, error: &duckdb::Error) -> Error {
        let text = error.to_string();
        let has = |part: &str| text.contains(part);
        let (kind, remedy) = if has("Conflicting lock") || has("already open") {
            let remedy = "; another process has opened the file: DuckDB allows one at a time";
            (ErrorKind::Busy, remedy)
        } else if has("No space left") || has("disk full") {
            (ErrorKind::Full, "")
        } else if has("Permission denied") || has("read-only") {
            (ErrorKind::Denied, "; check the permissions of the file")
        } else if has("not a valid DuckDB") || has("corrupt") || has("Serialization Error") {
            (ErrorKind::Corrupt, "")
        } else {
            (ErrorKind::Unavailable, "")
        };
        let text = text.lines().next().unwrap_or_default();
        Error::new(kind, format!("{} failed: {text}{remedy}", self.location))
    }
}

/// A transaction.
struct Call<'c> {
    transaction: &'c Transaction<'c>,
    now: Millis,
    file: &'c File,
}

impl Call<'_> {
    fn failed(&self, error: duckdb::Error) -> Error {
        self.file.failure(&error)
    }

    fn execute(&self, statement: &str, parameters: impl duckdb::Params) -> Result<usize, Error> {
        let mut statement = self
            .transaction
            .prepare_cached(statement)
            .map_err(|error| self.failed(error))?;
        let done = statement.execute(parameters);
        done.map_err(|error| self.failed(error))
    }

    fn one<T>(
        &self,
        statement: &str,
        parameters: impl duckdb::Params,
        read: impl FnOnce(&duckdb::Row<'_>) -> duckdb::Result<T>,
    ) -> Result<Option<T>, Error> {
        let mut statement = self
            .transaction
            .prepare_cached(statement)
            .map_err(|error| self.failed(error))?;
        let found = statement.query_row(parameters, read).optional();
        found.map_err(|error| self.failed(error))
    }

    fn many<T>(
        &self,
        statement: &str,
        parameters: &[Value],
        read: impl FnMut(&duckdb::Row<'_>) -> duckdb::Result<T>,
    ) -> Result<Vec<T>, Error> {
        let mut statement = self
            .transaction
            .prepare(statement)
            .map_err(|error| self.failed(error))?;
        let rows = statement.query_map(params_from_iter(parameters), read);
        let rows = rows.map_err(|error| self.failed(error))?;
        rows.collect::<duckdb::Result<_>>()
            .map_err(|error| self.failed(error))
    }

    fn record(&self, space: &str, key: &str) -> Result<Option<Found>, Error> {
        let read = format!(
            "SELECT {}, value FROM cachalot_records WHERE space = ? AND key = ?",
            row::COLUMNS
        );
        let found = self.one(&read, params![space, key], row::read_with_value)?;
        found.map(row::Read::with_labels).transpose()
    }

    fn count(&self, space: &str, name: &str) -> Result<u64, Error> {
        let read = "SELECT value FROM cachalot_counters WHERE space = ? AND name = ?";
        let value = self.one(read, params![space, name], |row| row.get::<_, i64>(0))?;
        Ok(value.map_or(0, |value| u64::try_from(value).unwrap_or(0)))
    }

    fn set_count(&self, space: &str, name: &str, value: u64) -> Result<u64, Error> {
        let value = value.min(MAX_COUNTER);
        let update = "UPDATE cachalot_counters SET value = ? WHERE space = ? AND name = ?";
        if self.execute(update, params![signed(value), space, name])? == 0 {
            let insert = "INSERT INTO cachalot_counters VALUES (?, ?, ?)";
            self.execute(insert, params![space, name, signed(value)])?;
        }
        Ok(value)
    }

    fn get(&self, space: &str, key: &str, counters: &[&str]) -> Result<GetResult, Error> {
        let counters = counters.iter().map(|name| self.count(space, name));
        Ok(GetResult {
            counters: counters.collect::<Result<_, _>>()?,
            record: self.record(space, key)?.map(|found| found.record),
            now: self.now,
        })
    }

    fn lease(&self, space: &str, key: &str) -> Result<Option<LeaseRead>, Error> {
        let read =
            "SELECT fence, until, is_current FROM cachalot_leases WHERE space = ? AND key = ?";
        self.one(read, params![space, key], |row| {
            Ok(LeaseRead {
                fence: row.get::<_, i64>(0)?.unsigned_abs(),
                until: row.get(1)?,
                is_current: row.get(2)?,
            })
        })
    }

    fn reserve(
        &self,
        space: &str,
        key: &str,
        labels: &[Label],
        hold: Duration,
    ) -> Result<ReserveResult, Error> {
        let before = self.lease(space, key)?;
        if let Some(lease) = &before
            && lease.is_current
            && lease.until > self.now
        {
            return Ok(ReserveResult::Busy {
                fence: lease.fence,
                left: time_left(lease.until, self.now),
            });
        }
        let last = before.map_or(0, |lease| lease.fence);
        let micros = u64::try_from(self.now).unwrap_or(0).saturating_mul(1000);
        let fence = last.saturating_add(1).max(micros);
        let delete = "DELETE FROM cachalot_leases WHERE space = ? AND key = ?";
        self.execute(delete, params![space, key])?;
        let old = "DELETE FROM cachalot_leases WHERE until <= ?";
        self.execute(old, params![self.now - MIN_LAPSED_LEASE_AGE])?;
        let until = lease_end(self.now, hold);
        self.execute(
            "INSERT INTO cachalot_leases VALUES (?, ?, ?, ?, true, ?)",
            params![space, key, signed(fence), until, labels_to_json(labels)],
        )?;
        Ok(ReserveResult::Held(Lease {
            space: space.to_owned(),
            key: key.to_owned(),
            fence,
        }))
    }

    fn end_lease(&self, space: &str, key: &str) -> Result<(), Error> {
        let end = "UPDATE cachalot_leases SET is_current = false WHERE space = ? AND key = ?";
        self.execute(end, params![space, key]).map(drop)
    }

    fn is_current(&self, lease: &Lease) -> Result<bool, Error> {
        let found = self.lease(&lease.space, &lease.key)?;
        Ok(found.is_some_and(|found| found.is_current && found.fence == lease.fence))
    }

    fn remove(&self, space: &str, key: &str) -> Result<(), Error> {
        for table in ["records", "labels"] {
            let delete = format!("DELETE FROM cachalot_{table} WHERE space = ? AND key = ?");
            self.execute(&delete, params![space, key])?;
        }
        Ok(())
    }

    /// Stores a record; returns its revision.
    fn put(&self, space: &str, record: &Record) -> Result<u64, Error> {
        let key = &record.key;
        let revision = "SELECT revision FROM cachalot_records WHERE space = ? AND key = ?";
        let before = self.one(revision, params![space, key], |row| row.get::<_, i64>(0))?;
        let revision = before.unwrap_or(0) + 1;
        self.remove(space, key)?;
        let size = weight(key, record.value.len(), &record.labels);
        self.execute(
            "INSERT INTO cachalot_records VALUES (?, ?, nextval('cachalot_writes'), ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                space,
                key,
                revision,
                self.now,
                self.now,
                record.expires,
                labels_to_json(&record.labels),
                signed(record.value.len() as u64),
                signed(size),
                &record.value[..],
            ],
        )?;
        for label in &record.labels {
            self.execute(
                "INSERT INTO cachalot_labels VALUES (?, ?, ?, ?)",
                params![space, label.name, label.value, key],
            )?;
        }
        Ok(revision.unsigned_abs())
    }

    /// Returns the page of the records that match.
    fn page(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: &PageRequest<'_>,
    ) -> Result<RecordPage, Error> {
        if page.limit == 0 {
            return Ok(RecordPage::default());
        }
        let (mut conditions, mut parameters) = (String::new(), vec![text(space)]);
        let range = |column: &str, prefix: &str, parameters: &mut Vec<Value>| {
            let mut condition = String::new();
            if !prefix.is_empty() {
                condition += &format!(" AND {column} >= ?");
                parameters.push(text(prefix));
                if let Some(end) = after_prefix(prefix) {
                    condition += &format!(" AND {column} < ?");
                    parameters.push(text(&end));
                }
            }
            condition
        };
        conditions += &range("key", filter.prefix, &mut parameters);
        if let Some(after) = page.after {
            conditions += " AND key > ?";
            parameters.push(text(after));
        }
        if let Some(moment) = filter.expired_before {
            conditions += " AND expires < ?";
            parameters.push(Value::BigInt(moment));
        }
        let labels = filter.labels;
        for label in labels {
            let (name, prefix) = label.range();
            conditions +=
                " AND key IN (SELECT key FROM cachalot_labels WHERE space = ? AND name = ?";
            parameters.extend([text(space), text(name)]);
            conditions += &match label {
                LabelMatch::Is { value, .. } => {
                    parameters.push(text(value));
                    " AND value = ?".to_owned()
                }
                LabelMatch::Starts { .. } | LabelMatch::Glob { .. } => {
                    range("value", prefix, &mut parameters)
                }
            };
            conditions += ")";
        }
        let order = match filter.order {
            Order::Key => "key",
            Order::Newest => "id DESC",
            Order::LeastRecentlyUsed => "used, id",
            Order::Expiry => "expires NULLS LAST, id",
        };
        let is_glob = |label: &LabelMatch<'_>| matches!(label, LabelMatch::Glob { .. });
        // What the statement cannot tell is checked below.
        let limit = match labels.iter().any(is_glob) {
            true => String::new(),
            false => format!(" LIMIT {}", page.limit),
        };
        let select = format!(
            "SELECT {} FROM cachalot_records WHERE space = ?{conditions} ORDER BY {order}{limit}",
            row::COLUMNS
        );
        let mut result = RecordPage::default();
        for found in self.many(&select, &parameters, row::read)? {
            let Found { mut record, size } = found.with_labels()?;
            if !matches_all(labels, &record.labels) {
                continue;
            }
            if page.values != ValuePart::None
                && let Some(whole) = self.record(space, &record.key)?
            {
                record.value = whole.record.value;
            }
            if !page.labels {
                record.labels.clear();
            }
            result.records.push(record);
            result.sizes.push(size);
            if result.records.len() == page.limit as usize {
                break;
            }
        }
        result.next = next_cursor(&result.records, filter, page);
        Ok(result)
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
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
    let connection = Connection::open_in_memory().map_err(|error| error.to_string())?;
    let copied = connection.execute_batch(&copy);
    copied.map_err(|error| error.to_string())
}

/// Checks, and executes a call; its answer is there at once, because nothing but the disk is waited for.
macro_rules! call {
    ($store:expr, $check:expr, |$call:ident| $work:block) => {
        StoreReply::Now($check.and_then(|()| $store.file.execute(|$call| $work)))
    };
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
        call!(self, self.check_names(names), |call| {
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
        call!(self, self.check_names(names), |call| {
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
        call!(self, checked, |call| {
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
        call!(self, checked, |call| {
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
        call!(self, self.check_names(names), |call| {
            call.reserve(space, key, labels, hold)
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, hold: Duration) -> StoreReply<'a, bool> {
        call!(self, Ok(()), |call| {
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
        call!(self, Ok(()), |call| {
            match call.is_current(&lease)? {
                true => call.end_lease(&lease.space, &lease.key),
                false => Ok(()),
            }
        })
    }

    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        let checked = check_page(filter, &page).and_then(|()| self.check_names([space]));
        call!(self, checked, |call| { call.page(space, filter, &page) })
    }

    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        let checked = check_page(filter, &page).and_then(|()| self.check_names([space]));
        call!(self, checked, |call| {
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
        call!(self, checked, |call| {
            let add = |(name, count): &(&str, u64)| {
                let value = call.count(space, name)?.saturating_add(*count);
                call.set_count(space, name, value)
            };
            additions.iter().map(add).collect()
        })
    }

    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> StoreReply<'a, u64> {
        call!(self, self.check_names([space, counter]), |call| {
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
        call!(self, self.check_names([space]), |call| {
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
        call!(self, self.check_names([space]), |call| {
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
        call!(self, checked, |call| {
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
        call!(self, self.check_names([space]), |call| {
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
        call!(self, Ok(()), |call| {
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
