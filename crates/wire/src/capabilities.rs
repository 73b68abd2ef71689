//! The requests that models accept.

use cachalot_core::Problem;
use cachalot_core::config::{Custom, Parameter, ParameterKind as Kind, Values, key};
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::MapEntry;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Format;

/// The kinds of thinking before an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// No thinking.
    None,
    /// Up to a token budget in the request.
    Legacy,
    /// The model decides the amount; requests may switch it off.
    Adaptive,
    /// Adaptive, or up to a budget.
    AdaptiveOrLegacy,
    /// Adaptive, and requests cannot switch it off.
    AlwaysOn,
}

impl Thinking {
    /// Names in the catalog.
    const NAMES: [&str; 5] = [
        "none",
        "legacy",
        "adaptive",
        "adaptive_or_legacy",
        "always_on",
    ];

    /// Returns whether requests may name a budget of tokens.
    #[must_use]
    pub fn accepts_budget(self) -> bool {
        matches!(self, Self::Legacy | Self::AdaptiveOrLegacy)
    }
}

/// The requests that a model accepts; `None` if unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The formats in which the provider accepts requests for the model.
    pub endpoints: Option<Vec<Format>>,
    /// The kind of thinking.
    pub thinking: Option<Thinking>,
    /// The accepted reasoning efforts, weakest first; empty if the model accepts none.
    pub efforts: Option<Vec<String>>,
    /// The effort of a request without one.
    pub default_effort: Option<String>,
    /// True if the model accepts `temperature` and `top_p`.
    pub sampling: Option<bool>,
    /// True if Chat Completions accepts tools together with an effort other than `none`.
    pub chat_tools_with_effort: Option<bool>,
}

impl Capabilities {
    /// Merges two records; the values of `self` win.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            endpoints: self.endpoints.or(other.endpoints),
            thinking: self.thinking.or(other.thinking),
            efforts: self.efforts.or(other.efforts),
            default_effort: self.default_effort.or(other.default_effort),
            sampling: self.sampling.or(other.sampling),
            chat_tools_with_effort: self.chat_tools_with_effort.or(other.chat_tools_with_effort),
        }
    }

    /// Returns whether the provider accepts requests in this format; `None` if unknown.
    #[must_use]
    pub fn takes(&self, format: Format) -> Option<bool> {
        let endpoints = self.endpoints.as_ref()?;
        Some(endpoints.contains(&format))
    }

    /// Reads the keys of a model ([`CAPABILITY_KEYS`]).
    pub fn read(values: Values<'_>) -> Self {
        let endpoints = values.texts("endpoints");
        Self {
            endpoints: endpoints.map(|names| names.iter().filter_map(|name| named(name)).collect()),
            thinking: values.text("thinking").and_then(named),
            efforts: values.texts("efforts"),
            default_effort: values.string("default_effort"),
            sampling: values.boolean("sampling"),
            chat_tools_with_effort: values.boolean("chat_tools_with_effort"),
        }
    }
}

/// The keys of a model's capabilities in a catalog file.
#[rustfmt::skip]
pub const CAPABILITY_KEYS: &[Parameter] = &[
    key(
        "endpoints",
        Kind::Custom(&Custom {
            schema: Some(|| json!({ "type": "array", "items": { "enum": ENDPOINTS } })),
            check: check_endpoints,
        }),
        "The formats in which the provider accepts requests for the model.",
    ),
    key("thinking", Kind::Word(&Thinking::NAMES), "The kind of thinking."),
    key("efforts", Kind::Texts, "The accepted reasoning efforts, weakest first."),
    key("default_effort", Kind::Text, "The effort of a request without one."),
    key("sampling", Kind::Boolean, "Accepts `temperature` and `top_p`."),
    key("chat_tools_with_effort", Kind::Boolean, "Chat Completions accepts tools with an effort."),
];

const ENDPOINTS: [&str; 3] = ["chat", "responses", "messages"];

fn check_endpoints(entry: &MapEntry, problems: &mut Vec<Problem>) {
    Kind::Texts.check(entry, problems);
    for item in entry.value.as_list().unwrap_or_default() {
        if let Some(name) = item.as_text().filter(|name| !ENDPOINTS.contains(name)) {
            let message = format!("`endpoints` does not know `{name}`");
            problems.push(
                Problem::new("bad-value", message)
                    .at(&item.place)
                    .help(did_you_mean(name, &ENDPOINTS)),
            );
        }
    }
}

/// Parses the name of a value.
fn named<T: DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_value(Value::from(name)).ok()
}
