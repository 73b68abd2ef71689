//! Values that an action reads from the settings of the agent file or from the environment of the run.

use serde_json::Value;

use crate::Runtime;

/// Returns the text at a JSON pointer of the settings; an empty text counts as absent.
pub(super) fn setting<'a>(runtime: &'a Runtime, pointer: &str) -> Option<&'a str> {
    runtime
        .settings
        .pointer(pointer)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// Returns an environment variable of the run; an empty one counts as absent.
pub(super) fn variable<'a>(runtime: &'a Runtime, name: &str) -> Option<&'a str> {
    runtime
        .environment
        .get(name)
        .map(String::as_str)
        .filter(|text| !text.is_empty())
}

/// Returns a base URL without its trailing slashes, so that paths can be appended.
pub(super) fn trim_base_url(url: &str) -> &str {
    url.trim_end_matches('/')
}
