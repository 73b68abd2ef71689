//! What the providers' prompt caches would read and write, by the rules that they publish.
//!
//! Pure functions over a prompt (a request, reduced to what caching depends on) and a store (what
//! earlier requests wrote): no HTTP, no clock of their own. Charging a request does not change the
//! store. What it wrote becomes readable with `begin`, when the first response has begun; until then
//! an identical request pays for the same write again, as it does with the providers.

pub mod anthropic;
pub mod openai;
mod pattern;
mod rules;
pub mod tokens;

pub use pattern::Pattern;
pub use rules::{
    AnthropicModel, AnthropicRules, Caching, Lifetime, OpenAiModel, OpenAiRules, Rules,
};

use sha2::Digest as _;

use cachalot_core::Digest;

/// What a block says, reduced to what caching depends on. Markers are no part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// Kind, role, ids: part of the prefix that has to be equal, and not counted.
    pub frame: String,
    /// The text of the block, counted by [`tokens::estimate`].
    pub text: String,
    /// What counts beside the text, in tokens: images and documents, whose data is in the frame.
    pub images: u64,
}

impl Content {
    /// Its estimated tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        tokens::estimate(&self.text) + self.images
    }

    fn digest(&self, before: &Digest) -> Digest {
        Digest::of_parts(&[
            before.as_bytes(),
            b"block",
            self.frame.as_bytes(),
            self.text.as_bytes(),
        ])
    }
}

/// A running hash of a prefix.
#[derive(Clone)]
struct Running(sha2::Sha256);

impl Running {
    fn new(parts: &[&[u8]]) -> Self {
        let mut hasher = sha2::Sha256::new();
        hasher.update(Digest::of_parts(parts).as_bytes());
        Self(hasher)
    }

    /// A part that cannot be confused with text, in which the byte 0xff never occurs.
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
