//! A store in a Redis or Valkey server, version 6.2 or later, shared by any number of machines.
//!
//! A lookup is one `MGET` beside `TIME`; every other call is one execution of the script `store.lua`, which is atomic.
//! The times are those of the server. A server that starts again, or a replica that takes over, may have lost writes;
//! `store.lua` describes what follows from that.

mod connection;
mod record;
mod server_info;

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cachalot_store::implementation::{
    MAX_COUNTER, check_amend, check_names, check_page, check_put, check_put_all, deduplicate,
    label_texts, next_cursor, reaches_reservations,
};
use cachalot_store::{
    Error, Finding, GetOrReserve, GetOrReserveResult, GetResult, Label, LabelMatch, Lease, Millis,
    Order, PageRequest, PutAllResult, PutCondition, PutResult, Record, RecordFilter, RecordPage,
    ReserveResult, SpaceUsage, Stale, Store, StoreInfo, StoreReply, ValuePart,
};
use redis::Value;

use connection::Connection;
use record::{Stored, damaged, integer, text};
use server_info::ServerInfo;

pub use connection::Server;

/// Maximum size of a record, in bytes. Redis stores strings of up to 512 MB, and executes nothing else while it copies
/// one.
const LARGEST_VALUE: u64 = 64 << 20;

/// Maximum length of a name, in bytes.
const LONGEST_NAME: u64 = 64 << 10;

/// A store in a Redis server. See the [module](self).
pub struct RedisStore {
    about: StoreInfo,
    connection: Connection,
    /// For writes that wait for replicas, and keep other calls of their connection waiting.
    confirming: Connection,
    /// Added to the server's time, in milliseconds. Zero but in tests.
    shift: Arc<AtomicI64>,
    /// The spaces that have been read. One of them that is empty later has lost its counters.
    used: Mutex<HashSet<String>>,
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let about = &self.about;
        f.debug_struct("RedisStore")
            .field("about", about)
            .finish_non_exhaustive()
    }
}

/// The arguments of an execution of the script.
struct Call(Vec<Vec<u8>>);

impl Call {
    fn arg(mut self, argument: impl AsRef<[u8]>) -> Self {
        self.0.push(argument.as_ref().to_owned());
        self
    }

    fn flag(self, flag: bool) -> Self {
        self.arg(if flag { "1" } else { "0" })
    }

    fn number(self, number: impl std::fmt::Display) -> Self {
        self.arg(number.to_string())
    }

    /// Appends `1` and the text, or `0` and nothing.
    fn optional(self, text: Option<&[u8]>) -> Self {
        self.arg(if text.is_some() { "1" } else { "0" })
            .arg(text.unwrap_or_default())
    }

    fn filter(mut self, filter: &RecordFilter<'_>, page: &PageRequest<'_>) -> Self {
        let bytes = match page.values {
            ValuePart::None => 0,
            ValuePart::First(bytes) => bytes,
            ValuePart::All => u32::MAX,
        };
        let expiry = filter.expired_before.map(|moment| moment.to_string());
        self = self
            .arg(filter.prefix)
            .arg(match filter.order {
                Order::Key => "key",
                Order::Newest => "newest",
                Order::LeastRecentlyUsed => "used",
                Order::Expiry => "expiry",
            })
            .optional(expiry.as_deref().map(str::as_bytes))
            .optional(page.after.map(str::as_bytes))
            .number(page.limit)
            .number(bytes);
        for label in filter.labels {
            let (name, prefix) = label.range();
            let (kind, text) = match *label {
                LabelMatch::Is { value, .. } => ("is", value),
                LabelMatch::Starts { prefix, .. } => ("starts", prefix),
                LabelMatch::Glob { pattern, .. } => ("glob", pattern),
            };
            self = self.arg(kind).arg(name).arg(text).arg(prefix);
        }
        self
    }
}

/// Returns the prefix of the keys of a space. The braces make a cluster keep a space on one node.
fn prefix(space: &str) -> String {
    let space = space
        .replace('%', "%25")
        .replace('{', "%7B")
        .replace('}', "%7D");
    format!("cachalot:{{{space}}}:")
}

impl RedisStore {
    /// Creates a store on a server. Connects with the first call.
    #[must_use]
    pub fn new(server: Server) -> Self {
        Self::with_shift(server, Arc::default())
    }

    /// Creates a store whose time is that of the server plus `shift` milliseconds, for tests: time passes
    /// without waiting for it.
    #[must_use]
    pub fn with_shift(server: Server, shift: Arc<AtomicI64>) -> Self {
        let server = Arc::new(server);
        let about = StoreInfo {
            name: "redis",
            location: server.location().to_owned(),
            shared: true,
            reservations: true,
            largest_value: LARGEST_VALUE,
            longest_name: LONGEST_NAME,
            snapshot: true,
        };
        Self {
            about,
            connection: Connection::new(Arc::clone(&server)),
            confirming: Connection::new(server),
            shift,
            used: Mutex::default(),
        }
    }

    fn note_use(&self, space: &str) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if !used.contains(space) {
            used.insert(space.to_owned());
        }
    }

    fn shift(&self) -> i64 {
        self.shift.load(Ordering::Relaxed)
    }

    /// Begins an execution of the script in a space.
    fn call(&self, operation: &str, space: &str) -> Call {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        Call(Vec::new())
            .flag(used.contains(space))
            .arg(operation)
            .number(self.shift())
            .arg(prefix(space))
    }

    async fn run(&self, call: Call) -> Result<Value, Error> {
        self.connection.run(&call.0).await
    }

    /// Executes the script, and waits for replicas: what it has erased or counted must not come back with a failover.
    async fn run_confirmed(&self, call: Call) -> Result<Value, Error> {
        self.confirming.run_confirmed(&call.0).await
    }

    fn check_names<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<(), Error> {
        check_names(&self.about, names)
    }
}

/// True if records of a space may be outdated once writes may have been lost.
fn is_only_valid_in_its_incarnation(space: &str) -> bool {
    space == cachalot_store::space::CACHE
}

fn answering(stored: Option<Stored>, space: &str, incarnation: u64) -> Option<Record> {
    let is_lasting = !is_only_valid_in_its_incarnation(space);
    stored
        .filter(|stored| is_lasting || stored.incarnation >= incarnation)
        .map(|stored| stored.record)
}

fn reserve_result(value: Value, space: &str, key: &str) -> Result<Option<ReserveResult>, Error> {
    let mut result = record::array(value)?.into_iter();
    let Some(fence) = result.next() else {
        return Ok(None);
    };
    let fence = record::count(fence)?;
    Ok(Some(match result.next() {
        Some(left) => ReserveResult::Busy {
            fence,
            left: Duration::from_millis(record::count(left)?),
        },
        None => ReserveResult::Held(Lease {
            space: space.to_owned(),
            key: key.to_owned(),
            fence,
        }),
    }))
}

fn record_page(
    value: Value,
    filter: &RecordFilter<'_>,
    page: &PageRequest<'_>,
) -> Result<RecordPage, Error> {
    let mut found = RecordPage::default();
    let mut rows = record::array(value)?.into_iter();
    while let (Some(key), Some(bytes), Some(size)) = (rows.next(), rows.next(), rows.next()) {
        let mut record = record::decode(&text(key)?, Bytes::from(record::bytes(bytes)?))?.record;
        if !page.labels {
            record.labels.clear();
        }
        found.records.push(record);
        found.sizes.push(record::count(size)?);
    }
    found.next = next_cursor(&found.records, filter, page);
    Ok(found)
}

fn milliseconds(duration: Duration) -> u64 {
    // Numbers of scripts are exact up to 2^53.
    u64::try_from(duration.as_millis())
        .unwrap_or(u64::MAX)
        .min(1 << 50)
}

impl Store for RedisStore {
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
            self.check_names([space, key].into_iter().chain(counters.iter().copied()))?;
            let prefix = prefix(space);
            let mut names = vec![format!("{prefix}i"), format!("{prefix}r:{key}")];
            names.extend(counters.iter().map(|name| format!("{prefix}c:{name}")));
            let mut is_met = false;
            loop {
                let mut command = redis::cmd("MGET");
                command.arg(&names);
                let read = self.connection.read(command).await?;
                let mut found = record::array(read.reply)?.into_iter();
                let incarnation = record::incarnation(found.next(), &read.identity)?;
                let Some(incarnation) = incarnation else {
                    if is_met {
                        return Err(damaged("an incarnation"));
                    }
                    self.run(self.call("meet", space)).await?;
                    is_met = true;
                    continue;
                };
                self.note_use(space);
                let record = record::optional(found.next(), key)?;
                let count = |value| match value {
                    Value::Nil => Ok(incarnation),
                    value => record::count(value),
                };
                return Ok(GetResult {
                    record: answering(record, space, incarnation),
                    counters: found.map(count).collect::<Result<_, _>>()?,
                    now: record::time(read.time)? + self.shift(),
                });
            }
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
            self.check_names(own.chain(request.counters.iter().copied()))?;
            let stale = match request.stale {
                Stale::None => "0".to_owned(),
                Stale::Revision(revision) => revision.to_string(),
                Stale::Any => "-1".to_owned(),
            };
            let mut call = self
                .call("get_or_reserve", space)
                .arg(key)
                .arg(stale)
                .number(milliseconds(request.hold))
                .arg(record::labels(request.labels))
                .flag(is_only_valid_in_its_incarnation(space));
            for counter in request.counters {
                call = call.arg(*counter);
            }
            let mut result = record::array(self.run(call).await?)?.into_iter();
            let mut next = || result.next().unwrap_or(Value::Nil);
            let now = integer(next())?;
            let incarnation = record::count(next())?;
            self.note_use(space);
            let record = record::optional(Some(next()), key)?;
            let reserved = reserve_result(next(), space, key)?;
            let counters = result.map(record::count).collect::<Result<_, _>>()?;
            Ok(GetOrReserveResult {
                found: GetResult {
                    record: answering(record, space, incarnation),
                    counters,
                    now,
                },
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
            record.labels = deduplicate(record.labels);
            check_put(&self.about, space, &record, lease, counters)?;
            let mut call = self
                .call("put", space)
                .arg(&record.key)
                .arg(lease.map_or_else(String::new, |lease| lease.fence.to_string()))
                .arg(record::properties(&record))
                .arg(&record.value[..]);
            for (name, count) in counters {
                call = call.arg(*name).number((*count).min(MAX_COUNTER));
            }
            Ok(match integer(self.run(call).await?)? {
                -1 => PutResult::LeaseLost,
                changed if changed < -1 => PutResult::CounterChanged {
                    counter: usize::try_from(-2 - changed).unwrap_or(0),
                },
                revision => PutResult::Stored {
                    revision: record::unsigned(revision)?,
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
                record.labels = deduplicate(std::mem::take(&mut record.labels));
            }
            check_put_all(&self.about, &condition, &records)?;
            let mut call = self
                .call("put_all", condition.space)
                .arg(condition.key)
                .optional(condition.value.as_deref());
            for (space, record) in &records {
                call = call
                    .arg(prefix(space))
                    .arg(&record.key)
                    .arg(record::properties(record))
                    .arg(&record.value[..]);
            }
            Ok(match integer(self.run(call).await?)? {
                -1 => PutAllResult::Stored,
                -2 => PutAllResult::Changed,
                left => PutAllResult::Busy {
                    left: Duration::from_millis(record::unsigned(left)?),
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
            self.check_names([space, key].into_iter().chain(label_texts(labels)))?;
            let call = self
                .call("reserve", space)
                .arg(key)
                .number(milliseconds(hold))
                .arg(record::labels(labels));
            let reserved = reserve_result(self.run(call).await?, space, key)?;
            reserved.ok_or_else(|| damaged("a reservation"))
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, hold: Duration) -> StoreReply<'a, bool> {
        StoreReply::later(async move {
            let call = self
                .call("renew", &lease.space)
                .arg(&lease.key)
                .number(lease.fence)
                .number(milliseconds(hold));
            Ok(integer(self.run(call).await?)? == 1)
        })
    }

    fn release(&self, lease: Lease) -> StoreReply<'_, ()> {
        StoreReply::later(async move {
            let call = self.call("release", &lease.space).arg(&lease.key);
            self.run(call.number(lease.fence)).await.map(drop)
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
            self.check_names([space])?;
            let call = self.call("find", space).filter(filter, &page);
            record_page(self.run(call).await?, filter, &page)
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
            self.check_names([space])?;
            let call = self
                .call("erase", space)
                .flag(reaches_reservations(filter))
                .filter(filter, &page);
            record_page(self.run_confirmed(call).await?, filter, &page)
        })
    }

    fn add<'a>(
        &'a self,
        space: &'a str,
        additions: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, Vec<u64>> {
        StoreReply::later(async move {
            let names = additions.iter().map(|(name, _)| *name);
            self.check_names([space].into_iter().chain(names))?;
            let mut call = self.call("add", space);
            for (name, count) in additions {
                call = call.arg(*name).number((*count).min(MAX_COUNTER));
            }
            let counts = record::array(self.run_confirmed(call).await?)?;
            counts.into_iter().map(record::count).collect()
        })
    }

    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> StoreReply<'a, u64> {
        StoreReply::later(async move {
            self.check_names([space, counter])?;
            let call = self.call("raise_to", space).arg(counter);
            record::count(
                self.run_confirmed(call.number(value.min(MAX_COUNTER)))
                    .await?,
            )
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
            self.check_names([space])?;
            let call = self.call("counters", space).arg(prefix);
            let call = call.optional(after.map(str::as_bytes)).number(limit);
            let found = record::array(self.run(call).await?)?;
            let mut found = found.into_iter();
            let mut counters = Vec::new();
            while let (Some(name), Some(count)) = (found.next(), found.next()) {
                counters.push((text(name)?, record::count(count)?));
            }
            Ok(counters)
        })
    }

    fn touch<'a>(&'a self, space: &'a str, used: &'a [(&'a str, Millis)]) -> StoreReply<'a, ()> {
        StoreReply::later(async move {
            self.check_names([space])?;
            let mut call = self.call("touch", space);
            for (key, at) in used {
                call = call.arg(*key).number(at);
            }
            self.run(call).await.map(drop)
        })
    }

    fn amend<'a>(&'a self, space: &'a str, record: Record) -> StoreReply<'a, Option<u64>> {
        StoreReply::later(async move {
            check_amend(space, &record, self.about.largest_value)?;
            let call = self
                .call("amend", space)
                .arg(&record.key)
                .arg(&record.value[..])
                .number(record.revision)
                .number(record.updated);
            match integer(self.run(call).await?)? {
                -1 => Ok(None),
                revision => record::unsigned(revision).map(Some),
            }
        })
    }

    fn usage<'a>(&'a self, space: &'a str) -> StoreReply<'a, SpaceUsage> {
        StoreReply::later(async move {
            let mut read = redis::cmd("HMGET");
            read.arg(prefix(space) + "z").arg("records").arg("bytes");
            let mut usage = record::array(self.connection.read(read).await?.reply)?
                .into_iter()
                .map(record::count);
            let mut next = || usage.next().unwrap_or(Ok(0));
            Ok(SpaceUsage {
                records: next()?,
                bytes: next()?,
            })
        })
    }

    fn inspect(&self) -> StoreReply<'_, Vec<Finding>> {
        StoreReply::later(async move {
            let info = self.connection.read(redis::cmd("INFO")).await?.reply;
            Ok(ServerInfo::read(info)?.findings())
        })
    }

    /// Another machine may change any record: every hit asks the server.
    fn stamp(&self, _space: &str, _name: &str) -> Option<u64> {
        None
    }
}
