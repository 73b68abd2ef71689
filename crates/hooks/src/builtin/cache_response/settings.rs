//! The section `cache:` of an agent.

use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::tree::{Node, Section};
use cachalot_core::{Place, Problem};
use cachalot_model::duration;
use serde_json::{Value, json};

/// How an agent's answers are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether they are.
    pub enabled: bool,
    /// Whether `A` and `a` are different questions. Unless the section says so: of whole conversations
    /// they are, of questions alone they are not.
    pub case_sensitive: bool,
    /// Whether blanks around a question make no difference.
    pub trim_spaces: bool,
    /// A flat JSON file of questions and answers, as written: a relative path is relative to the
    /// directory of [`Settings::file`]. It holds nothing else, so that no other key makes sense beside it
    /// but the three above.
    pub path: Option<String>,
    /// How long an answer may be given again.
    pub ttl: Option<Duration>,
    /// How many answers of the agent are kept; the least recently used go first.
    pub max_entries: Option<u64>,
    /// How many bytes of them are kept; the least recently used go first.
    pub max_bytes: Option<u64>,
    /// Who shares them.
    pub scope: Sharing,
    /// When a question is the same.
    pub matching: Matching,
    /// Where they are kept.
    pub keeping: Keeping,
    /// The file that the section stands in.
    pub file: Arc<str>,
}

/// Who shares answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// Nobody: each session has its own.
    Session,
    /// The sessions of one user.
    #[default]
    User,
    /// Whoever talks to this agent.
    Agent,
    /// Everybody who uses this memory.
    Global,
}

/// When a question is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Matching {
    /// If the same conversation stands before it.
    #[default]
    Conversation,
    /// If it reads the same, whatever stands before it.
    Question,
}

/// Where answers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keeping {
    /// In the long-term memory, beside everything else that is cached.
    #[default]
    Memory,
    /// In this process, until it ends.
    Process,
}

const SCOPES: [(&str, Sharing); 4] = [
    ("session", Sharing::Session),
    ("user", Sharing::User),
    ("agent", Sharing::Agent),
    ("global", Sharing::Global),
];
const MATCHINGS: [(&str, Matching); 2] = [
    ("conversation", Matching::Conversation),
    ("question", Matching::Question),
];
const KEEPINGS: [(&str, Keeping); 2] = [("memory", Keeping::Memory), ("process", Keeping::Process)];

/// What a flat file cannot hold.
const BESIDE_A_FILE: [&str; 5] = ["ttl", "max_entries", "max_bytes", "scope", "store"];

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
            "scope": words(SCOPES.map(|(word, _)| word).into()),
            "match": words(MATCHINGS.map(|(word, _)| word).into()),
            "store": words(KEEPINGS.map(|(word, _)| word).into()),
        },
    })
}

impl Settings {
    /// Reads a section `cache:`; `None` if it is no mapping. What is wrong is reported and taken as left
    /// out, so that settings are good for use only if nothing was reported.
    #[must_use]
    pub fn read(node: &Node, problems: &mut Vec<Problem>) -> Option<Self> {
        let mut section = Section::of(node, "the section `cache`", problems)?;
        let enabled = section.boolean("enabled", problems).unwrap_or(false);
        let case_sensitive = section.boolean("case_sensitive", problems);
        let trim_spaces = section.boolean("trim_spaces", problems).unwrap_or(false);
        let ttl = duration(&mut section, "ttl", problems);
        let max_entries = section.integer("max_entries", 1..=u64::MAX, problems);
        let max_bytes = section.integer("max_bytes", 1..=u64::MAX, problems);
        let scope = one_of(&mut section, "scope", &SCOPES, problems);
        let matching = one_of(&mut section, "match", &MATCHINGS, problems);
        let keeping = one_of(&mut section, "store", &KEEPINGS, problems);
        let path = read_path(&mut section, matching, problems);
        let matching = match path {
            Some(_) => Matching::Question,
            None => matching.unwrap_or_default(),
        };
        section.finish(problems);
        Some(Self {
            enabled,
            case_sensitive: case_sensitive.unwrap_or(matching == Matching::Conversation),
            trim_spaces,
            path,
            ttl,
            max_entries,
            max_bytes,
            scope: scope.unwrap_or_default(),
            matching,
            keeping: keeping.unwrap_or_default(),
            file: Arc::clone(&node.place.file),
        })
    }

    /// A question as it is compared.
    #[must_use]
    pub fn matched(&self, question: &str) -> String {
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

/// Claims `path`; an empty one is left out.
fn read_path(
    section: &mut Section<'_>,
    matching: Option<Matching>,
    problems: &mut Vec<Problem>,
) -> Option<String> {
    let place = section.present("path").map(Node::head)?;
    let path = section
        .text("path", problems)
        .filter(|path| !path.is_empty())?;
    if leads_out(path) {
        problems.push(
            Problem::new(
                "bad-value",
                format!("`path` leads out of the directory of the file that names it: {path}"),
            )
            .at(&place)
            .help("write a path below that directory, or an absolute one"),
        );
    }
    let impossible = BESIDE_A_FILE.into_iter().find(|key| section.has(key));
    if let Some(key) = impossible {
        problems.push(beside_a_file(&format!("`{key}`"), &place));
    } else if matching == Some(Matching::Conversation) {
        problems.push(beside_a_file("`match: conversation`", &place));
    }
    Some(path.to_owned())
}

/// Whether a relative path leaves where it begins, by its names alone.
fn leads_out(path: &str) -> bool {
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

fn beside_a_file(what: &str, place: &Place) -> Problem {
    Problem::new(
        "conflicting-keys",
        format!("{what} means nothing beside `path`: such a file holds questions and answers only"),
    )
    .at(place)
    .help("leave one of the two out; without `path`, answers are kept in the long-term memory")
}

/// Claims `key`: one of some words.
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
