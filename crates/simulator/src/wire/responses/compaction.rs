//! Endpoints beside `POST /v1/responses` that take a part of its request: compaction and token counts.

use serde_json::{Value, json};

use super::super::{ApiError, Object, openai};

/// End of the path of a compaction.
const COMPACT: &str = "/v1/responses/compact";

/// End of the path of a token count.
const COUNT: &str = "/v1/responses/input_tokens";

/// Parameters of a compaction.
const COMPACT_MEMBERS: [&str; 9] = [
    "image",
    "input",
    "instructions",
    "model",
    "previous_response_id",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "service_tier",
];

/// Parameters of a token count.
const COUNT_MEMBERS: [&str; 12] = [
    "conversation",
    "input",
    "instructions",
    "model",
    "parallel_tool_calls",
    "personality",
    "previous_response_id",
    "reasoning",
    "text",
    "tool_choice",
    "tools",
    "truncation",
];

/// Returns true for the path of a compaction.
pub(crate) fn is_compaction(path: &str) -> bool {
    path.ends_with(COMPACT)
}

/// Returns true for the path of a token count.
pub(crate) fn is_count(path: &str) -> bool {
    path.ends_with(COUNT)
}

/// Returns the request to `POST /v1/responses` that corresponds to a request to the endpoint at `path`.
pub(crate) fn equivalent_request(path: &str, body: Value) -> Result<Value, ApiError> {
    match body {
        Value::Object(request) if is_compaction(path) => compaction(request),
        Value::Object(mut request) if is_count(path) => {
            only(&request, &COUNT_MEMBERS)?;
            request.shift_remove("personality");
            Ok(Value::Object(request))
        }
        other => Ok(other),
    }
}

/// A compaction is a response that is not stored, to an input that ends with a trigger.
fn compaction(mut request: Object) -> Result<Value, ApiError> {
    only(&request, &COMPACT_MEMBERS)?;
    let mut input = match request.shift_remove("input") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => vec![json!({"role": "user", "content": text})],
        Some(Value::Array(items)) => items,
        Some(other) => {
            return Err(openai::wrong_type("input", "a string or an array", &other));
        }
    };
    input.push(json!({"type": "compaction_trigger"}));
    request.insert("input".to_owned(), Value::Array(input));
    request.insert("store".to_owned(), Value::Bool(false));
    Ok(Value::Object(request))
}

fn only(request: &Object, members: &[&str]) -> Result<(), ApiError> {
    match request.keys().find(|key| !members.contains(&key.as_str())) {
        Some(key) => {
            let message = format!("Unknown parameter: '{key}'.");
            Err(openai::refusal(key.as_str(), "unknown_parameter", message))
        }
        None => Ok(()),
    }
}

/// Returns the answer to a compaction: the user's messages, and the compaction item of `response`.
pub(crate) fn compacted(response: &Value, user_messages: &[Value]) -> Value {
    let compaction = response["output"].as_array().into_iter().flatten();
    let output: Vec<&Value> = user_messages.iter().chain(compaction).collect();
    let id = response["id"].as_str().unwrap_or_default();
    json!({
        "id": id,
        "object": "response.compaction",
        "created_at": response["created_at"],
        "output": output,
        "usage": response["usage"],
    })
}

/// Returns an item as a message of an answer if it is a message of the user.
pub(super) fn user_message(item: &Value, id: String) -> Option<Value> {
    if item.get("role").and_then(Value::as_str) != Some("user") {
        return None;
    }
    let content = match item.get("content") {
        Some(Value::String(text)) => json!([{"type": "input_text", "text": text}]),
        content => content.cloned().unwrap_or_default(),
    };
    Some(json!({
        "id": item.get("id").cloned().unwrap_or_else(|| id.into()),
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": content,
    }))
}
