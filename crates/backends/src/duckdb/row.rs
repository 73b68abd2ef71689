//! Rows of records.

use bytes::Bytes;
use cachalot_store::implementation::labels_from_json;
use cachalot_store::{Error, Record};
use duckdb::Row;

/// The columns that [`read`] reads.
pub(super) const COLUMNS: &str = "key, revision, updated, expires, labels, size";

/// A record, and the size of its whole value.
pub(super) struct Found {
    pub(super) record: Record,
    pub(super) size: u64,
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
            size: row.get::<_, i64>(5)?.unsigned_abs(),
        },
        labels: row.get(4)?,
    })
}

/// Reads [`COLUMNS`] and the value behind them.
pub(super) fn read_with_value(row: &Row<'_>) -> duckdb::Result<Read> {
    let mut read = read(row)?;
    read.found.record.value = row.get::<_, Vec<u8>>(6)?.into();
    Ok(read)
}
