//! Limits of which 0 means none.

/// Returns the limit, or the largest number for 0.
pub(super) fn or_unlimited(limit: u32) -> u32 {
    if limit == 0 { u32::MAX } else { limit }
}
