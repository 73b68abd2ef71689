//! Steps of lookups.

use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

/// One step of a path from a mapping or list to a value in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(Arc<str>),
    Index(usize),
}

impl Step {
    pub(super) fn follow<'a>(&self, json: &'a Json) -> Option<&'a Json> {
        match self {
            Self::Key(key) => json.as_object()?.get(&**key),
            Self::Index(index) => json.as_array()?.get(*index),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) if take_name(&mut &**key) == Some(&**key) => {
                write!(f, ".{key}")
            }
            Self::Key(key) => write!(f, "['{key}']"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Takes a name from the beginning of the text, if there is one.
pub(super) fn take_name<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let end = rest
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    *rest = after;
    Some(name)
}
