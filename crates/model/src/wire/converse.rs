//! Amazon Bedrock's Converse, as
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html> describes it.
//!
//! The model, and whether the answer is streamed, stand in the path. A cache point is a block of its
//! own behind what it marks. User and model take turns: [`crate::prepare`] notes where two messages of
//! one role follow each other, and a short message of the other role is put between them.

mod answer;
mod request;
mod stream;
mod tail;

use bytes::Bytes;

use super::anthropic::{RULES, Rules, rules_index};
use super::{Layout, MarkerTime, Member, Rendered, StreamReader, Wire};
use crate::error::Error;
use crate::{Capabilities, Format, Message, Parameters, Reply, ToolDefinition};

pub(super) use answer::usage;
pub(crate) use request::is_sent;

/// Amazon Bedrock's Converse, for models with these rules.
#[derive(Debug, Clone, Copy)]
pub struct Converse(Rules);

impl Converse {
    /// For a model of which nothing is known.
    pub const UNKNOWN: Self = Self(Rules::UNKNOWN);
}

/// The rules for a model that accepts such requests.
pub(crate) fn for_model(capabilities: &Capabilities) -> &'static Converse {
    const fn every() -> [Converse; RULES.len()] {
        let mut all = [Converse::UNKNOWN; RULES.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = Converse(RULES[at]);
            at += 1;
        }
        all
    }
    static EVERY: [Converse; RULES.len()] = every();
    &EVERY[rules_index(None, capabilities)]
}

impl Wire for Converse {
    fn format(&self) -> Format {
        Format::Converse
    }

    /// The endpoint's address has the model before this, and for a stream another method.
    fn path(&self) -> &'static str {
        "/converse"
    }

    fn layout(&self) -> Layout {
        Layout {
            tools: Member {
                name: "toolConfig",
                open: r#"{"tools":["#,
                close: "]}",
            },
            system: Some(Member::array("system")),
            messages: Member::array("messages"),
        }
    }

    fn tool(&self, tool: &ToolDefinition) -> Rendered {
        request::tool(tool)
    }

    /// Without a visible character in it, the API refuses it: then it must not be asked for.
    fn system(&self, text: &str) -> Rendered {
        request::system(text)
    }

    /// The message, behind another one if [`crate::prepare`] noted that one is missing; none if nothing
    /// of the message can be sent.
    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        request::message(message)
    }

    /// The same for a stream as for a whole answer: which of them is asked for stands in the path.
    fn tail(&self, parameters: &Parameters, _stream: bool) -> Bytes {
        tail::tail(parameters, self.0)
    }

    fn behind_tools(&self, parameters: &Parameters) -> Option<String> {
        tail::tool_choice(parameters.tool_choice.as_ref()?)
    }

    fn marker(&self, time: MarkerTime) -> Option<Bytes> {
        let marker: &[u8] = match time {
            MarkerTime::FiveMinutes => br#",{"cachePoint":{"type":"default"}}"#,
            MarkerTime::OneHour => br#",{"cachePoint":{"type":"default","ttl":"1h"}}"#,
        };
        Some(Bytes::from_static(marker))
    }

    fn reply(&self, body: &[u8]) -> Result<Reply, Error> {
        answer::reply(body)
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        Box::<stream::Reader>::default()
    }
}
