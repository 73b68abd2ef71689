//! A store in a Redis or Valkey server, version 6.2 or later, shared by any number of machines; or in several servers
//! with sentinels, or in a cluster.
//!
//! A lookup is one `MGET` beside `TIME` and `INFO`; every other call is one execution of the script `store.lua`, which is
//! atomic. The times are those of the server. A server that starts again, or a replica that takes over, may have lost
//! writes; `store.lua` describes what follows from that.
//!
//! In a cluster, a space has several shards, each in one slot. A call for a key is atomic, other calls ask all shards:
//! a counter has a value in each shard, and what is stored under a counter depends on the value in its own shard.

mod append_file;
mod births;
mod call;
mod connection;
mod nodes;
mod page;
mod record;
mod sentinel;
mod server;
mod server_info;
mod shard;
mod subscription;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use cachalot_store::implementation::{
    MAX_COUNTER, erase_step, milliseconds, reaches_reservations, sort_and_deduplicate,
};
use cachalot_store::{
    Error, ErrorKind, Finding, GetOrReserve, GetOrReserveResult, GetResult, Label, Lease, Millis,
    PageRequest, PutAllResult, PutCondition, PutResult, Record, RecordFilter, RecordPage,
    ReserveResult, SpaceUsage, Store, StoreInfo, space,
};
use futures_util::future::try_join_all;
use redis::Value;

use births::Births;
use call::Call;
use nodes::Nodes;
use page::Row;
use record::{Stored, damaged, integer, text};
use shard::Shard;

use crate::changes::{Changes, Subscribe};
use crate::open_options::OpenOptions;
use crate::repetition::{
    are_effects_enough, put_all_result, replaces_its_condition, result_of_first_put,
    stale_revision, with_owner,
};
use crate::url::{StoreUrl, StoreUrlError};

pub use server::Server;
pub use subscription::Subscription;

/// Maximum size of a record, in bytes. Redis stores strings of up to 512 MB, and executes nothing else while it copies
/// one.
const LARGEST_VALUE: u64 = 64 << 20;

/// Maximum length of a name, in bytes.
const LONGEST_NAME: u64 = 64 << 10;

/// Maximum number of times that a call reads a record, because the server was emptied or replaced meanwhile.
const MAX_LOOKUPS: u32 = 4;

/// A store in a Redis server. See the [module](self).
pub struct RedisStore {
    about: StoreInfo,
    nodes: Nodes,
    /// Added to the server's time, in milliseconds. Zero but in tests.
    shift: Arc<AtomicI64>,
    births: Births,
}

pub(crate) fn open(url: &StoreUrl, options: &OpenOptions) -> Result<Arc<dyn Store>, StoreUrlError> {
    let server = Server::new(url, options.password())?.durable(options.durable);
    let server = server.connecting_within(options.connect_timeout);
    Ok(options.followed(RedisStore::new(server)))
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
        let about = StoreInfo::new("redis", server.location(), LARGEST_VALUE, LONGEST_NAME);
        Self {
            about,
            nodes: Nodes::new(server),
            shift,
            births: Births::default(),
        }
    }

    fn shift(&self) -> i64 {
        self.shift.load(Ordering::Relaxed)
    }

    fn shard(&self, space: &str, key: &str) -> Shard {
        shard::shard(space, key, self.nodes.is_cluster())
    }

    fn shards(&self, space: &str) -> Vec<Shard> {
        shard::shards(space, self.nodes.is_cluster())
    }

    /// The key of the version of the layout.
    fn layout_key(&self, shard: &Shard) -> String {
        if self.nodes.is_cluster() {
            format!("{}v", shard.prefix)
        } else {
            record::LAYOUT.to_owned()
        }
    }

    /// Begins an execution of the script in a shard.
    fn call(&self, operation: &str, shard: &Shard) -> Call {
        let call = Call {
            shard: shard.clone(),
            birth: self.births.get(shard),
            is_repeatable: true,
            arguments: Vec::new(),
        };
        call.arg(operation).number(self.shift()).arg(&shard.prefix)
    }

    async fn run(&self, call: Call) -> Result<Value, Error> {
        Ok(self.run_once_or_twice(call).await?.0)
    }

    /// Executes the script. If the connection ended, and the server may have executed it twice, returns the error of the
    /// first time, too.
    async fn run_once_or_twice(&self, call: Call) -> Result<(Value, Option<Error>), Error> {
        let executed = self.nodes.run(&call).await?;
        Ok((self.result(&call, executed.value)?, executed.lost))
    }

    async fn run_all(&self, calls: &[Call]) -> Result<Vec<Value>, Error> {
        let executed = try_join_all(calls.iter().map(|call| self.nodes.run(call))).await?;
        let replies = executed.into_iter().map(|executed| executed.value);
        self.results(calls, replies.collect())
    }

    /// Returns the reservation that a call has made the first time that the server executed it, in place of that which the
    /// call found the second time.
    async fn own_reservation(
        &self,
        space: &str,
        key: &str,
        labels: &[u8],
        found: ReserveResult,
    ) -> Result<ReserveResult, Error> {
        // Only a busy key can have the caller's own lease, from the first execution.
        let ReserveResult::Busy { fence, .. } = found else {
            return Ok(found);
        };
        let shard = self.shard(space, key);
        let mut command = redis::cmd("HMGET");
        command.arg(format!("{}l:{key}", shard.prefix));
        command.arg("fence").arg("labels");
        let lease = record::array(self.nodes.read(&shard, &command).await?.reply)?;
        let is_own = match <[Value; 2]>::try_from(lease) {
            Ok([its_fence, Value::BulkString(its_labels)]) => {
                record::count(its_fence)? == fence && its_labels == labels
            }
            _ => false,
        };
        Ok(if is_own {
            ReserveResult::held(space, key, fence)
        } else {
            found
        })
    }

    /// Executes the script several times, and waits for replicas.
    async fn run_confirmed(&self, calls: &[Call]) -> Result<Vec<Value>, Error> {
        let replies = self.nodes.run_confirmed(calls).await?;
        self.results(calls, replies)
    }

    fn results(&self, calls: &[Call], replies: Vec<Value>) -> Result<Vec<Value>, Error> {
        let results = calls.iter().zip(replies);
        results
            .map(|(call, reply)| self.result(call, reply))
            .collect()
    }

    /// Takes the birth of the shard from the reply of the script.
    fn result(&self, call: &Call, reply: Value) -> Result<Value, Error> {
        let [birth, result] =
            <[Value; 2]>::try_from(record::array(reply)?).map_err(|_| damaged("a reply"))?;
        if self
            .births
            .accept(&call.shard, call.birth, record::count(birth)?)
        {
            Ok(result)
        } else {
            Err(unsettled())
        }
    }

    /// Returns the first records that match, in order.
    async fn find_rows(
        &self,
        shards: &[Shard],
        filter: &RecordFilter<'_>,
        page: &PageRequest<'_>,
    ) -> Result<Vec<Row>, Error> {
        // Each shard has about as many of them.
        let share = match shards.len() {
            1 => page.limit,
            shards => page.limit.min(page.limit / shards as u32 * 2 + 8),
        };
        let mut found: Vec<Vec<Row>> = shards.iter().map(|_| Vec::new()).collect();
        let mut asked: Vec<usize> = (0..shards.len()).collect();
        for limit in [share, page.limit] {
            let page = PageRequest { limit, ..*page };
            let call = |number: &usize| self.call("find", &shards[*number]).filter(filter, &page);
            let replies = self
                .run_all(&asked.iter().map(call).collect::<Vec<_>>())
                .await?;
            for (number, reply) in asked.into_iter().zip(replies) {
                found[number] = page::rows(reply, number)?;
            }
            asked = page::incomplete(&found, share, page.limit, filter.order);
            if asked.is_empty() || limit == page.limit {
                break;
            }
        }
        let mut found: Vec<Row> = found.into_iter().flatten().collect();
        page::sort(&mut found, filter.order);
        found.truncate(page.limit as usize);
        Ok(found)
    }

    /// Erases the first records that match in several shards.
    async fn erase_in_shards(
        &self,
        space: &str,
        shards: &[Shard],
        filter: &RecordFilter<'_>,
        page: &PageRequest<'_>,
    ) -> Result<RecordPage, Error> {
        let call = |shard: &Shard, reaches: bool, keys: &[&str]| {
            let call = self.call("erase", shard);
            // One that only ends reservations returns nothing.
            let call = call.repeatable_if(keys.is_empty() || are_effects_enough(space));
            let call = call.flag(reaches).number(keys.len());
            let call = keys.iter().fold(call, |call, key| call.arg(*key));
            call.filter(filter, page)
        };
        if reaches_reservations(filter) {
            // Nothing that is computed now is stored after the erase.
            let calls: Vec<Call> = shards.iter().map(|shard| call(shard, true, &[])).collect();
            self.run_confirmed(&calls).await?;
        }
        let keys = PageRequest {
            values: cachalot_store::ValuePart::None,
            ..*page
        };
        let found = self.find_rows(shards, filter, &keys).await?;
        let mut by_shard: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for row in &found {
            by_shard.entry(row.shard).or_default().push(&row.record.key);
        }
        let calls = by_shard
            .iter()
            .map(|(number, keys)| call(&shards[*number], false, keys));
        let replies = self.run_confirmed(&calls.collect::<Vec<_>>()).await?;
        let mut erased = Vec::new();
        for (number, reply) in by_shard.into_keys().zip(replies) {
            erased.extend(page::rows(reply, number)?);
        }
        page::sort(&mut erased, filter.order);
        Ok(RecordPage {
            // Another caller may have erased some of them, but not what follows.
            next: page::page(found, filter, page).next,
            ..page::page(erased, filter, page)
        })
    }

    /// Raises counters in shards. Returns the largest value of each.
    async fn raise(&self, shards: &[Shard], counters: &[(&str, u64)]) -> Result<Vec<u64>, Error> {
        let call = |shard| {
            let call = self.call("raise_to", shard);
            let counters = counters.iter();
            counters.fold(call, |call, (name, value)| call.arg(*name).number(value))
        };
        let calls: Vec<Call> = shards.iter().map(call).collect();
        let mut maximum: Vec<u64> = counters.iter().map(|(_, value)| *value).collect();
        for counts in self.run_confirmed(&calls).await? {
            for (maximum, count) in maximum.iter_mut().zip(record::array(counts)?) {
                *maximum = record::count(count)?.max(*maximum);
            }
        }
        Ok(maximum)
    }
}

/// The error of a call during which the server was emptied or replaced.
fn unsettled() -> Error {
    Error::new(
        ErrorKind::Busy,
        "the Redis server was emptied or replaced during a call: repeat it",
    )
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
        None => ReserveResult::held(space, key, fence),
    }))
}

impl Subscribe for RedisStore {
    type Subscription = Subscription;

    async fn subscribe(&self, changes: &Arc<Changes>) -> Result<Subscription, Error> {
        let process = self
            .nodes
            .last_process(&self.shard(space::CACHE, ""))
            .await?;
        Subscription::open(self.nodes.server(), changes, process).await
    }
}

#[cfg(feature = "testing")]
impl cachalot_store::conformance::layouts::ChangeLayout for RedisStore {
    fn set_newer_layout(&self, is_newer: bool) -> cachalot_store::StoreReply<'_, ()> {
        cachalot_store::StoreReply::later(async move {
            let version = record::VERSION + u8::from(is_newer);
            for shard in self.shards(space::CACHE) {
                let mut set = redis::cmd("SET");
                set.arg(self.layout_key(&shard)).arg(version);
                self.nodes.read(&shard, &set).await?;
            }
            Ok(())
        })
    }
}

impl Store for RedisStore {
    cachalot_store::forward_to_store!(checked: get get_or_reserve reserve find erase add raise_to counters);
    cachalot_store::forward_to_store!(checked: touch amend);
    cachalot_store::forward_to_store!(async: put put_all renew release usage inspect);

    fn about(&self) -> &StoreInfo {
        &self.about
    }
}

/// The calls of [`Store`].
impl RedisStore {
    async fn get(&self, space: &str, key: &str, counters: &[&str]) -> Result<GetResult, Error> {
        let shard = self.shard(space, key);
        let prefix = &shard.prefix;
        let mut names: Vec<_> = ["i", "ib"].map(|name| format!("{prefix}{name}")).into();
        names.push(self.layout_key(&shard));
        names.push(format!("{prefix}r:{key}"));
        names.extend(counters.iter().map(|name| format!("{prefix}c:{name}")));
        let mut command = redis::cmd("MGET");
        command.arg(&names);
        for _ in 0..MAX_LOOKUPS {
            let read = self.nodes.read(&shard, &command).await?;
            let mut found = record::array(read.reply)?.into_iter();
            let incarnation = record::incarnation(found.next(), &read.identity)?;
            let birth = record::count(found.next().unwrap_or(Value::Nil))?;
            let layout = found.next().unwrap_or(Value::Nil);
            record::check_layout(layout, &self.about.location)?;
            let incarnation =
                incarnation.filter(|_| birth != 0 && self.births.accept(&shard, None, birth));
            // The space is unknown to this client, or the server is another one: the script compares the identities and
            // begins an incarnation if needed. The lookup is then repeated.
            let Some(incarnation) = incarnation else {
                self.run(self.call("meet", &shard)).await?;
                continue;
            };
            let record = record::optional(found.next(), key)?;
            let count = |value| match value {
                // The script counts in the same way.
                Value::Nil if space == space::GATEWAY => Ok(0),
                Value::Nil => Ok(incarnation),
                value => record::count(value),
            };
            return Ok(GetResult {
                record: answering(record, space, incarnation),
                counters: found.map(count).collect::<Result<_, _>>()?,
                now: record::time(read.time)? + self.shift(),
            });
        }
        Err(unsettled())
    }

    async fn get_or_reserve(
        &self,
        space: &str,
        key: &str,
        request: GetOrReserve<'_>,
    ) -> Result<GetOrReserveResult, Error> {
        let shard = self.shard(space, key);
        let labels = record::labels(&with_owner(request.labels));
        let mut call = self
            .call("get_or_reserve", &shard)
            .arg(key)
            .number(stale_revision(request.stale))
            .number(milliseconds(request.hold))
            .arg(&labels)
            .flag(is_only_valid_in_its_incarnation(space));
        for counter in request.counters {
            call = call.arg(*counter);
        }
        let (result, lost) = self.run_once_or_twice(call).await?;
        let mut result = record::array(result)?.into_iter();
        let mut next = || result.next().unwrap_or(Value::Nil);
        let now = integer(next())?;
        let incarnation = record::count(next())?;
        let record = record::optional(Some(next()), key)?;
        let mut reserved = reserve_result(next(), space, key)?;
        // The call may have been executed twice, and have found its own reservation.
        if let Some(found) = reserved.take_if(|_| lost.is_some()) {
            reserved = Some(self.own_reservation(space, key, &labels, found).await?);
        }
        let counters = result.map(record::count).collect::<Result<_, _>>()?;
        Ok(GetOrReserveResult {
            found: GetResult {
                record: answering(record, space, incarnation),
                counters,
                now,
            },
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
        let mut call = self
            .call("put", &self.shard(space, &record.key))
            .arg(&record.key)
            .arg(lease.map_or_else(String::new, |lease| lease.fence.to_string()))
            .arg(record::properties(&record))
            .arg(&record.value[..]);
        for (name, count) in counters {
            call = call.arg(*name).number((*count).min(MAX_COUNTER));
        }
        let (result, lost) = self.run_once_or_twice(call).await?;
        Ok(match integer(result)? {
            -1 if lost.is_some() => result_of_first_put(self, space, &record).await?,
            -1 => PutResult::LeaseLost,
            changed if changed < -1 => PutResult::CounterChanged {
                counter: usize::try_from(-2 - changed).unwrap_or(0),
            },
            revision => PutResult::Stored {
                revision: record::unsigned(revision)?,
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
        let shard = self.shard(condition.space, condition.key);
        let slots = records
            .iter()
            .map(|(space, record)| self.shard(space, &record.key).slot);
        if self.nodes.is_cluster() && slots.into_iter().any(|slot| slot != shard.slot) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "a Redis cluster does not store records of several shards together",
            ));
        }
        // Executed twice, it finds that the condition is not met any more.
        let mut call = self
            .call("put_all", &shard)
            .repeatable_if(replaces_its_condition(&condition, &records))
            .arg(condition.key)
            .optional(condition.value.as_deref());
        for (space, record) in &records {
            call = call
                .arg(self.shard(space, &record.key).prefix)
                .arg(&record.key)
                .arg(record::properties(record))
                .arg(&record.value[..]);
        }
        let (result, lost) = self.run_once_or_twice(call).await?;
        put_all_result(integer(result)?, lost, record::unsigned)
    }

    async fn reserve(
        &self,
        space: &str,
        key: &str,
        labels: &[Label],
        hold: Duration,
    ) -> Result<ReserveResult, Error> {
        let labels = record::labels(&with_owner(labels));
        let call = self
            .call("reserve", &self.shard(space, key))
            .arg(key)
            .number(milliseconds(hold))
            .arg(&labels);
        let (result, lost) = self.run_once_or_twice(call).await?;
        let reserved = reserve_result(result, space, key)?;
        let reserved = reserved.ok_or_else(|| damaged("a reservation"))?;
        match lost {
            Some(_) => self.own_reservation(space, key, &labels, reserved).await,
            None => Ok(reserved),
        }
    }

    async fn renew(&self, lease: &Lease, hold: Duration) -> Result<bool, Error> {
        let call = self
            .call("renew", &self.shard(&lease.space, &lease.key))
            .arg(&lease.key)
            .number(lease.fence)
            .number(milliseconds(hold));
        Ok(integer(self.run(call).await?)? == 1)
    }

    async fn release(&self, lease: Lease) -> Result<(), Error> {
        let shard = self.shard(&lease.space, &lease.key);
        let call = self.call("release", &shard).arg(&lease.key);
        self.run(call.number(lease.fence)).await.map(drop)
    }

    async fn find(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: PageRequest<'_>,
    ) -> Result<RecordPage, Error> {
        let found = self.find_rows(&self.shards(space), filter, &page).await?;
        Ok(page::page(found, filter, &page))
    }

    async fn erase(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: PageRequest<'_>,
    ) -> Result<RecordPage, Error> {
        let page = erase_step(filter, page);
        let shards = self.shards(space);
        let [shard] = &shards[..] else {
            return self.erase_in_shards(space, &shards, filter, &page).await;
        };
        let call = self
            .call("erase", shard)
            .repeatable_if(are_effects_enough(space))
            .flag(reaches_reservations(filter))
            .number(-1)
            .filter(filter, &page);
        let erased = self.run_confirmed(&[call]).await?;
        let rows = erased.into_iter().map(|rows| page::rows(rows, 0));
        let rows = rows.collect::<Result<Vec<_>, _>>()?.into_iter().flatten();
        Ok(page::page(rows.collect(), filter, &page))
    }

    async fn add(&self, space: &str, additions: &[(&str, u64)]) -> Result<Vec<u64>, Error> {
        let shards = self.shards(space);
        let (first, others) = shards.split_at(1);
        let mut minimum = vec![0; additions.len()];
        if !others.is_empty() {
            // The values change in all shards, also in one that has more than the others since it lost writes.
            let names: Vec<_> = additions.iter().map(|(name, _)| (*name, 0)).collect();
            let counts = self.raise(&shards, &names).await?.into_iter();
            let changed = counts
                .zip(additions)
                .map(|(count, (_, by))| count + (*by).min(1));
            minimum = changed.collect();
        }
        let mut call = self.call("add", &first[0]);
        call = call.repeatable_if(are_effects_enough(space));
        for ((name, count), minimum) in additions.iter().zip(minimum) {
            let (count, minimum) = ((*count).min(MAX_COUNTER), minimum.min(MAX_COUNTER));
            call = call.arg(*name).number(count).number(minimum);
        }
        let mut counts = Vec::new();
        for value in self.run_confirmed(&[call]).await? {
            let values = record::array(value)?.into_iter().map(record::count);
            counts = values.collect::<Result<Vec<_>, _>>()?;
        }
        let names = additions.iter().map(|(name, _)| *name);
        let raised: Vec<_> = names.zip(counts.iter().copied()).collect();
        self.raise(others, &raised).await?;
        Ok(counts)
    }

    async fn raise_to(&self, space: &str, counter: &str, value: u64) -> Result<u64, Error> {
        let shards = self.shards(space);
        let (first, others) = shards.split_at(1);
        let mut value = value.min(MAX_COUNTER);
        // No other shard has more than the first one, so that what is added to it changes all of them.
        for shards in [first, others] {
            for raised in self.raise(shards, &[(counter, value)]).await? {
                value = raised;
            }
        }
        Ok(value)
    }

    async fn counters(
        &self,
        space: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, u64)>, Error> {
        let call = |shard| {
            let call = self.call("counters", shard).arg(prefix);
            call.optional(after.map(str::as_bytes)).number(limit)
        };
        let calls: Vec<Call> = self.shards(space).iter().map(call).collect();
        let mut counters = BTreeMap::new();
        for found in self.run_all(&calls).await? {
            let mut found = record::array(found)?.into_iter();
            while let (Some(name), Some(count)) = (found.next(), found.next()) {
                let maximum = counters.entry(text(name)?).or_default();
                *maximum = record::count(count)?.max(*maximum);
            }
        }
        Ok(counters.into_iter().take(limit as usize).collect())
    }

    async fn touch(&self, space: &str, used: &[(&str, Millis)]) -> Result<(), Error> {
        let mut calls: BTreeMap<String, Call> = BTreeMap::new();
        for (key, at) in used {
            let shard = self.shard(space, key);
            let call = calls.remove(&shard.prefix);
            let call = call.unwrap_or_else(|| self.call("touch", &shard));
            calls.insert(shard.prefix, call.arg(*key).number(at));
        }
        let calls: Vec<Call> = calls.into_values().collect();
        self.run_all(&calls).await.map(drop)
    }

    async fn amend(&self, space: &str, record: Record) -> Result<Option<u64>, Error> {
        let call = self
            .call("amend", &self.shard(space, &record.key))
            .arg(&record.key)
            .arg(&record.value[..])
            .number(record.revision)
            .number(record.updated);
        match integer(self.run(call).await?)? {
            -1 => Ok(None),
            revision => record::unsigned(revision).map(Some),
        }
    }

    async fn usage(&self, space: &str) -> Result<SpaceUsage, Error> {
        let shards = self.shards(space);
        let read = async |shard: &Shard| {
            let mut command = redis::cmd("HMGET");
            command.arg(format!("{}z", shard.prefix));
            command.arg("records").arg("bytes");
            record::array(self.nodes.read(shard, &command).await?.reply)
        };
        let mut usage = SpaceUsage::default();
        for counts in try_join_all(shards.iter().map(read)).await? {
            let mut counts = counts.into_iter().map(record::count);
            let mut next = || counts.next().unwrap_or(Ok(0));
            usage.records += next()?;
            usage.bytes += next()?;
        }
        Ok(usage)
    }

    async fn inspect(&self) -> Result<Vec<Finding>, Error> {
        self.nodes.inspect().await
    }
}
