//! Reads, on any connection: a reader's, or the writer's within its transaction.

use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::text::after_prefix;
use crate::{
    GetResult, Millis, PageRequest, Record, RecordFilter, RecordPage, SpaceUsage, ValuePart,
    request,
};

use super::failure::damaged;
use super::labels;
use super::select::{self, MatchedRow};

/// Reads a record (`?1`: space, `?2`: key) and up to [`JOINED_COUNTERS`] counters (names; NULL for none) from
/// one snapshot, faster than statements for each with a transaction around them. Without the record, it
/// returns no row: with an outer join, SQLite would compile the statement again for each execution.
pub(super) const GET: &str = "SELECT revision, updated, expires, labels, length(value), value, \
    (SELECT value FROM counters WHERE space = ?1 AND name = ?3), \
    (SELECT value FROM counters WHERE space = ?1 AND name = ?4), \
    (SELECT value FROM counters WHERE space = ?1 AND name = ?5) \
    FROM records WHERE space = ?1 AND key = ?2";

/// The first column of [`GET`] with a counter.
pub(super) const FIRST_COUNTER: usize = 6;
const JOINED_COUNTERS: usize = 3;

const COUNTER: &str = "SELECT value FROM counters WHERE space = ?1 AND name = ?2";

/// The result of a `get` with a maximum size.
pub(super) enum InlineGet {
    GetResult(GetResult),
    /// The record exists but is larger than `largest`: to be read on another thread.
    TooLarge,
}

/// Returns the record and the counters, from one snapshot.
pub(super) fn get(
    connection: &Connection,
    space: &str,
    key: &str,
    counters: &[&str],
    now: Millis,
    largest: i64,
) -> rusqlite::Result<InlineGet> {
    let mut is_absent = false;
    if counters.len() <= JOINED_COUNTERS {
        if let Some(found) = get_existing(connection, space, key, counters, now, largest)? {
            return Ok(found);
        }
        // The record is known to be absent, and no counter is to be read in the same snapshot.
        if counters.is_empty() {
            return Ok(absent(Vec::new(), now));
        }
        // Within a transaction, the counters come from the same snapshot as this answer.
        is_absent = !connection.is_autocommit();
    }
    snapshot(connection, |connection| {
        let answer = if is_absent {
            None
        } else {
            get_existing(connection, space, key, &[], now, largest)?
        };
        if let Some(InlineGet::TooLarge) = answer {
            return Ok(InlineGet::TooLarge);
        }
        let values = counters.iter().map(|name| counter(connection, space, name));
        let values = values.collect::<Result<_, _>>()?;
        Ok(match answer {
            Some(InlineGet::GetResult(found)) => InlineGet::GetResult(GetResult {
                counters: values,
                ..found
            }),
            _ => absent(values, now),
        })
    })
}

fn absent(counters: Vec<u64>, now: Millis) -> InlineGet {
    InlineGet::GetResult(GetResult {
        record: None,
        counters,
        now,
    })
}

/// Returns the record, if it exists, and the counters.
fn get_existing(
    connection: &Connection,
    space: &str,
    key: &str,
    counters: &[&str],
    now: Millis,
    largest: i64,
) -> rusqlite::Result<Option<InlineGet>> {
    let mut statement = connection.prepare_cached(GET)?;
    let name = |index: usize| counters.get(index);
    let mut rows = statement.query(params![space, key, name(0), name(1), name(2)])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    if row.get_ref(4)?.as_i64()? > largest {
        return Ok(Some(InlineGet::TooLarge));
    }
    let record = Record {
        key: key.to_owned(),
        revision: number(row, 0)?,
        updated: row.get(1)?,
        expires: row.get(2)?,
        labels: labels::decode(row.get_ref(3)?.as_blob()?)?,
        value: Bytes::copy_from_slice(row.get_ref(5)?.as_blob()?),
    };
    let columns = FIRST_COUNTER..FIRST_COUNTER + counters.len();
    let values = columns.map(|column| match row.get_ref(column)? {
        ValueRef::Null => Ok(0),
        _ => number(row, column),
    });
    Ok(Some(InlineGet::GetResult(GetResult {
        record: Some(record),
        counters: values.collect::<rusqlite::Result<_>>()?,
        now,
    })))
}

/// Returns the value of a counter; 0 if it was never raised.
pub(super) fn counter(connection: &Connection, space: &str, name: &str) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached(COUNTER)?;
    let mut rows = statement.query([space, name])?;
    rows.next()?.map_or(Ok(0), |row| number(row, 0))
}

/// Returns counters by the prefix of their names.
pub(super) fn counters(
    connection: &Connection,
    space: &str,
    prefix: &str,
    after: Option<&str>,
    limit: u32,
) -> rusqlite::Result<Vec<(String, u64)>> {
    let mut statement = connection.prepare_cached(
        "SELECT name, value FROM counters WHERE space = ?1 AND value > 0 AND name >= ?2 \
         AND (?3 IS NULL OR name < ?3) AND (?4 IS NULL OR name > ?4) ORDER BY name LIMIT ?5",
    )?;
    let rows = statement.query_map(
        params![space, prefix, after_prefix(prefix), after, limit],
        |row| Ok((row.get(0)?, number(row, 1)?)),
    )?;
    rows.collect()
}

/// Runs several statements on one snapshot of the database. Within a transaction they have one already.
fn snapshot<T>(
    connection: &Connection,
    read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    if !connection.is_autocommit() {
        return read(connection);
    }
    // A deferred transaction: the snapshot begins with the first read, and no write lock is taken.
    connection.prepare_cached("BEGIN")?.execute([])?;
    let answer = read(connection);
    connection.prepare_cached("COMMIT")?.execute([])?;
    answer
}

/// Returns one page of the records that match.
pub(super) fn find(
    connection: &Connection,
    space: &str,
    filter: &RecordFilter<'_>,
    page: &PageRequest<'_>,
) -> rusqlite::Result<RecordPage> {
    snapshot(connection, |connection| {
        let mut batch = RecordPage::default();
        for matched in select::find_rows(connection, space, filter, page)? {
            let row = read_matched_row(connection, matched, page.labels, page.values)?;
            batch.records.push(row.record);
            batch.sizes.push(row.size);
        }
        batch.next = request::next_cursor(&batch.records, filter, page);
        Ok(batch)
    })
}

/// A row with its requested parts.
pub(super) struct RecordRow {
    pub(super) record: Record,
    /// The size of the whole value.
    pub(super) size: u64,
}

/// Reads a picked row with its labels and the requested part of its value. SQLite reports the size of a value
/// without reading it.
pub(super) fn read_matched_row(
    connection: &Connection,
    matched: MatchedRow,
    labels: bool,
    values: ValuePart,
) -> rusqlite::Result<RecordRow> {
    const WITH: &str = "SELECT revision, updated, expires, labels, length(value), value FROM records WHERE id = ?1";
    const WITHOUT: &str =
        "SELECT revision, updated, expires, labels, length(value) FROM records WHERE id = ?1";
    let MatchedRow { id, key } = matched;
    let whole = values == ValuePart::All;
    let mut statement = connection.prepare_cached(if whole { WITH } else { WITHOUT })?;
    let mut found = statement.query_row([id], |row| {
        Ok(RecordRow {
            record: Record {
                key,
                revision: number(row, 0)?,
                updated: row.get(1)?,
                expires: row.get(2)?,
                labels: if labels {
                    labels::decode(row.get_ref(3)?.as_blob()?)?
                } else {
                    Vec::new()
                },
                value: if whole {
                    Bytes::copy_from_slice(row.get_ref(5)?.as_blob()?)
                } else {
                    Bytes::new()
                },
            },
            size: number(row, 4)?,
        })
    })?;
    if let (ValuePart::First(bytes), false) = (values, whole) {
        found.record.value = read_prefix(connection, id, bytes as usize)?;
    }
    Ok(found)
}

/// Reads the first bytes of a value, without reading the pages behind them.
fn read_prefix(connection: &Connection, id: i64, bytes: usize) -> rusqlite::Result<Bytes> {
    let blob = connection.blob_open("main", "records", "value", id, true)?;
    let mut value = vec![0; bytes.min(blob.len())];
    blob.read_at_exact(&mut value, 0)?;
    Ok(value.into())
}

/// Returns the size of the space, which every write updates.
pub(super) fn usage(connection: &Connection, space: &str) -> rusqlite::Result<SpaceUsage> {
    connection
        .prepare_cached("SELECT records, bytes FROM spaces WHERE space = ?1 AND reserved = ''")?
        .query_row(params![space], |row| {
            Ok(SpaceUsage {
                records: number(row, 0)?,
                bytes: number(row, 1)?,
            })
        })
        .optional()
        .map(Option::unwrap_or_default)
}

/// Reads a count that is never negative.
pub(super) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    u64::try_from(row.get_ref(column)?.as_i64()?).map_err(|_| damaged("a negative count"))
}
