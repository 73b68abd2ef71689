//! The implementation of each format.

use std::ops::Deref;

use serde_json::Value;

use crate::chat::Chat;
use crate::converse::Converse;
use crate::gemini::Gemini;
use crate::interactions::Interactions;
use crate::messages::{Messages, ParameterRules};
use crate::responses::Responses;
use crate::{ApiEndpoint, Capabilities, Format, MarkerRules, Platform, Usage, Wire};

/// The format of requests to one model: the implementation of a format, with the cache markers of a provider and the
/// rules of the model.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub enum FormatWire {
    Chat(Chat),
    Responses(Responses),
    Messages(Messages),
    Gemini(Gemini),
    Interactions(Interactions),
    Converse(Converse),
}

/// OpenAI Chat Completions.
pub const CHAT: FormatWire = FormatWire::Chat(Chat::UNMARKED);
/// OpenAI Responses.
pub const RESPONSES: FormatWire = FormatWire::Responses(Responses::UNMARKED);
/// Anthropic Messages.
pub const MESSAGES: FormatWire = FormatWire::Messages(Messages::UNKNOWN_MODEL);
/// Gemini's `generateContent`.
pub const GEMINI: FormatWire = FormatWire::Gemini(Gemini::UNKNOWN_MODEL);
/// Gemini's Interactions.
pub const INTERACTIONS: FormatWire = FormatWire::Interactions(Interactions);
/// Amazon Bedrock's Converse.
pub const CONVERSE: FormatWire = FormatWire::Converse(Converse::UNKNOWN_MODEL);

/// All formats, without the markers of a provider, for unknown models; in the order in which a usage is recognized.
static FORMATS: [FormatWire; 6] = [CHAT, MESSAGES, RESPONSES, GEMINI, INTERACTIONS, CONVERSE];

impl FormatWire {
    /// Creates a format for a provider with this marking. It adds no markers if the provider accepts none.
    #[must_use]
    pub fn marked(format: Format, marker_rules: &MarkerRules) -> Self {
        match format {
            Format::Chat => Self::Chat(Chat::marked(marker_rules)),
            Format::Responses => Self::Responses(Responses::marked(marker_rules)),
            Format::Messages => MESSAGES,
            Format::Gemini => GEMINI,
            Format::Interactions => INTERACTIONS,
            Format::Converse => CONVERSE,
        }
    }

    /// Creates a format for one model, on a cloud platform or at its maker: with the markers of
    /// [`FormatWire::marked`], and without the parameters that the model refuses.
    #[must_use]
    pub fn for_model(
        format: Format,
        marker_rules: &MarkerRules,
        model: &str,
        platform: Platform,
        capabilities: &Capabilities,
    ) -> Self {
        let rules = ParameterRules::new(platform, capabilities);
        match format {
            Format::Chat | Format::Responses | Format::Interactions => {
                Self::marked(format, marker_rules)
            }
            Format::Messages => Self::Messages(Messages::for_model(rules)),
            Format::Gemini => Self::Gemini(Gemini::for_model(model)),
            Format::Converse => Self::Converse(Converse::for_model(rules)),
        }
    }
}

impl Deref for FormatWire {
    type Target = dyn Wire;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Chat(wire) => wire,
            Self::Responses(wire) => wire,
            Self::Messages(wire) => wire,
            Self::Gemini(wire) => wire,
            Self::Interactions(wire) => wire,
            Self::Converse(wire) => wire,
        }
    }
}

/// Returns the implementation of a format.
#[must_use]
pub fn for_format(format: Format) -> &'static dyn Wire {
    let known = FORMATS.iter().find(|wire| wire.format() == format);
    &**known.unwrap_or(&CHAT)
}

/// Returns the implementations of all formats.
pub(crate) fn all() -> impl Iterator<Item = &'static dyn Wire> {
    FORMATS.iter().map(|wire| &**wire)
}

/// Returns the endpoints of all APIs, with the formats of their requests.
pub fn endpoints() -> impl Iterator<Item = (Format, &'static ApiEndpoint)> {
    all().flat_map(|wire| {
        let endpoints = wire.members().endpoints.iter();
        endpoints.map(move |endpoint| (wire.format(), endpoint))
    })
}

/// Parses the usage of an answer of any provider (its `usage`), by the field names of `format`, or of
/// another format if it contains none of those. `None` if it has no token counts.
#[must_use]
pub fn usage(format: Format, reported: &Value) -> Option<Usage> {
    let is_of = |wire: &&FormatWire| {
        let mut members = wire.usage_members().iter();
        members.any(|name| reported.get(name).is_some())
    };
    match FORMATS.iter().find(is_of) {
        Some(wire) => wire.usage(reported),
        None => for_format(format).usage(reported),
    }
}

/// Returns the format that alone has a member of a body.
pub(crate) fn format_of_member(name: &[u8]) -> Option<Format> {
    let has = |wire: &&FormatWire| {
        let mut members = wire.request_rules().own_members.iter();
        members.any(|own| own.as_bytes() == name)
    };
    FORMATS.iter().find(has).map(|wire| wire.format())
}
