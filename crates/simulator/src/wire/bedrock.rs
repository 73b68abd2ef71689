//! Validation of the cache markers that Amazon Bedrock accepts for a Claude model, in Messages and in
//! Converse: <https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html>.

use serde_json::Value;

use super::{ApiError, refuse};

/// Models that accept no marker.
const NO_MARKERS: [&str; 4] = [
    "claude-3-opus",
    "claude-3-sonnet",
    "claude-3-haiku",
    "claude-3-5-sonnet",
];

/// Models that accept no marker with a lifetime of one hour: those before Claude 4.5.
const NO_HOUR: [&str; 4] = [
    "claude-3",
    "claude-sonnet-4-2",
    "claude-opus-4-2",
    "claude-opus-4-1",
];

/// Checks the markers of a request; `claude` is the model's name at Anthropic.
///
/// # Errors
/// The model does not accept one of them.
pub(super) fn check_markers<'m>(
    claude: &str,
    markers: impl IntoIterator<Item = &'m Value>,
) -> Result<(), ApiError> {
    let is_one_of = |models: &[&str]| models.iter().any(|model| claude.starts_with(model));
    for marker in markers {
        if is_one_of(&NO_MARKERS) {
            return Err(without_markers());
        }
        if marker.get("ttl").is_some_and(|ttl| ttl == "1h") && is_one_of(&NO_HOUR) {
            return refuse("cache_control.ephemeral.ttl: Extra inputs are not permitted");
        }
    }
    Ok(())
}

/// Returns the refusal of a marker by a model that accepts none.
pub(super) fn without_markers() -> ApiError {
    let message = "You invoked an unsupported model or your request did not allow prompt caching. See the documentation for more information.";
    ApiError {
        status: 403,
        ..ApiError::invalid(message)
    }
}

/// Returns the values of all members with this name, at any depth.
pub(super) fn members<'v>(value: &'v Value, name: &str) -> Vec<&'v Value> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| {
                if key == name {
                    vec![value]
                } else {
                    members(value, name)
                }
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(|item| members(item, name)).collect(),
        _ => Vec::new(),
    }
}
