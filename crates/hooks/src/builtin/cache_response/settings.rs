//! The `cache:` section of an agent.

use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::config::{Literal, ParameterKind as Kind, Table, Values, key, words};
use cachalot_core::tree::Node;
use cachalot_core::{Problem, SourceSpan};
use cachalot_model::DURATION;
use serde_json::Value;

/// Settings of the response cache of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseCacheSettings {
    /// Enables the cache.
    pub enabled: bool,
    /// Compares questions case-sensitively. Default: true with [`MatchingMode::Conversation`], false with
    /// [`MatchingMode::Question`].
    pub case_sensitive: bool,
    /// Ignores whitespace around a question.
    pub trim_spaces: bool,
    /// A flat JSON file of questions and answers, as written in the configuration. A relative path is
    /// relative to the directory of [`ResponseCacheSettings::file`]. The file holds nothing else, so that only the
    /// three keys above can be combined with it.
    pub path: Option<String>,
    /// Time to live of an answer.
    pub ttl: Option<Duration>,
    /// Maximum number of stored answers of the agent; the least recently used are evicted first.
    pub max_entries: Option<u64>,
    /// Maximum bytes of stored answers; the least recently used are evicted first.
    pub max_bytes: Option<u64>,
    /// Scope in which answers are shared.
    pub scope: SharingScope,
    /// The part of the conversation that must match.
    pub matching: MatchingMode,
    /// Storage of the answers.
    pub storage: AnswerStorage,
    /// The file that contains the section.
    pub file: Arc<str>,
}

/// Scope in which answers are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SharingScope {
    /// One session.
    Session,
    /// All sessions of one user.
    #[default]
    User,
    /// All users of this agent.
    Agent,
    /// All users of the store.
    Global,
}

/// The part of the conversation that must match for a question to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MatchingMode {
    /// The question and the conversation before it.
    #[default]
    Conversation,
    /// The question only.
    Question,
}

/// Storage of the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnswerStorage {
    /// The configured store, shared with all other cache entries.
    #[default]
    Memory,
    /// This process, until it ends.
    Process,
}

const SCOPE_VALUES: [(&str, SharingScope); 4] = [
    ("session", SharingScope::Session),
    ("user", SharingScope::User),
    ("agent", SharingScope::Agent),
    ("global", SharingScope::Global),
];
const MATCHING_VALUES: [(&str, MatchingMode); 2] = [
    ("conversation", MatchingMode::Conversation),
    ("question", MatchingMode::Question),
];
const STORAGE_VALUES: [(&str, AnswerStorage); 2] = [
    ("memory", AnswerStorage::Memory),
    ("process", AnswerStorage::Process),
];

/// Keys that have no meaning for a flat file.
const KEYS_WITHOUT_FILE: [&str; 5] = ["ttl", "max_entries", "max_bytes", "scope", "store"];

const SCOPE_WORDS: [&str; 4] = words(&SCOPE_VALUES);
const MATCHING_WORDS: [&str; 2] = words(&MATCHING_VALUES);
const STORAGE_WORDS: [&str; 2] = words(&STORAGE_VALUES);

/// The keys of the section.
#[rustfmt::skip]
static SECTION: Table = Table::new(
    "the section `cache`",
    "",
    &[&[
        key("enabled", Kind::Boolean, "Enables the cache.").default(Literal::Boolean(false)),
        key("case_sensitive", Kind::Boolean, "Compares questions case-sensitively; by default with `match: conversation` only."),
        key("trim_spaces", Kind::Boolean, "Ignores whitespace around a question.").default(Literal::Boolean(false)),
        key("path", Kind::Text, "A flat JSON file of questions and answers."),
        key("ttl", DURATION, "The time to live of an answer; none by default."),
        key("max_entries", Kind::IntegerIn(1, u64::MAX), "The maximum number of stored answers of the agent; the least recently used are evicted first."),
        key("max_bytes", Kind::IntegerIn(1, u64::MAX), "The maximum bytes of stored answers; the least recently used are evicted first."),
        key("scope", Kind::Word(&SCOPE_WORDS), "The scope in which answers are shared; `user` by default."),
        key("match", Kind::Word(&MATCHING_WORDS), "The part of the conversation that must match; `conversation` by default."),
        key("store", Kind::Word(&STORAGE_WORDS), "The storage of the answers; `memory` by default."),
    ]],
);

/// The JSON Schema of the section.
pub(super) fn schema(about: &str) -> Value {
    let mut schema = SECTION.schema(false);
    schema["description"] = about.into();
    schema
}

impl ResponseCacheSettings {
    /// Parses a `cache:` section; `None` if it is no mapping. An invalid value is reported in `problems`
    /// and treated as absent: use the settings only if no problem was reported.
    #[must_use]
    pub fn read(node: &Node, problems: &mut Vec<Problem>) -> Option<Self> {
        let values = SECTION.read(node, problems)?;
        let matching = values.choice("match", &MATCHING_VALUES);
        let path = read_path(values, matching, problems);
        let matching = match path {
            Some(_) => MatchingMode::Question,
            None => matching.unwrap_or_default(),
        };
        Some(Self {
            enabled: values.boolean("enabled").unwrap_or_default(),
            case_sensitive: values
                .boolean("case_sensitive")
                .unwrap_or(matching == MatchingMode::Conversation),
            trim_spaces: values.boolean("trim_spaces").unwrap_or_default(),
            path,
            ttl: values.duration("ttl"),
            max_entries: values.integer("max_entries"),
            max_bytes: values.integer("max_bytes"),
            scope: values.choice("scope", &SCOPE_VALUES).unwrap_or_default(),
            matching,
            storage: values.choice("store", &STORAGE_VALUES).unwrap_or_default(),
            file: Arc::clone(&node.place.file),
        })
    }

    /// Normalizes a question for comparison.
    #[must_use]
    pub fn normalize(&self, question: &str) -> String {
        let question = if self.trim_spaces {
            question.trim()
        } else {
            question
        };
        if self.case_sensitive {
            question.to_owned()
        } else {
            question.to_lowercase()
        }
    }
}

/// Reads `path`; an empty path counts as absent.
fn read_path(
    values: Values<'_>,
    matching: Option<MatchingMode>,
    problems: &mut Vec<Problem>,
) -> Option<String> {
    let path = values.text("path").filter(|path| !path.is_empty())?;
    let place = values.place("path");
    if escapes_base(path) {
        let message =
            format!("`path` leads out of the directory of the file that names it: {path}");
        let problem = Problem::new("bad-value", message).at(&place);
        problems.push(problem.help("write a path below that directory, or an absolute one"));
    }
    let impossible = KEYS_WITHOUT_FILE
        .into_iter()
        .find(|key| values.entry(key).is_some());
    if let Some(key) = impossible {
        problems.push(conflict_with_file(&format!("`{key}`"), &place));
    } else if matching == Some(MatchingMode::Conversation) {
        problems.push(conflict_with_file("`match: conversation`", &place));
    }
    Some(path.to_owned())
}

/// True if a relative path leaves its base directory, judged by its components alone.
fn escapes_base(path: &str) -> bool {
    let path = Path::new(path);
    let mut depth = 0_usize;
    !path.is_absolute()
        && path.components().any(|component| match component {
            Component::ParentDir if depth == 0 => true,
            Component::ParentDir => {
                depth -= 1;
                false
            }
            Component::Normal(_) => {
                depth += 1;
                false
            }
            _ => false,
        })
}

fn conflict_with_file(what: &str, place: &SourceSpan) -> Problem {
    Problem::new(
        "conflicting-keys",
        format!("{what} means nothing beside `path`: such a file holds questions and answers only"),
    )
    .at(place)
    .help("leave one of the two out; without `path`, answers are kept in the long-term memory")
}
