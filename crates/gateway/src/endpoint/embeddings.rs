//! OpenAI embeddings, and servers with the same API.

use serde_json::Value;

use super::{Cacheability, DAY, Object, any_member, is_remote, unknown_member};

/// Members of a request on which nothing but the answer depends.
const KNOWN: [&str; 8] = [
    "dimensions",
    "encoding_format",
    "input",
    "input_type",
    "model",
    "task",
    "truncate",
    "user",
];

/// Returns the reason why the provider may look something up.
pub(super) fn lookup(body: &Object) -> Option<String> {
    unknown_member(body, &KNOWN)
}

/// Judges a request: embeddings are not sampled.
pub(super) fn judge(body: &Object) -> Cacheability {
    if let Some(reason) = lookup(body) {
        return Cacheability::Never(reason);
    }
    let input = body.get("input").unwrap_or(&Value::Null);
    match any_member(input, &[], &is_remote) {
        true => Cacheability::never("an input is at a URL, where it can change"),
        false => Cacheability::Repeatable { ttl: DAY },
    }
}
