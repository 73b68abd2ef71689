//! What work touches: declared by whoever does it, before it is done.

use std::path::PathBuf;

/// Something that work reads or writes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Touched {
    /// A file, or what lies at a path.
    Path(PathBuf),
    /// Everything below a directory that matches a pattern; `**` for all of it.
    Glob {
        /// The directory.
        root: PathBuf,
        /// The pattern, relative to it.
        pattern: String,
    },
    /// Something that has a name only: a record, a queue, a server's resource.
    Named(String),
}

/// How much work reads or writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extent {
    /// Exactly this; nothing if the list is empty.
    Known(Vec<Touched>),
    /// It cannot be told.
    Unknown,
}

impl Extent {
    /// Nothing at all.
    pub const NOTHING: Self = Self::Known(Vec::new());

    /// Whether it is known to be nothing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Known(list) if list.is_empty())
    }
}

/// What work reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effects {
    /// What its result depends on.
    pub reads: Extent,
    /// What is different afterwards.
    pub writes: Extent,
}

impl Effects {
    /// Of work about which nothing is known.
    pub const UNKNOWN: Self = Self {
        reads: Extent::Unknown,
        writes: Extent::Unknown,
    };

    /// Of work that only reads.
    #[must_use]
    pub fn reading(reads: Vec<Touched>) -> Self {
        Self {
            reads: Extent::Known(reads),
            writes: Extent::NOTHING,
        }
    }

    /// Of work that writes, and reads what it writes.
    #[must_use]
    pub fn writing(writes: Vec<Touched>) -> Self {
        Self {
            reads: Extent::Known(writes.clone()),
            writes: Extent::Known(writes),
        }
    }
}
