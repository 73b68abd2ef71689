//! What an answer used: one record, whatever the provider's convention.

use serde::{Deserialize, Serialize};

/// Tokens of one answer. The invariant, whatever the provider's convention: the total input is what
/// was not cached, plus what was read from the provider's cache, plus what was written to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input that the provider neither read from nor wrote to its cache.
    pub uncached_input: u64,
    /// Input that it read from its cache.
    pub cache_read: u64,
    /// Input that it wrote to its cache for five minutes.
    pub cache_write_5m: u64,
    /// Input that it wrote to its cache for an hour.
    pub cache_write_1h: u64,
    /// Input that it wrote to its cache for a time that it does not say.
    pub cache_write_other: u64,
    /// Output, reasoning included.
    pub output: u64,
    /// How much of the output was reasoning, if the provider says so.
    pub reasoning: u64,
}

impl Usage {
    /// So many tokens sent, of which it is not known that any had been cached, and so many made.
    #[must_use]
    pub fn of(input: u64, output: u64) -> Self {
        Self {
            uncached_input: input,
            output,
            ..Self::default()
        }
    }

    /// All input.
    #[must_use]
    pub fn total_input(&self) -> u64 {
        self.uncached_input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write())
    }

    /// Input that was written to the provider's cache.
    #[must_use]
    pub fn cache_write(&self) -> u64 {
        self.cache_write_5m
            .saturating_add(self.cache_write_1h)
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
            cache_write_other,
            output,
            reasoning,
        } = other;
        add(&mut self.uncached_input, uncached_input);
        add(&mut self.cache_read, cache_read);
        add(&mut self.cache_write_5m, cache_write_5m);
        add(&mut self.cache_write_1h, cache_write_1h);
        add(&mut self.cache_write_other, cache_write_other);
        add(&mut self.output, output);
        add(&mut self.reasoning, reasoning);
    }
}

/// The numbers are a provider's: whatever they are, they do not end the program.
fn add(to: &mut u64, tokens: u64) {
    *to = to.saturating_add(tokens);
}
