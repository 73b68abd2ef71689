//! `OpenAI`'s two formats with cache markers: Anthropic's markers, which gateways forward, and `OpenAI`'s
//! own. Content that may carry a marker is rendered as parts from the first request of a session on.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Layout, MarkerTime, Rendered, StreamReader, Wire, anthropic, chat, of, responses};
use crate::error::Error;
use crate::marking::{Marking, Style};
use crate::{Format, Message, Parameters, Reply, ToolDefinition};

/// Returns the implementation of `format` for a provider with this marking.
pub(super) fn wire(format: Format, marking: &Marking) -> &'static dyn Wire {
    const fn chat(style: Style, in_results: bool) -> Marked {
        Marked {
            format: Format::Chat,
            style,
            in_results,
        }
    }
    match (format, marking.style, marking.in_results) {
        (Format::Messages | Format::Gemini | Format::Converse, ..)
        | (_, Style::None, _)
        | (_, Style::CachePoint, _)
        | (Format::Responses, Style::CacheControl, _) => of(format),
        (Format::Chat, Style::CacheControl, true) => &const { chat(Style::CacheControl, true) },
        (Format::Chat, Style::CacheControl, false) => &const { chat(Style::CacheControl, false) },
        (Format::Chat, Style::Breakpoints, true) => &const { chat(Style::Breakpoints, true) },
        (Format::Chat, Style::Breakpoints, false) => &const { chat(Style::Breakpoints, false) },
        (Format::Responses, Style::Breakpoints, _) => &Marked {
            format: Format::Responses,
            style: Style::Breakpoints,
            in_results: true,
        },
    }
}

/// One of `OpenAI`'s formats with markers.
#[derive(Debug)]
struct Marked {
    format: Format,
    style: Style,
    in_results: bool,
}

impl Marked {
    fn form(&self) -> chat::message::Form {
        chat::message::Form {
            told: true,
            results: self.in_results,
            answers: self.style == Style::CacheControl,
        }
    }
}

impl Wire for Marked {
    fn format(&self) -> Format {
        self.format
    }

    fn path(&self) -> &'static str {
        of(self.format).path()
    }

    fn layout(&self) -> Layout {
        of(self.format).layout()
    }

    fn tool(&self, tool: &ToolDefinition) -> Rendered {
        of(self.format).tool(tool)
    }

    fn system(&self, text: &str) -> Rendered {
        match self.format {
            Format::Responses => responses::message::system(text, true),
            _ => chat::message::system(text, self.form()),
        }
    }

    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        match self.format {
            Format::Responses => responses::message::pieces(message, true),
            _ => chat::message::pieces(message, self.form()),
        }
    }

    fn tail(&self, parameters: &Parameters, stream: bool) -> Bytes {
        match self.style {
            Style::Breakpoints => of(self.format).tail(&explicit(parameters), stream),
            _ => of(self.format).tail(parameters, stream),
        }
    }

    fn marker(&self, time: MarkerTime) -> Option<Bytes> {
        match self.style {
            Style::None | Style::CachePoint => None,
            Style::CacheControl => anthropic::Messages.marker(time),
            // The lifetime is in the tail, once per request.
            Style::Breakpoints => Some(Bytes::from_static(
                br#","prompt_cache_breakpoint":{"mode":"explicit"}"#,
            )),
        }
    }

    fn reply(&self, body: &[u8]) -> Result<Reply, Error> {
        of(self.format).reply(body)
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        of(self.format).reader()
    }
}

/// Adds the option that only marked prefixes are cached. The user's own options take precedence.
fn explicit(parameters: &Parameters) -> Parameters {
    const OPTIONS: &str = "prompt_cache_options";
    let mut parameters = parameters.clone();
    let mut options = json!({"mode": "explicit", "ttl": "30m"});
    match (parameters.extra.shift_remove(OPTIONS), &mut options) {
        (None, _) => {}
        (Some(Value::Object(theirs)), Value::Object(ours)) => ours.extend(theirs),
        // `null`: the user disables the options.
        (Some(Value::Null), _) => return parameters,
        (Some(other), options) => *options = other,
    }
    parameters.extra.insert(OPTIONS.to_owned(), options);
    parameters
}
