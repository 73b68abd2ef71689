//! Why something was not answered from the cache, or not stored. There is always a reason.

use std::fmt;
use std::sync::Arc;

use crate::Key;

/// Why a call was not answered from the cache, or why its answer was not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The call asked for no caching.
    Off,
    /// The call asked for a fresh answer.
    Refresh,
    /// The call may read the cache only.
    ReadOnly,
    /// The input has no canonical form, or what it depends on could not be told.
    NoKey(String),
    /// There is no entry.
    Absent,
    /// There was an entry, and its time was over.
    Expired,
    /// What the entry was built from has changed.
    Changed(String),
    /// A write to this domain was announced since the entry was made.
    Written(String),
    /// The entry is damaged, or belongs to another call.
    Damaged(String),
    /// There is no memory.
    NoMemory,
    /// The memory failed or was too slow.
    MemoryFault(String),
    /// The adapter said that the answer must not be kept.
    Declined(String),
    /// The work failed.
    Failed,
    /// The work was dropped or cancelled.
    Abandoned,
    /// The answer is larger than the policy allows.
    TooLarge {
        /// How large it is.
        bytes: u64,
        /// How large it may be.
        limit: u64,
    },
    /// The answer holds a secret.
    HoldsSecret,
    /// An invalidation came in between.
    Revoked,
    /// This process did not renew its reservation in time, as when it is suspended, and another one has
    /// taken it over.
    Overtaken,
    /// Another process is doing the same work and will store it.
    BusyElsewhere,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("caching is off"),
            Self::Refresh => f.write_str("a fresh answer was asked for"),
            Self::ReadOnly => f.write_str("the cache is read-only"),
            Self::NoKey(why) => write!(f, "no key: {why}"),
            Self::Absent => f.write_str("not in the cache"),
            Self::Expired => f.write_str("expired"),
            Self::Changed(what) => write!(f, "changed since: {what}"),
            Self::Written(domain) => write!(f, "{domain} was written to since"),
            Self::Damaged(how) => write!(f, "damaged entry: {how}"),
            Self::NoMemory => f.write_str("no memory"),
            Self::MemoryFault(what) => write!(f, "memory fault: {what}"),
            Self::Declined(why) => f.write_str(why),
            Self::Failed => f.write_str("the work failed"),
            Self::Abandoned => f.write_str("the work was abandoned"),
            Self::TooLarge { bytes, limit } => {
                write!(f, "too large: {bytes} bytes, at most {limit} are kept")
            }
            Self::HoldsSecret => f.write_str("the answer holds a secret"),
            Self::Revoked => f.write_str("invalidated while it ran"),
            Self::Overtaken => {
                f.write_str("another process took it over while this one was suspended")
            }
            Self::BusyElsewhere => f.write_str("another process is at work on the same call"),
        }
    }
}

/// A frozen run asked for something that the cache does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("frozen: {name} is not answered by the cache ({reason}; key {key})")]
pub struct FrozenMiss {
    /// What was called.
    pub name: String,
    /// Its key.
    pub key: Key,
    /// Why there is no answer.
    pub reason: Reason,
}

/// Why the work behind a body failed; shared by all its readers.
#[derive(Debug, Clone)]
pub struct Failure(Arc<dyn std::error::Error + Send + Sync>);

impl Failure {
    /// A failure with its cause.
    pub fn new(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// The cause, if it is an `E`.
    #[must_use]
    pub fn cause<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }

    /// The work ended without a word.
    pub(crate) fn dropped() -> Self {
        Self::new(Dropped)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the work ended without an answer")]
struct Dropped;
