//! The `review` key of an agent: the subject, frequency and model of background reviews.

use cachalot_core::config::{ParameterKind as Kind, Settings, Table, Values};
use cachalot_core::tree::Node;
use cachalot_core::{Problem, SourceSpan};

use super::limit::or_unlimited;
use crate::Inherit;

/// Default number of turns after which a review is due.
pub const DEFAULT_REVIEW_TURNS: u32 = 10;
/// Default maximum model calls of a review.
pub const DEFAULT_REVIEW_ITERATIONS: u32 = 16;
/// Default maximum input tokens of a review, including those that the provider reads from its cache.
pub const DEFAULT_REVIEW_INPUT_TOKENS: u64 = 600_000;

/// The subject of a review.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Settings)]
pub enum ReviewKind {
    /// Facts to remember.
    Memory,
    /// Procedures that will be needed again.
    Skill,
    /// Both.
    #[default]
    Combined,
}

/// Verbosity of the notice about a review.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Settings)]
pub enum Notify {
    /// No notice, unless the review fails.
    Off,
    /// One line.
    #[default]
    On,
    /// One line and the text of the review.
    Verbose,
}

/// A name in the file, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedName {
    /// The name.
    pub name: String,
    /// The place of the name.
    pub place: SourceSpan,
}

/// Background reviews of the agent's conversations.
#[derive(Debug, Clone, PartialEq, Settings)]
#[settings(name = "`review`", default)]
pub struct ReviewDefinition {
    /// The number of turns after which a review is due; 0: only on request.
    ///
    /// Completed turns of the session count.
    #[setting(default = DEFAULT_REVIEW_TURNS as u64)]
    pub every_turns: u32,
    /// The subject.
    #[setting(default = "combined")]
    pub kind: ReviewKind,
    /// The tools that it may use, of those that the agent has.
    ///
    /// See [`ReviewDefinition::tools`].
    #[setting(kind = Kind::Texts, with = distinct)]
    pub tools: Option<Vec<LocatedName>>,
    /// The model, if it is not the agent's.
    #[setting(kind = Kind::Text, with = located)]
    pub model: Option<LocatedName>,
    /// The maximum input tokens; 0 for no limit.
    ///
    /// Includes those that are read from the provider's cache. Once read, `None` is no limit.
    #[setting(default = DEFAULT_REVIEW_INPUT_TOKENS)]
    pub max_input_tokens: Option<u64>,
    /// The maximum model calls; 0 for no limit.
    #[setting(default = DEFAULT_REVIEW_ITERATIONS as u64)]
    pub max_iterations: u32,
    /// The parts of the conversation's requests that it inherits.
    #[setting(default = "full")]
    pub inherit: Inherit,
    /// The verbosity of the notice about it.
    #[setting(default = "on")]
    pub notify: Notify,
}

/// The keys of `review`.
pub const REVIEW: &Table = ReviewDefinition::TABLE;

impl ReviewKind {
    /// The tools that a review of this kind may use by default.
    #[must_use]
    pub fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Memory => &["memory", "read_file", "grep"],
            Self::Skill => &[
                "skills_list",
                "skill_view",
                "skill_manage",
                "read_file",
                "grep",
            ],
            Self::Combined => &[
                "memory",
                "skills_list",
                "skill_view",
                "skill_manage",
                "read_file",
                "grep",
            ],
        }
    }
}

impl ReviewDefinition {
    /// The tools that the review may use. The agent may lack some of them.
    #[must_use]
    pub fn tools(&self) -> Vec<&str> {
        match &self.tools {
            Some(named) => named.iter().map(|tool| tool.name.as_str()).collect(),
            None => self.kind.tools().to_vec(),
        }
    }

    /// Returns the definition with its limits, of which the file writes 0 for none.
    pub(super) fn with_limits(self) -> Self {
        Self {
            max_input_tokens: self.max_input_tokens.filter(|maximum| *maximum > 0),
            max_iterations: or_unlimited(self.max_iterations),
            ..self
        }
    }

    /// Reports a model of its own that would inherit what another model was sent. `agent` are the keys of the agent,
    /// whose model is `own_model`.
    pub(super) fn check_inheritance(
        &self,
        agent: Values<'_>,
        own_model: Option<&str>,
        problems: &mut Vec<Problem>,
    ) {
        let written = agent.table("review").and_then(|keys| keys.node("inherit"));
        if let Some(model) = &self.model
            && own_model != Some(model.name.as_str())
            && let Some(node) = written
            && self.inherit != Inherit::None
        {
            let message = format!(
                "a review by `{}` inherits nothing of what another model was sent",
                model.name
            );
            let problem = Problem::new("conflicting-keys", message).at(&node.place);
            problems.push(problem.help("leave `inherit` out, or `model`"));
        }
    }
}

/// Returns a text of the file as a name.
pub(super) fn located(node: &Node) -> Option<LocatedName> {
    Some(LocatedName {
        name: node.as_text()?.to_owned(),
        place: node.place.clone(),
    })
}

/// Returns the names of a list, without duplicates.
fn distinct(node: &Node) -> Option<Vec<LocatedName>> {
    let mut named: Vec<LocatedName> = Vec::new();
    for name in node.as_list()?.iter().filter_map(located) {
        if named.iter().all(|known| known.name != name.name) {
            named.push(name);
        }
    }
    Some(named)
}
