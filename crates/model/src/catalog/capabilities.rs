//! The requests that models accept.

use cachalot_core::Problem;
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::Section;
use serde::de::DeserializeOwned;
use serde_json::Value;

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

    /// Claims and reads the keys of a model.
    pub(super) fn read(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Self {
        let endpoints = section.texts("endpoints", problems).map(|names| {
            let formats = names.into_iter().filter_map(|name| {
                parse_name(
                    section,
                    "endpoints",
                    name,
                    &["chat", "responses", "messages"],
                    problems,
                )
            });
            formats.collect()
        });
        let thinking = section
            .text("thinking", problems)
            .and_then(|name| parse_name(section, "thinking", name, &Thinking::NAMES, problems));
        let efforts = section.texts("efforts", problems);
        Self {
            endpoints,
            thinking,
            efforts: efforts.map(|efforts| efforts.into_iter().map(str::to_owned).collect()),
            default_effort: section.text("default_effort", problems).map(str::to_owned),
            sampling: section.boolean("sampling", problems),
            chat_tools_with_effort: section.boolean("chat_tools_with_effort", problems),
        }
    }
}

/// Parses the name of a value; reports an unknown name as a problem that lists the known ones.
fn parse_name<T: DeserializeOwned>(
    section: &mut Section<'_>,
    key: &'static str,
    name: &str,
    known: &[&str],
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let found = serde_json::from_value(Value::from(name)).ok();
    if found.is_none() {
        let mut problem = Problem::new("bad-value", format!("`{key}` does not know `{name}`"))
            .help(did_you_mean(name, known));
        if let Some(node) = section.node(key) {
            problem = problem.at(&node.place);
        }
        problems.push(problem);
    }
    found
}
