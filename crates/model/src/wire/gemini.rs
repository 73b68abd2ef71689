//! Gemini's `generateContent`: <https://ai.google.dev/api/generate-content>.
//!
//! The path, not the body, contains the model. Function declarations have their schemas as JSON Schema
//! (`parametersJsonSchema`). A thought signature belongs to the part with which it arrived: such a part is
//! never merged with another one and is sent back unchanged
//! (<https://ai.google.dev/gemini-api/docs/thought-signatures>).

mod answer;
mod request;
mod stream;
mod tail;

pub(super) use answer::{reply, usage};
pub(super) use request::{message, system, tool};
pub(super) use stream::GeminiStreamReader;
pub(super) use tail::tail;

/// Returns true if a model checks the thought signatures of function calls: Gemini 3 and later.
pub(super) fn wants_signatures(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let earlier = ["gemini-1", "gemini-2"];
    name.starts_with("gemini-") && !earlier.iter().any(|family| name.starts_with(family))
}
