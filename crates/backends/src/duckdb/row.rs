//! Rows of records.

use bytes::Bytes;
use cachalot_store::{Error, ErrorKind, Label, Record};
use duckdb::Row;
use serde_json::json;

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
        self.found.record.labels = labels(&self.labels)?;
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

/// Returns labels as text of JSON.
pub(super) fn labels_text(labels: &[Label]) -> String {
    let pairs: Vec<_> = labels
        .iter()
        .map(|label| (&label.name, &label.value))
        .collect();
    json!(pairs).to_string()
}

/// Reads what [`labels_text`] returns.
pub(super) fn labels(text: &str) -> Result<Vec<Label>, Error> {
    let pairs: Vec<(String, String)> = serde_json::from_str(text)
        .map_err(|_| Error::new(ErrorKind::Corrupt, "the labels of a record are damaged"))?;
    Ok(pairs
        .into_iter()
        .map(|(name, value)| Label { name, value })
        .collect())
}
