//! Effects of work: the things that it reads and writes, declared before it runs.

use std::path::PathBuf;

/// A thing that work reads or writes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EffectTarget {
    /// A path: a file or anything else there.
    Path(PathBuf),
    /// Everything below a directory that matches a pattern; `**` for all of it.
    Glob {
        /// The directory.
        root: PathBuf,
        /// The pattern, relative to `root`.
        pattern: String,
    },
    /// A thing with only a name: a record, a queue, a server's resource.
    Named(String),
}

/// The extent of reads or writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EffectTargets {
    /// Exactly these things; nothing if the list is empty.
    Known(Vec<EffectTarget>),
    /// The extent cannot be determined.
    Unknown,
}

impl EffectTargets {
    /// Nothing at all.
    pub const NOTHING: Self = Self::Known(Vec::new());

    /// True if it may include files or directories.
    #[must_use]
    pub fn include_files(&self) -> bool {
        match self {
            Self::Unknown => true,
            Self::Known(list) => list
                .iter()
                .any(|target| !matches!(target, EffectTarget::Named(_))),
        }
    }

    /// True if it is known to be nothing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Known(list) if list.is_empty())
    }
}

/// The reads and writes of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effects {
    /// The things that the result depends on.
    pub reads: EffectTargets,
    /// The things that the work changes.
    pub writes: EffectTargets,
}

impl Effects {
    /// The effects of work about which nothing is known.
    pub const UNKNOWN: Self = Self {
        reads: EffectTargets::Unknown,
        writes: EffectTargets::Unknown,
    };

    /// The effects of work that only reads.
    #[must_use]
    pub fn reading(reads: Vec<EffectTarget>) -> Self {
        Self {
            reads: EffectTargets::Known(reads),
            writes: EffectTargets::NOTHING,
        }
    }

    /// The effects of work that only reads these files and directories.
    #[must_use]
    pub fn reading_files(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self::reading(paths.into_iter().map(EffectTarget::Path).collect())
    }

    /// The effects of work that writes, and reads what it writes.
    #[must_use]
    pub fn writing(writes: Vec<EffectTarget>) -> Self {
        Self {
            reads: EffectTargets::Known(writes.clone()),
            writes: EffectTargets::Known(writes),
        }
    }
}
