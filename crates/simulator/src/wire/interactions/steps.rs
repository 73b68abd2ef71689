//! Steps of an interaction: input of the user, output of the model, calls of functions and their results.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::{ApiError, Object, content, items, openai, plain, refuse};
use crate::accounting::Content;
use crate::accounting::openai::{Block, End};
use crate::dialogue::{DialogueItem, ToolCall, ToolResult};

/// Number of tokens of an image: <https://ai.google.dev/gemini-api/docs/tokens>.
const IMAGE_TOKENS: u64 = 258;

/// Types of contents, as opposed to steps.
const CONTENTS: [&str; 5] = ["audio", "document", "image", "text", "video"];

fn text_of<'a>(step: &'a Value, key: &str) -> &'a str {
    step.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the steps of `input`: a text, one content, contents or steps.
pub(super) fn given(request: &Object) -> Result<Vec<Value>, ApiError> {
    let user = |content: Value| vec![json!({"type": "user_input", "content": content})];
    let is_content = |value: &Value| CONTENTS.contains(&text_of(value, "type"));
    match request.get("input") {
        Some(Value::String(text)) => Ok(user(json!([{"type": "text", "text": text}]))),
        Some(one @ Value::Object(_)) => Ok(user(json!([one]))),
        Some(Value::Array(all)) if all.first().is_some_and(is_content) => Ok(user(json!(all))),
        Some(Value::Array(steps)) if !steps.is_empty() => Ok(steps.clone()),
        _ => refuse("Invalid value at 'input': a text, contents or steps are expected."),
    }
}

/// Checks that every result is that of an earlier call.
pub(super) fn check_results(steps: &[Value]) -> Result<(), ApiError> {
    let mut called: HashSet<&str> = HashSet::new();
    for step in steps {
        match text_of(step, "type") {
            "function_call" => {
                called.insert(text_of(step, "id"));
            }
            "function_result" if !called.contains(text_of(step, "call_id")) => {
                return refuse(format!(
                    "No function call found for the function result with call_id '{}'.",
                    text_of(step, "call_id")
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the step as scripts see it.
pub(super) fn dialogue_item(step: &Value) -> Option<DialogueItem> {
    match text_of(step, "type") {
        "user_input" => {
            let texts = items(step.get("content"));
            let texts = texts.filter_map(|content| content.get("text")?.as_str());
            Some(DialogueItem::User(texts.map(str::to_owned).collect()))
        }
        "function_call" => Some(DialogueItem::Model(vec![ToolCall {
            id: text_of(step, "id").to_owned(),
            name: text_of(step, "name").to_owned(),
            arguments: step.get("arguments").cloned().unwrap_or_default(),
        }])),
        "function_result" => Some(DialogueItem::Results(vec![ToolResult {
            call_id: text_of(step, "call_id").to_owned(),
            text: result_text(step),
            is_error: step.get("is_error") == Some(&Value::Bool(true)),
        }])),
        _ => Some(DialogueItem::Model(Vec::new())),
    }
}

/// Returns the text of a function's result: a text, contents or an object.
fn result_text(step: &Value) -> String {
    match step.get("result") {
        Some(Value::Array(contents)) => texts(contents.iter()),
        other => other.map(plain).unwrap_or_default(),
    }
}

fn texts<'a>(contents: impl Iterator<Item = &'a Value>) -> String {
    let texts = contents.filter_map(|content| content.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the block of a step in the prompt. Ids and signatures are not part of it.
pub(super) fn block(step: &Value) -> Block {
    let kind = text_of(step, "type");
    let text = match kind {
        "user_input" | "model_output" => texts(items(step.get("content"))),
        "thought" => texts(items(step.get("summary"))),
        "function_call" => {
            let arguments = step.get("arguments").map(plain).unwrap_or_default();
            format!("{} {arguments}", text_of(step, "name"))
        }
        "function_result" => result_text(step),
        _ => step.to_string(),
    };
    let media = items(step.get("content")).filter(|part| text_of(part, "type") != "text");
    let content = Content {
        images: IMAGE_TOKENS * media.count() as u64,
        ..content(kind, text)
    };
    Block {
        end: Some(End::Eligible),
        ..openai::block(content)
    }
}
