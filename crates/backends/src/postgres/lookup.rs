//! Lookups as one prepared statement, of which the server keeps the plan with the connection.

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use super::row::indexed;

/// Maximum number of counters of the statement.
const MAX_COUNTERS: usize = 4;

/// The same as the function `cachalot_get`, for [`MAX_COUNTERS`] counters; those without a name are zero.
const STATEMENT: &str = "SELECT coalesce(r.long_key, r.key) AS o_key, r.value AS o_value, r.label_names AS o_names, \
     r.label_values AS o_values, r.expires AS o_expires, r.revision AS o_revision, r.updated AS o_updated, ARRAY[\
     coalesce((SELECT c.value FROM cachalot_counters c WHERE c.space = $1 AND c.name = $3), 0), \
     coalesce((SELECT c.value FROM cachalot_counters c WHERE c.space = $1 AND c.name = $4), 0), \
     coalesce((SELECT c.value FROM cachalot_counters c WHERE c.space = $1 AND c.name = $5), 0), \
     coalesce((SELECT c.value FROM cachalot_counters c WHERE c.space = $1 AND c.name = $6), 0)] AS o_counts, \
     floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + $7 AS o_now \
     FROM (SELECT 1) AS one LEFT JOIN cachalot_records r ON r.space = $1 AND r.key = $2";

/// Prepares the statement on a connection without a pooler.
pub(super) async fn prepare(client: &Client) -> Result<Statement, tokio_postgres::Error> {
    let mut types = [Type::BYTEA; MAX_COUNTERS + 3];
    types[MAX_COUNTERS + 2] = Type::INT8;
    client.prepare_typed(STATEMENT, &types).await
}

/// Executes the statement; returns its row, or `None` if it is not for this request, or outdated.
pub(super) async fn execute(
    client: &Client,
    statement: &Statement,
    (space, key): (&str, &str),
    counters: &[&str],
    shift: i64,
) -> Result<Option<Row>, tokio_postgres::Error> {
    if counters.len() > MAX_COUNTERS {
        return Ok(None);
    }
    let mut names = [None, None, None, None];
    for (name, counter) in names.iter_mut().zip(counters) {
        *name = Some(indexed(counter));
    }
    let [first, second, third, fourth] = &names;
    let (space, key) = (indexed(space), indexed(key));
    let parameters: [&(dyn ToSql + Sync); MAX_COUNTERS + 3] =
        [&space, &key, first, second, third, fourth, &shift];
    match client.query_one(statement, &parameters).await {
        Err(error) if is_outdated(&error) => Ok(None),
        executed => executed.map(Some),
    }
}

/// True if the statement does not fit the tables, which a newer version has changed, or is unknown to the server.
fn is_outdated(error: &tokio_postgres::Error) -> bool {
    let outdated = [
        SqlState::FEATURE_NOT_SUPPORTED,
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
    ];
    error.code().is_some_and(|code| outdated.contains(code))
}
