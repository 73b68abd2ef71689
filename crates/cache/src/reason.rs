//! Reasons why a call was not answered from the cache, or its answer not stored. There is always one.

use std::fmt;
use std::sync::Arc;

use cachalot_core::digest::abbreviate;

use crate::Key;
use crate::witness::ObservationError;

/// The reason why a call was not answered from the cache, or its answer was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The policy disables caching.
    #[error("caching is off")]
    Off,
    /// The policy requests a fresh answer.
    #[error("a fresh answer was asked for")]
    Refresh,
    /// The policy permits reading only.
    #[error("the cache is read-only")]
    ReadOnly,
    /// The input has no canonical form, or its dependencies could not be determined.
    #[error("no key: {0}")]
    NoKey(String),
    /// There is no entry.
    #[error("not in the cache")]
    Absent,
    /// The entry has expired.
    #[error("expired")]
    Expired,
    /// The stored answer has a form that the caller does not accept ([`crate::HitPolicy::accepts`]).
    #[error("the stored answer has another form")]
    OtherForm,
    /// A file that the entry was built from has changed.
    #[error("changed since: {0}")]
    Changed(String),
    /// A write to this domain was announced after the entry was created.
    #[error("{0} was written to since")]
    Written(String),
    /// The entry is damaged, or belongs to another call.
    #[error("damaged entry: {0}")]
    Damaged(String),
    /// The engine has no store.
    #[error("no memory")]
    NoStore,
    /// The store answered with an error.
    #[error("store fault: {0}")]
    StoreFault(String),
    /// The store could not be reached, or did not answer in time.
    #[error("store fault: {0}")]
    StoreUnavailable(String),
    /// The adapter, or a limit, forbids storing the answer.
    #[error("{0}")]
    Declined(String),
    /// The work failed.
    #[error("the work failed")]
    Failed,
    /// The work was dropped or cancelled.
    #[error("the work was abandoned")]
    Abandoned,
    /// The answer is larger than the policy allows.
    #[error("too large: {bytes} bytes, at most {limit} are kept")]
    TooLarge {
        /// The size of the answer.
        bytes: u64,
        /// The maximum size.
        limit: u64,
    },
    /// The answer contains a secret.
    #[error("the answer holds a secret")]
    HoldsSecret,
    /// An erasure invalidated the run.
    #[error("invalidated while it ran")]
    Revoked,
    /// This process did not renew its reservation in time, for example because it was suspended, and another
    /// process has taken it over.
    #[error("another process took it over while this one was suspended")]
    LeaseLost,
    /// Another caller runs the call in another [`crate::Form`], and the answer of that run is stored.
    #[error("the same call runs in another form at the moment, and that answer is stored")]
    RunsInOtherForm,
    /// Another process is running the same call and will store its answer.
    #[error("another process is at work on the same call")]
    BusyElsewhere,
}

impl Reason {
    /// Returns the reason for observations that do not hold.
    pub(crate) fn changed(error: ObservationError) -> Self {
        Self::Changed(error.to_string())
    }

    /// True if the store failed, or did not answer.
    #[must_use]
    pub fn is_store_fault(&self) -> bool {
        matches!(self, Self::StoreFault(_) | Self::StoreUnavailable(_))
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
