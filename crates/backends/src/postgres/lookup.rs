//! Lookups as prepared statements, of which the server keeps the plans with the connection. Lookups that begin while
//! others are under way are sent as one statement.

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use super::layout;
use super::name;
use super::row::indexed;
use crate::liveness::Liveness;

/// Maximum number of counters of a prepared lookup.
const MAX_COUNTERS: usize = 4;

/// Maximum time of a statement for several lookups, for which it keeps its connection open.
const LIMIT_OF_SEVERAL: Duration = Duration::from_secs(60);

/// A lookup that is sent with others.
struct Waiting {
    space: Vec<u8>,
    key: Vec<u8>,
    counters: Vec<Vec<u8>>,
    reply: oneshot::Sender<Row>,
}

/// The statements of one connection for lookups with a certain number of counters: the server executes a subquery for
/// each counter of a statement, even if the name of the counter is null.
struct Prepared {
    one: Statement,
    several: Statement,
    /// The lookups that will be sent together, which belong to the task that sends them.
    next: Mutex<Weak<Batch>>,
}

type Batch = Mutex<Vec<Waiting>>;

impl Prepared {
    async fn new(client: &Client, counters: usize) -> Result<Self, tokio_postgres::Error> {
        let types = |of_names: Type| {
            let mut types = vec![of_names; 3 + counters];
            types[2] = Type::INT8;
            types
        };
        let (one, several) = (statement_of_one(counters), statement_of_several(counters));
        let (types_of_one, types_of_several) = (types(Type::BYTEA), types(Type::BYTEA_ARRAY));
        let (one, several) = tokio::try_join!(
            client.prepare_typed(&one, &types_of_one),
            client.prepare_typed(&several, &types_of_several)
        )?;
        Ok(Self {
            one,
            several,
            next: Mutex::default(),
        })
    }

    /// Adds a lookup to those that wait; returns the batch of lookups to execute if it is the first one.
    fn add(&self, lookup: Waiting) -> Option<Arc<Batch>> {
        let mut next = self.next.lock();
        if let Some(batch) = next.upgrade() {
            batch.lock().push(lookup);
            return None;
        }
        let batch = Arc::new(Mutex::new(vec![lookup]));
        *next = Arc::downgrade(&batch);
        Some(batch)
    }

    /// Ends a batch, to which further lookups are not added, and returns those whose callers still wait.
    fn take(&self, batch: &Batch) -> Vec<Waiting> {
        // Before the batch is emptied: lookups are added under this lock, so each is either in this batch or begins
        // another one.
        *self.next.lock() = Weak::new();
        let mut lookups = std::mem::take(&mut *batch.lock());
        lookups.retain(|lookup| !lookup.reply.is_closed());
        lookups
    }

    /// Executes lookups, which have the same number of counters, as one statement.
    async fn execute_several(
        &self,
        client: &Client,
        lookups: Vec<Waiting>,
        shift: i64,
    ) -> Result<(), tokio_postgres::Error> {
        let Some(first) = lookups.first() else {
            return Ok(());
        };
        let counters = first.counters.len();
        let column = |of: fn(&Waiting) -> &[u8]| lookups.iter().map(of).collect::<Vec<_>>();
        let (spaces, keys) = (column(|lookup| &lookup.space), column(|lookup| &lookup.key));
        let counters = (0..counters).map(|number| {
            let names = lookups.iter().map(|lookup| &lookup.counters[number][..]);
            names.collect::<Vec<_>>()
        });
        let counters: Vec<_> = counters.collect();
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&spaces, &keys, &shift];
        parameters.extend(counters.iter().map(|names| names as &(dyn ToSql + Sync)));
        let rows = client.query_raw(&self.several, parameters).await?;
        let mut rows = pin!(rows);
        let replies = lookups.into_iter().map(|lookup| Some(lookup.reply));
        let mut replies: Vec<_> = replies.collect();
        while let Some(row) = rows.try_next().await? {
            let place = usize::try_from(row.try_get::<_, i64>("o_place")? - 1);
            let reply = place.ok().and_then(|place| replies.get_mut(place)?.take());
            // The caller may have been cancelled.
            let _ = reply.map(|reply| reply.send(row));
        }
        Ok(())
    }
}

/// The prepared lookups of one connection.
pub(super) struct Lookups {
    client: Arc<Client>,
    liveness: Liveness,
    /// By their number of counters.
    prepared: [Prepared; MAX_COUNTERS + 1],
}

/// Returns a statement that selects the same as the function `cachalot_get`, and the place of the lookup among those of
/// the statement, from 1. The expressions are those of its names.
fn statement(space: &str, key: &str, counters: &[String], lookups: &str, place: &str) -> String {
    let counts: Vec<String> = counters
        .iter()
        .map(|name| {
            format!(
                "coalesce((SELECT c.value FROM cachalot_counters c WHERE c.space = {space} AND c.name = {name}), 0)"
            )
        })
        .collect();
    // The limit keeps the server from reading the whole table for a join.
    format!(
        "SELECT coalesce(r.long_key, r.key) AS o_key, r.value AS o_value, r.label_names AS o_names, \
         r.label_values AS o_values, r.expires AS o_expires, r.revision AS o_revision, r.updated AS o_updated, \
         ARRAY[{}]::bigint[] AS o_counts, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3 AS o_now, \
         {place} AS o_place FROM {lookups} LEFT JOIN LATERAL (SELECT * FROM cachalot_records r \
         WHERE r.space = {space} AND r.key = {key} LIMIT 1) r ON true WHERE {}",
        counts.join(", "),
        layout::fence()
    )
}

fn statement_of_one(counters: usize) -> String {
    let counters: Vec<String> = (4..4 + counters)
        .map(|number| format!("${number}"))
        .collect();
    statement("$1", "$2", &counters, "(SELECT 1) AS one", "1::bigint")
}

fn statement_of_several(counters: usize) -> String {
    let names: Vec<String> = (0..counters)
        .map(|number| format!("a.counter{number}"))
        .collect();
    let arrays: String = (4..4 + counters)
        .map(|number| format!(", ${number}"))
        .collect();
    let columns: String = (0..counters)
        .map(|number| format!(", counter{number}"))
        .collect();
    let lookups =
        format!("unnest($1, $2{arrays}) WITH ORDINALITY AS a(space, key{columns}, place)");
    statement("a.space", "a.key", &names, &lookups, "a.place")
}

impl Lookups {
    /// Prepares the statements on a connection without a pooler.
    pub(super) async fn prepare(
        client: &Arc<Client>,
        liveness: &Liveness,
    ) -> Result<Self, tokio_postgres::Error> {
        let prepare = |counters| Prepared::new(client, counters);
        let (none, one, two, three, four) =
            tokio::try_join!(prepare(0), prepare(1), prepare(2), prepare(3), prepare(4))?;
        Ok(Self {
            client: Arc::clone(client),
            liveness: liveness.clone(),
            prepared: [none, one, two, three, four],
        })
    }

    /// Executes a lookup, together with others if the connection is busy; returns its row, or `None` if it has to be
    /// executed in another way: no statement has so many counters, the statements are outdated, or the one for several
    /// lookups failed.
    pub(super) async fn execute(
        self: &Arc<Self>,
        (space, key): (&str, &str),
        counters: &[&str],
        shift: i64,
        is_busy: bool,
    ) -> Result<Option<Row>, tokio_postgres::Error> {
        let Some(prepared) = self.prepared.get(counters.len()) else {
            return Ok(None);
        };
        if is_busy {
            let (reply, answer) = oneshot::channel();
            let first = prepared.add(Waiting {
                space: name::indexed(space).into_owned(),
                key: name::indexed(key).into_owned(),
                counters: counters
                    .iter()
                    .map(|counter| name::indexed(counter).into_owned())
                    .collect(),
                reply,
            });
            if let Some(batch) = first {
                // Does not depend on one of the callers, each of which may be cancelled.
                tokio::spawn(Arc::clone(self).execute_batch(batch, counters.len(), shift));
            }
            // The caller of a lookup that failed repeats it, and reports the failure of that.
            return Ok(answer.await.ok());
        }
        let (space, key) = (indexed(space), indexed(key));
        let counters: Vec<_> = counters.iter().map(|counter| indexed(counter)).collect();
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&space, &key, &shift];
        parameters.extend(counters.iter().map(|name| name as &(dyn ToSql + Sync)));
        let executed = self.client.query_one(&prepared.one, &parameters);
        // A lookup that found its connection ended is repeated in the other way, too, on another connection.
        match self.liveness.watch(executed).await {
            Err(error) if is_outdated(&error) => Ok(None),
            executed => executed.map(Some),
        }
    }

    /// Executes a batch of lookups with a number of counters.
    async fn execute_batch(self: Arc<Self>, batch: Arc<Batch>, counters: usize, shift: i64) {
        // Further calls that are ready to begin add their lookups.
        tokio::task::yield_now().await;
        let prepared = &self.prepared[counters];
        let lookups = prepared.take(&batch);
        let executed = prepared.execute_several(&self.client, lookups, shift);
        let _ = tokio::time::timeout(LIMIT_OF_SEVERAL, self.liveness.watch(executed)).await;
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
