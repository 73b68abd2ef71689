//! The requests that models accept.

use cachalot_core::Problem;
use cachalot_core::config::{Custom, ParameterKind as Kind, Settings, Word as _};
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{MapEntry, Node};
use serde_json::json;

use crate::Format;

/// The kinds of thinking before an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, Settings)]
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
    /// Returns whether requests may name a budget of tokens.
    #[must_use]
    pub fn accepts_budget(self) -> bool {
        matches!(self, Self::Legacy | Self::AdaptiveOrLegacy)
    }
}

/// The requests that a model accepts; `None` if unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Settings)]
#[settings(name = "the capabilities of a model")]
pub struct Capabilities {
    /// The formats in which the provider accepts requests for the model.
    #[setting(kind = Kind::Custom(&ENDPOINTS), with = endpoints)]
    pub endpoints: Option<Vec<Format>>,
    /// The kind of thinking.
    pub thinking: Option<Thinking>,
    /// The accepted reasoning efforts, weakest first.
    ///
    /// Empty if the model accepts none.
    pub efforts: Option<Vec<String>>,
    /// The effort of a request without one.
    pub default_effort: Option<String>,
    /// Accepts `temperature` and `top_p`.
    pub sampling: Option<bool>,
    /// Chat Completions accepts tools with an effort.
    ///
    /// One other than `none`.
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
}

const ENDPOINT_NAMES: [&str; 3] = ["chat", "responses", "messages"];

static ENDPOINTS: Custom = Custom {
    schema: Some(|| json!({ "type": "array", "items": { "enum": ENDPOINT_NAMES } })),
    check: check_endpoints,
};

fn endpoints(node: &Node) -> Option<Vec<Format>> {
    let names = node.as_list()?.iter().filter_map(Node::as_text);
    Some(names.filter_map(Format::from_word).collect())
}

fn check_endpoints(entry: &MapEntry, problems: &mut Vec<Problem>) {
    Kind::Texts.check(entry, problems);
    for item in entry.value.as_list().unwrap_or_default() {
        if let Some(name) = item.as_text().filter(|name| !ENDPOINT_NAMES.contains(name)) {
            let message = format!("`endpoints` does not know `{name}`");
            problems.push(
                Problem::new("bad-value", message)
                    .at(&item.place)
                    .help(did_you_mean(name, &ENDPOINT_NAMES)),
            );
        }
    }
}
