//! Requests of Chat Completions that renew a prefix: they generate a few tokens.

use serde_json::{Map, Value};

use crate::renewal::{RENEWAL_OUTPUT, RenewalChanges};

/// Returns the changes for a request with these members.
pub(super) fn changes(request: &Map<String, Value>) -> Result<RenewalChanges, &'static str> {
    if request.contains_key("audio") {
        return Err("the price of an answer with audio is not bounded by its tokens");
    }
    // Servers accept one of the two names, or both.
    let limit = if request.contains_key("max_tokens") {
        "max_tokens"
    } else {
        "max_completion_tokens"
    };
    Ok(RenewalChanges {
        removed: &["n", "prediction", "stream", "stream_options"],
        set: vec![(limit, RENEWAL_OUTPUT.into())],
    })
}
