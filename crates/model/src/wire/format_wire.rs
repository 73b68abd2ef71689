//! The implementation of all formats.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Value, json};

use super::anthropic::ParameterRules;
use super::chat::message::TextForm;
use super::{Layout, MarkerTime, Rendered, StreamReader, Wire};
use super::{anthropic, chat, converse, gemini, responses};
use crate::cloud::Cloud;
use crate::error::Error;
use crate::{
    Capabilities, Format, MarkerRules, MarkerStyle, Message, Parameters, Reply, ToolDefinition,
};

/// A wire format, with the cache markers of a provider and the rules of a model.
#[derive(Debug, Clone, Copy)]
pub struct FormatWire {
    format: Format,
    /// Markers in OpenAI's two formats: Anthropic's, which gateways forward, or OpenAI's own. Content that
    /// may carry a marker is rendered as parts from the first request of a session on.
    style: MarkerStyle,
    /// True if tool results of Chat Completions may carry a marker.
    in_results: bool,
    /// Parameters that a model of Anthropic accepts.
    rules: ParameterRules,
    /// True if a model of Gemini rejects a function call of the current turn without a thought signature.
    /// Calls of other models then get the placeholder signature.
    wants_signatures: bool,
}

/// OpenAI Chat Completions.
pub const CHAT: FormatWire = FormatWire::new(Format::Chat);
/// OpenAI Responses.
pub const RESPONSES: FormatWire = FormatWire::new(Format::Responses);
/// Anthropic Messages.
pub const MESSAGES: FormatWire = FormatWire::new(Format::Messages);
/// Gemini's `generateContent`.
pub const GEMINI: FormatWire = FormatWire::new(Format::Gemini);
/// Amazon Bedrock's Converse.
pub const CONVERSE: FormatWire = FormatWire::new(Format::Converse);

impl FormatWire {
    /// Creates a format without the markers of a provider, for an unknown model.
    const fn new(format: Format) -> Self {
        Self {
            format,
            style: MarkerStyle::None,
            in_results: false,
            rules: ParameterRules::UNKNOWN,
            wants_signatures: false,
        }
    }

    /// Creates a format for a provider with this marking. It adds no markers if the provider accepts none.
    #[must_use]
    pub fn marked(format: Format, marker_rules: &MarkerRules) -> Self {
        let style = match (format, marker_rules.style) {
            (Format::Chat, MarkerStyle::CacheControl | MarkerStyle::Breakpoints)
            | (Format::Responses, MarkerStyle::Breakpoints) => marker_rules.style,
            _ => MarkerStyle::None,
        };
        Self {
            style,
            in_results: marker_rules.in_results,
            ..Self::new(format)
        }
    }

    /// Creates a format for one model, on a cloud platform or at its maker: with the markers of
    /// [`FormatWire::marked`], and without the parameters that the model refuses.
    pub(crate) fn for_model(
        format: Format,
        marker_rules: &MarkerRules,
        model: &str,
        cloud: Option<Cloud>,
        capabilities: &Capabilities,
    ) -> Self {
        Self {
            rules: ParameterRules::new(cloud, capabilities),
            wants_signatures: gemini::wants_signatures(model),
            ..Self::marked(format, marker_rules)
        }
    }

    fn is_marked(&self) -> bool {
        self.style != MarkerStyle::None
    }

    fn text_form(&self) -> TextForm {
        TextForm {
            told: self.is_marked(),
            results: self.is_marked() && self.in_results,
            answers: self.style == MarkerStyle::CacheControl,
        }
    }
}

impl Wire for FormatWire {
    fn format(&self) -> Format {
        self.format
    }

    fn path(&self) -> &'static str {
        match self.format {
            Format::Chat => "/chat/completions",
            Format::Responses => "/responses",
            Format::Messages => "/messages",
            // The full endpoint contains the model before this path; streams use another method.
            Format::Gemini => ":generateContent",
            Format::Converse => "/converse",
        }
    }

    fn layout(&self) -> Layout {
        Layout::for_format(self.format)
    }

    fn tool(&self, tool: &ToolDefinition) -> Rendered {
        match self.format {
            Format::Chat => chat::tool(tool),
            Format::Responses => responses::tool(tool),
            Format::Messages => anthropic::tool(tool),
            Format::Gemini => gemini::tool(tool),
            Format::Converse => converse::tool(tool),
        }
    }

    fn system(&self, text: &str) -> Rendered {
        match self.format {
            Format::Chat => chat::message::system(text, self.text_form()),
            Format::Responses => responses::message::system(text, self.is_marked()),
            Format::Messages => anthropic::system(text),
            Format::Gemini => gemini::system(text),
            Format::Converse => converse::system(text),
        }
    }

    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        match self.format {
            Format::Chat => chat::message::pieces(message, self.text_form()),
            Format::Responses => responses::message::pieces(message, self.is_marked()),
            Format::Messages => Ok(Vec::from_iter(anthropic::message(message)?)),
            Format::Gemini => {
                let piece = gemini::message(message, self.wants_signatures)?;
                Ok(Vec::from_iter(piece))
            }
            Format::Converse => converse::message(message),
        }
    }

    fn tail(&self, parameters: &Parameters, stream: bool) -> Bytes {
        let parameters = match self.style {
            MarkerStyle::Breakpoints => Cow::Owned(explicit(parameters)),
            _ => Cow::Borrowed(parameters),
        };
        match self.format {
            Format::Chat => chat::tail(&parameters, stream),
            Format::Responses => responses::tail(&parameters, stream),
            Format::Messages => anthropic::tail(&parameters, stream, self.rules),
            // The path chooses between streams and whole answers.
            Format::Gemini => gemini::tail(&parameters),
            Format::Converse => converse::tail(&parameters, self.rules),
        }
    }

    fn after_tools(&self, parameters: &Parameters) -> Option<String> {
        match self.format {
            Format::Converse => converse::tool_choice(parameters.tool_choice.as_ref()?),
            _ => None,
        }
    }

    fn marker(&self, time: MarkerTime) -> Option<Bytes> {
        let marker: &[u8] = match (self.format, self.style, time) {
            (Format::Messages, ..) | (_, MarkerStyle::CacheControl, _) => match time {
                MarkerTime::FiveMinutes => br#","cache_control":{"type":"ephemeral"}"#,
                MarkerTime::OneHour => br#","cache_control":{"type":"ephemeral","ttl":"1h"}"#,
            },
            (Format::Converse, _, MarkerTime::FiveMinutes) => {
                br#",{"cachePoint":{"type":"default"}}"#
            }
            (Format::Converse, _, MarkerTime::OneHour) => {
                br#",{"cachePoint":{"type":"default","ttl":"1h"}}"#
            }
            // The lifetime is in the tail, once per request.
            (_, MarkerStyle::Breakpoints, _) => {
                br#","prompt_cache_breakpoint":{"mode":"explicit"}"#
            }
            _ => return None,
        };
        Some(Bytes::from_static(marker))
    }

    fn reply(&self, body: &[u8]) -> Result<Reply, Error> {
        match self.format {
            Format::Chat => chat::reply(body),
            Format::Responses => responses::reply(body),
            Format::Messages => anthropic::reply(body),
            Format::Gemini => gemini::reply(body),
            Format::Converse => converse::reply(body),
        }
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        match self.format {
            Format::Chat => Box::<chat::ChatStreamReader>::default(),
            Format::Responses => Box::<responses::ResponsesStreamReader>::default(),
            Format::Messages => Box::<anthropic::AnthropicStreamReader>::default(),
            Format::Gemini => Box::<gemini::GeminiStreamReader>::default(),
            Format::Converse => Box::<converse::ConverseStreamReader>::default(),
        }
    }
}

/// Adds the option that only marked prefixes are cached. The user's own options take precedence.
fn explicit(parameters: &Parameters) -> Parameters {
    const OPTIONS: &str = "prompt_cache_options";
    let mut parameters = parameters.clone();
    let mut options = json!({"mode": "explicit", "ttl": "30m"});
    match (parameters.extra.shift_remove(OPTIONS), &mut options) {
        (None, _) => {}
        (Some(Value::Object(theirs)), Value::Object(parameter_members)) => {
            parameter_members.extend(theirs)
        }
        // `null`: the user disables the options.
        (Some(Value::Null), _) => return parameters,
        (Some(other), options) => *options = other,
    }
    parameters.extra.insert(OPTIONS.to_owned(), options);
    parameters
}
