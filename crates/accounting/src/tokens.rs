//! The estimate of token counts.
//!
//! The simulator has no tokenizer. It counts one token for every four bytes of a block's text, rounded
//! up per block, and a fixed number for an image or a document in base64. The count of a prompt is
//! therefore the sum of the counts of its blocks, and more text never counts less. The counted text of a
//! tool call is its name and its arguments; of a tool, its name, description and schema. Roles, ids and
//! JSON punctuation do not count.

/// Bytes of text per token.
pub const BYTES_PER_TOKEN: usize = 4;

/// Tokens of an image, or of a document that is not text.
pub const TOKENS_PER_IMAGE: u64 = 1_000;

/// Estimates the tokens of `text`: its bytes divided by [`BYTES_PER_TOKEN`], rounded up.
#[must_use]
pub fn estimate(text: &str) -> u64 {
    text.len().div_ceil(BYTES_PER_TOKEN) as u64
}
