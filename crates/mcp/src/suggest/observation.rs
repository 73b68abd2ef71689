//! The record of a session.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use cachalot_core::Digest;
use serde_json::Value;

use crate::proxy_policy::ToolAnnotations;

/// The record of a session.
#[derive(Debug, Default)]
pub(super) struct Observation {
    /// The tools of the server.
    pub(super) tools: BTreeMap<String, ToolAnnotations>,
    /// The calls, in order.
    pub(super) calls: Vec<CallRecord>,
    /// The number of calls that were not recorded.
    pub(super) dropped: u64,
}

/// A call. Neither its arguments nor its result are kept.
#[derive(Debug)]
pub(super) struct CallRecord {
    pub(super) tool: String,
    /// The digest of the arguments.
    pub(super) arguments: Digest,
    /// What the arguments name, by their names.
    pub(super) paths: BTreeMap<String, Argument>,
    pub(super) took: Duration,
    /// The digest of the result; `None` for an error.
    pub(super) result: Option<Digest>,
    /// The reason why the response would not be stored.
    pub(super) refusal: Option<String>,
}

/// The kind of file that an argument names on this machine. Of several values, the last of these applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ArgumentKind {
    /// Nothing.
    Other,
    File,
    Directory,
    /// A file, but in a form that a policy cannot name.
    Unnamed,
}

/// What an argument names on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) kind: ArgumentKind,
    /// True if one of its paths is relative.
    pub(super) is_relative: bool,
}

impl Argument {
    const OTHER: Self = Self {
        kind: ArgumentKind::Other,
        is_relative: false,
    };

    /// Finds out what an argument names, from a working directory.
    pub(super) fn new(value: &Value, directory: &Path) -> Self {
        match value {
            Value::String(text) => Self::of_text(text, directory),
            Value::Array(items) => {
                let all = items.iter().map(|item| match item {
                    Value::String(text) => Self::of_text(text, directory),
                    nested => Self::new(nested, directory).unnamed(),
                });
                let joined = all.fold(Self::OTHER, Self::and);
                // A policy needs a list of texts.
                if items.iter().all(Value::is_string) {
                    joined
                } else {
                    joined.unnamed()
                }
            }
            Value::Object(members) => {
                let all = members.values().map(|value| Self::new(value, directory));
                all.fold(Self::OTHER, Self::and).unnamed()
            }
            _ => Self::OTHER,
        }
    }

    fn of_text(text: &str, directory: &Path) -> Self {
        let kind_of = |path: &Path| match path {
            path if path.is_dir() => ArgumentKind::Directory,
            path if path.exists() => ArgumentKind::File,
            // It may have been there during the call, or may appear.
            path if path.is_absolute() && path.parent().is_some_and(Path::is_dir) => {
                ArgumentKind::File
            }
            _ => ArgumentKind::Other,
        };
        if text.is_empty() || text.contains('\0') {
            return Self::OTHER;
        }
        if text.starts_with("~/") || text == "~" || text.starts_with("file://") {
            return Self {
                kind: ArgumentKind::Unnamed,
                is_relative: false,
            };
        }
        let path = Path::new(text);
        if path.is_absolute() {
            return Self {
                kind: kind_of(path),
                is_relative: false,
            };
        }
        match directory.join(path) {
            path if path.exists() => Self {
                kind: kind_of(&path),
                is_relative: true,
            },
            _ => Self::OTHER,
        }
    }

    /// Joins what two values of an argument name.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            kind: self.kind.max(other.kind),
            is_relative: self.is_relative || other.is_relative,
        }
    }

    fn unnamed(self) -> Self {
        match self.kind {
            ArgumentKind::Other => self,
            _ => Self {
                kind: ArgumentKind::Unnamed,
                ..self
            },
        }
    }
}
