//! `OpenAI`'s two formats with cache markers: Anthropic's markers, which gateways forward, and `OpenAI`'s
//! own. Content that may carry a marker is rendered as parts from the first request of a session on.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{MarkerTime, Rendered, Wire, anthropic, chat, for_format, responses};
use crate::error::Error;
use crate::marker_rules::{MarkerRules, MarkerStyle};
use crate::{Format, Message, Parameters};

/// Returns the implementation of `format` for a provider with this marking.
pub(super) fn wire(format: Format, marker_rules: &MarkerRules) -> &'static dyn Wire {
    const fn marked(format: Format, style: MarkerStyle, in_results: bool) -> MarkedFormat {
        MarkedFormat {
            format,
            style,
            in_results,
        }
    }
    static MARKED: [MarkedFormat; 5] = [
        marked(Format::Chat, MarkerStyle::CacheControl, true),
        marked(Format::Chat, MarkerStyle::CacheControl, false),
        marked(Format::Chat, MarkerStyle::Breakpoints, true),
        marked(Format::Chat, MarkerStyle::Breakpoints, false),
        marked(Format::Responses, MarkerStyle::Breakpoints, true),
    ];
    let in_results = marker_rules.in_results || format == Format::Responses;
    let wanted = (format, marker_rules.style, in_results);
    let mut marked = MARKED.iter();
    match marked.find(|it| (it.format, it.style, it.in_results) == wanted) {
        Some(marked) => marked,
        None => for_format(format),
    }
}

/// One of `OpenAI`'s formats with markers.
#[derive(Debug)]
struct MarkedFormat {
    format: Format,
    style: MarkerStyle,
    in_results: bool,
}

impl MarkedFormat {
    fn text_form(&self) -> chat::message::TextForm {
        chat::message::TextForm {
            told: true,
            results: self.in_results,
            answers: self.style == MarkerStyle::CacheControl,
        }
    }
}

impl Wire for MarkedFormat {
    fn format(&self) -> Format {
        self.format
    }

    fn system(&self, text: &str) -> Rendered {
        match self.format {
            Format::Responses => responses::message::system(text, true),
            _ => chat::message::system(text, self.text_form()),
        }
    }

    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        match self.format {
            Format::Responses => responses::message::pieces(message, true),
            _ => chat::message::pieces(message, self.text_form()),
        }
    }

    fn tail(&self, parameters: &Parameters, stream: bool) -> Bytes {
        match self.style {
            MarkerStyle::Breakpoints => for_format(self.format).tail(&explicit(parameters), stream),
            _ => for_format(self.format).tail(parameters, stream),
        }
    }

    fn marker(&self, time: MarkerTime) -> Option<Bytes> {
        match self.style {
            MarkerStyle::None | MarkerStyle::CachePoint => None,
            MarkerStyle::CacheControl => anthropic::Messages.marker(time),
            // The lifetime is in the tail, once per request.
            MarkerStyle::Breakpoints => Some(Bytes::from_static(
                br#","prompt_cache_breakpoint":{"mode":"explicit"}"#,
            )),
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
