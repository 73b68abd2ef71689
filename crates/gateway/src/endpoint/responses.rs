//! OpenAI Responses.

use serde_json::Value;

use super::{Cacheability, Object, any_member, is_fixed, is_remote, is_set, server_tool};

/// Tools that the client runs.
const RUN_BY_CLIENT: [&str; 5] = [
    "apply_patch",
    "computer_use_preview",
    "custom",
    "function",
    "local_shell",
];
/// Members that refer to state at the provider.
const STATE: [&str; 4] = [
    "previous_response_id",
    "conversation",
    "background",
    "prompt",
];

/// Judges a request.
pub(super) fn judge(body: &Object) -> Cacheability {
    if let Some(member) = STATE.iter().find(|member| is_set(body, member)) {
        return Cacheability::never(format!(
            "the request refers to state at the provider (`{member}`)"
        ));
    }
    // Stored by default: a later request may refer to the answer.
    if body.get("store") != Some(&Value::Bool(false)) {
        return Cacheability::never(
            "the answer is stored at the provider; `store: false` prevents it",
        );
    }
    if let Some(tool) = server_tool(body, |kind| RUN_BY_CLIENT.contains(&kind)) {
        return Cacheability::never(format!("the provider runs the tool `{tool}`"));
    }
    let input = body.get("input").unwrap_or(&Value::Null);
    if any_member(input, &|name, value| {
        matches!(name, "image_url" | "file_url") && is_remote(value)
    }) {
        return Cacheability::never("an image or a file is at a URL, where it can change");
    }
    let is_reference = |name: &str, value: &Value| {
        (name == "file_id" && value.is_string()) || (name == "type" && value == "item_reference")
    };
    if any_member(input, &is_reference) {
        return Cacheability::never("an input is stored at the provider");
    }
    Cacheability::by_sampling(is_fixed(body))
}
