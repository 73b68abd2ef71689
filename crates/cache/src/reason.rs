//! Reasons why a call was not answered from the cache, or its answer not stored. There is always one.

use std::fmt;
use std::sync::Arc;

use cachalot_core::digest::abbreviate;

use crate::Key;

/// The reason why a call was not answered from the cache, or its answer was not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The policy disables caching.
    Off,
    /// The policy requests a fresh answer.
    Refresh,
    /// The policy permits reading only.
    ReadOnly,
    /// The input has no canonical form, or its dependencies could not be determined.
    NoKey(String),
    /// There is no entry.
    Absent,
    /// The entry has expired.
    Expired,
    /// The stored answer has a form that the caller does not accept ([`crate::HitPolicy::accepts`]).
    OtherForm,
    /// A file that the entry was built from has changed.
    Changed(String),
    /// A write to this domain was announced after the entry was created.
    Written(String),
    /// The entry is damaged, or belongs to another call.
    Damaged(String),
    /// The engine has no store.
    NoStore,
    /// The store answered with an error.
    StoreFault(String),
    /// The store could not be reached, or did not answer in time.
    StoreUnavailable(String),
    /// The adapter, or a limit, forbids storing the answer.
    Declined(String),
    /// The work failed.
    Failed,
    /// The work was dropped or cancelled.
    Abandoned,
    /// The answer is larger than the policy allows.
    TooLarge {
        /// The size of the answer.
        bytes: u64,
        /// The maximum size.
        limit: u64,
    },
    /// The answer contains a secret.
    HoldsSecret,
    /// An erasure invalidated the run.
    Revoked,
    /// This process did not renew its reservation in time, for example because it was suspended, and another
    /// process has taken it over.
    LeaseLost,
    /// Another caller runs the call in another [`crate::Form`], and the answer of that run is stored.
    RunsInOtherForm,
    /// Another process is running the same call and will store its answer.
    BusyElsewhere,
}

impl Reason {
    /// True if the store failed, or did not answer.
    #[must_use]
    pub fn is_store_fault(&self) -> bool {
        matches!(self, Self::StoreFault(_) | Self::StoreUnavailable(_))
    }
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
            Self::OtherForm => f.write_str("the stored answer has another form"),
            Self::Changed(what) => write!(f, "changed since: {what}"),
            Self::Written(domain) => write!(f, "{domain} was written to since"),
            Self::Damaged(how) => write!(f, "damaged entry: {how}"),
            Self::NoStore => f.write_str("no memory"),
            Self::StoreFault(what) | Self::StoreUnavailable(what) => {
                write!(f, "store fault: {what}")
            }
            Self::Declined(why) => f.write_str(why),
            Self::Failed => f.write_str("the work failed"),
            Self::Abandoned => f.write_str("the work was abandoned"),
            Self::TooLarge { bytes, limit } => {
                write!(f, "too large: {bytes} bytes, at most {limit} are kept")
            }
            Self::HoldsSecret => f.write_str("the answer holds a secret"),
            Self::Revoked => f.write_str("invalidated while it ran"),
            Self::LeaseLost => {
                f.write_str("another process took it over while this one was suspended")
            }
            Self::RunsInOtherForm => f.write_str(
                "the same call runs in another form at the moment, and that answer is stored",
            ),
            Self::BusyElsewhere => f.write_str("another process is at work on the same call"),
        }
    }
}

/// The error of a frozen run for a call that the cache cannot answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("frozen: {name} is not answered by the cache ({reason}; key {})", abbreviate(&key.to_string()))]
pub struct FrozenMiss {
    /// The name of the call.
    pub name: String,
    /// Its key.
    pub key: Key,
    /// The reason why no entry answers it.
    pub reason: Reason,
}

/// The failure of a run; shared by all readers of its answer.
#[derive(Debug, Clone)]
pub struct Failure(Arc<dyn std::error::Error + Send + Sync>);

impl Failure {
    /// Creates a failure with its cause.
    pub fn new(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// The cause, if it is an `E`.
    #[must_use]
    pub fn cause<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }

    /// The failure of a reader that was more than `max_lag` bytes behind.
    pub(crate) fn too_slow(max_lag: u64) -> Self {
        Self::new(ReadTooSlowly(max_lag))
    }

    /// The failure of a run whose ticket was dropped.
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

#[derive(Debug, thiserror::Error)]
#[error(
    "the answer was read too slowly: it is not stored, and at most {0} bytes that were not read are kept"
)]
struct ReadTooSlowly(u64);
