//! The `cache:` section of an agent.

use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::config::{Settings, Table, Values};
use cachalot_core::{Problem, SourceSpan};
use cachalot_model::DURATION;
use serde_json::Value;

/// Settings of the response cache of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(name = "the section `cache`", check = complete)]
pub struct ResponseCacheSettings {
    /// Enables the cache.
    #[setting(default = false)]
    pub enabled: bool,
    /// Compares questions case-sensitively; by default with `match: conversation` only.
    pub case_sensitive: bool,
    /// Ignores whitespace around a question.
    #[setting(default = false)]
    pub trim_spaces: bool,
    /// A flat JSON file of questions and answers.
    ///
    /// A relative path is relative to the directory of [`ResponseCacheSettings::file`]. The file holds nothing else,
    /// so that only the three keys above can be combined with it.
    pub path: Option<String>,
    /// The time to live of an answer; none by default.
    #[setting(kind = DURATION)]
    pub ttl: Option<Duration>,
    /// The maximum number of stored answers of the agent; the least recently used are evicted first.
    #[setting(range = 1..)]
    pub max_entries: Option<u64>,
    /// The maximum bytes of stored answers; the least recently used are evicted first.
    #[setting(range = 1..)]
    pub max_bytes: Option<u64>,
    /// The scope in which answers are shared; `user` by default.
    #[setting(default)]
    pub scope: SharingScope,
    /// The part of the conversation that must match; `conversation` by default.
    #[setting(key = "match", default)]
    pub matching: MatchingMode,
    /// The storage of the answers; `memory` by default.
    #[setting(key = "store", default)]
    pub storage: AnswerStorage,
    /// The file that contains the section.
    #[setting(skip)]
    pub file: Arc<str>,
}

/// Scope in which answers are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Settings)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Settings)]
pub enum MatchingMode {
    /// The question and the conversation before it.
    #[default]
    Conversation,
    /// The question only.
    Question,
}

/// Storage of the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Settings)]
pub enum AnswerStorage {
    /// The configured store, shared with all other cache entries.
    #[default]
    Memory,
    /// This process, until it ends.
    Process,
}

/// Keys that have no meaning for a flat file.
const KEYS_WITHOUT_FILE: [&str; 5] = ["ttl", "max_entries", "max_bytes", "scope", "store"];

/// The JSON Schema of the section.
pub(super) fn schema(about: &str) -> Value {
    let section = ResponseCacheSettings::TABLE;
    let mut schema = Table {
        doc: "",
        ..*section
    }
    .schema(false);
    schema["description"] = about.into();
    schema
}

impl ResponseCacheSettings {
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

/// Completes what depends on several keys; an empty path counts as absent.
fn complete(settings: &mut ResponseCacheSettings, values: Values<'_>, problems: &mut Vec<Problem>) {
    settings.file = Arc::clone(&values.mapping().place.file);
    settings.path.take_if(|path| path.is_empty());
    if let Some(path) = &settings.path {
        check_path(path, values, problems);
        // Such a file has no place for the conversation before a question.
        settings.matching = MatchingMode::Question;
    }
    let case_sensitive = values.boolean("case_sensitive");
    settings.case_sensitive =
        case_sensitive.unwrap_or(settings.matching == MatchingMode::Conversation);
}

fn check_path(path: &str, values: Values<'_>, problems: &mut Vec<Problem>) {
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
    } else if values.text("match") == Some("conversation") {
        problems.push(conflict_with_file("`match: conversation`", &place));
    }
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
