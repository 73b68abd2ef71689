//! The decisions about leases and counters, once for all stores that take them outside of a database.

use std::time::Duration;

use crate::request::time_left;
use crate::{Lease, Millis, PutResult, ReserveResult};

/// The last lease on a key, as a transaction reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredLease {
    /// Its fence.
    pub fence: u64,
    /// The time at which it lapses.
    pub until: Millis,
    /// False if it was ended or revoked.
    pub is_current: bool,
}

impl StoredLease {
    /// Returns the time for which the lease keeps others from its key; `None` if it has ended or lapsed.
    #[must_use]
    pub fn left(&self, now: Millis) -> Option<Duration> {
        (self.is_current && self.until > now).then(|| time_left(self.until, now))
    }

    /// Returns the answer to a caller that reserves the key; `None` if the caller gets it.
    #[must_use]
    pub fn busy(&self, now: Millis) -> Option<ReserveResult> {
        let fence = self.fence;
        let left = self.left(now)?;
        Some(ReserveResult::Busy { fence, left })
    }

    /// True if this is the lease of a caller, lapsed or not, and has not ended.
    #[must_use]
    pub fn is(&self, lease: &Lease) -> bool {
        self.is_current && self.fence == lease.fence
    }

    /// Returns the fence of the next lease on the key: larger than that of the last one, and than those that a database
    /// has given before it lost its last writes, with the time in microseconds.
    #[must_use]
    pub fn next_fence(last: Option<&Self>, micros: u64) -> u64 {
        let last = last.map_or(0, |last| last.fence);
        last.saturating_add(1).max(micros)
    }
}

/// Returns the reason to refuse a put: its lease is not current, or a counter has another value.
///
/// # Errors
/// Those of `stored`, which reads the lease on the key, and of `count`, which reads a counter.
pub fn refusal<E>(
    lease: Option<&Lease>,
    counters: &[(impl AsRef<str>, u64)],
    stored: impl FnOnce(&Lease) -> Result<Option<StoredLease>, E>,
    count: impl Fn(&str) -> Result<u64, E>,
) -> Result<Option<PutResult>, E> {
    if let Some(lease) = lease
        && !stored(lease)?.is_some_and(|stored| stored.is(lease))
    {
        return Ok(Some(PutResult::LeaseLost));
    }
    for (counter, (name, value)) in counters.iter().enumerate() {
        if count(name.as_ref())? != *value {
            return Ok(Some(PutResult::CounterChanged { counter }));
        }
    }
    Ok(None)
}
