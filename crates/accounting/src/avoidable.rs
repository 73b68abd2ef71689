//! Anthropic's cache use of consecutive requests: tokens that were written again although the request before had them
//! in the cache, and the use as it would have been with entries that live for an hour.

use cachalot_core::Millis;

/// The lifetime of an entry, in milliseconds, from its last use.
pub const FIVE_MINUTES: Millis = 300_000;

/// The longer lifetime of an entry, at twice the price of input, in milliseconds.
pub const ONE_HOUR: Millis = 3_600_000;

/// The input of a request by its use of the cache, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Read from the cache.
    pub read: u64,
    /// Written for five minutes.
    pub written_5m: u64,
    /// Written for an hour.
    pub written_1h: u64,
}

impl CacheUse {
    /// Returns the tokens written to the cache.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written_5m.saturating_add(self.written_1h)
    }

    /// Returns the tokens that this request wrote although the request before it, of the same conversation and model,
    /// had read or written them. Tokens that were not sent again are not lost.
    #[must_use]
    pub fn lost_since(&self, before: &Self) -> u64 {
        let expected = before.read.saturating_add(before.written());
        self.written().min(expected.saturating_sub(self.read))
    }

    /// Returns the use if all entries had lived for an hour: writes are those of an hour, and the tokens that were lost
    /// in a pause which an hour would have outlasted are read.
    #[must_use]
    pub fn with_one_hour(&self, lost_in_pause: Option<(u64, Millis)>) -> Self {
        let saved = match lost_in_pause {
            Some((lost, pause)) if pause > FIVE_MINUTES && pause <= ONE_HOUR => {
                lost.min(self.written())
            }
            _ => 0,
        };
        Self {
            read: self.read.saturating_add(saved),
            written_5m: 0,
            written_1h: self.written() - saved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(read: u64, written_5m: u64) -> CacheUse {
        CacheUse {
            read,
            written_5m,
            written_1h: 0,
        }
    }

    #[test]
    fn lost_is_what_was_cached_and_is_written_again() {
        // All was read, and more was appended.
        assert_eq!(used(1_000, 200).lost_since(&used(800, 200)), 0);
        // Nothing was read.
        assert_eq!(used(0, 1_200).lost_since(&used(800, 200)), 1_000);
        // The conversation is shorter: what was not sent is not lost.
        assert_eq!(used(0, 300).lost_since(&used(800, 200)), 300);
        assert_eq!(used(500, 0).lost_since(&used(800, 200)), 0);
        assert_eq!(used(0, u64::MAX).lost_since(&used(u64::MAX, 1)), u64::MAX);
    }

    #[test]
    fn an_hour_saves_pauses_and_costs_writes() {
        let hour = |lost| used(0, 1_200).with_one_hour(lost);
        let as_written = CacheUse {
            written_1h: 1_200,
            ..CacheUse::default()
        };
        assert_eq!(hour(None), as_written);
        assert_eq!(hour(Some((1_000, FIVE_MINUTES))), as_written);
        assert_eq!(hour(Some((1_000, ONE_HOUR + 1))), as_written);
        let saved = CacheUse {
            read: 1_000,
            written_5m: 0,
            written_1h: 200,
        };
        assert_eq!(hour(Some((1_000, ONE_HOUR))), saved);
    }
}
