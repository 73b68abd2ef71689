//! What a memory keeps, and how it is asked for.

use std::time::Duration;

use bytes::Bytes;

use crate::Millis;

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

/// A record and counters, from one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The record, if there is one.
    pub record: Option<Record>,
    /// The counters asked for, in the order asked for.
    pub counters: Vec<u64>,
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
        /// When it lapses if it is not renewed.
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
    /// Whether values (and labels) are wanted, or keys only: without, `value` and `labels` are empty.
    pub values: bool,
}

impl Page<'_> {
    /// The first `limit` matches with their values.
    #[must_use]
    pub fn first(limit: u32) -> Self {
        Self {
            after: None,
            limit,
            values: true,
        }
    }

    /// The first `limit` matches, keys only.
    #[must_use]
    pub fn keys(limit: u32) -> Self {
        Self {
            after: None,
            limit,
            values: false,
        }
    }
}

/// A page of matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// The matches.
    pub records: Vec<Record>,
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
