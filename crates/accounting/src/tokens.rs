//! The stated estimate of token counts.
//!
//! The simulator has no tokenizer. It counts one token for every four bytes of a block's text, rounded
//! up per block, and a fixed number for an image or a document in base64. So the count of a prompt is
//! the sum of the counts of its blocks, and more text never counts less. What is counted of a block is
//! its text; for a tool call its name and its arguments, for a tool its name, description and schema.
//! Roles, ids and JSON punctuation count nothing.

/// How many bytes of text make a token.
pub const BYTES: usize = 4;

/// What an image, or a document that is not text, counts.
pub const IMAGE: u64 = 1_000;

/// The estimate for `text`: its bytes divided by [`BYTES`], rounded up.
#[must_use]
pub fn estimate(text: &str) -> u64 {
    text.len().div_ceil(BYTES) as u64
}
