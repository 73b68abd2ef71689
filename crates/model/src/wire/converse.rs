//! Amazon Bedrock's Converse:
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html>.
//!
//! The path contains the model and the choice between stream and whole answer. A cache point is a separate
//! block after the content that it marks. User and model must alternate: [`crate::prepare`] marks
//! consecutive messages of one role, and a short message of the other role is inserted between them.

mod answer;
mod request;
mod stream;
mod tail;

use std::sync::LazyLock;

use bytes::Bytes;

use super::anthropic::{ParameterRules, RULES, rules_index};
use super::{MarkerTime, Rendered, Wire};
use crate::error::Error;
use crate::{Capabilities, Format, Message, Parameters};

pub(super) use answer::{reply, usage};
pub(crate) use request::is_sent;
pub(super) use request::tool;
pub(super) use stream::ConverseStreamReader;

/// Amazon Bedrock's Converse, for models with these rules.
#[derive(Debug, Clone, Copy)]
pub struct Converse(ParameterRules);

impl Converse {
    /// The rules for an unknown model.
    pub const UNKNOWN: Self = Self(ParameterRules::UNKNOWN);
}

/// Returns the implementation for a model with these capabilities.
pub(crate) fn for_model(capabilities: &Capabilities) -> &'static Converse {
    static EVERY: LazyLock<[Converse; RULES.len()]> = LazyLock::new(|| RULES.map(Converse));
    &EVERY[rules_index(None, capabilities)]
}

impl Wire for Converse {
    fn format(&self) -> Format {
        Format::Converse
    }

    /// The full endpoint contains the model before this path; streams use another method.
    fn system(&self, text: &str) -> Rendered {
        request::system(text)
    }

    /// Returns the message, preceded by a message of the other role if [`crate::prepare`] noted that one is
    /// missing. Empty if the message has no content that can be sent.
    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        request::message(message)
    }

    /// Equal for streams and whole answers: the path makes the choice.
    fn tail(&self, parameters: &Parameters, _stream: bool) -> Bytes {
        tail::tail(parameters, self.0)
    }

    fn after_tools(&self, parameters: &Parameters) -> Option<String> {
        tail::tool_choice(parameters.tool_choice.as_ref()?)
    }

    fn marker(&self, time: MarkerTime) -> Option<Bytes> {
        let marker: &[u8] = match time {
            MarkerTime::FiveMinutes => br#",{"cachePoint":{"type":"default"}}"#,
            MarkerTime::OneHour => br#",{"cachePoint":{"type":"default","ttl":"1h"}}"#,
        };
        Some(Bytes::from_static(marker))
    }
}
