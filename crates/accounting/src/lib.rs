//! Simulates the reads and writes of the providers' prompt caches, according to the published rules.
//!
//! Pure functions of a prompt (the parts of a request that caching depends on) and a store (the cache
//! entries of earlier requests): no HTTP, no clock. Charging a request does not change the store. Its
//! writes become readable with `begin`, when the first response has begun. Until then, an identical
//! request pays for the same write again, as it does with the providers.

pub mod anthropic;
pub mod avoidable;
mod charge;
mod cost_by_kind;
pub mod date;
pub mod decimal;
pub mod openai;
mod pattern;
mod price;
mod price_factors;
mod rules;
pub mod tokens;
mod usage;

pub use charge::{Terms, Unpriced, price, price_by_kind};
pub use cost_by_kind::CostByKind;
pub use pattern::Pattern;
pub use price::{Price, PriceChange, Rates};
pub use price_factors::{Factor, ModelFactors, PriceFactors, TierFactors};
pub use rules::{
    AnthropicModel, AnthropicRules, Caching, Lifetime, OpenAiModel, OpenAiRules, Rules,
};
pub use usage::Usage;

use sha2::Digest as _;

use cachalot_core::Digest;

/// The content of a block, reduced to what caching depends on. Does not include markers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// The kind, role and ids: compared as part of the prefix, but not counted as tokens.
    pub frame: String,
    /// The text of the block, counted by [`tokens::estimate`].
    pub text: String,
    /// Tokens in addition to the text: images and documents, whose data is in the frame.
    pub images: u64,
}

impl Content {
    /// The estimated tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        tokens::estimate(&self.text) + self.images
    }

    fn digest(&self, before: &Digest) -> Digest {
        Digest::sha256_of_parts(&[
            before.as_bytes(),
            b"block",
            self.frame.as_bytes(),
            self.text.as_bytes(),
        ])
    }
}

/// The running hash of a prefix.
#[derive(Clone)]
struct PrefixHasher(sha2::Sha256);

impl PrefixHasher {
    fn new(parts: &[&[u8]]) -> Self {
        let mut hasher = sha2::Sha256::new();
        hasher.update(Digest::sha256_of_parts(parts).as_bytes());
        Self(hasher)
    }

    /// Adds a part that cannot be confused with text, which never contains the byte 0xff.
    fn frame(&mut self, frame: &str) {
        self.0.update([0xff]);
        self.0.update((frame.len() as u64).to_le_bytes());
        self.0.update(frame.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn now(&self) -> Digest {
        Digest(self.0.clone().finalize().into())
    }
}
