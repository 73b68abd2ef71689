//! A store in a Postgres database, version 12 or later, shared by any number of machines.
//!
//! Every call is one statement, most of which call a function of the database (see `functions.sql`). Statements have
//! no names, so that a pooler in front of the server may move them between its connections; without a pooler, lookups
//! are prepared. The times are those of the
//! server.

mod connections;
mod failure;
mod layout;
mod lookup;
mod name;
mod row;
mod select;
mod server;
mod subscription;
mod words;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use cachalot_store::implementation::{
    check_page, label_texts, milliseconds, next_cursor, reaches_reservations, signed,
    sort_and_deduplicate,
};
use cachalot_store::{
    Error, Finding, GetOrReserve, GetOrReserveResult, GetResult, Label, LabelMatch, Lease, Millis,
    PageRequest, PutAllResult, PutCondition, PutResult, Recall, RecallHit, Record, RecordFilter,
    RecordPage, ReserveResult, SpaceUsage, Stale, Store, StoreInfo, StoreReply, space,
};
use tokio_postgres::types::{ToSql, Type};

use connections::{Connections, Work, is_busy};
use row::{Bytea, LabelColumns, indexed, whole};

use crate::changes::{Changes, Subscribe};

pub use server::Server;
pub use subscription::Subscription;

/// Maximum size of a record, in bytes. Postgres stores fields of up to 1 GB; a statement contains the value in
/// memory several times.
const LARGEST_VALUE: u64 = 64 << 20;

/// Maximum length of a name, in bytes. Indexes have long ones in a [short form](name).
const LONGEST_NAME: u64 = 64 << 10;

/// A store in a Postgres database. See the [module](self).
pub struct PostgresStore {
    about: StoreInfo,
    connections: Arc<Connections>,
    /// Added to the server's time, in milliseconds. Zero but in tests.
    shift: Arc<AtomicI64>,
}

type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

impl PostgresStore {
    /// Creates a store on a server. Connects, and creates or upgrades the tables, with the first call.
    #[must_use]
    pub fn new(server: Server) -> Self {
        Self::with_shift(server, Arc::default())
    }

    /// Creates a store whose time is that of the server plus `shift` milliseconds, for tests: time passes
    /// without waiting for it.
    #[must_use]
    pub fn with_shift(server: Server, shift: Arc<AtomicI64>) -> Self {
        let about = StoreInfo {
            name: "postgres",
            location: server.location().to_owned(),
            shared: true,
            reservations: true,
            largest_value: LARGEST_VALUE,
            longest_name: LONGEST_NAME,
            snapshot: true,
        };
        Self {
            about,
            connections: Arc::new(Connections::new(server)),
            shift,
        }
    }

    fn shift(&self) -> i64 {
        self.shift.load(Ordering::Relaxed)
    }

    async fn rows(
        &self,
        work: Work,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<tokio_postgres::Row>, Error> {
        let open = self.connections.get(work).await?;
        let query = open.client.query_typed(statement, parameters);
        let rows = open.liveness.watch(query).await;
        rows.map_err(|error| self.connections.failure(error))
    }

    /// Returns the only row of the result.
    async fn row(
        &self,
        work: Work,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<tokio_postgres::Row, Error> {
        let mut rows = self.rows(work, statement, parameters).await?;
        rows.pop().ok_or_else(|| row::damaged("no row"))
    }
}

fn indexed_all<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Bytea<'a>> {
    names.map(indexed).collect()
}

fn whole_all<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Bytea<'a>> {
    names.map(whole).collect()
}

fn record_page(
    rows: &[tokio_postgres::Row],
    filter: &RecordFilter<'_>,
    page: &PageRequest<'_>,
) -> Result<RecordPage, Error> {
    let mut found = RecordPage::default();
    for row in rows {
        let mut record = row::record(row)?;
        if !page.labels {
            record.labels.clear();
        }
        found.records.push(record);
        found.sizes.push(row::unsigned(row::column(row, "size")?)?);
    }
    found.next = next_cursor(&found.records, filter, page);
    Ok(found)
}

impl Subscribe for PostgresStore {
    type Subscription = Subscription;

    async fn subscribe(&self, changes: &Arc<Changes>) -> Result<Subscription, Error> {
        // The triggers are created with the tables.
        self.connections.get(Work::Lookup).await?;
        Subscription::open(&self.connections, changes).await
    }
}

impl Store for PostgresStore {
    fn about(&self) -> &StoreInfo {
        &self.about
    }

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> StoreReply<'a, GetResult> {
        StoreReply::later(async move {
            self.about
                .check_names([space, key].into_iter().chain(counters.iter().copied()))?;
            let open = self.connections.get(Work::Lookup).await?;
            if let Some(lookups) = &open.lookups {
                let (place, is_busy) = ((space, key), is_busy(&open));
                let row = lookups
                    .execute(place, counters, self.shift(), is_busy)
                    .await;
                let row = row.map_err(|error| self.connections.failure(error))?;
                if let Some(row) = row {
                    return row::get_result(&row, key);
                }
            }
            let row = self
                .row(
                    Work::Lookup,
                    "SELECT * FROM cachalot_get($1, $2, $3, $4)",
                    &[
                        (&indexed(space), Type::BYTEA),
                        (&indexed(key), Type::BYTEA),
                        (&indexed_all(counters.iter().copied()), Type::BYTEA_ARRAY),
                        (&self.shift(), Type::INT8),
                    ],
                )
                .await?;
            row::get_result(&row, key)
        })
    }

    fn get_or_reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        request: GetOrReserve<'a>,
    ) -> StoreReply<'a, GetOrReserveResult> {
        StoreReply::later(async move {
            let own = [space, key].into_iter().chain(label_texts(request.labels));
            self.about
                .check_names(own.chain(request.counters.iter().copied()))?;
            let stale: i64 = match request.stale {
                Stale::None => 0,
                Stale::Revision(revision) => i64::try_from(revision).unwrap_or(0),
                Stale::Any => -1,
            };
            let labels = LabelColumns::new(request.labels);
            let counters = indexed_all(request.counters.iter().copied());
            let row = self
                .row(
                    Work::Write,
                    "SELECT * FROM cachalot_get_or_reserve($1, $2, $3, $4, $5, $6, $7, $8)",
                    &[
                        (&indexed(space), Type::BYTEA),
                        (&indexed(key), Type::BYTEA),
                        (&counters, Type::BYTEA_ARRAY),
                        (&labels.names, Type::BYTEA_ARRAY),
                        (&labels.values, Type::BYTEA_ARRAY),
                        (&milliseconds(request.hold), Type::INT8),
                        (&stale, Type::INT8),
                        (&self.shift(), Type::INT8),
                    ],
                )
                .await?;
            let reserved = match row::column::<Option<i64>>(&row, "o_fence")? {
                None => None,
                Some(_) => Some(row::reserve_result(&row, space, key)?),
            };
            Ok(GetOrReserveResult {
                found: row::get_result(&row, key)?,
                reserved,
            })
        })
    }

    fn put<'a>(
        &'a self,
        space: &'a str,
        mut record: Record,
        lease: Option<&'a Lease>,
        counters: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, PutResult> {
        StoreReply::later(async move {
            record.labels = sort_and_deduplicate(record.labels);
            self.about.check_put(space, &record, lease, counters)?;
            let labels = LabelColumns::new(&record.labels);
            let names = indexed_all(counters.iter().map(|(name, _)| *name));
            let counts: Vec<i64> = counters.iter().map(|(_, count)| signed(*count)).collect();
            let row = self
            .row(
                Work::Write,
                "SELECT * FROM cachalot_put($1, $2, $3, $4, $5, $6, $7::text::tsvector, $8, $9, $10, $11)",
                &[
                    (&indexed(space), Type::BYTEA),
                    (&whole(&record.key), Type::BYTEA),
                    (&&record.value[..], Type::BYTEA),
                    (&labels.names, Type::BYTEA_ARRAY),
                    (&labels.values, Type::BYTEA_ARRAY),
                    (&record.expires, Type::INT8),
                    (&words::vector(space, &record), Type::TEXT),
                    (&lease.map(|lease| signed(lease.fence)), Type::INT8),
                    (&names, Type::BYTEA_ARRAY),
                    (&counts, Type::INT8_ARRAY),
                    (&self.shift(), Type::INT8),
                ],
            )
            .await?;
            Ok(match row::column::<i64>(&row, "revision")? {
                -1 => PutResult::LeaseLost,
                -2 => PutResult::CounterChanged {
                    counter: usize::try_from(row::column::<i32>(&row, "changed")?).unwrap_or(0),
                },
                revision => PutResult::Stored {
                    revision: row::unsigned(revision)?,
                },
            })
        })
    }

    fn put_all<'a>(
        &'a self,
        condition: PutCondition<'a>,
        mut records: Vec<(&'a str, Record)>,
    ) -> StoreReply<'a, PutAllResult> {
        StoreReply::later(async move {
            for (_, record) in &mut records {
                record.labels = sort_and_deduplicate(std::mem::take(&mut record.labels));
            }
            self.about.check_put_all(&condition, &records)?;
            let all: Vec<Label> = records
                .iter()
                .flat_map(|(_, record)| record.labels.iter().cloned())
                .collect();
            let labels = LabelColumns::new(&all);
            let mut end = 0;
            let ends: Vec<i32> = records
                .iter()
                .map(|(_, record)| {
                    end += record.labels.len() as i32;
                    end
                })
                .collect();
            let spaces = indexed_all(records.iter().map(|(space, _)| *space));
            let keys = whole_all(records.iter().map(|(_, record)| &*record.key));
            let values: Vec<&[u8]> = records
                .iter()
                .map(|(_, record)| &record.value[..])
                .collect();
            let expires: Vec<Option<i64>> =
                records.iter().map(|(_, record)| record.expires).collect();
            let texts: Vec<Option<String>> = records
                .iter()
                .map(|(space, record)| words::vector(space, record))
                .collect();
            let row = self
            .row(
                Work::Write,
                "SELECT cachalot_put_all($1, $2, $3, $4, $5, $6, $7, $8::text[]::tsvector[], $9, $10, $11, $12) AS done",
                &[
                    (&indexed(condition.space), Type::BYTEA),
                    (&indexed(condition.key), Type::BYTEA),
                    (&condition.value.as_deref(), Type::BYTEA),
                    (&spaces, Type::BYTEA_ARRAY),
                    (&keys, Type::BYTEA_ARRAY),
                    (&values, Type::BYTEA_ARRAY),
                    (&expires, Type::INT8_ARRAY),
                    (&texts, Type::TEXT_ARRAY),
                    (&labels.names, Type::BYTEA_ARRAY),
                    (&labels.values, Type::BYTEA_ARRAY),
                    (&ends, Type::INT4_ARRAY),
                    (&self.shift(), Type::INT8),
                ],
            )
            .await?;
            Ok(match row::column::<i64>(&row, "done")? {
                -1 => PutAllResult::Stored,
                -2 => PutAllResult::Changed,
                left => PutAllResult::Busy {
                    left: Duration::from_millis(row::unsigned(left)?),
                },
            })
        })
    }

    fn reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        labels: &'a [Label],
        hold: Duration,
    ) -> StoreReply<'a, ReserveResult> {
        StoreReply::later(async move {
            self.about
                .check_names([space, key].into_iter().chain(label_texts(labels)))?;
            let labels = LabelColumns::new(labels);
            let row = self
                .row(
                    Work::Write,
                    "SELECT * FROM cachalot_reserve($1, $2, $3, $4, $5, $6)",
                    &[
                        (&indexed(space), Type::BYTEA),
                        (&indexed(key), Type::BYTEA),
                        (&labels.names, Type::BYTEA_ARRAY),
                        (&labels.values, Type::BYTEA_ARRAY),
                        (&milliseconds(hold), Type::INT8),
                        (&self.shift(), Type::INT8),
                    ],
                )
                .await?;
            row::reserve_result(&row, space, key)
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, hold: Duration) -> StoreReply<'a, bool> {
        StoreReply::later(async move {
            let renewed = self
                .rows(
                    Work::Write,
                    "UPDATE cachalot_leases SET until = cachalot_now($5) + $4 \
                 WHERE space = $1 AND key = $2 AND fence = $3 AND is_current RETURNING 1",
                    &[
                        (&indexed(&lease.space), Type::BYTEA),
                        (&indexed(&lease.key), Type::BYTEA),
                        (&signed(lease.fence), Type::INT8),
                        (&milliseconds(hold), Type::INT8),
                        (&self.shift(), Type::INT8),
                    ],
                )
                .await?;
            Ok(!renewed.is_empty())
        })
    }

    fn release(&self, lease: Lease) -> StoreReply<'_, ()> {
        StoreReply::later(async move {
            let statement = "UPDATE cachalot_leases SET is_current = false \
                         WHERE space = $1 AND key = $2 AND fence = $3";
            let parameters: [Parameter<'_>; 3] = [
                (&indexed(&lease.space), Type::BYTEA),
                (&indexed(&lease.key), Type::BYTEA),
                (&signed(lease.fence), Type::INT8),
            ];
            self.rows(Work::Write, statement, &parameters).await?;
            Ok(())
        })
    }

    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        StoreReply::later(async move {
            check_page(filter, &page)?;
            self.about.check_names([space])?;
            let statement = select::records(space, filter, &page);
            let rows = self.rows(Work::Scan, &statement, &[]).await?;
            record_page(&rows, filter, &page)
        })
    }

    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        StoreReply::later(async move {
            check_page(filter, &page)?;
            self.about.check_names([space])?;
            let leases = reaches_reservations(filter).then(|| select::leases(space, filter, &page));
            let rows = self
                .rows(
                    Work::Write,
                    "SELECT * FROM cachalot_erase($1, $2, $3, $4, $5)",
                    &[
                        (&indexed(space), Type::BYTEA),
                        (&leases, Type::TEXT),
                        (&select::keys(space, filter, &page), Type::TEXT),
                        (&select::value_bytes(page.values), Type::INT4),
                        (&self.shift(), Type::INT8),
                    ],
                )
                .await?;
            record_page(&rows, filter, &page)
        })
    }

    fn add<'a>(
        &'a self,
        space: &'a str,
        additions: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, Vec<u64>> {
        StoreReply::later(async move {
            let names = additions.iter().map(|(name, _)| *name);
            self.about
                .check_names([space].into_iter().chain(names.clone()))?;
            let counts: Vec<i64> = additions.iter().map(|(_, count)| signed(*count)).collect();
            let row = self
                .row(
                    Work::Write,
                    "SELECT cachalot_add($1, $2, $3) AS counts",
                    &[
                        (&indexed(space), Type::BYTEA),
                        (&whole_all(names), Type::BYTEA_ARRAY),
                        (&counts, Type::INT8_ARRAY),
                    ],
                )
                .await?;
            row::counts(&row, "counts")
        })
    }

    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> StoreReply<'a, u64> {
        StoreReply::later(async move {
            self.about.check_names([space, counter])?;
            let row = self
                .row(
                    Work::Write,
                    "SELECT cachalot_raise_to($1, $2, $3) AS value",
                    &[
                        (&indexed(space), Type::BYTEA),
                        (&whole(counter), Type::BYTEA),
                        (&signed(value), Type::INT8),
                    ],
                )
                .await?;
            row::unsigned(row::column(&row, "value")?)
        })
    }

    fn counters<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> StoreReply<'a, Vec<(String, u64)>> {
        StoreReply::later(async move {
            self.about.check_names([space])?;
            let statement = select::counters(space, prefix, after, limit);
            let rows = self.rows(Work::Scan, &statement, &[]).await?;
            let counter = |row| -> Result<_, Error> {
                let name = row::text(row::column(row, "name")?)?;
                Ok((name, row::unsigned(row::column(row, "value")?)?))
            };
            rows.iter().map(counter).collect()
        })
    }

    fn touch<'a>(&'a self, space: &'a str, used: &'a [(&'a str, Millis)]) -> StoreReply<'a, ()> {
        StoreReply::later(async move {
            let keys = indexed_all(used.iter().map(|(key, _)| *key));
            let times: Vec<i64> = used.iter().map(|(_, at)| *at).collect();
            let statement = "SELECT cachalot_touch($1, $2, $3)";
            let parameters: [Parameter<'_>; 3] = [
                (&indexed(space), Type::BYTEA),
                (&keys, Type::BYTEA_ARRAY),
                (&times, Type::INT8_ARRAY),
            ];
            self.rows(Work::Write, statement, &parameters).await?;
            Ok(())
        })
    }

    fn amend<'a>(&'a self, space: &'a str, record: Record) -> StoreReply<'a, Option<u64>> {
        StoreReply::later(async move {
            self.about.check_amend(space, &record)?;
            let row = self
                .row(
                    Work::Write,
                    "SELECT cachalot_amend($1, $2, $3, $4, $5) AS revision",
                    &[
                        (&indexed(space), Type::BYTEA),
                        (&indexed(&record.key), Type::BYTEA),
                        (&&record.value[..], Type::BYTEA),
                        (&signed(record.revision), Type::INT8),
                        (&record.updated, Type::INT8),
                    ],
                )
                .await?;
            row::column::<Option<i64>>(&row, "revision")?
                .map(row::unsigned)
                .transpose()
        })
    }

    fn usage<'a>(&'a self, space: &'a str) -> StoreReply<'a, SpaceUsage> {
        StoreReply::later(async move {
            let row = self
            .row(
                Work::Lookup,
                "SELECT coalesce(sum(records), 0)::bigint AS records, coalesce(sum(bytes), 0)::bigint AS bytes \
                 FROM cachalot_usage WHERE space = $1",
                &[(&indexed(space), Type::BYTEA)],
            )
            .await?;
            Ok(SpaceUsage {
                records: row::unsigned(row::column(&row, "records")?)?,
                bytes: row::unsigned(row::column(&row, "bytes")?)?,
            })
        })
    }

    fn inspect(&self) -> StoreReply<'_, Vec<Finding>> {
        StoreReply::later(async move {
            let row = self
                .row(
                    Work::Lookup,
                    "SELECT current_setting('server_version') AS version, current_setting('synchronous_commit') AS commit, \
                     current_setting('fsync') AS fsync, current_setting('max_connections') AS connections, \
                     coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS tls, \
                     pg_size_pretty(pg_total_relation_size('cachalot_records')) AS size",
                    &[],
                )
                .await?;
            let text = |name| row::column::<String>(&row, name);
            let persistence = match (&*text("commit")?, &*text("fsync")?) {
                ("off", _) | (_, "off") => Finding::degraded(
                    "persistence",
                    format!(
                        "synchronous_commit {}, fsync {}",
                        text("commit")?,
                        text("fsync")?
                    ),
                    "a crash of the server may lose the last writes, invalidations among them: set both to on",
                ),
                (commit, _) => Finding::good("persistence", format!("synchronous_commit {commit}")),
            };
            Ok(vec![
                Finding::good("version", format!("Postgres {}", text("version")?)),
                Finding::good("records", text("size")?),
                Finding::good("connections", format!("at most {}", text("connections")?)),
                Finding::good(
                    "TLS",
                    if row::column::<bool>(&row, "tls")? {
                        "yes"
                    } else {
                        "no"
                    },
                ),
                persistence,
            ])
        })
    }

    fn recall(&self) -> Option<&dyn Recall> {
        Some(self)
    }
}

impl Recall for PostgresStore {
    fn search<'a>(
        &'a self,
        query: &'a str,
        labels: &'a [LabelMatch<'a>],
        limit: u32,
    ) -> StoreReply<'a, Vec<RecallHit>> {
        StoreReply::later(async move {
            let Some(query) = words::query(query) else {
                return Ok(Vec::new());
            };
            let statement = select::search(space::USER, &query, labels, limit);
            let rows = self.rows(Work::Scan, &statement, &[]).await?;
            let hit = |row| -> Result<_, Error> {
                Ok(RecallHit {
                    record: row::record(row)?,
                    score: f64::from(row::column::<f32>(row, "score")?),
                })
            };
            rows.iter().map(hit).collect()
        })
    }
}
