//! OpenAI Chat Completions, as OpenAI, Azure, OpenRouter, LiteLLM, Ollama, vLLM, DeepSeek, xAI,
//! Groq, Mistral and many others speak it.
//!
//! Where the servers differ:
//!
//! - The limit of the output is `max_completion_tokens` for OpenAI's own models and `max_tokens` for
//!   all others; a field of either name in [`Parameters::extra`] replaces it.
//! - Nothing marks the result of a tool as a failure, so the text of one begins with `Error: `.
//! - Results of tools are text. Pictures in them go into a user message behind the results, each
//!   with a line that says which result it belongs to; the result names it in its place.
//! - Reasoning comes as `reasoning_content`, `reasoning` or `reasoning_details`, or as parts of the
//!   content (Mistral); it goes back as it came, an empty `reasoning_content` too, which DeepSeek
//!   demands.
//! - Calls of tools may come without an id, without an index, whole or in pieces, all with the index
//!   0. A call without an id gets one that depends on nothing but the answer.
//! - The answer may end with `stop` though it calls tools.
//!
//! Of several choices only the first is read.

use bytes::Bytes;
use serde_json::Value;

use crate::error::Error;
use crate::wire::openai::{self, object};
use crate::wire::{Layout, MarkerTime, Member, Rendered, StreamReader, Wire};
use crate::{Format, Message, Parameters, Reply, ToolDefinition};

mod answer;
mod calls;
mod content;
pub(super) mod message;
mod reasoning;
mod stream;
mod tail;

pub(super) use answer::reported as usage;

/// OpenAI Chat Completions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Chat;

impl Wire for Chat {
    fn format(&self) -> Format {
        Format::Chat
    }

    fn path(&self) -> &'static str {
        "/chat/completions"
    }

    fn layout(&self) -> Layout {
        Layout {
            tools: Member::array("tools"),
            system: None,
            messages: Member::array("messages"),
        }
    }

    fn tool(&self, tool: &ToolDefinition) -> Rendered {
        let ToolDefinition {
            name,
            description,
            parameters,
        } = tool;
        let function = object([
            ("name", Value::from(name.as_str())),
            ("description", Value::from(description.as_str())),
            ("parameters", parameters.clone()),
        ]);
        openai::rendered(object([
            ("type", Value::from("function")),
            ("function", Value::Object(function)),
        ]))
    }

    fn system(&self, text: &str) -> Rendered {
        message::system(text, message::Form::default())
    }

    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        message::pieces(message, message::Form::default())
    }

    fn tail(&self, parameters: &Parameters, stream: bool) -> Bytes {
        tail::tail(parameters, stream)
    }

    fn marker(&self, _time: MarkerTime) -> Option<Bytes> {
        None
    }

    fn reply(&self, body: &[u8]) -> Result<Reply, Error> {
        answer::whole(body)
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        Box::new(stream::Reader::default())
    }
}
