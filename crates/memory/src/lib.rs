//! Long-term memory: named spaces of records (bytes, labels, expiry) behind one trait.
//!
//! User memory and cache entries are different spaces of the same memory. This crate knows nothing
//! of caching: it keeps records, counters and reservations, and finds and erases them at the cost of
//! what is touched.

mod answer;
pub mod conformance;
mod error;
pub mod flat_json;
pub mod in_process;
mod record;
mod request;
mod slots;
pub mod sqlite;
mod text;

pub use answer::Answer;
pub use error::{Error, ErrorKind};
pub use record::{
    Batch, Enter, Entered, Filter, Found, Label, Lease, Match, Order, Page, Put, Recalled, Record,
    Reserved, Stale, Usage, Values,
};
pub use text::glob_matches;

pub use cachalot_core::Millis;

use std::time::Duration;

/// The names of the spaces that Cachalot itself uses.
pub mod space {
    /// What `ltm.store` keeps: searchable by full text.
    pub const USER: &str = "user";
    /// Entries of the cache.
    pub const CACHE: &str = "cache";
}

/// The counters that a memory raises itself.
pub mod counter {
    /// The last erase of a space that revoked reservations (see [`Memory::erase`](crate::Memory::erase)):
    /// each raises it to the memory's time in milliseconds, or by one where that is more. It grows
    /// strictly, and is never less than the time of the last such erase.
    pub const ERASED: &str = "erased";
}

/// What a memory is and can do.
#[derive(Debug, Clone)]
pub struct About {
    /// `sqlite`, `in-process`, …
    pub name: &'static str,
    /// Where it is, for messages; never holds a credential.
    pub location: String,
    /// Whether other processes may use the same records.
    pub shared: bool,
    /// Whether [`Memory::reserve`] works; without it there is no single-flight across processes.
    pub reservations: bool,
    /// The largest value it takes, in bytes.
    pub largest_value: u64,
    /// The longest key, counter, label name and label value it takes, in bytes each; a longer one is
    /// [`ErrorKind::TooLarge`].
    pub longest_name: u64,
    /// Whether the record and the counters of one [`Memory::get`] or [`Memory::enter`] come from one
    /// moment. Without it, each is as it was at some moment of the call.
    pub snapshot: bool,
}

/// A memory: named spaces of records, counters and reservations.
///
/// Every call is atomic, in this process and across processes. A call that fails has either done
/// nothing or done all of it; repeating `get`, `enter`, `put`, `find`, `erase`, `raise_to`, `touch`,
/// `release` is safe, `add` counts once more. A space needs no creating; a space that was never written is empty.
/// A record whose expiry has passed is still there until somebody erases it: whoever asks decides
/// what expiry means. Implementations never block the caller for longer than local, uncontended work
/// takes: anything else is [`Answer::Later`].
pub trait Memory: Send + Sync {
    /// What this memory is.
    fn about(&self) -> &About;

    /// The record under `key`, the current value of each counter (0 if never raised), and the memory's
    /// time, in one round trip and, if [`About::snapshot`] says so, from one moment.
    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> Answer<'a, Found>;

    /// [`Memory::get`], and [`Memory::reserve`] where the record does not answer, in one atomic step:
    /// reserves the key if there is no record, if the record's expiry is not after the memory's time,
    /// or if it is stale (see [`Stale`]). Otherwise nothing changes and `reserved` is `None`.
    /// [`ErrorKind::Unsupported`] without [`About::reservations`].
    fn enter<'a>(&'a self, space: &'a str, key: &'a str, enter: Enter<'a>) -> Answer<'a, Entered>;

    /// Stores a record in place of any other under its key. The record's `revision` is ignored: the
    /// memory gives 1 to a new record and one more at each replacement. With a lease, stores only if
    /// that lease is current (not ended, not revoked, not taken over) and ends it in the same step;
    /// otherwise [`Put::Overtaken`]. Stores only if each of `counters` has the value given with it;
    /// otherwise [`Put::Outdated`], and the lease stays. A put that is refused changes nothing. A lease
    /// on another key is [`ErrorKind::Unsupported`]; without a lease, reservations do not matter. When
    /// this resolves, the record is visible to every process and survives the death of this one.
    fn put<'a>(
        &'a self,
        space: &'a str,
        record: Record,
        lease: Option<&'a Lease>,
        counters: &'a [(&'a str, u64)],
    ) -> Answer<'a, Put>;

    /// Reserves the right to store under `key` for `hold`, by the memory's own clock. At most one
    /// lease on a key is current; each new one has a larger fence than any before it on that key
    /// for as long as an older one could still be presented. `labels` let [`Memory::erase`] find
    /// (and revoke) the reservation. A lease that was held for longer than `hold` has lapsed: the next
    /// one to reserve the key takes it over. Until then it stays current, for at least an hour: its
    /// holder may renew it and store under it.
    fn reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        labels: &'a [Label],
        hold: Duration,
    ) -> Answer<'a, Reserved>;

    /// Prolongs a lease, lapsed or not, to `hold` from now; false if it is no longer current.
    fn renew<'a>(&'a self, lease: &'a Lease, hold: Duration) -> Answer<'a, bool>;

    /// Gives a reservation back. Releasing a lease that is no longer current does nothing.
    fn release(&self, lease: Lease) -> Answer<'_, ()>;

    /// One page of what matches, in the filter's order, with the labels and the part of the values
    /// that the page asks for. Reads no value that it does not return. Costs what it returns plus a constant,
    /// except that only one of the filter's criteria needs to be served by an index. Records that come and
    /// go between pages of a cursor do not make it miss or repeat others.
    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a Filter<'a>,
        page: Page<'a>,
    ) -> Answer<'a, Batch>;

    /// Erases one page of what matches, and reservations that match with it; returns what was
    /// erased, with what the page asks for. A criterion that a reservation cannot meet
    /// (`expired_before`), or an order by what only records have ([`Order::Coldest`], [`Order::Expiry`]),
    /// leaves reservations alone. Reservations do not count towards the page's limit: every page revokes
    /// all that match behind its `after`, and raises [`counter::ERASED`] in the same step, whether anything
    /// matched or not: puts without a lease are refused by that counter. Costs what it erases.
    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a Filter<'a>,
        page: Page<'a>,
    ) -> Answer<'a, Batch>;

    /// Adds to several counters in one step and returns their new values, in the order given. A counter
    /// that was never raised begins at 0, one that would pass `i64::MAX` stays there. Counters are never
    /// erased.
    fn add<'a>(&'a self, space: &'a str, additions: &'a [(&'a str, u64)]) -> Answer<'a, Vec<u64>>;

    /// Raises a counter to `value` if it is less; returns its value then.
    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> Answer<'a, u64>;

    /// The counters whose names begin with `prefix` and come after `after`, at most `limit` of them, in
    /// the order of their names, with their values.
    fn counters<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> Answer<'a, Vec<(String, u64)>>;

    /// Notes when records were last used, for [`Order::Coldest`]. Best effort; unknown keys are
    /// ignored, and moments before the last known use too; changes no stamp and no revision.
    fn touch<'a>(&'a self, space: &'a str, used: &'a [(&'a str, Millis)]) -> Answer<'a, ()>;

    /// Replaces the value of a record that was read, if it is still the same: compares `revision` and
    /// `updated` of `record` with those under its key. Raises the revision by one and returns it; keeps
    /// labels, expiry, `updated`, and the places in [`Order::Newest`] and [`Order::Coldest`]. `None` if the
    /// record was replaced, amended or erased since it was read; nothing changes then.
    /// [`ErrorKind::Unsupported`] in [`space::USER`] and by default: to amend saves work, and a caller
    /// goes on without it.
    fn amend<'a>(&'a self, space: &'a str, record: Record) -> Answer<'a, Option<u64>> {
        let refused = format!("`{:.80}` in `{space}` cannot be amended", record.key);
        Answer::Now(Err(Error::new(ErrorKind::Unsupported, refused)))
    }

    /// How much a space holds.
    fn usage<'a>(&'a self, space: &'a str) -> Answer<'a, Usage>;

    /// A number that changes whenever the record or the counter called `name` may have changed, by
    /// whatever process: who read it *before* reading the record, and reads the same number now, may
    /// still use what was read. Synchronous and cheap (nanoseconds). `None`: no such promise (now, or
    /// ever), read the memory.
    fn stamp(&self, space: &str, name: &str) -> Option<u64>;

    /// Full text search, if this memory has it.
    fn recall(&self) -> Option<&dyn Recall> {
        None
    }
}

/// Full text search over the space [`space::USER`] (other spaces are never indexed).
pub trait Recall: Send + Sync {
    /// The records whose key, value or label values hold all words of `query` (prefix matches only
    /// where a word ends in `*`; everything else in the query is literal text), best first, that also
    /// match all `labels`. A query without a word finds nothing.
    fn search<'a>(
        &'a self,
        query: &'a str,
        labels: &'a [Match<'a>],
        limit: u32,
    ) -> Answer<'a, Vec<Recalled>>;
}
