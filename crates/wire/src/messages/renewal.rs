//! Requests of Messages that renew a prefix.
//!
//! With `max_tokens: 0`, nothing is generated (<https://platform.claude.com/docs/en/build-with-claude/prompt-caching>).
//! The API refuses it with settings that imply output; these requests generate one token.

use serde_json::{Map, Value};

use crate::renewal_changes::RenewalChanges;

/// Returns the changes for a request with these members.
pub(super) fn changes(request: &Map<String, Value>) -> Result<RenewalChanges, &'static str> {
    let kind = |name: &str| request.get(name)?.get("type")?.as_str();
    if kind("thinking") == Some("enabled") {
        return Err("a request with a budget of thinking has to generate more than that");
    }
    if ["thread", "container"]
        .iter()
        .any(|name| request.contains_key(*name))
    {
        return Err("the request refers to a state at the provider");
    }
    let format = request
        .get("output_config")
        .and_then(|config| config.get("format"));
    let implies_output = request.contains_key("thinking")
        || request.contains_key("output_format")
        || format.is_some()
        || matches!(kind("tool_choice"), Some("any" | "tool"));
    Ok(RenewalChanges {
        removed: &["stream"],
        set: vec![("max_tokens", u64::from(implies_output).into())],
    })
}
