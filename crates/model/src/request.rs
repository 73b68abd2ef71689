//! What a model is asked for, beside the conversation.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::message::needs_notes;
use crate::wire::{Pieces, Wire};
use crate::{Extra, Message, prepare};

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// `^[a-zA-Z0-9_-]{1,64}$`, the narrowest rule of the providers.
    pub name: String,
    /// When and how to use it.
    pub description: String,
    /// JSON Schema of its arguments; an object.
    pub parameters: Value,
}

/// Everything about a request that is not conversation: it goes behind the messages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// The model's name as its provider knows it.
    pub model: String,
    /// How many tokens it may make, reasoning included.
    pub max_output_tokens: Option<u64>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Texts at which it stops.
    pub stop: Vec<String>,
    /// Which tools it may or must call.
    pub tool_choice: Option<ToolChoice>,
    /// Whether it may call several tools at once; the provider's default if absent.
    pub parallel_tool_calls: Option<bool>,
    /// How much it should think.
    pub reasoning: Option<ReasoningWish>,
    /// That the answer is JSON of this shape.
    pub output: Option<OutputFormat>,
    /// Requests with the same key are routed to where their prefix is cached (OpenAI); at most 64
    /// characters.
    pub cache_key: Option<String>,
    /// Further fields, sent as they are; they win over ours.
    pub extra: Extra,
}

impl Parameters {
    /// The key by which requests are routed to where their prefix is.
    #[must_use]
    pub fn routing_key(&self) -> Option<&str> {
        self.cache_key.as_deref()
    }
}

/// Which tools a model may or must call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// None.
    None,
    /// At least one.
    Any,
    /// This one.
    Tool(String),
}

/// How much a model should think.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningWish {
    /// `minimal`, `low`, `medium`, `high`, … as the provider calls it.
    Effort(String),
    /// At most so many tokens.
    Budget(u64),
}

/// That an answer is JSON of a shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputFormat {
    /// A name for the shape.
    pub name: String,
    /// Its JSON Schema.
    pub schema: Value,
    /// Whether the provider must enforce it.
    pub strict: bool,
}

/// A whole request, for whoever keeps no conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// The tools that the model may call.
    pub tools: Vec<ToolDefinition>,
    /// The system's text.
    pub system: Option<String>,
    /// The conversation.
    pub messages: Vec<Message>,
    /// Everything else.
    pub parameters: Parameters,
}

impl Request {
    /// The body in a format.
    ///
    /// # Errors
    /// Something that the format cannot say.
    pub fn body(&self, wire: &dyn Wire, stream: bool) -> Result<Bytes, Error> {
        let mut pieces = Pieces {
            tools: self.tools.iter().map(|tool| wire.tool(tool)).collect(),
            system: self.system.iter().map(|text| wire.system(text)).collect(),
            messages: Vec::with_capacity(self.messages.len()),
        };
        let mut messages = Cow::Borrowed(&self.messages);
        if needs_notes(wire.format()) {
            prepare(wire.format(), &[], messages.to_mut());
        }
        for message in &*messages {
            pieces.messages.extend(wire.message(message)?);
        }
        let behind_tools = wire.behind_tools(&self.parameters).unwrap_or_default();
        let tail = wire.tail(&self.parameters, stream);
        Ok(pieces.body_with(wire, &behind_tools, &tail))
    }
}
