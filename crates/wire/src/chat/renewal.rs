//! Requests of Chat Completions that renew a prefix: they generate a few tokens.

use serde_json::{Map, Value};

use crate::renewal_changes::{RENEWAL_OUTPUT, RenewalChanges};

/// Returns the changes for a request with these members.
pub(super) fn changes(request: &Map<String, Value>) -> Result<RenewalChanges, &'static str> {
    if request.contains_key("audio") {
        return Err("the price of an answer with audio is not bounded by its tokens");
    }
    // Servers know one of the two names, or both.
    let mut limits = vec!["max_tokens", "max_completion_tokens"];
    limits.retain(|name| request.get(*name).is_some_and(|limit| !limit.is_null()));
    if limits.is_empty() {
        limits.push("max_completion_tokens");
    }
    Ok(RenewalChanges {
        removed: &["n", "prediction", "store", "stream", "stream_options"],
        set: limits
            .into_iter()
            .map(|name| (name, RENEWAL_OUTPUT.into()))
            .collect(),
    })
}
