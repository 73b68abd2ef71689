//! Full text search over long-term memory.

use rusqlite::{Connection, OptionalExtension};

use crate::text::words;
use crate::{LabelMatch, RecallHit, ValuePart, request};

use super::read::{self};
use super::select::MatchedRow;

/// Converts the query to FTS5 syntax, with every word quoted so that nothing in it is an operator; `None` if
/// there is no word.
pub(super) fn expression(query: &str) -> Option<String> {
    let mut expression = String::with_capacity(query.len() + 16);
    for word in words(query) {
        if !expression.is_empty() {
            expression.push_str(" AND ");
        }
        expression.push('"');
        expression.push_str(&word.text.replace('"', "\"\""));
        expression.push('"');
        if word.prefix {
            expression.push('*');
        }
    }
    (!expression.is_empty()).then_some(expression)
}

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
