//! Records, reservations, and the results of requests.

use std::time::Duration;

use bytes::Bytes;

use crate::Millis;

/// A name and a value by which records are found and erased. Tags and scalar metadata are labels;
/// a record may carry several labels of one name.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Label {
    /// The kind of label: `tag`, `handle`, …
    pub name: String,
    /// The value.
    pub value: String,
}

impl Label {
    /// Creates a label.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The key, unique in its space.
    pub key: String,
    /// The stored bytes.
    pub value: Bytes,
    /// Labels by which the record is found. Their order has no meaning; a repeated label is kept once.
    pub labels: Vec<Label>,
    /// The time of expiry; `None`: it never expires.
    pub expires: Option<Millis>,
    /// 1 for a new record, incremented at each replacement.
    pub revision: u64,
    /// The time when this revision was stored, by the store's clock; ignored by `put`.
    pub updated: Millis,
}

/// The result of [`Store::get`](crate::Store::get): a record and counters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GetResult {
    /// The record, if there is one.
    pub record: Option<Record>,
    /// The requested counters, in the requested order.
    pub counters: Vec<u64>,
    /// The store's time at which they were read.
    pub now: Millis,
}

/// A lookup that reserves the key if the record does not answer.
#[derive(Debug, Clone, Copy)]
pub struct GetOrReserve<'a> {
    /// The counters to read with the record.
    pub counters: &'a [&'a str],
    /// The labels of the reservation.
    pub labels: &'a [Label],
    /// The duration of the reservation.
    pub hold: Duration,
    /// The unexpired records that do not answer the lookup.
    pub stale: Stale,
}

/// Selects records that do not answer a lookup although they have not expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stale {
    /// None: every unexpired record answers.
    None,
    /// The record of this revision, which the caller has read and cannot use.
    Revision(u64),
    /// Any record.
    Any,
}

impl Stale {
    /// True if a record was found that has not expired and is not stale.
    #[must_use]
    pub fn is_answered_by(self, found: &GetResult) -> bool {
        found.record.as_ref().is_some_and(|record| {
            let stale = match self {
                Self::None => false,
                Self::Revision(revision) => revision == record.revision,
                Self::Any => true,
            };
            !stale && record.expires.is_none_or(|expires| expires > found.now)
        })
    }
}

/// The result of [`Store::get_or_reserve`](crate::Store::get_or_reserve).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetOrReserveResult {
    /// The record and counters.
    pub found: GetResult,
    /// The reservation; `None` if the record answers.
    pub reserved: Option<ReserveResult>,
}

/// The exclusive right to store under a key, for a limited time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The space of the key.
    pub space: String,
    /// The reserved key.
    pub key: String,
    /// The fencing token: larger than that of every earlier lease on the key.
    pub fence: u64,
}

/// The result of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReserveResult {
    /// The caller holds the lease.
    Held(Lease),
    /// Another caller holds a lease.
    Busy {
        /// The fence of the current lease.
        fence: u64,
        /// The time until it lapses if it is not renewed.
        left: Duration,
    },
}

impl ReserveResult {
    /// A lease that the caller holds.
    #[must_use]
    pub fn held(space: &str, key: &str, fence: u64) -> Self {
        Self::Held(Lease {
            space: space.to_owned(),
            key: key.to_owned(),
            fence,
        })
    }
}

/// The result of storing a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutResult {
    /// Stored durably.
    Stored {
        /// The record's new revision.
        revision: u64,
    },
    /// The lease was no longer current; nothing was stored.
    LeaseLost,
    /// A counter did not have the given value; nothing was stored.
    CounterChanged {
        /// The index of the first such counter in the given order.
        counter: usize,
    },
}

/// The condition of [`Store::put_all`](crate::Store::put_all): the state of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutCondition<'a> {
    /// The space of the key.
    pub space: &'a str,
    /// The key.
    pub key: &'a str,
    /// The value of the record under the key; `None` if there must be no record.
    pub value: Option<Bytes>,
}

/// The result of storing several records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutAllResult {
    /// All are stored durably.
    Stored,
    /// Another caller holds a lease on the key of the condition; nothing was stored.
    Busy {
        /// The time until the lease lapses if it is not renewed.
        left: Duration,
    },
    /// The record under the key of the condition is not the expected one; nothing was stored.
    Changed,
}

/// The size of a space.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpaceUsage {
    /// Number of records, expired ones included.
    pub records: u64,
    /// Total bytes of their keys, values and labels.
    pub bytes: u64,
}

/// A record found by full text.
#[derive(Debug, Clone, PartialEq)]
pub struct RecallHit {
    /// The record.
    pub record: Record,
    /// The quality of the match: larger is better.
    pub score: f64,
}
