//! Transactions: the statements of calls.

use std::borrow::Cow;
use std::cell::RefCell;
use std::time::Duration;

use cachalot_store::implementation::{
    Conditions, MAX_COUNTER, MIN_LAPSED_LEASE_AGE, StoredLease, labels_from_json, labels_to_json,
    lease_end, matches_all, next_cursor, next_erasure, reaches_reservations, signed, weight,
};
use cachalot_store::{
    Error, GetResult, Label, LabelMatch, Lease, Millis, Order, PageRequest, Record, RecordFilter,
    RecordPage, ReserveResult, ValuePart, counter,
};
use duckdb::types::Value;
use duckdb::{OptionalExt as _, Transaction, params, params_from_iter};

use super::file::failure;
use super::row::{self, Found};
use super::values::{self, Object};

/// A record that a call stores.
pub(super) struct Draft<'d> {
    pub(super) space: &'d str,
    pub(super) record: Record,
    /// True if its value has to be an object.
    pub(super) is_large: bool,
    /// The object, once it is written.
    pub(super) object: Option<Object>,
}

impl Draft<'_> {
    /// True if the object of the value has to be written before the record can be stored.
    pub(super) fn needs_object(&self) -> bool {
        self.is_large && self.object.is_none()
    }

    /// The value of the row.
    fn row_value(&self) -> &[u8] {
        match self.object {
            Some(_) => values::head(&self.record.value),
            None => &self.record.value,
        }
    }

    /// The name and the digest of the object.
    fn object(&self) -> (Option<&str>, Option<&str>) {
        let object = self.object.as_ref();
        let name = object.map(|object| &*object.name);
        (name, object.map(|object| &*object.digest))
    }
}

/// The names of objects, as a transaction leaves them.
#[derive(Default)]
pub(super) struct ObjectChanges {
    /// Names to which no record refers any more.
    pub(super) removed: Vec<String>,
    /// Names to which a record refers now.
    pub(super) stored: Vec<String>,
}

/// The records of a page, and the objects in which the requested parts of their values are.
pub(super) struct Selected {
    pub(super) page: RecordPage,
    pub(super) objects: Vec<Option<Object>>,
}

impl Selected {
    /// True if a value is not complete.
    pub(super) fn has_objects(&self) -> bool {
        self.objects.iter().any(Option::is_some)
    }
}

/// A transaction.
pub(super) struct Call<'c> {
    pub(super) transaction: &'c Transaction<'c>,
    pub(super) now: Millis,
    /// The location of the file, for messages.
    pub(super) location: &'c str,
    pub(super) objects: RefCell<ObjectChanges>,
}

impl Call<'_> {
    fn failed(&self, error: duckdb::Error) -> Error {
        failure(self.location, &error)
    }

    pub(super) fn execute(
        &self,
        statement: &str,
        parameters: impl duckdb::Params,
    ) -> Result<usize, Error> {
        let mut statement = self
            .transaction
            .prepare_cached(statement)
            .map_err(|error| self.failed(error))?;
        let done = statement.execute(parameters);
        done.map_err(|error| self.failed(error))
    }

    pub(super) fn one<T>(
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

    pub(super) fn many<T>(
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

    pub(super) fn record(&self, space: &str, key: &str) -> Result<Option<Found>, Error> {
        let read = format!(
            "SELECT {}, value FROM cachalot_records WHERE space = ? AND key = ?",
            row::COLUMNS
        );
        let found = self.one(&read, params![space, key], row::read_with_value)?;
        found.map(row::Read::with_labels).transpose()
    }

    pub(super) fn count(&self, space: &str, name: &str) -> Result<u64, Error> {
        let read = "SELECT value FROM cachalot_counters WHERE space = ? AND name = ?";
        let value = self.one(read, params![space, name], |row| row.get::<_, i64>(0))?;
        Ok(value.map_or(0, |value| u64::try_from(value).unwrap_or(0)))
    }

    pub(super) fn set_count(&self, space: &str, name: &str, value: u64) -> Result<u64, Error> {
        let value = value.min(MAX_COUNTER);
        let update = "UPDATE cachalot_counters SET value = ? WHERE space = ? AND name = ?";
        if self.execute(update, params![signed(value), space, name])? == 0 {
            let insert = "INSERT INTO cachalot_counters VALUES (?, ?, ?)";
            self.execute(insert, params![space, name, signed(value)])?;
        }
        Ok(value)
    }

    /// Returns the result of a lookup, and the object with the record's value, if it is one.
    pub(super) fn get(
        &self,
        space: &str,
        key: &str,
        counters: &[&str],
    ) -> Result<(GetResult, Option<Object>), Error> {
        let counters = counters.iter().map(|name| self.count(space, name));
        let counters = counters.collect::<Result<_, _>>()?;
        let found = self.record(space, key)?;
        let (record, object) =
            found.map_or((None, None), |found| (Some(found.record), found.object));
        let now = self.now;
        Ok((
            GetResult {
                record,
                counters,
                now,
            },
            object,
        ))
    }

    pub(super) fn lease(&self, space: &str, key: &str) -> Result<Option<StoredLease>, Error> {
        let read =
            "SELECT fence, until, is_current FROM cachalot_leases WHERE space = ? AND key = ?";
        self.one(read, params![space, key], |row| {
            Ok(StoredLease {
                fence: row.get::<_, i64>(0)?.unsigned_abs(),
                until: row.get(1)?,
                is_current: row.get(2)?,
            })
        })
    }

    pub(super) fn reserve(
        &self,
        space: &str,
        key: &str,
        labels: &[Label],
        hold: Duration,
    ) -> Result<ReserveResult, Error> {
        let before = self.lease(space, key)?;
        if let Some(busy) = before.and_then(|before| before.busy(self.now)) {
            return Ok(busy);
        }
        // The fence is at least the time in microseconds, because rows of old leases are removed below.
        let micros = u64::try_from(self.now).unwrap_or(0).saturating_mul(1000);
        let fence = StoredLease::next_fence(before.as_ref(), micros);
        let delete = "DELETE FROM cachalot_leases WHERE space = ? AND key = ?";
        self.execute(delete, params![space, key])?;
        let old = "DELETE FROM cachalot_leases WHERE until <= ?";
        self.execute(old, params![self.now - MIN_LAPSED_LEASE_AGE])?;
        let until = lease_end(self.now, hold);
        self.execute(
            "INSERT INTO cachalot_leases VALUES (?, ?, ?, ?, true, ?)",
            params![space, key, signed(fence), until, labels_to_json(labels)],
        )?;
        Ok(ReserveResult::held(space, key, fence))
    }

    pub(super) fn end_lease(&self, space: &str, key: &str) -> Result<(), Error> {
        let end = "UPDATE cachalot_leases SET is_current = false WHERE space = ? AND key = ?";
        self.execute(end, params![space, key]).map(drop)
    }

    pub(super) fn is_current(&self, lease: &Lease) -> Result<bool, Error> {
        let found = self.lease(&lease.space, &lease.key)?;
        Ok(found.is_some_and(|found| found.is(lease)))
    }

    pub(super) fn remove(&self, space: &str, key: &str) -> Result<(), Error> {
        let object = "SELECT object FROM cachalot_records WHERE space = ? AND key = ?";
        let object = self.one(object, params![space, key], |row| row.get(0))?;
        self.objects.borrow_mut().removed.extend(object.flatten());
        for table in ["records", "labels"] {
            let delete = format!("DELETE FROM cachalot_{table} WHERE space = ? AND key = ?");
            self.execute(&delete, params![space, key])?;
        }
        Ok(())
    }

    /// Stores a record; returns its revision.
    pub(super) fn put(&self, draft: &Draft<'_>) -> Result<u64, Error> {
        let (space, record) = (draft.space, &draft.record);
        let key = &record.key;
        let revision = "SELECT revision FROM cachalot_records WHERE space = ? AND key = ?";
        let before = self.one(revision, params![space, key], |row| row.get::<_, i64>(0))?;
        let revision = before.unwrap_or(0) + 1;
        self.remove(space, key)?;
        let size = weight(key, record.value.len(), &record.labels);
        let (object, digest) = draft.object();
        self.execute(
            "INSERT INTO cachalot_records(space, key, id, revision, updated, used, expires, labels, size, weight, \
             value, object, digest) VALUES (?, ?, nextval('cachalot_writes'), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
                draft.row_value(),
                object,
                digest,
            ],
        )?;
        for label in &record.labels {
            self.execute(
                "INSERT INTO cachalot_labels VALUES (?, ?, ?, ?)",
                params![space, label.name, label.value, key],
            )?;
        }
        let stored = object.map(str::to_owned);
        self.objects.borrow_mut().stored.extend(stored);
        Ok(revision.unsigned_abs())
    }

    /// Replaces the value of a record, if it was not changed since; `None` if it needs an object before.
    pub(super) fn amend(&self, draft: &Draft<'_>) -> Result<Option<bool>, Error> {
        let record = &draft.record;
        let unchanged = "space = ? AND key = ? AND revision = ? AND updated = ?";
        let revision = signed(record.revision);
        let read = format!("SELECT object FROM cachalot_records WHERE {unchanged}");
        let parameters = params![draft.space, record.key, revision, record.updated];
        let before = self.one(&read, parameters, |row| row.get::<_, Option<String>>(0))?;
        let Some(before) = before else {
            return Ok(Some(false));
        };
        if draft.needs_object() {
            return Ok(None);
        }
        let size = signed(record.value.len() as u64);
        let (object, digest) = draft.object();
        let update = format!(
            "UPDATE cachalot_records SET weight = weight - size + ?, size = ?, value = ?, object = ?, digest = ?, \
             revision = revision + 1 WHERE {unchanged}"
        );
        self.execute(
            &update,
            params![
                size,
                size,
                draft.row_value(),
                object,
                digest,
                draft.space,
                record.key,
                revision,
                record.updated,
            ],
        )?;
        let mut objects = self.objects.borrow_mut();
        objects.removed.extend(before);
        objects.stored.extend(object.map(str::to_owned));
        Ok(Some(true))
    }

    /// Returns the page of the records that match.
    pub(super) fn page(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: &PageRequest<'_>,
    ) -> Result<Selected, Error> {
        let (mut result, mut objects) = (RecordPage::default(), Vec::new());
        if page.limit == 0 {
            return Ok(Selected {
                page: result,
                objects,
            });
        }
        let mut select = Select {
            text: format!(
                "SELECT {} FROM cachalot_records WHERE space = ",
                row::COLUMNS
            ),
            values: Vec::new(),
        };
        select.push_value(space.into());
        select.and_in_range("key", filter.prefix, page.after);
        if let Some(moment) = filter.expired_before {
            select.push(&format!(" AND expires < {moment}"));
        }
        let labels = filter.labels;
        for label in labels {
            select.push(" AND key IN (SELECT key FROM cachalot_labels WHERE space = ");
            select.push_value(space.into());
            select.and_label("name", "value", label);
            select.push(")");
        }
        let order = match filter.order {
            Order::Key | Order::Any => "key",
            Order::Newest => "id DESC",
            Order::LeastRecentlyUsed => "used, id",
            Order::Expiry => "expires NULLS LAST, id",
        };
        let is_glob = |label: &LabelMatch<'_>| matches!(label, LabelMatch::Glob { .. });
        // What the statement cannot tell is checked below.
        select.push(&format!(" ORDER BY {order}"));
        if !labels.iter().any(is_glob) {
            select.push(&format!(" LIMIT {}", page.limit));
        }
        for found in self.many(&select.text, &select.values, row::read)? {
            let Found {
                mut record, size, ..
            } = found.with_labels()?;
            let mut object = None;
            if !matches_all(labels, &record.labels) {
                continue;
            }
            if page.values != ValuePart::None
                && let Some(whole) = self.record(space, &record.key)?
            {
                object = whole.object_for(page.values);
                record.value = whole.record.value;
            }
            if !page.labels {
                record.labels.clear();
            }
            result.records.push(record);
            result.sizes.push(size);
            objects.push(object);
            if result.records.len() == page.limit as usize {
                break;
            }
        }
        result.next = next_cursor(&result.records, filter, page);
        Ok(Selected {
            page: result,
            objects,
        })
    }

    /// Erases a page of records, and the reservations that match.
    pub(super) fn erase(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: &PageRequest<'_>,
    ) -> Result<Selected, Error> {
        let erased = self.page(space, filter, page)?;
        for record in &erased.page.records {
            self.remove(space, &record.key)?;
        }
        if reaches_reservations(filter) {
            let before = self.count(space, counter::ERASED)?;
            self.set_count(space, counter::ERASED, next_erasure(before, self.now))?;
            let current = "SELECT key, labels FROM cachalot_leases WHERE space = ? AND is_current";
            let read = |row: &duckdb::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let leases: Vec<(String, String)> = self.many(current, &[text(space)], read)?;
            for (key, labels) in leases {
                let is_after = page.after.is_none_or(|after| *key > *after);
                let matches = key.starts_with(filter.prefix)
                    && is_after
                    && matches_all(filter.labels, &labels_from_json(&labels)?);
                if matches {
                    self.end_lease(space, &key)?;
                }
            }
        }
        Ok(erased)
    }
}

/// A statement that selects records.
struct Select {
    text: String,
    values: Vec<Value>,
}

impl<'a> Conditions<'a> for Select {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn push_value(&mut self, value: Cow<'a, str>) {
        self.text.push('?');
        self.values.push(Value::Text(value.into_owned()));
    }
}

pub(super) fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}
