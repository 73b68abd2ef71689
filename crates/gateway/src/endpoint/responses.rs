//! OpenAI Responses.

use serde_json::Value;

use super::{
    Cacheability, Object, any_member, is_fixed, is_remote, is_set, server_tool, unknown_member,
};

/// Members of a request on which nothing but the answer depends, or that are judged below.
const KNOWN: [&str; 26] = [
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "seed",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
    "verbosity",
];
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

/// Returns the reason why the provider may look something up, or run a tool.
pub(super) fn lookup(body: &Object) -> Option<String> {
    let is_client = |kind: Option<&str>| kind.is_some_and(|kind| RUN_BY_CLIENT.contains(&kind));
    let known = [&KNOWN[..], &STATE].concat();
    unknown_member(body, &known).or_else(|| server_tool(body, is_client))
}

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
    if let Some(reason) = lookup(body) {
        return Cacheability::Never(reason);
    }
    let input = body.get("input").unwrap_or(&Value::Null);
    if any_member(input, &[], &is_remote) {
        return Cacheability::never("an image or a file is at a URL, where it can change");
    }
    let refers = |name: &str, value: &Value| name == "file_id" && value.is_string();
    let items = input.as_array().map_or(&[][..], Vec::as_slice);
    if items.iter().any(is_reference) || any_member(input, &[], &refers) {
        return Cacheability::never("an input is stored at the provider");
    }
    Cacheability::by_sampling(is_fixed(body))
}

/// Returns true for an input that only names an item at the provider: without its content.
pub(super) fn is_reference(item: &Value) -> bool {
    let kind = item.get("type").and_then(Value::as_str);
    match kind {
        Some(kind) => kind == "item_reference",
        None => item.get("content").is_none(),
    }
}

/// Types of inputs that contain all that they say.
const COMPLETE: [&str; 12] = [
    "apply_patch_call",
    "apply_patch_call_output",
    "computer_call",
    "computer_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "function_call",
    "function_call_output",
    "local_shell_call",
    "local_shell_call_output",
    "shell_call",
    "shell_call_output",
];

/// Returns true for an input that the provider may complete by an object that it has stored.
pub(super) fn names_object(item: &Value) -> bool {
    let kind = item.get("type").and_then(Value::as_str);
    match kind {
        None | Some("message") => item.get("content").is_none_or(Value::is_null),
        Some("reasoning") => !item.get("encrypted_content").is_some_and(Value::is_string),
        Some(kind) => !COMPLETE.contains(&kind) || !has_content(item),
    }
}

/// Returns true for an item with more than its name at the provider.
fn has_content(item: &Value) -> bool {
    let mut members = item.as_object().into_iter().flatten();
    members
        .any(|(name, value)| !matches!(name.as_str(), "type" | "id" | "status") && !value.is_null())
}
