//! What is read, on any connection: a reader's, or the writer's within its transaction.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{Batch, Filter, Found, Page, Record, Usage, request};

use super::failure::damaged;
use super::labels;
use super::select::{self, Picked};

pub(super) const GET: &str = "SELECT revision, updated, expires, labels, length(value), value \
                              FROM records WHERE space = ?1 AND key = ?2";

const COUNTER: &str = "SELECT value FROM counters WHERE space = ?1 AND name = ?2";

/// The answer to a `get` on the caller's thread.
pub(super) enum Got {
    Found(Found),
    /// There is a record, but it should be read elsewhere.
    TooLargeForNow,
}

/// The record and the counters, from one snapshot.
pub(super) fn get(
    connection: &Connection,
    space: &str,
    key: &str,
    counters: &[&str],
    largest: i64,
) -> rusqlite::Result<Got> {
    if counters.is_empty() {
        return Ok(match record(connection, space, key, largest)? {
            Looked::TooLarge => Got::TooLargeForNow,
            Looked::Record(record) => Got::Found(Found {
                record,
                counters: Vec::new(),
            }),
        });
    }
    snapshot(connection, |connection| {
        let record = match record(connection, space, key, largest)? {
            Looked::TooLarge => return Ok(Got::TooLargeForNow),
            Looked::Record(record) => record,
        };
        let counters = counters
            .iter()
            .map(|name| counter(connection, space, name))
            .collect::<Result<_, _>>()?;
        Ok(Got::Found(Found { record, counters }))
    })
}

enum Looked {
    Record(Option<Record>),
    TooLarge,
}

fn record(
    connection: &Connection,
    space: &str,
    key: &str,
    largest: i64,
) -> rusqlite::Result<Looked> {
    let mut statement = connection.prepare_cached(GET)?;
    let mut rows = statement.query([space, key])?;
    let Some(row) = rows.next()? else {
        return Ok(Looked::Record(None));
    };
    if row.get_ref(4)?.as_i64()? > largest {
        return Ok(Looked::TooLarge);
    }
    Ok(Looked::Record(Some(Record {
        key: key.to_owned(),
        revision: number(row, 0)?,
        updated: row.get(1)?,
        expires: row.get(2)?,
        labels: labels::decode(row.get_ref(3)?.as_blob()?)?,
        value: Bytes::copy_from_slice(row.get_ref(5)?.as_blob()?),
    })))
}

fn counter(connection: &Connection, space: &str, name: &str) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached(COUNTER)?;
    let mut rows = statement.query([space, name])?;
    rows.next()?.map_or(Ok(0), |row| number(row, 0))
}

/// Runs several statements on one state of the database. Within a transaction they are already.
fn snapshot<T>(
    connection: &Connection,
    read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    if !connection.is_autocommit() {
        return read(connection);
    }
    connection.prepare_cached("BEGIN")?.execute([])?;
    let answer = read(connection);
    connection.prepare_cached("COMMIT")?.execute([])?;
    answer
}

/// One page of what matches.
pub(super) fn find(
    connection: &Connection,
    space: &str,
    filter: &Filter<'_>,
    page: &Page<'_>,
) -> rusqlite::Result<Batch> {
    snapshot(connection, |connection| {
        let records = select::pick(connection, space, filter, page)?
            .into_iter()
            .map(|picked| picked_record(connection, picked, page.values))
            .collect::<rusqlite::Result<Vec<Record>>>()?;
        let next = request::next(&records, filter, page);
        Ok(Batch { records, next })
    })
}

/// The record of a picked row, with or without its value and labels.
pub(super) fn picked_record(
    connection: &Connection,
    picked: Picked,
    values: bool,
) -> rusqlite::Result<Record> {
    const WITH: &str =
        "SELECT revision, updated, expires, labels, value FROM records WHERE id = ?1";
    const WITHOUT: &str = "SELECT revision, updated, expires FROM records WHERE id = ?1";
    let mut statement = connection.prepare_cached(if values { WITH } else { WITHOUT })?;
    statement.query_row([picked.id], |row| {
        Ok(Record {
            key: picked.key,
            revision: number(row, 0)?,
            updated: row.get(1)?,
            expires: row.get(2)?,
            labels: if values {
                labels::decode(row.get_ref(3)?.as_blob()?)?
            } else {
                Vec::new()
            },
            value: if values {
                Bytes::copy_from_slice(row.get_ref(4)?.as_blob()?)
            } else {
                Bytes::new()
            },
        })
    })
}

/// The record of a picked row, with its labels, with or without its value, and the value's size.
pub(super) fn picked_for_erasure(
    connection: &Connection,
    picked: Picked,
    value: bool,
) -> rusqlite::Result<(Record, usize)> {
    connection
        .prepare_cached("SELECT revision, updated, expires, labels, length(value), value FROM records WHERE id = ?1")?
        .query_row([picked.id], |row| {
            let record = Record {
                key: picked.key,
                revision: number(row, 0)?,
                updated: row.get(1)?,
                expires: row.get(2)?,
                labels: labels::decode(row.get_ref(3)?.as_blob()?)?,
                value: if value { Bytes::copy_from_slice(row.get_ref(5)?.as_blob()?) } else { Bytes::new() },
            };
            Ok((record, number(row, 4)? as usize))
        })
}

/// What the space holds; kept by every write.
pub(super) fn usage(connection: &Connection, space: &str) -> rusqlite::Result<Usage> {
    connection
        .prepare_cached("SELECT records, bytes FROM spaces WHERE space = ?1 AND reserved = ''")?
        .query_row(params![space], |row| {
            Ok(Usage {
                records: number(row, 0)?,
                bytes: number(row, 1)?,
            })
        })
        .optional()
        .map(Option::unwrap_or_default)
}

/// A count that is never negative.
pub(super) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    u64::try_from(row.get_ref(column)?.as_i64()?).map_err(|_| damaged("a negative count"))
}
