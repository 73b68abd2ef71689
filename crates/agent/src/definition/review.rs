//! The `review` key of an agent: the subject, frequency and model of background reviews.

use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::Section;
use cachalot_core::{Problem, SourceSpan};

use super::agent::limit;
use crate::fork::Inherit;

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

/// Reads `review` of an agent whose model is `own_model`.
pub(super) fn read(
    section: &mut Section<'_>,
    own_model: Option<&str>,
    problems: &mut Vec<Problem>,
) -> Option<ReviewDefinition> {
    let mut review = section.section("review", "`review`", problems)?;
    let default = ReviewDefinition::default();
    let definition = ReviewDefinition {
        every_turns: review
            .integer("every_turns", 0..=u64::from(u32::MAX), problems)
            .and_then(|turns| u32::try_from(turns).ok())
            .unwrap_or(default.every_turns),
        kind: one_of(&mut review, "kind", &KIND_VALUES, problems).unwrap_or(default.kind),
        tools: tools(&mut review, problems),
        model: named(&mut review, "model", problems),
        max_input_tokens: match review.integer("max_input_tokens", 0..=u64::MAX, problems) {
            Some(0) => None,
            Some(most) => Some(most),
            None => default.max_input_tokens,
        },
        max_iterations: limit(&mut review, "max_iterations", 1, problems)
            .unwrap_or(default.max_iterations),
        inherit: one_of(&mut review, "inherit", &INHERIT_VALUES, problems)
            .unwrap_or(default.inherit),
        notify: one_of(&mut review, "notify", &NOTIFY_VALUES, problems).unwrap_or(default.notify),
    };
    if let Some(model) = &definition.model
        && own_model != Some(model.name.as_str())
        && let Some(node) = review.node("inherit")
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
    review.finish(problems);
    Some(definition)
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

/// Claims `key`, whose value is one of `words`.
fn one_of<T: Copy>(
    section: &mut Section<'_>,
    key: &'static str,
    words: &[(&'static str, T)],
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let word = section.text(key, problems)?;
    if let Some((_, meant)) = words.iter().find(|(known, _)| *known == word) {
        return Some(*meant);
    }
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let problem = Problem::new("bad-value", format!("`{key}` cannot be `{word}`"));
    problems.push(
        match section.node(key) {
            Some(node) => problem.at(&node.place),
            None => problem,
        }
        .help(did_you_mean(word, &known)),
    );
    None
}

/// Claims `key`, whose value is a name.
fn named(
    section: &mut Section<'_>,
    key: &'static str,
    problems: &mut Vec<Problem>,
) -> Option<LocatedName> {
    let name = section.text(key, problems)?.to_owned();
    let place = section.node(key)?.place.clone();
    Some(LocatedName { name, place })
}

/// Claims `tools`: a list of names, without duplicates.
fn tools(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Option<Vec<LocatedName>> {
    let mut named: Vec<LocatedName> = Vec::new();
    for item in section.list("tools", problems)? {
        match item.as_text() {
            Some(name) if named.iter().any(|known| known.name == name) => {}
            Some(name) => named.push(LocatedName {
                name: name.to_owned(),
                place: item.place.clone(),
            }),
            None => {
                problems.push(item.wrong_type("an item of `tools`", "text, the name of a tool"))
            }
        }
    }
    Some(named)
}
