//! A minimal wire format, so that these tests do not depend on the real ones alone.

use bytes::Bytes;
use cachalot_model::error::{Error, ErrorKind};
use cachalot_model::wire::{Layout, MarkerTime, Member, Rendered, StreamReader, Wire};
use cachalot_model::{Block, Format, Message, Parameters, Reply, ToolDefinition, Usage};
use cachalot_storage::Url;
use serde_json::{Value, json};

/// A format with a piece for each block of a message.
#[derive(Debug)]
pub(crate) struct SmallWire {
    /// Set when the system text has an array of its own.
    pub(crate) apart: bool,
}

fn rendered(value: &Value, markable: bool) -> Rendered {
    let bytes = serde_json::to_vec(value).unwrap();
    let at = u32::try_from(bytes.len()).unwrap() - 1;
    Rendered {
        bytes: bytes.into(),
        mark_at: markable.then_some(at),
    }
}

impl Wire for SmallWire {
    fn format(&self) -> Format {
        Format::Chat
    }

    fn url(&self, base: &Url, _model: &str, _streams: bool) -> Url {
        base.clone()
    }

    fn layout(&self) -> Layout {
        Layout {
            tools: Member::array("tools"),
            system: self.apart.then_some(Member::array("system")),
            messages: Member::array("said"),
        }
    }

    fn tool(&self, tool: &ToolDefinition) -> Rendered {
        rendered(&json!({"tool": tool.name}), true)
    }

    fn system(&self, text: &str) -> Rendered {
        rendered(&json!({"system": text}), !text.is_empty())
    }

    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        let role = message.role;
        let piece = |block: &Block| match block {
            Block::Reasoning(_) => None,
            Block::Other { .. } => Some(Err(Error::new(ErrorKind::Rejected, "no word for this"))),
            Block::ToolUse(call) => Some(Ok(rendered(&json!({"call": call.arguments}), false))),
            block => Some(Ok(rendered(&json!({"role": role, "block": block}), true))),
        };
        message.content.iter().filter_map(piece).collect()
    }

    fn tail(&self, parameters: &Parameters, stream: bool) -> Bytes {
        let fields = json!({"model": parameters.model, "stream": stream}).to_string();
        format!(",{}", &fields[1..]).into()
    }

    fn marker(&self, time: MarkerTime) -> Option<Bytes> {
        self.apart.then(|| match time {
            MarkerTime::FiveMinutes => Bytes::from_static(b",\"mark\":5"),
            MarkerTime::OneHour => Bytes::from_static(b",\"mark\":60"),
            MarkerTime::TwelveHours => Bytes::from_static(b",\"mark\":720"),
        })
    }

    fn reply(&self, _body: &[u8]) -> Result<Reply, Error> {
        Err(Error::new(
            ErrorKind::Malformed,
            "the small wire is never answered",
        ))
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        unreachable!("the small wire is never answered")
    }

    fn usage(&self, _reported: &Value) -> Option<Usage> {
        None
    }

    fn usage_members(&self) -> &'static [&'static str] {
        &[]
    }
}
