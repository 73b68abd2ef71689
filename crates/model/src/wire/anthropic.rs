//! Anthropic Messages: <https://platform.claude.com/docs/en/api/messages>.
//!
//! Content that the API would reject is not sent: text without a visible character, extra fields of another
//! format, names with forbidden characters. Content that the API requires unchanged (thinking with its
//! signature, the arguments of a call, blocks of unknown types) is kept verbatim. Cache markers are
//! inserted only at the planner's positions: a `cache_control` in additional fields is dropped.

mod answer;
mod failure;
mod for_model;
pub(in crate::wire) mod json;
mod request;
mod rules;
mod stream;
mod tail;

use bytes::Bytes;

use super::{MarkerTime, Rendered, Wire};
use crate::error::Error;
use crate::{Format, Message, Parameters};

pub(super) use answer::{reply, reported as usage, stop_reason};
pub(crate) use for_model::on;
pub(in crate::wire) use request::{escaped, input, tool};
pub(in crate::wire) use rules::{ParameterRules, RULES, rules_index};
pub(super) use stream::AnthropicStreamReader;
pub use tail::{DEFAULT_MAX_TOKENS, DEFAULT_MAX_TOKENS_WITH_EFFORT};

/// Anthropic Messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Messages;

impl Wire for Messages {
    fn format(&self) -> Format {
        Format::Messages
    }

    fn system(&self, text: &str) -> Rendered {
        request::system(text)
    }

    /// Returns exactly one piece; none if the message has no content that can be sent (an empty text,
    /// reasoning of another format).
    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        request::message(message).map(|piece| piece.into_iter().collect())
    }

    fn tail(&self, parameters: &Parameters, stream: bool) -> Bytes {
        tail::tail(parameters, stream, rules::ParameterRules::UNKNOWN)
    }

    fn marker(&self, time: MarkerTime) -> Option<Bytes> {
        let marker: &[u8] = match time {
            MarkerTime::FiveMinutes => br#","cache_control":{"type":"ephemeral"}"#,
            MarkerTime::OneHour => br#","cache_control":{"type":"ephemeral","ttl":"1h"}"#,
        };
        Some(Bytes::from_static(marker))
    }
}
