//! What an action finds in the settings of the agent file or in the environment of the run.

use serde_json::Value;

use crate::Runtime;

/// The text at a JSON pointer of the settings; the empty text is as good as none.
pub(super) fn setting<'a>(runtime: &'a Runtime, pointer: &str) -> Option<&'a str> {
    runtime
        .settings
        .pointer(pointer)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// An environment variable of the run; the empty one is as good as none.
pub(super) fn variable<'a>(runtime: &'a Runtime, name: &str) -> Option<&'a str> {
    runtime
        .environment
        .get(name)
        .map(String::as_str)
        .filter(|text| !text.is_empty())
}

/// A base URL without its trailing slashes, so that paths can be appended.
pub(super) fn base(url: &str) -> &str {
    url.trim_end_matches('/')
}
