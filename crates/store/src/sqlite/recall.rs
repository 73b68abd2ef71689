//! Full text search over long-term memory.

use rusqlite::{Connection, OptionalExtension};

use crate::{LabelMatch, RecallHit, ValuePart, request};

use super::read::{self};
use super::select::MatchedRow;

/// Returns the records that match the expression and the labels, best match first.
pub(super) fn search(
    connection: &Connection,
    expression: &str,
    labels: &[LabelMatch<'_>],
    limit: u32,
) -> rusqlite::Result<Vec<RecallHit>> {
    let mut statement = connection
        .prepare_cached("SELECT rowid, rank FROM texts WHERE texts MATCH ?1 ORDER BY rank")?;
    let mut keys = connection.prepare_cached("SELECT key FROM records WHERE id = ?1")?;
    // This statement stays open, so that all reads use one snapshot.
    let mut rows = statement.query([expression])?;
    let mut found = Vec::new();
    while found.len() < limit as usize {
        let Some(row) = rows.next()? else { break };
        let id: i64 = row.get(0)?;
        let rank: f64 = row.get(1)?;
        let Some(key) = keys.query_row([id], |row| row.get(0)).optional()? else {
            continue;
        };
        let record =
            read::read_matched_row(connection, MatchedRow { id, key }, true, ValuePart::All)?
                .record;
        if request::matches_all(labels, &record.labels) {
            found.push(RecallHit {
                record,
                score: -rank,
            });
        }
    }
    Ok(found)
}
