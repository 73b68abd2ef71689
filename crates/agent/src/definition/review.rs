//! The `review` key of an agent: the subject, frequency and model of background reviews.

use cachalot_core::config::{Literal, ParameterKind as Kind, Table, Values, key, words};
use cachalot_core::tree::Node;
use cachalot_core::{Problem, SourceSpan};

use super::limit::limit;
use crate::Inherit;

/// Default number of turns after which a review is due.
pub const DEFAULT_REVIEW_TURNS: u32 = 10;
/// Default maximum model calls of a review.
pub const DEFAULT_REVIEW_ITERATIONS: u32 = 16;
/// Default maximum input tokens of a review, including those that the provider reads from its cache.
pub const DEFAULT_REVIEW_INPUT_TOKENS: u64 = 600_000;

/// The subject of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewKind {
    /// Facts to remember.
    Memory,
    /// Procedures that will be needed again.
    Skill,
    /// Both.
    Combined,
}

/// Verbosity of the notice about a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notify {
    /// No notice, unless the review fails.
    Off,
    /// One line.
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

/// The `review` key of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct ReviewDefinition {
    /// A review is due after every `every_turns` completed turns of the session; 0: only on request of the
    /// user.
    pub every_turns: u32,
    /// The subject of the review.
    pub kind: ReviewKind,
    /// The `tools` list, if there is one; see [`ReviewDefinition::tools`].
    pub tools: Option<Vec<LocatedName>>,
    /// The model, if it differs from the agent's.
    pub model: Option<LocatedName>,
    /// Maximum input tokens, including those read from the provider's cache; `None`: no limit.
    pub max_input_tokens: Option<u64>,
    /// Maximum model calls.
    pub max_iterations: u32,
    /// The parts of the conversation's requests that it inherits.
    pub inherit: Inherit,
    /// Verbosity of the notice about it.
    pub notify: Notify,
}

impl Default for ReviewDefinition {
    fn default() -> Self {
        Self {
            every_turns: DEFAULT_REVIEW_TURNS,
            kind: ReviewKind::Combined,
            tools: None,
            model: None,
            max_input_tokens: Some(DEFAULT_REVIEW_INPUT_TOKENS),
            max_iterations: DEFAULT_REVIEW_ITERATIONS,
            inherit: Inherit::Full,
            notify: Notify::On,
        }
    }
}

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
}

/// The keys of `review`.
#[rustfmt::skip]
pub static REVIEW: Table = Table::new(
    "`review`",
    "Background reviews of the agent's conversations.",
    &[&[
        key("every_turns", Kind::IntegerIn(0, u32::MAX as u64), "The number of turns after which a review is due; 0: only on request.").default(Literal::Integer(DEFAULT_REVIEW_TURNS as u64)),
        key("kind", Kind::Word(&KIND_WORDS), "The subject.").default(Literal::Text("combined")),
        key("tools", Kind::Texts, "The tools that it may use, of those that the agent has."),
        key("model", Kind::Text, "The model, if it is not the agent's."),
        key("max_input_tokens", Kind::IntegerIn(0, u64::MAX), "The maximum input tokens; 0 for no limit.").default(Literal::Integer(DEFAULT_REVIEW_INPUT_TOKENS)),
        key("max_iterations", Kind::IntegerIn(0, u32::MAX as u64), "The maximum model calls; 0 for no limit.").default(Literal::Integer(DEFAULT_REVIEW_ITERATIONS as u64)),
        key("inherit", Kind::Word(&INHERIT_WORDS), "The parts of the conversation's requests that it inherits.").default(Literal::Text("full")),
        key("notify", Kind::Word(&NOTIFY_WORDS), "The verbosity of the notice about it.").default(Literal::Text("on")),
    ]],
);

/// Reads `review` of an agent whose model is `own_model`.
pub(super) fn read(
    values: Values<'_>,
    own_model: Option<&str>,
    problems: &mut Vec<Problem>,
) -> ReviewDefinition {
    let default = ReviewDefinition::default();
    let definition = ReviewDefinition {
        every_turns: values.integer("every_turns").unwrap_or_default(),
        kind: values.choice("kind", &KIND_VALUES).unwrap_or(default.kind),
        tools: tools(values),
        model: values.node("model").and_then(located),
        max_input_tokens: values.integer("max_input_tokens").filter(|most| *most > 0),
        max_iterations: limit(values, "max_iterations", 1, problems),
        inherit: values
            .choice("inherit", &INHERIT_VALUES)
            .unwrap_or(default.inherit),
        notify: values
            .choice("notify", &NOTIFY_VALUES)
            .unwrap_or(default.notify),
    };
    if let Some(model) = &definition.model
        && own_model != Some(model.name.as_str())
        && let Some(node) = values.node("inherit")
        && definition.inherit != Inherit::None
    {
        let message = format!(
            "a review by `{}` inherits nothing of what another model was sent",
            model.name
        );
        problems.push(
            Problem::new("conflicting-keys", message)
                .at(&node.place)
                .help("leave `inherit` out, or `model`"),
        );
    }
    definition
}

const KIND_VALUES: [(&str, ReviewKind); 3] = [
    ("memory", ReviewKind::Memory),
    ("skill", ReviewKind::Skill),
    ("combined", ReviewKind::Combined),
];
const INHERIT_VALUES: [(&str, Inherit); 4] = [
    ("full", Inherit::Full),
    ("prompt", Inherit::Prompt),
    ("session", Inherit::Session),
    ("none", Inherit::None),
];
const NOTIFY_VALUES: [(&str, Notify); 3] = [
    ("off", Notify::Off),
    ("on", Notify::On),
    ("verbose", Notify::Verbose),
];

const KIND_WORDS: [&str; 3] = words(&KIND_VALUES);
const INHERIT_WORDS: [&str; 4] = words(&INHERIT_VALUES);
const NOTIFY_WORDS: [&str; 3] = words(&NOTIFY_VALUES);

/// Returns a text of the file as a name.
pub(super) fn located(node: &Node) -> Option<LocatedName> {
    Some(LocatedName {
        name: node.as_text()?.to_owned(),
        place: node.place.clone(),
    })
}

/// Returns the names in `tools`, without duplicates.
fn tools(values: Values<'_>) -> Option<Vec<LocatedName>> {
    let mut named: Vec<LocatedName> = Vec::new();
    for tool in values.list("tools")?.iter().filter_map(located) {
        if named.iter().all(|known| known.name != tool.name) {
            named.push(tool);
        }
    }
    Some(named)
}
