//! What a memory keeps, and how it is asked for.

use std::time::Duration;

use bytes::Bytes;

use crate::{Millis, glob_matches};

/// A name and a value by which records are found and erased. Tags and scalar metadata are labels;
/// a record may carry several labels of one name.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Label {
    /// What it is: `tag`, `handle`, …
    pub name: String,
    /// Its value.
    pub value: String,
}

impl Label {
    /// A label.
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
    /// Its key, unique in its space.
    pub key: String,
    /// What is remembered.
    pub value: Bytes,
    /// By what it is found. Order carries no meaning; a repeated one is kept once.
    pub labels: Vec<Label>,
    /// From when on it is expired; `None`: never.
    pub expires: Option<Millis>,
    /// 1 when new, one more at each replacement.
    pub revision: u64,
    /// When this revision was stored, by the memory's clock; ignored by `put`.
    pub updated: Millis,
}

/// A record and counters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The record, if there is one.
    pub record: Option<Record>,
    /// The counters asked for, in the order asked for.
    pub counters: Vec<u64>,
    /// The memory's time at which they were read.
    pub now: Millis,
}

/// A lookup that reserves what it does not find.
#[derive(Debug, Clone, Copy)]
pub struct Enter<'a> {
    /// The counters to read with the record.
    pub counters: &'a [&'a str],
    /// The labels of the reservation.
    pub labels: &'a [Label],
    /// How long the reservation holds.
    pub hold: Duration,
    /// Which record that has not expired is reserved over.
    pub stale: Stale,
}

/// A record that does not answer a lookup although it has not expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stale {
    /// None: every record that has not expired answers.
    None,
    /// The one of this revision, which was read before and found unusable.
    Revision(u64),
    /// Any.
    Any,
}

impl Stale {
    /// Whether a record was found that has not expired and is not stale.
    #[must_use]
    pub fn is_answered_by(self, found: &Found) -> bool {
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

/// The answer to [`Memory::enter`](crate::Memory::enter).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entered {
    /// What was read.
    pub found: Found,
    /// The reservation; `None` if the record answers.
    pub reserved: Option<Reserved>,
}

/// The right to store under a key, for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The space of the key.
    pub space: String,
    /// The key that is reserved.
    pub key: String,
    /// Larger than that of every earlier lease on the key.
    pub fence: u64,
}

/// The answer to a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// It is ours.
    Held(Lease),
    /// Somebody else holds it.
    Busy {
        /// The fence of the current lease.
        fence: u64,
        /// The time until it lapses if it is not renewed.
        left: Duration,
    },
}

/// The answer to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// Stored durably.
    Stored {
        /// The record's new revision.
        revision: u64,
    },
    /// The lease was no longer current; nothing was stored.
    Overtaken,
    /// A counter had another value than the one given; nothing was stored.
    Outdated {
        /// The index of the first such counter in the order given.
        counter: usize,
    },
}

/// A criterion on labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match<'a> {
    /// The record has exactly this label.
    Is {
        /// The label's name.
        name: &'a str,
        /// Its value.
        value: &'a str,
    },
    /// The record has a label of this name whose value begins so.
    Starts {
        /// The label's name.
        name: &'a str,
        /// How its value begins; empty: any value.
        prefix: &'a str,
    },
    /// The record has a label of this name whose whole value matches the pattern
    /// ([`glob_matches`](crate::glob_matches)). Served by an index as far as the pattern begins with
    /// literal text.
    Glob {
        /// The label's name.
        name: &'a str,
        /// The pattern: `*` stands for any text, everything else for itself.
        pattern: &'a str,
    },
}

impl<'a> Match<'a> {
    /// The name of the label, and how its value begins.
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

    /// Whether one of the labels meets the criterion.
    #[must_use]
    pub fn is_met_by(&self, labels: &[Label]) -> bool {
        labels.iter().any(|label| match *self {
            Self::Is { name, value } => label.name == name && label.value == value,
            Self::Starts { name, prefix } => label.name == name && label.value.starts_with(prefix),
            Self::Glob { name, pattern } => {
                label.name == name && glob_matches(pattern, &label.value)
            }
        })
    }
}

/// What to find or erase: all criteria must hold.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    /// The key begins so.
    pub prefix: &'a str,
    /// All of these hold.
    pub labels: &'a [Match<'a>],
    /// Expires strictly before this moment; records that never expire do not match.
    pub expired_before: Option<Millis>,
    /// In what order.
    pub order: Order,
}

/// The order of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// By key; the only order in which a cursor works.
    #[default]
    Key,
    /// The most recently stored first, by the order of the stores and not by the clock.
    Newest,
    /// The least recently used (or stored) first; among equals, the one stored first.
    Coldest,
    /// The one that expires first, first; among equals, and what never expires, which comes last, the one
    /// stored first.
    Expiry,
}

/// Which part of the matches.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// Only keys after this one; [`crate::ErrorKind::Unsupported`] in another order than [`Order::Key`].
    pub after: Option<&'a str>,
    /// At most so many.
    pub limit: u32,
    /// Whether labels are wanted: without, `labels` is empty.
    pub labels: bool,
    /// Which part of the values is wanted.
    pub values: Values,
}

/// Which part of the values of a page is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// None: `value` is empty.
    None,
    /// At least so many of the first bytes, or all of a shorter value.
    First(u32),
    /// Whole values.
    All,
}

impl Page<'_> {
    /// The first `limit` matches with their values and labels.
    #[must_use]
    pub fn first(limit: u32) -> Self {
        Self {
            labels: true,
            values: Values::All,
            ..Self::keys(limit)
        }
    }

    /// The first `limit` matches with their labels, without values.
    #[must_use]
    pub fn labels(limit: u32) -> Self {
        Self {
            labels: true,
            ..Self::keys(limit)
        }
    }

    /// The first `limit` matches, keys only.
    #[must_use]
    pub fn keys(limit: u32) -> Self {
        Self {
            after: None,
            limit,
            labels: false,
            values: Values::None,
        }
    }
}

/// A page of matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// The matches.
    pub records: Vec<Record>,
    /// The whole size of each match's value in bytes, whichever part of it the page asked for.
    pub sizes: Vec<u64>,
    /// The `after` of the next page, if there may be more: if this one is full ([`Order::Key`] only).
    pub next: Option<String>,
}

/// How much a space holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Records, expired ones included.
    pub records: u64,
    /// Bytes of their keys, values and labels.
    pub bytes: u64,
}

/// A record found by full text.
#[derive(Debug, Clone, PartialEq)]
pub struct Recalled {
    /// The record.
    pub record: Record,
    /// How well it matches: larger is better.
    pub score: f64,
}
