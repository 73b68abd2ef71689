//! Transactions: the statements of calls.

use std::time::Duration;

use cachalot_store::implementation::{
    MAX_COUNTER, MIN_LAPSED_LEASE_AGE, after_prefix, labels_to_json, lease_end, matches_all,
    next_cursor, signed, time_left, weight,
};
use cachalot_store::{
    Error, GetResult, Label, LabelMatch, Lease, Millis, Order, PageRequest, Record, RecordFilter,
    RecordPage, ReserveResult, ValuePart,
};
use duckdb::types::Value;
use duckdb::{OptionalExt as _, Transaction, params, params_from_iter};

use super::file::failure;
use super::row::{self, Found};

/// A lease that was read.
pub(super) struct LeaseRead {
    pub(super) fence: u64,
    pub(super) until: Millis,
    pub(super) is_current: bool,
}

/// A transaction.
pub(super) struct Call<'c> {
    pub(super) transaction: &'c Transaction<'c>,
    pub(super) now: Millis,
    /// The location of the file, for messages.
    pub(super) location: &'c str,
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

    pub(super) fn get(
        &self,
        space: &str,
        key: &str,
        counters: &[&str],
    ) -> Result<GetResult, Error> {
        let counters = counters.iter().map(|name| self.count(space, name));
        Ok(GetResult {
            counters: counters.collect::<Result<_, _>>()?,
            record: self.record(space, key)?.map(|found| found.record),
            now: self.now,
        })
    }

    pub(super) fn lease(&self, space: &str, key: &str) -> Result<Option<LeaseRead>, Error> {
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

    pub(super) fn reserve(
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

    pub(super) fn end_lease(&self, space: &str, key: &str) -> Result<(), Error> {
        let end = "UPDATE cachalot_leases SET is_current = false WHERE space = ? AND key = ?";
        self.execute(end, params![space, key]).map(drop)
    }

    pub(super) fn is_current(&self, lease: &Lease) -> Result<bool, Error> {
        let found = self.lease(&lease.space, &lease.key)?;
        Ok(found.is_some_and(|found| found.is_current && found.fence == lease.fence))
    }

    pub(super) fn remove(&self, space: &str, key: &str) -> Result<(), Error> {
        for table in ["records", "labels"] {
            let delete = format!("DELETE FROM cachalot_{table} WHERE space = ? AND key = ?");
            self.execute(&delete, params![space, key])?;
        }
        Ok(())
    }

    /// Stores a record; returns its revision.
    pub(super) fn put(&self, space: &str, record: &Record) -> Result<u64, Error> {
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
    pub(super) fn page(
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

pub(super) fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}
