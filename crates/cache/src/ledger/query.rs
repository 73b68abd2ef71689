//! Queries on the ledger's file.

use std::time::Duration;

use cachalot_core::{Cost, Millis, Spend};
use rusqlite::{Connection, Result, Row, params};

use super::append::DROPPED;
use super::tally::MAX_RECENT_HITS;
use super::{CallStatus, LedgerRow, LedgerTotals};
use crate::{CallKind, Key};

/// See [`super::Ledger::recent`].
pub(super) fn recent(connection: &Connection, limit: u32) -> Result<Vec<LedgerRow>> {
    rows(connection, "1 ORDER BY id DESC LIMIT ?1", params![limit])
}

pub(super) fn calls_after(connection: &Connection, id: i64, limit: u32) -> Result<Vec<LedgerRow>> {
    let after = "id > ?1 ORDER BY id LIMIT ?2";
    rows(connection, after, params![id, limit])
}

/// See [`super::Ledger::calls_to_copy`].
pub(super) fn calls_to_copy(
    connection: &Connection,
    id: i64,
    limit: u32,
) -> Result<Vec<LedgerRow>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, at, run, kind, name, scope, key, handle, session, answered, reason, not_stored, failure, unpriced,
         failed, NULL AS input, NULL AS input_digest, paid, paid_input, paid_output, paid_cost, paid_unpriced,
         saved, saved_input, saved_output, saved_cost, saved_unpriced
         FROM calls WHERE id > ?1 ORDER BY id LIMIT ?2",
    )?;
    let rows = statement.query_map(params![id, limit], read_row)?;
    rows.collect()
}

/// The name in `counters` of a number that tells the ledger from those of other machines.
const IDENTITY: &str = "identity";

/// See [`super::Ledger::identity`].
pub(super) fn identity(connection: &Connection) -> Result<Option<String>> {
    connection.execute(
        "INSERT OR IGNORE INTO counters (name, value) VALUES (?1, random())",
        [IDENTITY],
    )?;
    let value = "SELECT value FROM counters WHERE name = ?1";
    let value: i64 = connection.query_row(value, [IDENTITY], |row| row.get(0))?;
    Ok(Some(format!("{:016x}", value.cast_unsigned())))
}

/// Returns the last call that an entry could have answered.
pub(super) fn last_call(connection: &Connection) -> Result<Option<LedgerRow>> {
    // The literal lets SQLite use the partial index `calls_cacheable`.
    let last = "id = (SELECT max(id) FROM calls WHERE kind <> 'prefix')";
    Ok(rows(connection, last, params![])?.pop())
}

/// Returns the last paid call under a key, up to row `id`.
pub(super) fn last_payment(
    connection: &Connection,
    key: &str,
    id: i64,
) -> Result<Option<LedgerRow>> {
    let mut paid = rows(
        connection,
        "key = ?1 AND id <= ?2 AND answered IN ('miss', 'bypass') AND NOT failed
         ORDER BY id DESC LIMIT 1",
        params![key, id],
    )?;
    Ok(paid.pop())
}

/// See [`super::Ledger::dropped`].
pub(super) fn dropped(connection: &Connection) -> Result<u64> {
    let mut statement = connection.prepare("SELECT value FROM counters WHERE name = ?1")?;
    let mut found = statement.query_map([DROPPED], |row| count(row, "value"))?;
    found.next().unwrap_or(Ok(0))
}

/// See [`super::Ledger::calls_by_key`].
pub(super) fn calls_by_key(
    connection: &Connection,
    key_or_handle: &str,
    limit: u32,
) -> Result<Vec<LedgerRow>> {
    let column = match key_or_handle.parse::<Key>() {
        Ok(_) => "key",
        Err(_) => "handle",
    };
    rows(
        connection,
        &format!("{column} = ?1 ORDER BY id DESC LIMIT ?2"),
        params![key_or_handle, limit],
    )
}

/// See [`super::Ledger::keys`].
pub(super) fn keys(connection: &Connection, beginning: &str, limit: u32) -> Result<Vec<String>> {
    let mut statement = connection.prepare(
        "SELECT key FROM calls
         WHERE kind <> 'prefix' AND key >= ?1 AND substr(key, 1, length(?1)) = ?1
         UNION
         SELECT handle FROM calls
         WHERE kind <> 'prefix' AND handle IS NOT NULL
           AND (substr(handle, 1, length(?1)) = ?1 OR substr(handle, -64, length(?1)) = ?1)
         LIMIT ?2",
    )?;
    let keys = statement.query_map(params![beginning, limit], |row| row.get(0))?;
    keys.collect()
}

/// See [`super::Ledger::runs`].
pub(super) fn runs(connection: &Connection, beginning: &str, limit: u32) -> Result<Vec<String>> {
    let mut statement = connection.prepare(
        "SELECT DISTINCT run FROM calls
         WHERE kind <> 'prefix' AND substr(run, 1, length(?1)) = ?1 LIMIT ?2",
    )?;
    let runs = statement.query_map(params![beginning, limit], |row| row.get(0))?;
    runs.collect()
}

/// See [`super::Ledger::keys_of_run`].
pub(super) fn keys_of_run(connection: &Connection, run: &str) -> Result<Vec<String>> {
    keys_where(connection, "run = ?1", run)
}

/// See [`super::Ledger::has_all_hits`].
pub(super) fn has_all_hits(connection: &Connection, run: &str) -> Result<bool> {
    let mut statement = connection.prepare(
        "SELECT
           (SELECT count(*) FROM calls WHERE run = ?1 AND answered IN ('hit', 'stale')) AS of_run,
           (SELECT ifnull(min(id), 0) FROM calls WHERE run = ?1) AS begin,
           (SELECT count(*) FROM calls WHERE answered IN ('hit', 'stale')) AS kept,
           (SELECT ifnull(min(id), 0) FROM calls WHERE answered IN ('hit', 'stale')) AS oldest,
           (SELECT ifnull(sum(hits), 0) FROM totals) AS ever",
    )?;
    statement.query_row([run], |row| {
        let is_sampled = count(row, "of_run")? >= MAX_RECENT_HITS as u64;
        let are_deleted = count(row, "kept")? < count(row, "ever")?;
        let began_before = row.get::<_, i64>("begin")? <= row.get::<_, i64>("oldest")?;
        Ok(!(is_sampled || are_deleted && began_before))
    })
}

/// See [`super::Ledger::keys_of_runs_with`].
pub(super) fn keys_of_runs_with(connection: &Connection, beginning: &str) -> Result<Vec<String>> {
    let of_runs = "run IN (SELECT run FROM calls
         WHERE handle >= ?1 AND substr(handle, 1, length(?1)) = ?1)";
    keys_where(connection, of_runs, beginning)
}

fn keys_where(connection: &Connection, which: &str, with: &str) -> Result<Vec<String>> {
    let keys =
        format!("SELECT DISTINCT key FROM calls WHERE kind <> 'prefix' AND key <> '' AND {which}");
    let mut statement = connection.prepare(&keys)?;
    let keys = statement.query_map([with], |row| row.get(0))?;
    keys.collect()
}

/// See [`super::Ledger::sessions`].
pub(super) fn sessions(
    connection: &Connection,
    beginning: &str,
    limit: u32,
) -> Result<Vec<String>> {
    let mut statement = connection.prepare(
        "SELECT handle FROM calls
         WHERE kind = ?1 AND handle >= ?2 AND substr(handle, 1, length(?2)) = ?2
         GROUP BY handle ORDER BY max(id) DESC LIMIT ?3",
    )?;
    let with = params![CallKind::Prefix.as_str(), beginning, limit];
    let sessions = statement.query_map(with, |row| row.get(0))?;
    sessions.collect()
}

/// See [`super::Ledger::sessions_of_calls`].
pub(super) fn sessions_of_calls(
    connection: &Connection,
    beginning: &str,
    limit: u32,
) -> Result<Vec<String>> {
    let mut statement = connection.prepare(
        "SELECT session FROM calls
         WHERE session >= ?1 AND substr(session, 1, length(?1)) = ?1
         UNION
         SELECT handle FROM calls
         WHERE kind = ?2 AND handle >= ?1 AND substr(handle, 1, length(?1)) = ?1
         LIMIT ?3",
    )?;
    let with = params![beginning, CallKind::Prefix.as_str(), limit];
    let sessions = statement.query_map(with, |row| row.get(0))?;
    sessions.collect()
}

/// See [`super::Ledger::broken_prefixes`].
pub(super) fn broken_prefixes(
    connection: &Connection,
    after: i64,
    since: Millis,
) -> Result<(Vec<LedgerRow>, i64)> {
    let newest = "SELECT ifnull(max(id), 0) FROM calls";
    let newest: i64 = connection.query_row(newest, [], |row| row.get(0))?;
    let found = if newest > after {
        rows(
            connection,
            "kind = ?1 AND reason IS NOT NULL AND id > ?2 AND id <= ?3 AND at >= ?4 ORDER BY id",
            params![CallKind::Prefix.as_str(), after, newest, since],
        )?
    } else {
        // Rows were deleted, and their numbers are reused.
        Vec::new()
    };
    Ok((found, newest))
}

/// See [`super::Ledger::payments_with`].
pub(super) fn payments_with(
    connection: &Connection,
    member: &str,
    limit: u32,
) -> Result<Vec<LedgerRow>> {
    let mut found = rows(
        connection,
        "kind = ?1 AND instr(input, ?2) > 0 ORDER BY id DESC LIMIT ?3",
        params![CallKind::Prefix.as_str(), format!("\"{member}\""), limit],
    )?;
    found.retain(|row| {
        row.input
            .as_ref()
            .is_some_and(|input| input.get(member).is_some())
    });
    found.reverse();
    Ok(found)
}

/// Returns the first refused call of a run under each of up to `limit` keys, oldest first, with the number of refused
/// calls under the key.
pub(super) fn refused_calls(
    connection: &Connection,
    run: &str,
    limit: u32,
) -> Result<Vec<(LedgerRow, u64)>> {
    let mut statement = connection.prepare(
        "SELECT min(id) AS first, count(*) AS number FROM calls
         WHERE run = ?1 AND answered = ?2 AND key <> ''
         GROUP BY key ORDER BY first LIMIT ?3",
    )?;
    let with = params![run, CallStatus::Refused.as_str(), limit];
    let found = statement.query_map(with, |row| {
        Ok((row.get::<_, i64>("first")?, count(row, "number")?))
    })?;
    let found: Vec<(i64, u64)> = found.collect::<Result<_>>()?;
    let mut calls = Vec::new();
    for (id, number) in found {
        let row = rows(connection, "id = ?1", params![id])?.pop();
        calls.extend(row.map(|row| (row, number)));
    }
    Ok(calls)
}

/// See [`super::Ledger::unstored_misses`].
pub(super) fn unstored_misses(connection: &Connection, run: &str) -> Result<Vec<(String, u64)>> {
    let mut statement = connection.prepare(
        "SELECT not_stored, count(*) AS number FROM calls
         WHERE run = ?1 AND answered = ?2 AND failed = 0 AND not_stored IS NOT NULL
         GROUP BY not_stored ORDER BY not_stored",
    )?;
    let found = statement.query_map(params![run, CallStatus::Miss.as_str()], |row| {
        Ok((row.get("not_stored")?, count(row, "number")?))
    })?;
    found.collect()
}

/// Returns earlier calls of the same name and scope whose input is known in part or as a digest, newest
/// first.
pub(super) fn earlier_calls(
    connection: &Connection,
    row: &LedgerRow,
    limit: u32,
) -> Result<Vec<LedgerRow>> {
    rows(
        connection,
        "name = ?1 AND scope = ?2 AND id < ?3 AND input_digest IS NOT NULL ORDER BY id DESC LIMIT ?4",
        params![row.name, row.scope, row.id, limit],
    )
}

/// See [`super::Ledger::totals`].
pub(super) fn totals(connection: &Connection) -> Result<Vec<(String, String, LedgerTotals)>> {
    let mut statement = connection.prepare("SELECT * FROM totals ORDER BY saved DESC, name")?;
    let rows = statement.query_map([], |row| {
        let count = |column| count(row, column);
        let totals = LedgerTotals {
            hits: count("hits")?,
            coalesced: count("coalesced")?,
            misses: count("misses")?,
            bypasses: count("bypasses")?,
            failures: count("failures")?,
            failed: count("failed")?,
            // The number of runs is in the counters above.
            paid: spend(row, 0, "paid")?,
            saved: spend(row, 0, "saved")?,
        };
        Ok((row.get("kind")?, row.get("name")?, totals))
    })?;
    rows.collect()
}

fn rows(
    connection: &Connection,
    which: &str,
    with: &[&dyn rusqlite::ToSql],
) -> Result<Vec<LedgerRow>> {
    let mut statement = connection.prepare(&format!("SELECT * FROM calls WHERE {which}"))?;
    let rows = statement.query_map(with, read_row)?;
    rows.collect()
}

fn count(row: &Row<'_>, column: &str) -> Result<u64> {
    row.get::<_, i64>(column).map(|n| n.max(0) as u64)
}

/// Reads a spend whose time is in the column `name`, and whose tokens and money are in columns that begin
/// with it.
fn spend(row: &Row<'_>, calls: u64, name: &str) -> Result<Spend> {
    let charge = |what: &str| count(row, &format!("{name}_{what}"));
    Ok(Spend {
        calls,
        time: Duration::from_nanos(count(row, name)?),
        input_tokens: charge("input")?,
        output_tokens: charge("output")?,
        cost: Cost {
            picodollars: charge("cost")?,
            unpriced: charge("unpriced")?,
        },
    })
}

fn read_row(row: &Row<'_>) -> Result<LedgerRow> {
    let answered = CallStatus::parse(&row.get::<_, String>("answered")?);
    let failed: bool = row.get("failed")?;
    let key: String = row.get("key")?;
    let (paid_calls, saved_calls) = match answered {
        CallStatus::Miss | CallStatus::Bypass => (u64::from(!failed), 0),
        CallStatus::Hit | CallStatus::Stale | CallStatus::Coalesced => (0, 1),
        CallStatus::Refused => (0, 0),
    };
    Ok(LedgerRow {
        id: row.get("id")?,
        at: row.get("at")?,
        run: row.get("run")?,
        kind: row.get("kind")?,
        name: row.get("name")?,
        scope: row.get("scope")?,
        erased: key.is_empty(),
        key,
        handle: row.get("handle")?,
        session: row.get("session")?,
        answered,
        reason: row.get("reason")?,
        not_stored: row.get("not_stored")?,
        failure: row.get("failure")?,
        unpriced: row.get("unpriced")?,
        failed,
        paid: spend(row, paid_calls, "paid")?,
        saved: spend(row, saved_calls, "saved")?,
        input: row
            .get::<_, Option<String>>("input")?
            .and_then(|text| serde_json::from_str(&text).ok()),
        input_digest: row.get("input_digest")?,
    })
}
