//! Gemini's `generateContent`, as <https://ai.google.dev/api/generate-content> describes it.
//!
//! The model is named in the path, not in the body. Function declarations carry their schemas as JSON
//! Schema (`parametersJsonSchema`). A thought signature belongs to the part that it came with: such a
//! part is never merged with another one and goes back as it came
//! (<https://ai.google.dev/gemini-api/docs/thought-signatures>).

mod answer;
mod request;
mod stream;
mod tail;

use bytes::Bytes;

use super::{Layout, MarkerTime, Member, Rendered, StreamReader, Wire};
use crate::error::Error;
use crate::{Format, Message, Parameters, Reply, ToolDefinition};

pub(super) use answer::usage;

/// Gemini's `generateContent`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gemini {
    /// Whether the model refuses a function call of the current turn without a thought signature: then
    /// calls that another model made get the one that stands for none.
    wants_signatures: bool,
}

/// The rules for a model: from Gemini 3 on, thought signatures of function calls are checked.
pub(crate) fn for_model(model: &str) -> &'static Gemini {
    let name = model.rsplit('/').next().unwrap_or(model);
    let earlier = ["gemini-1", "gemini-2"];
    match name.starts_with("gemini-") && !earlier.iter().any(|family| name.starts_with(family)) {
        true => &Gemini {
            wants_signatures: true,
        },
        false => &Gemini {
            wants_signatures: false,
        },
    }
}

impl Wire for Gemini {
    fn format(&self) -> Format {
        Format::Gemini
    }

    /// The endpoint's address has the model before this, and for a stream another method.
    fn path(&self) -> &'static str {
        ":generateContent"
    }

    fn layout(&self) -> Layout {
        Layout {
            tools: Member {
                name: "tools",
                open: r#"[{"functionDeclarations":["#,
                close: "]}]",
            },
            system: Some(Member {
                name: "systemInstruction",
                open: r#"{"parts":["#,
                close: "]}",
            }),
            messages: Member::array("contents"),
        }
    }

    fn tool(&self, tool: &ToolDefinition) -> Rendered {
        request::tool(tool)
    }

    fn system(&self, text: &str) -> Rendered {
        request::system(text)
    }

    /// At most one piece; none if nothing of the message can be sent.
    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        let piece = request::message(message, self.wants_signatures)?;
        Ok(piece.into_iter().collect())
    }

    /// The same for a stream as for a whole answer: which of them is asked for stands in the path.
    fn tail(&self, parameters: &Parameters, _stream: bool) -> Bytes {
        tail::tail(parameters)
    }

    /// None: the provider caches by itself, or what `provider_opts.cachedContent` names.
    fn marker(&self, _time: MarkerTime) -> Option<Bytes> {
        None
    }

    fn reply(&self, body: &[u8]) -> Result<Reply, Error> {
        answer::reply(body)
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        Box::<stream::Reader>::default()
    }
}
