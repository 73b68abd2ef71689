//! The `cache:` section of an agent.

use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::tree::{Node, Section};
use cachalot_core::{Problem, SourceSpan};
use cachalot_model::duration;
use serde_json::{Value, json};

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

/// The JSON Schema of the section.
pub(super) fn schema(about: &str) -> Value {
    let words = |words: Vec<&str>| json!({ "enum": words });
    let number = json!({ "type": "integer", "minimum": 1 });
    let flag = json!({ "type": "boolean" });
    json!({
        "description": about,
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "enabled": flag,
            "case_sensitive": flag,
            "trim_spaces": flag,
            "path": { "type": "string" },
            "ttl": { "anyOf": [{ "type": "number", "exclusiveMinimum": 0 }, { "type": "string" }] },
            "max_entries": number,
            "max_bytes": number,
            "scope": words(SCOPE_VALUES.map(|(word, _)| word).into()),
            "match": words(MATCHING_VALUES.map(|(word, _)| word).into()),
            "store": words(STORAGE_VALUES.map(|(word, _)| word).into()),
        },
    })
}

impl ResponseCacheSettings {
    /// Parses a `cache:` section; `None` if it is no mapping. An invalid value is reported in `problems`
    /// and treated as absent: use the settings only if no problem was reported.
    #[must_use]
    pub fn read(node: &Node, problems: &mut Vec<Problem>) -> Option<Self> {
        let mut section = Section::from_node(node, "the section `cache`", problems)?;
        let enabled = section.boolean("enabled", problems).unwrap_or(false);
        let case_sensitive = section.boolean("case_sensitive", problems);
        let trim_spaces = section.boolean("trim_spaces", problems).unwrap_or(false);
        let ttl = duration(&mut section, "ttl", problems);
        let max_entries = section.integer("max_entries", 1..=u64::MAX, problems);
        let max_bytes = section.integer("max_bytes", 1..=u64::MAX, problems);
        let scope = one_of(&mut section, "scope", &SCOPE_VALUES, problems);
        let matching = one_of(&mut section, "match", &MATCHING_VALUES, problems);
        let storage = one_of(&mut section, "store", &STORAGE_VALUES, problems);
        let path = read_path(&mut section, matching, problems);
        let matching = match path {
            Some(_) => MatchingMode::Question,
            None => matching.unwrap_or_default(),
        };
        section.finish(problems);
        Some(Self {
            enabled,
            case_sensitive: case_sensitive.unwrap_or(matching == MatchingMode::Conversation),
            trim_spaces,
            path,
            ttl,
            max_entries,
            max_bytes,
            scope: scope.unwrap_or_default(),
            matching,
            storage: storage.unwrap_or_default(),
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

/// Reads and claims `path`; an empty path counts as absent.
fn read_path(
    section: &mut Section<'_>,
    matching: Option<MatchingMode>,
    problems: &mut Vec<Problem>,
) -> Option<String> {
    let place = section.present("path").map(Node::head)?;
    let path = section
        .text("path", problems)
        .filter(|path| !path.is_empty())?;
    if escapes_base(path) {
        problems.push(
            Problem::new(
                "bad-value",
                format!("`path` leads out of the directory of the file that names it: {path}"),
            )
            .at(&place)
            .help("write a path below that directory, or an absolute one"),
        );
    }
    let impossible = KEYS_WITHOUT_FILE.into_iter().find(|key| section.has(key));
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

/// Reads and claims `key`, which must be one of `words`.
fn one_of<T: Copy>(
    section: &mut Section<'_>,
    key: &'static str,
    words: &[(&str, T)],
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let node = section.present(key)?;
    let found = node
        .as_text()
        .and_then(|text| words.iter().find(|(word, _)| *word == text));
    if found.is_none() {
        let known: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        let expected = format!("one of {}", known.join(", "));
        problems.push(node.wrong_type(&format!("`{key}`"), &expected));
    }
    found.map(|(_, meaning)| *meaning)
}
