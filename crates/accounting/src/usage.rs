//! Token usage of answers, in one record for the conventions of all providers.

use serde::{Deserialize, Serialize};

/// Token usage of one answer. Invariant for every provider: the total input is the uncached input, plus the
/// input read from the provider's cache, plus the input written to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input that the provider neither read from nor wrote to its cache.
    pub uncached_input: u64,
    /// Input that the provider read from its cache.
    pub cache_read: u64,
    /// Input that the provider wrote to its cache for five minutes.
    pub cache_write_5m: u64,
    /// Input that the provider wrote to its cache for one hour.
    pub cache_write_1h: u64,
    /// Input that the provider wrote to its cache for twelve hours.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_12h: u64,
    /// Input that the provider wrote to its cache for an unreported time, or for its only one.
    pub cache_write_other: u64,
    /// Output, including reasoning.
    pub output: u64,
    /// Reasoning tokens within the output; 0 if the provider does not report them.
    pub reasoning: u64,
    /// Searches of the web that the provider made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub web_searches: u64,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// Creates a usage of uncached input and output.
    #[must_use]
    pub fn from_counts(input: u64, output: u64) -> Self {
        Self {
            uncached_input: input,
            output,
            ..Self::default()
        }
    }

    /// Returns the total input.
    #[must_use]
    pub fn total_input(&self) -> u64 {
        self.uncached_input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write())
    }

    /// Returns the input that was written to the provider's cache.
    #[must_use]
    pub fn cache_write(&self) -> u64 {
        self.cache_write_5m
            .saturating_add(self.cache_write_1h)
            .saturating_add(self.cache_write_12h)
            .saturating_add(self.cache_write_other)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let Self {
            uncached_input,
            cache_read,
            cache_write_5m,
            cache_write_1h,
            cache_write_12h,
            cache_write_other,
            output,
            reasoning,
            web_searches,
        } = other;
        add(&mut self.uncached_input, uncached_input);
        add(&mut self.cache_read, cache_read);
        add(&mut self.cache_write_5m, cache_write_5m);
        add(&mut self.cache_write_1h, cache_write_1h);
        add(&mut self.cache_write_12h, cache_write_12h);
        add(&mut self.cache_write_other, cache_write_other);
        add(&mut self.output, output);
        add(&mut self.reasoning, reasoning);
        add(&mut self.web_searches, web_searches);
    }
}

/// The counts come from a provider: an overflow saturates instead of panicking.
fn add(to: &mut u64, tokens: u64) {
    *to = to.saturating_add(tokens);
}
