//! OpenAI Chat Completions, as implemented by OpenAI, Azure, OpenRouter, LiteLLM, Ollama, vLLM, DeepSeek,
//! xAI, Groq, Mistral and many others.
//!
//! Differences between the servers:
//!
//! - The output limit is `max_completion_tokens` for OpenAI's own models and `max_tokens` for all others; a
//!   field of either name in [`Parameters::extra`] replaces it.
//! - The format has no flag for a failed tool, so the text of its result begins with `Error: `.
//! - Tool results are text. Their images go into a user message after the results, each with a line that
//!   names the result it belongs to; the result contains a reference in place of the image.
//! - Reasoning arrives as `reasoning_content`, `reasoning` or `reasoning_details`, or as parts of the
//!   content (Mistral). It is sent back unchanged, including an empty `reasoning_content`, which DeepSeek
//!   requires.
//! - Tool calls may arrive without an id, without an index, whole or in pieces, or all with the index 0. A
//!   call without an id gets one that depends only on the answer.
//! - The finish reason may be `stop` although the answer calls tools.
//!
//! Only the first of several choices is read.

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
        message::system(text, message::TextForm::default())
    }

    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        message::pieces(message, message::TextForm::default())
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
        Box::new(stream::ChatStreamReader::default())
    }
}
