//! Pages of the records of several shards.

use std::cmp::Ordering;

use bytes::Bytes;
use cachalot_store::implementation::next_cursor;
use cachalot_store::{Error, Order, PageRequest, Record, RecordFilter, RecordPage};
use redis::Value;

use super::record::{array, bytes, count, damaged, decode, text};

/// A record of a page, and what its place in the order depends on.
pub(super) struct Row {
    pub(super) record: Record,
    /// The size of the value, of which the record may have a part.
    size: u64,
    /// The number of the shard.
    pub(super) shard: usize,
    /// Its number in the sequence of writes.
    id: i64,
    /// The time of the last use; 0 if the order is another one.
    used: f64,
}

impl Row {
    fn compare(&self, other: &Row, order: Order) -> Ordering {
        let by_id = self.id.cmp(&other.id);
        let expiry = |row: &Row| row.record.expires.unwrap_or(i64::MAX);
        let ordering = match order {
            Order::Key | Order::Any => Ordering::Equal,
            Order::Newest => by_id.reverse(),
            Order::LeastRecentlyUsed => self.used.total_cmp(&other.used).then(by_id),
            Order::Expiry => expiry(self).cmp(&expiry(other)).then(by_id),
        };
        ordering.then_with(|| self.record.key.cmp(&other.record.key))
    }
}

/// Reads the reply of a shard.
pub(super) fn rows(value: Value, shard: usize) -> Result<Vec<Row>, Error> {
    let mut found = Vec::new();
    let mut values = array(value)?.into_iter();
    while let (Some(key), Some(stored), Some(size), Some(used)) =
        (values.next(), values.next(), values.next(), values.next())
    {
        let stored = decode(&text(key)?, Bytes::from(bytes(stored)?))?;
        found.push(Row {
            size: count(size)?,
            shard,
            id: stored.id,
            used: text(used)?.parse().map_err(|_| damaged("a time"))?,
            record: stored.record,
        });
    }
    Ok(found)
}

/// Puts the rows of all shards in order.
pub(super) fn sort(rows: &mut [Row], order: Order) {
    rows.sort_by(|one, other| one.compare(other, order));
}

/// Returns the shards that may have more of the first `limit` records than the `asked` that they have returned.
pub(super) fn incomplete(shards: &[Vec<Row>], asked: u32, limit: u32, order: Order) -> Vec<usize> {
    let mut all: Vec<&Row> = shards.iter().flatten().collect();
    all.sort_by(|one, other| one.compare(other, order));
    let last = (limit as usize)
        .checked_sub(1)
        .and_then(|last| all.get(last));
    let is_incomplete = |rows: &Vec<Row>| {
        let full = rows
            .last()
            .filter(|_| rows.len() == asked as usize && asked < limit);
        full.is_some_and(|own| last.is_none_or(|last| own.compare(last, order).is_lt()))
    };
    let numbered = shards.iter().enumerate();
    numbered
        .filter(|(_, rows)| is_incomplete(rows))
        .map(|(number, _)| number)
        .collect()
}

/// Converts sorted rows to a page.
pub(super) fn page(
    rows: Vec<Row>,
    filter: &RecordFilter<'_>,
    request: &PageRequest<'_>,
) -> RecordPage {
    let sizes = rows.iter().map(|row| row.size).collect();
    let mut records: Vec<Record> = rows.into_iter().map(|row| row.record).collect();
    if !request.labels {
        for record in &mut records {
            record.labels.clear();
        }
    }
    RecordPage {
        next: next_cursor(&records, filter, request),
        records,
        sizes,
    }
}
