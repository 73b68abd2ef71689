//! The timeline of the server, and what follows from another one.
//!
//! A standby that is promoted begins another timeline. If it followed the primary asynchronously, it may lack its last
//! writes: increments of counters, ends of leases, erases. The database notes the timeline that it was last used with.
//! The first client that finds another one empties the cache, ends all leases and raises all epochs; sums of money stay
//! as they are. Invariants:
//!
//!   1. A connection is used only once the timeline of its server is noted.
//!   2. A connection that leads to one server process ends with it. One through a pooler may lead to another server: there
//!      each statement that reads or stores an entry returns the timeline, too. If it is not that of the connection, the
//!      result does not count, and the connection is not used any more.
//!
//! A standby has the note of its primary, of an earlier timeline. A database without a note is used with timeline 1.

use cachalot_store::{Error, ErrorKind, space};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, GenericClient};

use super::failure::failure;
use super::layout::{self, LOCK};
use super::row::{self, Parameter};

/// The timeline of a primary server as an expression, for any role. That of the last checkpoint would be older after a
/// promotion.
pub(super) const TIMELINE: &str =
    "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint";

/// The column of a statement with [`TIMELINE`].
pub(super) const COLUMN: &str = "o_timeline";

/// The space of the note, which has no records.
const SPACE: &str = "cachalot";

/// The name of the note, a counter.
const NAME: &str = "timeline";

/// Returns a statement, which begins with `SELECT` and returns one row, that returns the timeline, too.
pub(super) fn with_timeline(statement: &str) -> String {
    let columns = statement.trim_start_matches("SELECT ");
    format!("SELECT {TIMELINE} AS {COLUMN}, {columns}")
}

/// Error for a statement that was executed on another timeline than that of its connection.
pub(super) fn other_server(location: &str) -> Error {
    let message = format!("{location} is another server than before: repeat the call");
    Error::new(ErrorKind::Unavailable, message)
}

/// True if a server does not have the functions of [`TIMELINE`], or refuses them.
pub(super) fn is_unsupported(error: &tokio_postgres::Error) -> bool {
    let class = error.code().and_then(|code| code.code().get(..2));
    class.is_some_and(|class| ["0A", "42"].contains(&class))
}

/// Notes the timeline of the server that a client is connected to; begins anew if another one was noted.
pub(super) async fn note(client: &mut Client, timeline: i64, location: &str) -> Result<(), Error> {
    // The usual case needs neither a transaction nor the lock.
    if noted(&*client, timeline, location).await? == timeline {
        return Ok(());
    }
    let failed = |error| failure(location, error);
    let transaction = client.transaction().await.map_err(failed)?;
    let lock = format!("SELECT pg_advisory_xact_lock({LOCK})");
    transaction.batch_execute(&lock).await.map_err(failed)?;
    // Another client may have begun anew in the meantime.
    if noted(&transaction, timeline, location).await? != timeline {
        let [cache, gateway, own, name] =
            [space::CACHE, space::GATEWAY, SPACE, NAME].map(str::as_bytes);
        let parameters: [Parameter<'_>; 1] = [(&cache, Type::BYTEA)];
        for statement in [
            // Alone in the space, as an erase is.
            "SELECT cachalot_lock_counters($1, ARRAY['erased'::bytea])",
            "DELETE FROM cachalot_labels WHERE space = $1",
            "DELETE FROM cachalot_records WHERE space = $1",
            "DELETE FROM cachalot_usage WHERE space = $1",
            "INSERT INTO cachalot_counters(space, name, value) VALUES ($1, 'erased', 0) ON CONFLICT DO NOTHING",
        ] {
            let done = transaction.query_typed(statement, &parameters).await;
            done.map_err(failed)?;
        }
        let ended = "UPDATE cachalot_leases SET is_current = false WHERE is_current";
        transaction.batch_execute(ended).await.map_err(failed)?;
        // The time exceeds every epoch that was counted by ones, also those that this server has lost.
        let raised = "UPDATE cachalot_counters SET value = greatest(value + (value < 9223372036854775807)::int, \
                      cachalot_now(0)) WHERE space <> $1 AND space <> $2";
        let parameters: [Parameter<'_>; 2] = [(&gateway, Type::BYTEA), (&own, Type::BYTEA)];
        let raised = transaction.query_typed(raised, &parameters).await;
        raised.map_err(failed)?;
        // In the same transaction: a client that finds this note finds the cache emptied and the epochs raised.
        let noted = "INSERT INTO cachalot_counters(space, name, value) VALUES ($1, $2, $3) \
                     ON CONFLICT (space, name) DO UPDATE SET value = excluded.value";
        let parameters: [Parameter<'_>; 3] = [
            (&own, Type::BYTEA),
            (&name, Type::BYTEA),
            (&timeline, Type::INT8),
        ];
        let noted = transaction.query_typed(noted, &parameters).await;
        noted.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}

/// Returns the timeline that the database was last used with, as a server on this timeline reads it, if the layout is
/// that of this version. A pooler may execute the statement on another server than the one before.
async fn noted(client: &impl GenericClient, timeline: i64, location: &str) -> Result<i64, Error> {
    let statement = format!(
        "SELECT (SELECT value FROM cachalot_counters WHERE space = $1 AND name = $2) AS value, \
         {TIMELINE} AS {COLUMN} WHERE {}",
        layout::fence()
    );
    let [own, name] = [SPACE, NAME].map(str::as_bytes);
    let parameters: [Parameter<'_>; 2] = [(&own, Type::BYTEA), (&name, Type::BYTEA)];
    let rows = client.query_typed(&statement, &parameters).await;
    let rows = rows.map_err(|error| failure(location, error))?;
    let row = rows.first().ok_or_else(|| row::damaged("no row"))?;
    if row::column::<i64>(row, COLUMN)? != timeline {
        return Err(other_server(location));
    }
    Ok(row::column::<Option<i64>>(row, "value")?.unwrap_or(1))
}
