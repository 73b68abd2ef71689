//! Selection of records: criteria, orders and pages.

use crate::{Label, Millis, Record, glob_matches};

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
    /// By key; the only order in which a cursor works. A store may order long keys that begin alike by a hash.
    #[default]
    Key,
    /// Most recently stored first, by the sequence of writes and not by the clock.
    Newest,
    /// Least recently used (or stored) first; among equals, the one stored first.
    LeastRecentlyUsed,
    /// Earliest expiry first; records that never expire come last. Among equals, the one stored first.
    Expiry,
    /// The order that costs least: that of an index which the criteria are served by. An erase of many records uses it,
    /// because no page has to read what other pages erase.
    Any,
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
///
/// In [`Order::Key`] a page may have fewer matches than its limit although there are more: then it has a `next`. In other
/// orders [`Store::find`](crate::Store::find) returns as many as the limit allows, and
/// [`Store::erase`](crate::Store::erase) may erase fewer: the next call returns further ones, and nothing only if there
/// are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordPage {
    /// The matches.
    pub records: Vec<Record>,
    /// The size of each match's whole value in bytes, regardless of the requested part.
    pub sizes: Vec<u64>,
    /// The `after` of the next page if there may be one ([`Order::Key`] only).
    pub next: Option<String>,
}
