//! A store in a Postgres database, version 12 or later, shared by any number of machines.
//!
//! Every call is one statement, most of which call a function of the database (see `functions.sql`). Statements have
//! no names, so that a pooler in front of the server may move them between its connections; without a pooler, lookups
//! are prepared. The times are those of the
//! server.

mod connections;
mod failure;
mod findings;
mod fleet_ledger;
mod layout;
mod lookup;
mod name;
mod row;
mod select;
mod server;
mod subscription;
mod timeline;
mod words;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use cachalot_store::implementation::{
    erase_step, milliseconds, next_cursor, reaches_reservations, signed, sort_and_deduplicate,
};
use cachalot_store::{
    Error, Finding, GetOrReserve, GetOrReserveResult, GetResult, Label, LabelMatch, Lease, Millis,
    PageRequest, PutAllResult, PutCondition, PutResult, Recall, RecallHit, Record, RecordFilter,
    RecordPage, ReserveResult, SpaceUsage, Store, StoreInfo, space,
};
use tokio_postgres::types::Type;

use connections::{Connections, Work, is_busy};
use row::{LabelColumns, Parameter, RecordColumns, indexed, indexed_all, whole, whole_all};

use crate::changes::{Changes, Subscribe};
use crate::open_options::OpenOptions;
use crate::repetition::{
    Progress, Repetition, are_effects_enough, put_all_result, replaces_its_condition,
    result_of_first_put, stale_revision, with_owner,
};
use crate::url::{StoreUrl, StoreUrlError};

pub use fleet_ledger::{CallPosition, FleetLedger};
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

pub(crate) fn open(url: &StoreUrl, options: &OpenOptions) -> Result<Arc<dyn Store>, StoreUrlError> {
    let server = Server::new(url, options.password())?;
    let server = server.connecting_within(options.connect_timeout);
    Ok(options.followed(PostgresStore::new(server)))
}

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
        let about = StoreInfo::new("postgres", server.location(), LARGEST_VALUE, LONGEST_NAME);
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
        let executed = self.execute(work, statement, parameters, false).await?;
        Ok(executed.rows)
    }

    /// Executes a statement, and once more if its connection ends and executing it twice is harmless. One that returns a
    /// row returns the timeline of the server, too, where another server may execute it.
    async fn execute(
        &self,
        work: Work,
        statement: &str,
        parameters: &[Parameter<'_>],
        returns_row: bool,
    ) -> Result<Executed, Error> {
        let is_repeatable = work != Work::WriteOnce;
        let mut repetition = Repetition::default();
        let mut has_layout = true;
        loop {
            let open = self.connections.get(work).await?;
            let checked = open
                .timeline
                .filter(|_| returns_row && open.lookups.is_none());
            let with_timeline = checked.map(|_| timeline::with_timeline(statement));
            let statement = with_timeline.as_deref().unwrap_or(statement);
            let query = open.client.query_typed(statement, parameters);
            let rows = match open.liveness.watch(query).await {
                Ok(rows) => rows,
                Err(error) if has_layout && failure::is_of_other_layout(&error) => {
                    // Another version has replaced the functions. The next connection finds out which layout it is.
                    self.connections.forget_layout();
                    has_layout = false;
                    continue;
                }
                Err(error) => {
                    let progress = open.progress(&error);
                    let error = self.connections.failure(error);
                    repetition.after(error, progress, is_repeatable)?;
                    continue;
                }
            };
            let found = match (checked, rows.first()) {
                (Some(_), Some(row)) => Some(row::column(row, timeline::COLUMN)?),
                _ => None,
            };
            // A row of another timeline does not count (invariant 2 of `timeline`).
            if found == checked {
                let lost = repetition.lost();
                return Ok(Executed { rows, lost });
            }
            self.connections.forget_server();
            let error = timeline::other_server(self.connections.location());
            // The other server may have executed the statement, so it counts as lost.
            repetition.after(error, Progress::Lost, is_repeatable)?;
        }
    }

    /// Returns the only row of the result.
    async fn row(
        &self,
        work: Work,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<tokio_postgres::Row, Error> {
        let executed = self.execute(work, statement, parameters, true).await?;
        executed.row()
    }

    /// Returns the reservation that a call has made the first time that the server executed it, in place of that which the
    /// call found the second time.
    async fn own_reservation(
        &self,
        space: &str,
        key: &str,
        labels: &LabelColumns<'_>,
        found: ReserveResult,
    ) -> Result<ReserveResult, Error> {
        let ReserveResult::Busy { fence, .. } = found else {
            return Ok(found);
        };
        let own = self
            .rows(
                Work::Write,
                "SELECT 1 FROM cachalot_leases \
                 WHERE space = $1 AND key = $2 AND fence = $3 AND is_current AND label_values = $4",
                &[
                    (&indexed(space), Type::BYTEA),
                    (&indexed(key), Type::BYTEA),
                    (&signed(fence), Type::INT8),
                    (&labels.values, Type::BYTEA_ARRAY),
                ],
            )
            .await?;
        Ok(if own.is_empty() {
            found
        } else {
            ReserveResult::held(space, key, fence)
        })
    }
}

/// The result of a statement.
struct Executed {
    rows: Vec<tokio_postgres::Row>,
    /// The error of an earlier attempt, which the server may have executed, too.
    lost: Option<Error>,
}

impl Executed {
    /// Returns the only row.
    fn row(mut self) -> Result<tokio_postgres::Row, Error> {
        self.rows.pop().ok_or_else(|| row::damaged("no row"))
    }
}

/// Returns the work of a call whose result depends on what it changes.
fn work_of_effects(space: &str) -> Work {
    if are_effects_enough(space) {
        Work::Write
    } else {
        Work::WriteOnce
    }
}

/// Adds the fence of the layout to a statement without conditions.
fn fenced(statement: &str) -> String {
    format!("{statement} WHERE {}", layout::fence())
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

#[cfg(feature = "testing")]
impl cachalot_store::conformance::layouts::ChangeLayout for PostgresStore {
    fn set_newer_layout(&self, is_newer: bool) -> cachalot_store::StoreReply<'_, ()> {
        cachalot_store::StoreReply::later(async move {
            let statement = layout::set_newer(is_newer);
            self.rows(Work::Scan, &statement, &[]).await.map(drop)
        })
    }
}

impl Store for PostgresStore {
    cachalot_store::forward_to_store!(checked: get get_or_reserve reserve find erase add raise_to counters);
    cachalot_store::forward_to_store!(checked: amend);
    cachalot_store::forward_to_store!(async: put put_all put_new renew release touch usage inspect);

    fn about(&self) -> &StoreInfo {
        &self.about
    }

    fn recall(&self) -> Option<&dyn Recall> {
        Some(self)
    }
}

/// The calls of [`Store`] and [`Recall`].
impl PostgresStore {
    async fn get(&self, space: &str, key: &str, counters: &[&str]) -> Result<GetResult, Error> {
        let open = self.connections.get(Work::Lookup).await?;
        if let Some(lookups) = &open.lookups {
            let (place, is_busy) = ((space, key), is_busy(&open));
            let row = lookups
                .execute(place, counters, self.shift(), is_busy)
                .await;
            match row {
                Ok(Some(row)) => return row::get_result(&row, key),
                // No statement has so many counters, or the batch of the lookup has failed.
                Ok(None) => {}
                Err(error) if open.progress(&error) == Progress::Answered => {
                    return Err(self.connections.failure(error));
                }
                // The connection has ended.
                Err(_) => {}
            }
        }
        let row = self
            .row(
                Work::Lookup,
                &fenced("SELECT * FROM cachalot_get($1, $2, $3, $4)"),
                &[
                    (&indexed(space), Type::BYTEA),
                    (&indexed(key), Type::BYTEA),
                    (&indexed_all(counters.iter().copied()), Type::BYTEA_ARRAY),
                    (&self.shift(), Type::INT8),
                ],
            )
            .await?;
        row::get_result(&row, key)
    }

    async fn get_or_reserve(
        &self,
        space: &str,
        key: &str,
        request: GetOrReserve<'_>,
    ) -> Result<GetOrReserveResult, Error> {
        let stale = stale_revision(request.stale);
        let labels = with_owner(request.labels);
        let labels = LabelColumns::new(&labels);
        let counters = indexed_all(request.counters.iter().copied());
        let executed = self
            .execute(
                Work::Write,
                &fenced("SELECT * FROM cachalot_get_or_reserve($1, $2, $3, $4, $5, $6, $7, $8)"),
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
                true,
            )
            .await?;
        let is_repeated = executed.lost.is_some();
        let row = executed.row()?;
        let mut reserved = match row::column::<Option<i64>>(&row, "o_fence")? {
            None => None,
            Some(_) => Some(row::reserve_result(&row, space, key)?),
        };
        // The statement may have been executed twice, and have found its own reservation.
        if let Some(found) = reserved.take_if(|_| is_repeated) {
            reserved = Some(self.own_reservation(space, key, &labels, found).await?);
        }
        Ok(GetOrReserveResult {
            found: row::get_result(&row, key)?,
            reserved,
        })
    }

    async fn put(
        &self,
        space: &str,
        mut record: Record,
        lease: Option<&Lease>,
        counters: &[(&str, u64)],
    ) -> Result<PutResult, Error> {
        record.labels = sort_and_deduplicate(record.labels);
        self.about.check_put(space, &record, lease, counters)?;
        let labels = LabelColumns::new(&record.labels);
        let names = indexed_all(counters.iter().map(|(name, _)| *name));
        let counts: Vec<i64> = counters.iter().map(|(_, count)| signed(*count)).collect();
        let executed = self
        .execute(
            Work::Write,
            &fenced("SELECT * FROM cachalot_put($1, $2, $3, $4, $5, $6, $7::text::tsvector, $8, $9, $10, $11)"),
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
            true,
        )
        .await?;
        let is_repeated = executed.lost.is_some();
        let row = executed.row()?;
        Ok(match row::column::<i64>(&row, "revision")? {
            -1 if is_repeated => result_of_first_put(self, space, &record).await?,
            -1 => PutResult::LeaseLost,
            -2 => PutResult::CounterChanged {
                counter: usize::try_from(row::column::<i32>(&row, "changed")?).unwrap_or(0),
            },
            revision => PutResult::Stored {
                revision: row::unsigned(revision)?,
            },
        })
    }

    async fn put_all(
        &self,
        condition: PutCondition<'_>,
        mut records: Vec<(&str, Record)>,
    ) -> Result<PutAllResult, Error> {
        for (_, record) in &mut records {
            record.labels = sort_and_deduplicate(std::mem::take(&mut record.labels));
        }
        self.about.check_put_all(&condition, &records)?;
        let columns = RecordColumns::new(records.iter().map(|(space, record)| (*space, record)));
        // Executed twice, it finds that the condition is not met any more.
        let work = if replaces_its_condition(&condition, &records) {
            Work::Write
        } else {
            Work::WriteOnce
        };
        let executed = self
        .execute(
            work,
            &fenced("SELECT cachalot_put_all($1, $2, $3, $4, $5, $6, $7, $8::text[]::tsvector[], $9, $10, $11, $12) AS done"),
            &columns.parameters(
                &[
                    (&indexed(condition.space), Type::BYTEA),
                    (&indexed(condition.key), Type::BYTEA),
                    (&condition.value.as_deref(), Type::BYTEA),
                    (&columns.spaces, Type::BYTEA_ARRAY),
                ],
                &self.shift(),
            ),
            true,
        )
        .await?;
        let lost = executed.lost.clone();
        let row = executed.row()?;
        put_all_result(row::column(&row, "done")?, lost, row::unsigned)
    }

    async fn put_new(&self, space: &str, mut records: Vec<Record>) -> Result<Vec<bool>, Error> {
        for record in &mut records {
            record.labels = sort_and_deduplicate(std::mem::take(&mut record.labels));
            self.about.check_put(space, record, None, &[])?;
        }
        let columns = RecordColumns::new(records.iter().map(|record| (space, record)));
        let row = self
            .row(
                // Executed twice, it finds its own records.
                Work::WriteOnce,
                &fenced("SELECT cachalot_put_new($1, $2, $3, $4, $5::text[]::tsvector[], $6, $7, $8, $9) AS stored"),
                &columns.parameters(&[(&indexed(space), Type::BYTEA)], &self.shift()),
            )
            .await?;
        row::column(&row, "stored")
    }

    async fn reserve(
        &self,
        space: &str,
        key: &str,
        labels: &[Label],
        hold: Duration,
    ) -> Result<ReserveResult, Error> {
        let labels = with_owner(labels);
        let labels = LabelColumns::new(&labels);
        let executed = self
            .execute(
                Work::Write,
                &fenced("SELECT * FROM cachalot_reserve($1, $2, $3, $4, $5, $6)"),
                &[
                    (&indexed(space), Type::BYTEA),
                    (&indexed(key), Type::BYTEA),
                    (&labels.names, Type::BYTEA_ARRAY),
                    (&labels.values, Type::BYTEA_ARRAY),
                    (&milliseconds(hold), Type::INT8),
                    (&self.shift(), Type::INT8),
                ],
                true,
            )
            .await?;
        let is_repeated = executed.lost.is_some();
        let found = row::reserve_result(&executed.row()?, space, key)?;
        if is_repeated {
            self.own_reservation(space, key, &labels, found).await
        } else {
            Ok(found)
        }
    }

    async fn renew(&self, lease: &Lease, hold: Duration) -> Result<bool, Error> {
        let renewed = self
            .rows(
                Work::Write,
                &format!(
                    "UPDATE cachalot_leases SET until = cachalot_now($5) + $4 WHERE space = $1 AND key = $2 \
                     AND fence = $3 AND is_current AND {} RETURNING 1",
                    layout::fence()
                ),
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
    }

    async fn release(&self, lease: Lease) -> Result<(), Error> {
        let statement = format!(
            "UPDATE cachalot_leases SET is_current = false \
             WHERE space = $1 AND key = $2 AND fence = $3 AND {}",
            layout::fence()
        );
        let parameters: [Parameter<'_>; 3] = [
            (&indexed(&lease.space), Type::BYTEA),
            (&indexed(&lease.key), Type::BYTEA),
            (&signed(lease.fence), Type::INT8),
        ];
        self.rows(Work::Write, &statement, &parameters).await?;
        Ok(())
    }

    async fn find(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: PageRequest<'_>,
    ) -> Result<RecordPage, Error> {
        let statement = select::records(space, filter, &page);
        let rows = self.rows(Work::Scan, &statement, &[]).await?;
        record_page(&rows, filter, &page)
    }

    async fn erase(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: PageRequest<'_>,
    ) -> Result<RecordPage, Error> {
        let page = erase_step(filter, page);
        let leases = reaches_reservations(filter).then(|| select::leases(space, filter, &page));
        let rows = self
            .rows(
                work_of_effects(space),
                &fenced("SELECT * FROM cachalot_erase($1, $2, $3, $4, $5)"),
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
    }

    async fn add(&self, space: &str, additions: &[(&str, u64)]) -> Result<Vec<u64>, Error> {
        let names = additions.iter().map(|(name, _)| *name);
        let counts: Vec<i64> = additions.iter().map(|(_, count)| signed(*count)).collect();
        let row = self
            .row(
                work_of_effects(space),
                &fenced("SELECT cachalot_add($1, $2, $3) AS counts"),
                &[
                    (&indexed(space), Type::BYTEA),
                    (&whole_all(names), Type::BYTEA_ARRAY),
                    (&counts, Type::INT8_ARRAY),
                ],
            )
            .await?;
        row::counts(&row, "counts")
    }

    async fn raise_to(&self, space: &str, counter: &str, value: u64) -> Result<u64, Error> {
        let row = self
            .row(
                Work::Write,
                &fenced("SELECT cachalot_raise_to($1, $2, $3) AS value"),
                &[
                    (&indexed(space), Type::BYTEA),
                    (&whole(counter), Type::BYTEA),
                    (&signed(value), Type::INT8),
                ],
            )
            .await?;
        row::unsigned(row::column(&row, "value")?)
    }

    async fn counters(
        &self,
        space: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, u64)>, Error> {
        let statement = select::counters(space, prefix, after, limit);
        let rows = self.rows(Work::Scan, &statement, &[]).await?;
        let counter = |row| -> Result<_, Error> {
            let name = row::text(row::column(row, "name")?)?;
            Ok((name, row::unsigned(row::column(row, "value")?)?))
        };
        rows.iter().map(counter).collect()
    }

    async fn touch(&self, space: &str, used: &[(&str, Millis)]) -> Result<(), Error> {
        let keys = indexed_all(used.iter().map(|(key, _)| *key));
        let times: Vec<i64> = used.iter().map(|(_, at)| *at).collect();
        let statement = fenced("SELECT cachalot_touch($1, $2, $3)");
        let parameters: [Parameter<'_>; 3] = [
            (&indexed(space), Type::BYTEA),
            (&keys, Type::BYTEA_ARRAY),
            (&times, Type::INT8_ARRAY),
        ];
        self.rows(Work::Write, &statement, &parameters).await?;
        Ok(())
    }

    async fn amend(&self, space: &str, record: Record) -> Result<Option<u64>, Error> {
        let row = self
            .row(
                Work::Write,
                &fenced("SELECT cachalot_amend($1, $2, $3, $4, $5) AS revision"),
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
    }

    async fn usage(&self, space: &str) -> Result<SpaceUsage, Error> {
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
    }

    async fn inspect(&self) -> Result<Vec<Finding>, Error> {
        let row = self.row(Work::Lookup, findings::QUESTION, &[]).await?;
        findings::findings(&row)
    }

    async fn search(
        &self,
        query: &str,
        labels: &[LabelMatch<'_>],
        limit: u32,
    ) -> Result<Vec<RecallHit>, Error> {
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
    }
}

impl Recall for PostgresStore {
    cachalot_store::forward_to_store!(async: search);
}
