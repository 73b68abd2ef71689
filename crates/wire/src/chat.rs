//! OpenAI Chat Completions, as implemented by OpenAI, Azure, OpenRouter, LiteLLM, Ollama, vLLM, DeepSeek,
//! xAI, Groq, Mistral and many others.
//!
//! Differences between the servers:
//!
//! - The output limit is `max_completion_tokens` for OpenAI's own models and `max_tokens` for all others; a
//!   field of either name in [`Parameters::extra`](crate::Parameters::extra) replaces it.
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

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use url::Url;

use crate::error::Error;
use crate::members::Members;
use crate::parameters::{ApiOwner, OF_OPEN_MODELS, RefusedParameters};
use crate::renewal_changes::RenewalChanges;
use crate::{
    Conversion, Format, Layout, MarkerRules, MarkerStyle, MarkerTime, Message, Parameters,
    Rendered, Reply, RequestRules, StreamReader, Terms, ToolDefinition, Usage, Wire, address,
    messages, openai,
};
use message::TextForm;

mod answer;
mod calls;
mod compared;
mod content;
mod conversion;
pub(crate) mod message;
mod reasoning;
mod renewal;
mod stream;
mod tail;

/// The declared table of members.
static MEMBERS: LazyLock<Members> =
    LazyLock::new(|| Members::built_in("chat/members.yaml", include_str!("chat/members.yaml")));

/// Chat Completions, with the cache markers of a provider: Anthropic's, which gateways forward, or OpenAI's own.
/// Content that may carry a marker is rendered as parts from the first request of a session on.
#[derive(Debug, Clone, Copy)]
pub struct Chat {
    style: MarkerStyle,
    /// True if tool results may carry a marker.
    in_results: bool,
}

impl Chat {
    /// Without markers.
    pub(crate) const UNMARKED: Self = Self {
        style: MarkerStyle::None,
        in_results: false,
    };

    /// With the markers of a provider, as far as the format has them.
    pub(crate) fn marked(rules: &MarkerRules) -> Self {
        match rules.style {
            style @ (MarkerStyle::CacheControl | MarkerStyle::Breakpoints) => Self {
                style,
                in_results: rules.in_results,
            },
            MarkerStyle::None | MarkerStyle::CachePoint => Self {
                in_results: rules.in_results,
                ..Self::UNMARKED
            },
        }
    }

    fn text_form(self) -> TextForm {
        let is_marked = self.style != MarkerStyle::None;
        TextForm {
            told: is_marked,
            results: is_marked && self.in_results,
            answers: self.style == MarkerStyle::CacheControl,
        }
    }
}

impl Wire for Chat {
    fn format(&self) -> Format {
        Format::Chat
    }

    fn url(&self, base: &Url, _model: &str, _streams: bool) -> Url {
        address::appended(base, "/chat/completions")
    }

    fn sends_budget_as_effort(&self) -> bool {
        true
    }

    fn refused_parameters(&self, owner: ApiOwner) -> &'static [RefusedParameters] {
        match owner {
            ApiOwner::OpenAi => &[openai::REFUSED],
            ApiOwner::Google => &[RefusedParameters {
                names: OF_OPEN_MODELS,
                reason: "Google's API has no such parameter in the format `chat`",
                remedy: "write `format: gemini`, which takes `top_k`",
            }],
            ApiOwner::Anthropic | ApiOwner::Other => &[],
        }
    }

    fn request_rules(&self) -> &'static RequestRules {
        &compared::RULES
    }

    fn layout(&self) -> Layout {
        Layout::with_messages("messages")
    }

    fn tool(&self, tool: &ToolDefinition) -> Rendered {
        let ToolDefinition {
            name,
            description,
            parameters,
        } = tool;
        let function = json!({"name": name, "description": description, "parameters": parameters});
        openai::rendered(json!({"type": "function", "function": function}))
    }

    fn system(&self, text: &str) -> Rendered {
        message::system(text, self.text_form())
    }

    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        message::pieces(message, self.text_form())
    }

    fn tail(&self, parameters: &Parameters, stream: bool) -> Bytes {
        tail::tail(&openai::with_cache_options(parameters, self.style), stream)
    }

    fn marker(&self, time: MarkerTime) -> Option<Bytes> {
        match self.style {
            MarkerStyle::CacheControl => Some(messages::marker(time)),
            style => openai::marker(style, time),
        }
    }

    fn reply(&self, body: &[u8]) -> Result<Reply, Error> {
        answer::whole(body)
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        Box::<stream::ChatStreamReader>::default()
    }

    fn usage(&self, reported: &Value) -> Option<Usage> {
        answer::reported(reported)
    }

    fn usage_members(&self) -> &'static [&'static str] {
        &["prompt_tokens"]
    }

    fn members(&self) -> &'static Members {
        &MEMBERS
    }

    fn terms(&self, reply: &Reply) -> Terms {
        openai::terms(&reply.extra)
    }

    fn conversion(&self) -> Option<&'static Conversion> {
        Some(&conversion::FORMS)
    }

    fn renewal(
        &self,
        _model: &str,
        request: &Map<String, Value>,
    ) -> Result<RenewalChanges, &'static str> {
        renewal::changes(request)
    }
}
