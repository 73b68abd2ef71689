//! The usage of a request whose prefix had been in the provider's cache.

use cachalot_model::Usage;

/// Returns the usage if these tokens had been read instead of written, or instead of sent without a cache.
pub(crate) fn reading(usage: &Usage, tokens: u64) -> Usage {
    let mut read = *usage;
    let mut left = tokens;
    for written in [
        &mut read.cache_write_5m,
        &mut read.cache_write_1h,
        &mut read.cache_write_12h,
        &mut read.cache_write_other,
        &mut read.uncached_input,
    ] {
        let part = left.min(*written);
        *written -= part;
        left -= part;
    }
    read.cache_read = read.cache_read.saturating_add(tokens - left);
    read
}
