//! The bounds of a cache.

/// Maximum size of a cache. The least recently used entries are evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheBounds {
    /// Total bytes of all entries in the store.
    pub bytes: u64,
    /// Number of entries.
    pub entries: u64,
    /// Bytes of the entries kept in this process, with their decoded forms; 0 disables the in-process front.
    pub front_bytes: u64,
}

impl Default for CacheBounds {
    /// 1 GiB, a million entries, 64 MiB in the process.
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            entries: 1_000_000,
            front_bytes: 64 << 20,
        }
    }
}
