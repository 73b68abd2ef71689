//! Records as rows of results.

use cachalot_store::implementation::next_cursor;
use cachalot_store::{Error, Label, Order, PageRequest, Record, RecordFilter, RecordPage};

use super::select;
use super::statement::{Row, Rows, damaged};

/// Returns labels as a JSON array of pairs in hexadecimal.
pub(super) fn encode_labels(labels: &[Label]) -> String {
    let pair = |label: &Label| {
        let (name, value) = (hex::encode(&label.name), hex::encode(&label.value));
        format!("[\"{name}\",\"{value}\"]")
    };
    format!(
        "[{}]",
        labels.iter().map(pair).collect::<Vec<_>>().join(",")
    )
}

pub(super) fn decode_labels(text: &str) -> Result<Vec<Label>, Error> {
    let damaged = || damaged("labels that are not Cachalot's");
    let pairs: Vec<(String, String)> = serde_json::from_str(text).map_err(|_| damaged())?;
    let text = |hexadecimal: String| {
        let bytes = hex::decode(hexadecimal).map_err(|_| damaged())?;
        String::from_utf8(bytes).map_err(|_| damaged())
    };
    let label = |(name, value)| {
        Ok(Label {
            name: text(name)?,
            value: text(value)?,
        })
    };
    pairs.into_iter().map(label).collect()
}

/// Reads the columns of [`select::page`].
pub(super) fn record_of_page(row: &Row) -> Result<(Record, u64), Error> {
    let record = Record {
        key: row.text(0)?.to_owned(),
        revision: row.count(1)?,
        updated: row.number(2)?,
        expires: row.optional_number(3)?,
        labels: decode_labels(row.text(4)?)?,
        value: row.blob(5)?,
    };
    Ok((record, row.count(6)?))
}

/// Returns a page, and the keys of the records after it whose values are missing.
pub(super) fn record_page(
    rows: Rows,
    filter: &RecordFilter<'_>,
    page: &PageRequest<'_>,
) -> Result<(RecordPage, Vec<String>), Error> {
    let (mut found, mut rest) = (RecordPage::default(), Vec::new());
    for row in rows {
        if row.is_null(5) {
            rest.push(row.text(0)?.to_owned());
            continue;
        }
        let (mut record, size) = record_of_page(&row)?;
        if !page.labels {
            record.labels.clear();
        }
        found.records.push(record);
        found.sizes.push(size);
    }
    found.next = next_cursor(&found.records, filter, page);
    let size: usize = found.records.iter().map(|record| record.value.len()).sum();
    if filter.order == Order::Key && select::is_cut(size as u64, super::LARGEST_VALUE) {
        found.next = found.records.last().map(|record| record.key.clone());
    }
    Ok((found, rest))
}
