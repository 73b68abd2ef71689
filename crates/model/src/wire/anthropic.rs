//! Anthropic Messages: <https://platform.claude.com/docs/en/api/messages>.
//!
//! Content that the API would reject is not sent: text without a visible character, extra fields of another
//! format, names with forbidden characters. Content that the API requires unchanged (thinking with its
//! signature, the arguments of a call, blocks of unknown types) is kept verbatim. Cache markers are
//! inserted only at the planner's positions: a `cache_control` in additional fields is dropped.

mod answer;
mod failure;
pub(in crate::wire) mod json;
mod request;
mod rules;
mod stream;
mod tail;

pub(super) use answer::{reply, reported as usage, stop_reason};
pub(in crate::wire) use request::{escaped, input, message, system, tool};
pub(in crate::wire) use rules::ParameterRules;
pub(super) use stream::AnthropicStreamReader;
pub(in crate::wire) use tail::tail;
pub use tail::{DEFAULT_MAX_TOKENS, DEFAULT_MAX_TOKENS_WITH_EFFORT};
