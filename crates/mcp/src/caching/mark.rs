//! The mark of an answer of the cache, in `_meta` of its result.

use crate::relay::CACHE_MARK;

/// The mark of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark<'a> {
    /// `hit` or `coalesced`.
    pub(super) status: &'a str,
    /// The time since the answer was stored, in milliseconds.
    pub(super) age_ms: u64,
    /// The time for which the answer may still be served, in milliseconds; `None` if it does not expire.
    pub(super) ttl_ms: Option<u64>,
    /// The beginning of the key, for `cachalot why`.
    pub(super) key: &'a str,
}

impl Mark<'_> {
    /// Returns the member of `_meta`.
    pub(super) fn member(&self) -> String {
        let Self {
            status,
            age_ms,
            ttl_ms,
            key,
        } = self;
        let ttl = ttl_ms.map_or_else(String::new, |ttl| format!("\"ttlMs\":{ttl},"));
        // All values are words and numbers of this program.
        format!(
            "\"{CACHE_MARK}\":{{\"status\":\"{status}\",\"ageMs\":{age_ms},{ttl}\"key\":\"{key}\"}}"
        )
    }
}
