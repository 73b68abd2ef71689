//! Records, and the types of requests and answers.

use std::time::Duration;

use bytes::Bytes;

use crate::{Millis, glob_matches};

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

/// A criterion on labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelMatch<'a> {
    /// The record has exactly this label.
    Is {
        /// The label's name.
        name: &'a str,
        /// The label's value.
        value: &'a str,
    },
    /// The record has a label of this name whose value begins with `prefix`.
    Starts {
        /// The label's name.
        name: &'a str,
        /// The prefix of the value; empty for any value.
        prefix: &'a str,
    },
    /// The record has a label of this name whose whole value matches the pattern
    /// ([`glob_matches`](crate::glob_matches)). An index serves the literal text at the beginning of the
    /// pattern.
    Glob {
        /// The label's name.
        name: &'a str,
        /// The pattern: `*` matches any text, every other character itself.
        pattern: &'a str,
    },
}

impl<'a> LabelMatch<'a> {
    /// The name of the label, and the prefix of the values that can match.
    #[must_use]
    pub fn range(&self) -> (&'a str, &'a str) {
        match *self {
            Self::Is { name, value } => (name, value),
            Self::Starts { name, prefix } => (name, prefix),
            Self::Glob { name, pattern } => (
                name,
                pattern
                    .split_once('*')
                    .map_or(pattern, |(literal, _)| literal),
            ),
        }
    }

    /// True if one of the labels meets the criterion.
    #[must_use]
    pub fn matches(&self, labels: &[Label]) -> bool {
        labels.iter().any(|label| match *self {
            Self::Is { name, value } => label.name == name && label.value == value,
            Self::Starts { name, prefix } => label.name == name && label.value.starts_with(prefix),
            Self::Glob { name, pattern } => {
                label.name == name && glob_matches(pattern, &label.value)
            }
        })
    }
}

/// Selects records to find or erase: all criteria must hold.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecordFilter<'a> {
    /// The prefix of the key.
    pub prefix: &'a str,
    /// Criteria on labels.
    pub labels: &'a [LabelMatch<'a>],
    /// Records that expire strictly before this time; records that never expire do not match.
    pub expired_before: Option<Millis>,
    /// The order of the result.
    pub order: Order,
}

/// The order of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// By key; the only order in which a cursor works.
    #[default]
    Key,
    /// Most recently stored first, by the sequence of writes and not by the clock.
    Newest,
    /// Least recently used (or stored) first; among equals, the one stored first.
    LeastRecentlyUsed,
    /// Earliest expiry first; records that never expire come last. Among equals, the one stored first.
    Expiry,
}

/// Selects a part of the matches.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest<'a> {
    /// Only keys after this one; [`crate::ErrorKind::Unsupported`] in any order but [`Order::Key`].
    pub after: Option<&'a str>,
    /// Maximum number of matches.
    pub limit: u32,
    /// Set if labels are requested; otherwise `labels` is empty.
    pub labels: bool,
    /// The requested part of the values.
    pub values: ValuePart,
}

/// The requested part of the values of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValuePart {
    /// None: `value` is empty.
    None,
    /// At least this number of bytes from the beginning, or all of a shorter value.
    First(u32),
    /// Whole values.
    All,
}

impl PageRequest<'_> {
    /// A page of the first `limit` matches with their values and labels.
    #[must_use]
    pub fn first(limit: u32) -> Self {
        Self {
            labels: true,
            values: ValuePart::All,
            ..Self::keys(limit)
        }
    }

    /// A page of the first `limit` matches with their labels, without values.
    #[must_use]
    pub fn labels(limit: u32) -> Self {
        Self {
            labels: true,
            ..Self::keys(limit)
        }
    }

    /// A page of the first `limit` matches, keys only.
    #[must_use]
    pub fn keys(limit: u32) -> Self {
        Self {
            after: None,
            limit,
            labels: false,
            values: ValuePart::None,
        }
    }
}

/// A page of matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordPage {
    /// The matches.
    pub records: Vec<Record>,
    /// The size of each match's whole value in bytes, regardless of the requested part.
    pub sizes: Vec<u64>,
    /// The `after` of the next page if there may be one, that is, if this page is full ([`Order::Key`] only).
    pub next: Option<String>,
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
