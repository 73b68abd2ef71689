//! Storage backends (stores): named spaces of records (bytes, labels, expiry) behind one trait.
//!
//! Long-term memory of users and cache entries are different spaces of one store. This crate knows nothing of
//! caching: it stores records, counters and reservations, and finds and erases them at a cost that grows with
//! the result, not with the size of the space.

pub mod checks;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod error;
mod finding;
pub mod flat_json;
mod forward;
pub mod in_process;
pub mod intercepted;
mod pages;
mod private_files;
mod query;
mod record;
mod reply;
mod request;
mod slots;
mod sql;
pub mod sqlite;
mod stored_lease;
mod text;
pub mod user_record;

pub use error::{Error, ErrorKind};
pub use finding::Finding;
pub use pages::Pages;
pub use query::{LabelMatch, Order, PageRequest, RecordFilter, RecordPage, ValuePart};
pub use record::{
    GetOrReserve, GetOrReserveResult, GetResult, Label, Lease, PutAllResult, PutCondition,
    PutResult, RecallHit, Record, ReserveResult, SpaceUsage, Stale,
};
pub use reply::StoreReply;
pub use text::glob_matches;

/// Checks of requests and parts of results that implementations of [`Store`] share.
pub mod implementation {
    pub use crate::checks;
    pub use crate::request::*;
    pub use crate::sql::{Conditions, leading_label};
    pub use crate::stored_lease::{StoredLease, refusal};
    pub use crate::text::{Word, after_prefix, fts5_expression, words};
}

pub use cachalot_core::Millis;

use std::time::Duration;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

/// The names of the spaces that Cachalot itself uses.
pub mod space {
    /// Records of `ltm.store`: searchable by full text.
    pub const USER: &str = "user";
    /// Entries of the cache.
    pub const CACHE: &str = "cache";
    /// Counters of the gateway. They are sums of money, not epochs: a store changes them only when it is asked to, also
    /// after it has lost writes.
    pub const GATEWAY: &str = "gateway";
}

/// The counters that a store raises itself.
pub mod counter {
    /// Raised by every erase that revokes reservations (see [`Store::erase`](crate::Store::erase)), to the
    /// store's time in milliseconds or by one, whichever is more. It increases strictly, and is never less
    /// than the time of the last such erase.
    pub const ERASED: &str = "erased";
}

/// Properties and capabilities of a store.
#[derive(Debug, Clone)]
pub struct StoreInfo {
    /// `sqlite`, `in-process`, …
    pub name: &'static str,
    /// The location, for messages; never contains a credential.
    pub location: String,
    /// True if other processes may use the same records.
    pub shared: bool,
    /// True if [`Store::reserve`] works; without it there is no single-flight across processes.
    pub reservations: bool,
    /// Maximum size of a value, in bytes.
    pub largest_value: u64,
    /// Maximum length of a key, counter, label name or label value, in bytes each; a longer one fails with
    /// [`ErrorKind::TooLarge`].
    pub longest_name: u64,
    /// True if the record and the counters of one [`Store::get`] or [`Store::get_or_reserve`] come from one
    /// snapshot. Otherwise each is read at some moment of the call.
    pub snapshot: bool,
}

impl StoreInfo {
    /// The properties of a store that other processes may use, with reservations and snapshots.
    pub fn new(
        name: &'static str,
        location: impl Into<String>,
        largest_value: u64,
        longest_name: u64,
    ) -> Self {
        Self {
            name,
            location: location.into(),
            shared: true,
            reservations: true,
            largest_value,
            longest_name,
            snapshot: true,
        }
    }
}

/// A store: named spaces of records, counters and reservations.
///
/// - **Atomicity.** Every call is atomic, in this process and across processes. A call that fails has done
///   either nothing or all of its work.
/// - **Retries.** Repeating `get`, `get_or_reserve`, `put`, `find`, `raise_to`, `touch` and `release` is safe. Repeating
///   `put_all` or `put_new` stores nothing else, but returns another result; a repeated `erase` does not return what the
///   first one has erased, and erases the next page; `add` counts once more. After a lost reply, an implementation repeats
///   `erase` and `add` in the space of the cache only, where the effect matters and not the result, and `put_all` and
///   `put_new` only if it can tell what the first call has done.
/// - **Spaces** need not be created; a space that was never written is empty.
/// - **Expiry.** A record whose expiry has passed exists until it is erased: the caller decides what expiry
///   means.
/// - **Blocking.** An implementation never blocks the caller for longer than local, uncontended work takes:
///   anything else is [`StoreReply::Later`].
pub trait Store: Send + Sync {
    /// The properties of this store.
    fn about(&self) -> &StoreInfo;

    /// Returns the record under `key`, the current value of each counter (0 if never raised), and the store's
    /// time, in one round trip and, if [`StoreInfo::snapshot`] is true, from one snapshot.
    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> StoreReply<'a, GetResult>;

    /// Performs [`Store::get`], and [`Store::reserve`] if the record does not answer, in one atomic step:
    /// reserves the key if there is no record, if the record's expiry is not after the store's time, or if
    /// the record is stale (see [`Stale`]). Otherwise nothing changes and `reserved` is `None`. Fails with
    /// [`ErrorKind::Unsupported`] without [`StoreInfo::reservations`].
    fn get_or_reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        request: GetOrReserve<'a>,
    ) -> StoreReply<'a, GetOrReserveResult>;

    /// Stores a record in place of any other under its key.
    ///
    /// - **Revision.** The record's `revision` is ignored: the store assigns 1 to a new record and increments
    ///   it at each replacement.
    /// - **Lease.** With a lease, stores only if that lease is current (not ended, not revoked, not taken
    ///   over), and ends it in the same step; otherwise returns [`PutResult::LeaseLost`]. A lease on another key is
    ///   [`ErrorKind::Unsupported`]. Without a lease, reservations do not matter.
    /// - **Counters.** Stores only if each of `counters` has the given value; otherwise returns
    ///   [`PutResult::CounterChanged`], and the lease stays.
    ///
    /// A put that is refused changes nothing. When this resolves, the record is visible to every process and
    /// survives a crash of this one.
    fn put<'a>(
        &'a self,
        space: &'a str,
        record: Record,
        lease: Option<&'a Lease>,
        counters: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, PutResult>;

    /// Stores several records, each with its space, in one step: all or none.
    ///
    /// - **Condition.** Stores only if no unlapsed lease on the key of `condition` exists
    ///   ([`PutAllResult::Busy`]), and the record under it is as `condition` specifies
    ///   ([`PutAllResult::Changed`]). A lapsed lease on that key is revoked in the same step. Other
    ///   reservations do not matter.
    /// - **Identical records.** A record that is stored already with the same value, labels and expiry stays
    ///   as it is, with its revision. Every other record is replaced as by [`Store::put`].
    ///
    /// Fails with [`ErrorKind::Unsupported`] by default. Sessions need it; the cache does not.
    fn put_all<'a>(
        &'a self,
        condition: PutCondition<'a>,
        records: Vec<(&'a str, Record)>,
    ) -> StoreReply<'a, PutAllResult> {
        let refused = format!(
            "{} records cannot be stored in one step with `{:.80}` in `{}`",
            records.len(),
            condition.key,
            condition.space
        );
        StoreReply::Now(Err(Error::new(ErrorKind::Unsupported, refused)))
    }

    /// Stores each record whose key has no record and no unlapsed lease, and returns, for each in order, true if it was
    /// stored. A lapsed lease on its key is revoked in the same step. Each record is stored or not by itself: a call that
    /// fails may have stored some of them. For copies of many records: by default a [`Store::put_all`] for each, several
    /// at the same time.
    fn put_new<'a>(&'a self, space: &'a str, records: Vec<Record>) -> StoreReply<'a, Vec<bool>> {
        /// A store on a server takes as long for many as for one.
        const CONCURRENT: usize = 16;
        let puts: Vec<_> = records
            .into_iter()
            .map(|record| put_if_new(self, space, record))
            .collect();
        StoreReply::later(stream::iter(puts).buffered(CONCURRENT).try_collect())
    }

    /// Reserves the right to store under `key` for `hold`, by the store's own clock.
    ///
    /// At most one lease on a key is current. Each new lease has a larger fence than any before it on that
    /// key, for as long as an older one could still be presented. [`Store::erase`] finds (and revokes) the
    /// reservation by `labels`. A lease that was not renewed for `hold` has lapsed: the next call that
    /// reserves the key takes it over. Until then it stays current, for at least an hour: its holder may
    /// renew it and store under it.
    fn reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        labels: &'a [Label],
        hold: Duration,
    ) -> StoreReply<'a, ReserveResult>;

    /// Extends a lease, lapsed or not, to `hold` from now; returns false if it is no longer current.
    fn renew<'a>(&'a self, lease: &'a Lease, hold: Duration) -> StoreReply<'a, bool>;

    /// Ends a reservation. Releasing a lease that is no longer current does nothing.
    fn release(&self, lease: Lease) -> StoreReply<'_, ()>;

    /// Returns one page of the records that match, in the filter's order, with the labels and the part of the
    /// values that the page requests. Reads no value that it does not return. The cost is that of the result
    /// plus a constant, except that only one of the filter's criteria needs to be served by an index. Records
    /// that are added or erased between pages of a cursor do not make it miss or repeat others.
    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage>;

    /// Erases one page of the records that match, and the reservations that match; returns the erased records
    /// with the parts that the page requests. The cost is that of the result.
    ///
    /// In [`Order::Any`], a store erases only a part of a large page, so that other calls wait for some milliseconds at
    /// most.
    ///
    /// Reservations stay if the filter has a criterion that they cannot meet (`expired_before`), an order
    /// by a property that only records have ([`Order::LeastRecentlyUsed`], [`Order::Expiry`]), or none
    /// ([`Order::Any`]). Otherwise every page revokes all reservations that match after its `after`, not limited by the
    /// page's `limit`, and raises [`counter::ERASED`] in the same step, whether anything matched or not: puts without a
    /// lease check that counter. A store may revoke further reservations, whose holders then do not store.
    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage>;

    /// Adds to several counters in one step and returns their new values, in the given order. A counter that
    /// was never raised starts at 0; one that would exceed `i64::MAX` stays there. Counters are never erased.
    fn add<'a>(
        &'a self,
        space: &'a str,
        additions: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, Vec<u64>>;

    /// Raises a counter to `value` if it is less; returns its new value.
    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> StoreReply<'a, u64>;

    /// Returns the counters whose names begin with `prefix` and come after `after`, with their values, in the
    /// order of their names; at most `limit`.
    fn counters<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> StoreReply<'a, Vec<(String, u64)>>;

    /// Records when records were last used, for [`Order::LeastRecentlyUsed`]. Best effort: unknown keys are ignored,
    /// and so are times before the last known use; other processes may see it with the next write of this one only.
    /// Changes no stamp and no revision.
    fn touch<'a>(&'a self, space: &'a str, used: &'a [(&'a str, Millis)]) -> StoreReply<'a, ()>;

    /// Replaces the value of a record that the caller has read, if it is unchanged: compares `revision` and
    /// `updated` of `record` with those under its key. Increments the revision and returns it; keeps labels,
    /// expiry, `updated`, and the positions in [`Order::Newest`] and [`Order::LeastRecentlyUsed`]. Returns `None`, and
    /// changes nothing, if the record was replaced, amended or erased since it was read.
    ///
    /// Fails with [`ErrorKind::Unsupported`] in [`space::USER`] and by default: amending only saves work, so
    /// callers continue without it.
    fn amend<'a>(&'a self, space: &'a str, record: Record) -> StoreReply<'a, Option<u64>> {
        let refused = format!("`{:.80}` in `{space}` cannot be amended", record.key);
        StoreReply::Now(Err(Error::new(ErrorKind::Unsupported, refused)))
    }

    /// Returns the size of a space.
    fn usage<'a>(&'a self, space: &'a str) -> StoreReply<'a, SpaceUsage>;

    /// Returns a number that changes whenever any process may have changed the record or the counter called
    /// `name`. A caller that read it *before* it read the record, and reads the same number now, may still
    /// use the record. Synchronous and cheap (nanoseconds). `None`: the store gives no such guarantee (now,
    /// or ever); read the store. If the user allows staleness, the number may be the same for that long after
    /// another process has changed the record or the counter. `None` by default.
    fn stamp(&self, space: &str, name: &str) -> Option<u64> {
        let _ = (space, name);
        None
    }

    /// Returns the place of a name's stamp for [`Store::stamp_at`]; it never changes. `None`: stamps are read
    /// by name only, with [`Store::stamp`].
    fn stamp_slot(&self, space: &str, name: &str) -> Option<usize> {
        let _ = (space, name);
        None
    }

    /// Returns the [`Store::stamp`] of the names with this slot, without reading the name.
    fn stamp_at(&self, slot: usize) -> Option<u64> {
        let _ = slot;
        None
    }

    /// Returns the version of the server and how it is configured, for people; nothing by default.
    fn inspect(&self) -> StoreReply<'_, Vec<Finding>> {
        StoreReply::Now(Ok(Vec::new()))
    }

    /// Full text search, if this store has it.
    fn recall(&self) -> Option<&dyn Recall> {
        None
    }
}

/// Stores a record unless there is one under its key; returns true if it was stored.
async fn put_if_new<S: Store + ?Sized>(
    store: &S,
    space: &str,
    record: Record,
) -> Result<bool, Error> {
    let key = record.key.clone();
    let condition = PutCondition {
        space,
        key: &key,
        value: None,
    };
    let put = store.put_all(condition, vec![(space, record)]);
    Ok(put.settle().await? == PutAllResult::Stored)
}

/// Full text search over the space [`space::USER`] (other spaces are never indexed).
pub trait Recall: Send + Sync {
    /// Returns the records that match all `labels` and whose key, value or label values contain all words of
    /// `query`, best match first. A word matches as a prefix only if it ends in `*`; everything else in the
    /// query is literal text. A query without a word finds nothing.
    fn search<'a>(
        &'a self,
        query: &'a str,
        labels: &'a [LabelMatch<'a>],
        limit: u32,
    ) -> StoreReply<'a, Vec<RecallHit>>;
}
