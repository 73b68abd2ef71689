//! OpenAI Chat Completions.

mod properties;
mod quirks;
mod reading;
mod rendering;
mod streaming;
pub(crate) mod support;
mod tail;
