//! Rows of records.

use bytes::Bytes;
use cachalot_store::implementation::labels_from_json;
use cachalot_store::{Error, Record, ValuePart};
use duckdb::Row;

use super::values::Object;

/// The columns that [`read`] reads.
pub(super) const COLUMNS: &str = "key, revision, updated, expires, labels, size, object, digest";

/// A record, and the size of its whole value.
pub(super) struct Found {
    /// If the value is an object, the record has the beginning of it.
    pub(super) record: Record,
    pub(super) size: u64,
    pub(super) object: Option<Object>,
}

impl Found {
    /// True if the record has this value.
    pub(super) fn has_value(&self, value: &[u8]) -> bool {
        match &self.object {
            Some(object) => object.is(value),
            None => self.record.value == value,
        }
    }

    /// Returns the object, if the record has less than the requested part of its value.
    pub(super) fn object_for(&self, part: ValuePart) -> Option<Object> {
        let is_there = match part {
            ValuePart::None => true,
            ValuePart::First(bytes) => bytes as usize <= self.record.value.len(),
            ValuePart::All => false,
        };
        self.object.clone().filter(|_| !is_there)
    }
}

/// A row whose labels are not read yet.
pub(super) struct Read {
    found: Found,
    labels: String,
}

impl Read {
    pub(super) fn with_labels(mut self) -> Result<Found, Error> {
        self.found.record.labels = labels_from_json(&self.labels)?;
        Ok(self.found)
    }
}

/// Reads [`COLUMNS`].
pub(super) fn read(row: &Row<'_>) -> duckdb::Result<Read> {
    let size = row.get::<_, i64>(5)?.unsigned_abs();
    let object = match (row.get(6)?, row.get(7)?) {
        (Some(name), Some(digest)) => Some(Object { name, digest, size }),
        _ => None,
    };
    Ok(Read {
        found: Found {
            record: Record {
                key: row.get(0)?,
                value: Bytes::new(),
                labels: Vec::new(),
                expires: row.get(3)?,
                revision: row.get::<_, i64>(1)?.unsigned_abs(),
                updated: row.get(2)?,
            },
            size,
            object,
        },
        labels: row.get(4)?,
    })
}

/// Reads [`COLUMNS`] and the value behind them.
pub(super) fn read_with_value(row: &Row<'_>) -> duckdb::Result<Read> {
    let mut read = read(row)?;
    read.found.record.value = row.get::<_, Vec<u8>>(8)?.into();
    Ok(read)
}
