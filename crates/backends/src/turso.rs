//! A store in a Turso database, or in a libSQL server, shared by any number of machines.
//!
//! A call is one HTTP request, and one transaction on the primary server: also a lookup, since a replica may not have
//! the last writes. The times are those of the server.

mod client;
mod layout;
mod record;
mod select;
mod statement;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use cachalot_store::implementation::{
    Conditions as _, MAX_COUNTER, MIN_LAPSED_LEASE_AGE, fts5_expression, milliseconds,
    reaches_reservations, signed, sort_and_deduplicate, too_new, weight,
};
use cachalot_store::{
    Error, Finding, GetOrReserve, GetOrReserveResult, GetResult, Label, LabelMatch, Lease, Millis,
    Order, PageRequest, PutAllResult, PutCondition, PutResult, Recall, RecallHit, Record,
    RecordFilter, RecordPage, ReserveResult, SpaceUsage, Stale, Store, StoreInfo, counter,
    space as names,
};
use tokio::sync::OnceCell;

use client::{Outcome, check};
use record::{decode_labels, encode_labels, record_of_page, record_page};
use select::{Columns, Excess};
use statement::{Row, Rows, Statement, damaged};

use crate::open_options::OpenOptions;
use crate::url::{StoreUrl, StoreUrlError};

pub use client::Server;

/// Maximum size of a record, in bytes. A server returns 10 MB at most by default.
const LARGEST_VALUE: u64 = 4 << 20;

/// Maximum length of a name, in bytes.
const LONGEST_NAME: u64 = 64 << 10;

/// A store in a libSQL server. See the [module](self).
pub struct TursoStore {
    about: StoreInfo,
    server: Server,
    /// Added to the server's time, in milliseconds. Zero but in tests.
    shift: Arc<AtomicI64>,
    /// Set once the tables exist.
    layout: OnceCell<()>,
}

pub(crate) fn open(url: &StoreUrl, options: &OpenOptions) -> Result<Arc<dyn Store>, StoreUrlError> {
    let server = Server::new(url, options.password(), options.http_client(None)?)?;
    Ok(Arc::new(TursoStore::new(server)))
}

impl TursoStore {
    /// Creates a store on a server. Connects with the first call.
    #[must_use]
    pub fn new(server: Server) -> Self {
        Self::with_shift(server, Arc::default())
    }

    /// Creates a store whose time is that of the server plus `shift` milliseconds, for tests: time passes
    /// without waiting for it.
    #[must_use]
    pub fn with_shift(server: Server, shift: Arc<AtomicI64>) -> Self {
        let about = StoreInfo::new("turso", server.location(), LARGEST_VALUE, LONGEST_NAME);
        Self {
            about,
            server,
            shift,
            layout: OnceCell::new(),
        }
    }

    /// The expression of the server's time in milliseconds.
    fn now(&self) -> String {
        let shift = self.shift.load(Ordering::Relaxed);
        format!("(CAST(unixepoch('subsec') * 1000 AS INTEGER) + {shift})")
    }

    /// Executes statements in one transaction, once the tables exist.
    async fn execute(&self, statements: &[Statement]) -> Result<Outcome, Error> {
        self.layout.get_or_try_init(|| self.create_tables()).await?;
        // Another version may have changed the tables since.
        let known = format!("({}) <= {}", layout::READ_VERSION, layout::VERSION);
        let fence = check(&known);
        let fenced: Vec<_> = std::iter::once(&fence).chain(statements).collect();
        Ok(match self.server.execute(&fenced).await? {
            Outcome::Failed(0, _) => return Err(too_new(&self.about.location)),
            Outcome::Failed(number, rows) => {
                Outcome::Failed(number - 1, rows.into_iter().skip(1).collect())
            }
            Outcome::Committed(rows) => Outcome::Committed(rows.into_iter().skip(1).collect()),
        })
    }

    /// Executes statements without a check in one transaction, once the tables exist.
    async fn rows(&self, statements: &[Statement]) -> Result<Vec<Rows>, Error> {
        committed(self.execute(statements).await?)
    }

    /// Executes one statement; returns its rows.
    async fn row(&self, statement: Statement) -> Result<Option<Row>, Error> {
        Ok(first_row(self.rows(&[statement]).await?))
    }

    /// Executes one statement that selects records; see [`record_page`].
    async fn record_page(
        &self,
        select: Statement,
        filter: &RecordFilter<'_>,
        page: &PageRequest<'_>,
    ) -> Result<(RecordPage, Vec<String>), Error> {
        let rows = self.rows(&[select]).await?.into_iter().next();
        record_page(rows.ok_or_else(|| damaged("no result"))?, filter, page)
    }

    async fn create_tables(&self) -> Result<(), Error> {
        let exists = committed(
            self.server
                .execute(&[&Statement::new(layout::EXISTS)])
                .await?,
        )?;
        if first_row(exists).is_none() {
            let create: Vec<_> = layout::CREATE.into_iter().map(Statement::new).collect();
            committed(
                self.server
                    .execute(&create.iter().collect::<Vec<_>>())
                    .await?,
            )?;
        }
        // Read also after the creation: another version may have created the tables first.
        let read = Statement::new(layout::READ_VERSION);
        let version = committed(self.server.execute(&[&read]).await?)?;
        let version = first_row(version)
            .ok_or_else(|| damaged("no layout"))?
            .number(0)?;
        if version > layout::VERSION {
            return Err(too_new(&self.about.location));
        }
        Ok(())
    }

    /// Returns the statements that read a record and counters; see [`Self::get_result`].
    fn get_statements(&self, space: &str, key: &str, counters: &[&str]) -> [Statement; 2] {
        let record = Statement::new(format!(
            "SELECT {}, revision, updated, expires, labels, value FROM (SELECT 1) \
             LEFT JOIN cachalot_records ON space = ? AND key = ?",
            self.now()
        ));
        let names = vec!["?"; counters.len()].join(", ");
        let values = Statement::new(format!(
            "SELECT name, value FROM cachalot_counters WHERE space = ? AND name IN ({names})"
        ));
        [
            record.text(space).text(key),
            counters
                .iter()
                .fold(values.text(space), |values, name| values.text(name)),
        ]
    }

    fn get_result(
        record: Rows,
        values: Rows,
        key: &str,
        names: &[&str],
    ) -> Result<GetResult, Error> {
        let row = record.first().ok_or_else(|| damaged("no time"))?;
        let now = row.number(0)?;
        let record = match row.optional_number(1)? {
            None => None,
            Some(_) => Some(Record {
                key: key.to_owned(),
                revision: row.count(1)?,
                updated: row.number(2)?,
                expires: row.optional_number(3)?,
                labels: decode_labels(row.text(4)?)?,
                value: row.blob(5)?,
            }),
        };
        let mut counters = vec![0; names.len()];
        for row in values {
            let name = row.text(0)?;
            for (counter, _) in counters
                .iter_mut()
                .zip(names)
                .filter(|(_, found_name)| **found_name == name)
            {
                *counter = row.count(1)?;
            }
        }
        Ok(GetResult {
            record,
            counters,
            now,
        })
    }

    /// Returns the statement that reserves a key under a condition, and returns the fence if it did.
    fn reserve_statement(
        &self,
        space: &str,
        key: &str,
        labels: &[Label],
        hold: Duration,
        condition: &str,
    ) -> Statement {
        let now = self.now();
        let hold = milliseconds(hold);
        // The fence is at least the time in microseconds, because the row with the last fence may have been removed
        // (`clean_up_statement`).
        Statement::new(format!(
            "INSERT INTO cachalot_leases(space, key, fence, until, current, labels) \
             SELECT ?1, ?2, CAST(unixepoch('subsec') * 1000000 AS INTEGER), {now} + {hold}, 1, ?3 WHERE {condition} \
             ON CONFLICT(space, key) DO UPDATE SET fence = max(fence + 1, excluded.fence), \
             until = excluded.until, current = 1, labels = excluded.labels \
             WHERE current = 0 OR until <= {now} RETURNING fence"
        ))
        .text(space)
        .text(key)
        .text(&encode_labels(labels))
    }

    /// Returns the statement that reads the current lease on a key, and the time that is left.
    fn lease_statement(&self, space: &str, key: &str) -> Statement {
        let now = self.now();
        Statement::new(format!(
            "SELECT fence, until - {now} FROM cachalot_leases \
             WHERE space = ? AND key = ? AND current = 1 AND until > {now}"
        ))
        .text(space)
        .text(key)
    }

    /// Returns the statement that removes leases that have lapsed long ago.
    fn clean_up_statement(&self) -> Statement {
        Statement::new(format!(
            "DELETE FROM cachalot_leases WHERE until <= {} - {MIN_LAPSED_LEASE_AGE}",
            self.now()
        ))
    }

    /// Returns the statements that store a record. The first one returns the revision.
    fn put_statements(
        &self,
        space: &str,
        record: &Record,
        unless_identical: bool,
    ) -> Vec<Statement> {
        let now = self.now();
        let unless = if unless_identical {
            " WHERE NOT (value = excluded.value AND labels = excluded.labels AND expires IS excluded.expires)"
        } else {
            ""
        };
        let size = weight(&record.key, record.value.len(), &record.labels);
        let insert = Statement::new(format!(
            "INSERT INTO cachalot_records(id, space, key, revision, updated, used, expires, labels, weight, value) \
             VALUES ((SELECT ifnull(max(id), 0) + 1 FROM cachalot_records), ?, ?, 1, {now}, {now}, ?, ?, ?, ?) \
             ON CONFLICT(space, key) DO UPDATE SET id = excluded.id, revision = revision + 1, \
             updated = excluded.updated, used = excluded.used, expires = excluded.expires, \
             labels = excluded.labels, weight = excluded.weight, value = excluded.value{unless} RETURNING revision"
        ))
        .text(space)
        .text(&record.key)
        .optional_number(record.expires)
        .text(&encode_labels(&record.labels))
        .number(i64::try_from(size).unwrap_or(i64::MAX))
        .blob(&record.value);
        let mut statements = vec![insert];
        if space == names::USER {
            let id = "(SELECT id FROM cachalot_records WHERE space = ? AND key = ?)";
            let unindex = Statement::new(format!("DELETE FROM cachalot_texts WHERE rowid = {id}"));
            statements.push(unindex.text(space).text(&record.key));
            let index = Statement::new(format!(
                "INSERT INTO cachalot_texts(rowid, key, value, labels) VALUES ({id}, ?, ?, ?)"
            ));
            let labels: Vec<_> = record
                .labels
                .iter()
                .map(|label| label.value.as_str())
                .collect();
            // A value that is not UTF-8 text is found by its key and labels only.
            let value = std::str::from_utf8(&record.value).unwrap_or_default();
            let index = index.text(space).text(&record.key).text(&record.key);
            statements.push(index.text(value).text(&labels.join("\n")));
        }
        statements
    }

    fn end_lease(space: &str, key: &str) -> Statement {
        Statement::new("UPDATE cachalot_leases SET current = 0 WHERE space = ? AND key = ?")
            .text(space)
            .text(key)
    }
}

/// Returns the results of statements without a check.
fn committed(outcome: Outcome) -> Result<Vec<Rows>, Error> {
    match outcome {
        Outcome::Committed(rows) => Ok(rows),
        Outcome::Failed(..) => Err(damaged("the failure of a check that does not exist")),
    }
}

/// Returns the first row of the first result.
fn first_row(results: Vec<Rows>) -> Option<Row> {
    results.into_iter().next()?.first()
}

fn reserve_result(
    reserved: Rows,
    current: Rows,
    space: &str,
    key: &str,
) -> Result<Option<ReserveResult>, Error> {
    if let Some(row) = reserved.first() {
        return Ok(Some(ReserveResult::held(space, key, row.count(0)?)));
    }
    let busy = |row: Row| {
        Ok(ReserveResult::Busy {
            fence: row.count(0)?,
            left: Duration::from_millis(row.count(1)?),
        })
    };
    current.first().map(busy).transpose()
}

#[cfg(feature = "testing")]
impl cachalot_store::conformance::layouts::ChangeLayout for TursoStore {
    fn set_newer_layout(&self, is_newer: bool) -> cachalot_store::StoreReply<'_, ()> {
        cachalot_store::StoreReply::later(async move {
            let version = layout::VERSION + i64::from(is_newer);
            let set = Statement::new("UPDATE cachalot_layout SET version = ?").number(version);
            committed(self.server.execute(&[&set]).await?).map(drop)
        })
    }
}

impl Store for TursoStore {
    cachalot_store::forward_to_store!(checked: get get_or_reserve reserve find erase add raise_to counters);
    cachalot_store::forward_to_store!(checked: touch amend);
    cachalot_store::forward_to_store!(async: put put_all renew release usage inspect);

    fn about(&self) -> &StoreInfo {
        &self.about
    }

    fn recall(&self) -> Option<&dyn Recall> {
        Some(self)
    }
}

/// The calls of [`Store`] and [`Recall`].
impl TursoStore {
    async fn get(&self, space: &str, key: &str, counters: &[&str]) -> Result<GetResult, Error> {
        let statements = self.get_statements(space, key, counters);
        let mut rows = self.rows(&statements).await?.into_iter();
        let mut next = || rows.next().ok_or_else(|| damaged("no result"));
        Self::get_result(next()?, next()?, key, counters)
    }

    async fn get_or_reserve(
        &self,
        space: &str,
        key: &str,
        request: GetOrReserve<'_>,
    ) -> Result<GetOrReserveResult, Error> {
        let [record, values] = self.get_statements(space, key, request.counters);
        let is_other = match request.stale {
            Stale::None => String::new(),
            Stale::Revision(revision) => format!(" AND revision <> {revision}"),
            Stale::Any => " AND 0".to_owned(),
        };
        let is_absent = format!(
            "NOT EXISTS (SELECT 1 FROM cachalot_records WHERE space = ?1 AND key = ?2 \
             AND (expires IS NULL OR expires > {}){is_other})",
            self.now()
        );
        let (labels, hold) = (request.labels, request.hold);
        let statements = [
            record,
            values,
            self.reserve_statement(space, key, labels, hold, &is_absent),
            self.lease_statement(space, key),
            self.clean_up_statement(),
        ];
        let mut rows = self.rows(&statements).await?.into_iter();
        let mut next = || rows.next().ok_or_else(|| damaged("no result"));
        let found = Self::get_result(next()?, next()?, key, request.counters)?;
        let (reserved, current) = (next()?, next()?);
        let reserved = reserve_result(reserved, current, space, key)?;
        let is_answered = request.stale.is_answered_by(&found);
        let reserved = match reserved {
            // The lease of a caller that renews the record.
            Some(ReserveResult::Busy { .. }) if is_answered => None,
            reserved => reserved,
        };
        Ok(GetOrReserveResult { found, reserved })
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
        let mut statements = Vec::new();
        if let Some(lease) = lease {
            let is_current = "EXISTS (SELECT 1 FROM cachalot_leases \
                              WHERE space = ? AND key = ? AND fence = ? AND current = 1)";
            let is_current = check(is_current).text(space).text(&record.key);
            statements.push(is_current.number(signed(lease.fence)));
        }
        for (name, value) in counters {
            let is_same =
                "ifnull((SELECT value FROM cachalot_counters WHERE space = ? AND name = ?), 0) = ?";
            statements.push(check(is_same).text(space).text(name).number(signed(*value)));
        }
        let checks = statements.len();
        statements.extend(self.put_statements(space, &record, false));
        if lease.is_some() {
            statements.push(Self::end_lease(space, &record.key));
        }
        match self.execute(&statements).await? {
            Outcome::Failed(0, _) if lease.is_some() => Ok(PutResult::LeaseLost),
            Outcome::Failed(number, _) => Ok(PutResult::CounterChanged {
                counter: number - usize::from(lease.is_some()),
            }),
            Outcome::Committed(rows) => {
                let stored = rows.into_iter().nth(checks).and_then(Rows::first);
                let revision = stored.ok_or_else(|| damaged("no revision"))?.count(0)?;
                Ok(PutResult::Stored { revision })
            }
        }
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
        let (space, key) = (condition.space, condition.key);
        let is_free = format!(
            "NOT EXISTS (SELECT 1 FROM cachalot_leases \
             WHERE space = ? AND key = ? AND current = 1 AND until > {})",
            self.now()
        );
        let exists = "EXISTS (SELECT 1 FROM cachalot_records WHERE space = ? AND key = ?";
        let is_expected = match &condition.value {
            None => check(&format!("NOT {exists})")).text(space).text(key),
            Some(value) => {
                let is_same = check(&format!("{exists} AND value = ?)"));
                is_same.text(space).text(key).blob(value)
            }
        };
        // The lease is read before it is checked: if the check fails, its row has the time that is left.
        let mut statements = vec![
            self.lease_statement(space, key),
            check(&is_free).text(space).text(key),
            is_expected,
            Self::end_lease(space, key),
        ];
        for (space, record) in &records {
            statements.extend(self.put_statements(space, record, true));
        }
        match self.execute(&statements).await? {
            Outcome::Committed(_) => Ok(PutAllResult::Stored),
            Outcome::Failed(1, rows) => {
                let left = first_row(rows).map_or(Ok(0), |row| row.count(1))?;
                Ok(PutAllResult::Busy {
                    left: Duration::from_millis(left),
                })
            }
            Outcome::Failed(..) => Ok(PutAllResult::Changed),
        }
    }

    async fn reserve(
        &self,
        space: &str,
        key: &str,
        labels: &[Label],
        hold: Duration,
    ) -> Result<ReserveResult, Error> {
        let statements = [
            self.reserve_statement(space, key, labels, hold, "1"),
            self.lease_statement(space, key),
            self.clean_up_statement(),
        ];
        let mut rows = self.rows(&statements).await?.into_iter();
        let mut next = || rows.next().ok_or_else(|| damaged("no result"));
        let reserved = reserve_result(next()?, next()?, space, key)?;
        reserved.ok_or_else(|| damaged("a reservation that has just ended"))
    }

    async fn renew(&self, lease: &Lease, hold: Duration) -> Result<bool, Error> {
        let (now, hold) = (self.now(), milliseconds(hold));
        let renew = Statement::new(format!(
            "UPDATE cachalot_leases SET until = {now} + {hold} \
             WHERE space = ? AND key = ? AND fence = ? AND current = 1 RETURNING 1"
        ));
        let renew = renew
            .text(&lease.space)
            .text(&lease.key)
            .number(signed(lease.fence));
        Ok(self.row(renew).await?.is_some())
    }

    async fn release(&self, lease: Lease) -> Result<(), Error> {
        let mut end = Self::end_lease(&lease.space, &lease.key);
        end.push(" AND fence = ?");
        self.rows(&[end.number(signed(lease.fence))])
            .await
            .map(drop)
    }

    async fn find(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: PageRequest<'_>,
    ) -> Result<RecordPage, Error> {
        let excess = match filter.order {
            Order::Key => Excess::Omitted,
            // Only in key order may a page have a successor.
            _ => Excess::WithoutValue,
        };
        let select = select::page(space, filter, &page, Columns::Records, excess);
        let (mut found, mut rest) = self.record_page(select, filter, &page).await?;
        while !rest.is_empty() {
            let select = select::first_of(space, &rest, page.values);
            let (next, _) = self.record_page(select, filter, &page).await?;
            // The others were erased meanwhile.
            let last = next.records.last();
            let read = rest
                .iter()
                .position(|key| last.is_some_and(|record| record.key == *key));
            rest.drain(..read.map_or(rest.len(), |at| at + 1));
            found.records.extend(next.records);
            found.sizes.extend(next.sizes);
        }
        Ok(found)
    }

    async fn erase(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: PageRequest<'_>,
    ) -> Result<RecordPage, Error> {
        let excess = match filter.order {
            Order::Key => Excess::Omitted,
            _ => Excess::Refused,
        };
        let ids = select::page(space, filter, &page, Columns::Ids, excess);
        let mut statements = vec![
            select::page(space, filter, &page, Columns::Records, excess),
            ids.inside("DELETE FROM cachalot_records WHERE id IN (", ")"),
        ];
        if reaches_reservations(filter) {
            let now = self.now();
            let raise = Statement::new(format!(
                "INSERT INTO cachalot_counters(space, name, value) VALUES (?, ?, max(1, {now})) \
                 ON CONFLICT(space, name) DO UPDATE SET value = max(value + 1, excluded.value)"
            ));
            statements.push(raise.text(space).text(counter::ERASED));
            let revoke = "UPDATE cachalot_leases SET current = 0 WHERE space = ? AND current = 1";
            let mut revoke = Statement::new(revoke).text(space);
            revoke.and_in_range("key", filter.prefix, page.after);
            statements.push(select::and_lease_labels(revoke, filter.labels));
        }
        let rows = self.rows(&statements).await?;
        let rows = rows
            .into_iter()
            .next()
            .ok_or_else(|| damaged("no result"))?;
        Ok(record_page(rows, filter, &page)?.0)
    }

    async fn add(&self, space: &str, additions: &[(&str, u64)]) -> Result<Vec<u64>, Error> {
        let add = |(name, count): &(&str, u64)| {
            let add = Statement::new(format!(
                "INSERT INTO cachalot_counters(space, name, value) VALUES (?, ?, ?) \
                 ON CONFLICT(space, name) DO UPDATE SET value = CASE \
                 WHEN value > {MAX_COUNTER} - excluded.value THEN {MAX_COUNTER} \
                 ELSE value + excluded.value END RETURNING value"
            ));
            add.text(space).text(name).number(signed(*count))
        };
        let statements: Vec<_> = additions.iter().map(add).collect();
        let counts = self.rows(&statements).await?.into_iter();
        let count = |rows: Rows| rows.first().ok_or_else(|| damaged("no count"))?.count(0);
        counts.map(count).collect()
    }

    async fn raise_to(&self, space: &str, counter: &str, value: u64) -> Result<u64, Error> {
        let raise = Statement::new(
            "INSERT INTO cachalot_counters(space, name, value) VALUES (?, ?, ?) \
             ON CONFLICT(space, name) DO UPDATE SET value = max(value, excluded.value) RETURNING value",
        );
        let raise = raise.text(space).text(counter).number(signed(value));
        let count = self.row(raise).await?.ok_or_else(|| damaged("no count"))?;
        count.count(0)
    }

    async fn counters(
        &self,
        space: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, u64)>, Error> {
        let read = "SELECT name, value FROM cachalot_counters WHERE space = ? AND value > 0";
        let mut read = Statement::new(read).text(space);
        read.and_in_range("name", prefix, after);
        read.push(&format!(" ORDER BY name LIMIT {limit}"));
        let mut counters = Vec::new();
        for row in self.rows(&[read]).await?.into_iter().flatten() {
            counters.push((row.text(0)?.to_owned(), row.count(1)?));
        }
        Ok(counters)
    }

    async fn touch(&self, space: &str, used: &[(&str, Millis)]) -> Result<(), Error> {
        let touch = |(key, at): &(&str, Millis)| {
            let touch =
                "UPDATE cachalot_records SET used = ?3 WHERE space = ?1 AND key = ?2 AND used < ?3";
            Statement::new(touch).text(space).text(key).number(*at)
        };
        let statements: Vec<_> = used.iter().map(touch).collect();
        self.rows(&statements).await.map(drop)
    }

    async fn amend(&self, space: &str, record: Record) -> Result<Option<u64>, Error> {
        let amend = Statement::new(
            "UPDATE cachalot_records SET weight = weight - length(value) + ?1, value = ?2, \
             revision = revision + 1 \
             WHERE space = ?3 AND key = ?4 AND revision = ?5 AND updated = ?6 RETURNING revision",
        )
        .number(i64::try_from(record.value.len()).unwrap_or(i64::MAX))
        .blob(&record.value)
        .text(space)
        .text(&record.key)
        .number(signed(record.revision))
        .number(record.updated);
        self.row(amend).await?.map(|row| row.count(0)).transpose()
    }

    async fn usage(&self, space: &str) -> Result<SpaceUsage, Error> {
        let read = "SELECT records, bytes FROM cachalot_usage WHERE space = ?";
        let usage = self.row(Statement::new(read).text(space)).await?;
        usage.map_or(Ok(SpaceUsage::default()), |row| {
            Ok(SpaceUsage {
                records: row.count(0)?,
                bytes: row.count(1)?,
            })
        })
    }

    async fn inspect(&self) -> Result<Vec<Finding>, Error> {
        let version = self.row(Statement::new("SELECT sqlite_version()")).await?;
        let version = version.ok_or_else(|| damaged("no version"))?;
        let version = format!("libSQL, SQLite {}", version.text(0)?);
        Ok(vec![Finding::good("version", version)])
    }

    async fn search(
        &self,
        query: &str,
        labels: &[LabelMatch<'_>],
        limit: u32,
    ) -> Result<Vec<RecallHit>, Error> {
        let Some(expression) = fts5_expression(query) else {
            return Ok(Vec::new());
        };
        let search = Statement::new(
            "SELECT r.key, r.revision, r.updated, r.expires, r.labels, r.value, length(r.value), t.rank \
             FROM cachalot_texts t JOIN cachalot_records r ON r.id = t.rowid \
             WHERE t.cachalot_texts MATCH ?",
        );
        let search = search.text(&expression);
        let mut search = select::and_labels(search, names::USER, "r.key", labels);
        search.push(&format!(" ORDER BY t.rank LIMIT {limit}"));
        let mut hits = Vec::new();
        for row in self.rows(&[search]).await?.into_iter().flatten() {
            hits.push(RecallHit {
                record: record_of_page(&row)?.0,
                score: -row.float(7)?,
            });
        }
        Ok(hits)
    }
}

impl Recall for TursoStore {
    cachalot_store::forward_to_store!(async: search);
}
