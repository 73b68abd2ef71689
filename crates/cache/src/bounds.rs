//! The bounds of a cache.

use std::time::Duration;

use crate::policy::{DEFAULT_LOOKUP_TIMEOUT, DEFAULT_STORE_TIMEOUT, RunPolicy};

/// Maximum size of a cache, whose least recently used entries are evicted first, and of its runs without readers; maximum
/// time that calls wait for the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheBounds {
    /// Total bytes of all entries in the store.
    pub bytes: u64,
    /// Number of entries.
    pub entries: u64,
    /// Bytes of the entries kept in this process, with their decoded forms; 0 disables the in-process front.
    pub front_bytes: u64,
    /// Number of runs that continue without readers ([`crate::OrphanPolicy::Finish`]). Beyond it, the one that has
    /// been without readers longest is given up.
    pub orphan_runs: u64,
    /// Total bytes of the chunks of these runs, with the same consequence.
    pub orphan_bytes: u64,
    /// Maximum total time that the lookup of a call waits for a slow store, unless its policy has another one.
    pub lookup_timeout: Duration,
    /// Maximum time that storing an answer may take, in addition to `lookup_timeout`, unless the policy has another one.
    /// Readers do not wait for it.
    pub store_timeout: Duration,
}

impl CacheBounds {
    /// Maximum total time that the lookup of a call waits for the store.
    pub(crate) fn lookup_timeout_of(&self, run: &RunPolicy) -> Duration {
        run.lookup_timeout.unwrap_or(self.lookup_timeout)
    }

    /// Maximum time that storing the answer of a run may take.
    pub(crate) fn store_timeout_of(&self, run: &RunPolicy) -> Duration {
        run.store_timeout.unwrap_or(self.store_timeout)
    }
}

impl Default for CacheBounds {
    /// 1 GiB, a million entries, 64 MiB in the process; 64 runs without readers with 256 MiB; 250 ms for a lookup and
    /// 5 seconds for storing.
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            entries: 1_000_000,
            front_bytes: 64 << 20,
            orphan_runs: 64,
            orphan_bytes: 256 << 20,
            lookup_timeout: DEFAULT_LOOKUP_TIMEOUT,
            store_timeout: DEFAULT_STORE_TIMEOUT,
        }
    }
}
