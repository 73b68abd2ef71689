//! Lookups as prepared statements, of which the server keeps the plans with the connection.

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use super::row::indexed;

/// Maximum number of counters of a prepared lookup.
const MAX_COUNTERS: usize = 4;

/// The statements of one connection, by their number of counters: the server executes a subquery for each counter of a
/// statement, even if the name of the counter is null.
pub(super) struct Lookups([Statement; MAX_COUNTERS + 1]);

/// Returns the statement that selects the same as the function `cachalot_get`, for a number of counters.
fn statement(counters: usize) -> String {
    let counts: Vec<String> = (4..4 + counters)
        .map(|number| {
            format!(
                "coalesce((SELECT c.value FROM cachalot_counters c WHERE c.space = $1 AND c.name = ${number}), 0)"
            )
        })
        .collect();
    format!(
        "SELECT coalesce(r.long_key, r.key) AS o_key, r.value AS o_value, r.label_names AS o_names, \
         r.label_values AS o_values, r.expires AS o_expires, r.revision AS o_revision, r.updated AS o_updated, \
         ARRAY[{}]::bigint[] AS o_counts, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3 AS o_now \
         FROM (SELECT 1) AS one LEFT JOIN cachalot_records r ON r.space = $1 AND r.key = $2",
        counts.join(", ")
    )
}

impl Lookups {
    /// Prepares the statements on a connection without a pooler.
    pub(super) async fn prepare(client: &Client) -> Result<Self, tokio_postgres::Error> {
        let prepare = async |counters: usize| {
            let mut types = vec![Type::BYTEA; 3 + counters];
            types[2] = Type::INT8;
            client.prepare_typed(&statement(counters), &types).await
        };
        let (none, one, two, three, four) =
            tokio::try_join!(prepare(0), prepare(1), prepare(2), prepare(3), prepare(4))?;
        Ok(Self([none, one, two, three, four]))
    }

    /// Executes a lookup; returns its row, or `None` if no statement has so many counters, or they are outdated.
    pub(super) async fn execute(
        &self,
        client: &Client,
        (space, key): (&str, &str),
        counters: &[&str],
        shift: i64,
    ) -> Result<Option<Row>, tokio_postgres::Error> {
        let Some(statement) = self.0.get(counters.len()) else {
            return Ok(None);
        };
        let (space, key) = (indexed(space), indexed(key));
        let names: Vec<_> = counters.iter().map(|name| indexed(name)).collect();
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&space, &key, &shift];
        parameters.extend(names.iter().map(|name| name as &(dyn ToSql + Sync)));
        match client.query_one(statement, &parameters).await {
            Err(error) if is_outdated(&error) => Ok(None),
            executed => executed.map(Some),
        }
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
