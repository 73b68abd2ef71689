//! The bounds of a cache.

/// Maximum size of a cache, whose least recently used entries are evicted first, and of its runs without readers.
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
}

impl Default for CacheBounds {
    /// 1 GiB, a million entries, 64 MiB in the process; 64 runs without readers with 256 MiB.
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            entries: 1_000_000,
            front_bytes: 64 << 20,
            orphan_runs: 64,
            orphan_bytes: 256 << 20,
        }
    }
}
