//! OpenAI Chat Completions.

use serde_json::Value;

use super::{Cacheability, Object, any_member, is_fixed, is_remote, is_set, server_tool};

/// Judges a request.
pub(super) fn judge(body: &Object) -> Cacheability {
    if is_set(body, "web_search_options") || searches(body) {
        return Cacheability::never("the model searches the web");
    }
    if let Some(tool) = server_tool(body, |kind| matches!(kind, "function" | "custom")) {
        return Cacheability::never(format!("the provider runs the tool `{tool}`"));
    }
    if is_set(body, "store") {
        return Cacheability::never("the answer is stored at the provider (`store`)");
    }
    if body.get("n").is_some_and(|count| count.as_u64() != Some(1)) {
        return Cacheability::never("several answers were asked for (`n`)");
    }
    if is_set(body, "audio") {
        return Cacheability::never("the audio of the answer expires at the provider");
    }
    let messages = body.get("messages").unwrap_or(&Value::Null);
    if any_member(messages, &|name, value| name == "url" && is_remote(value)) {
        return Cacheability::never("an image is at a URL, where it can change");
    }
    let is_reference = |name: &str, value: &Value| {
        (name == "file_id" && value.is_string()) || (name == "audio" && value.get("id").is_some())
    };
    if any_member(messages, &is_reference) {
        return Cacheability::never("a file or audio is stored at the provider");
    }
    Cacheability::by_sampling(is_fixed(body))
}

/// Returns true for a model that searches the web without being asked to.
fn searches(body: &Object) -> bool {
    let model = body.get("model").and_then(Value::as_str);
    model.is_some_and(|model| model.contains("search") || model.contains("sonar"))
}
