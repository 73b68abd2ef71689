//! Messages of a chat request, and the rules that pair tool calls and tool messages.

use std::collections::HashSet;

use serde_json::Value;

use super::super::openai::{self, Part};
use super::super::{ApiError, Object, content, other_fields, text_of};
use crate::accounting::OpenAiModel;
use crate::accounting::openai::Block;
use crate::dialogue::{DialogueItem, ToolCall, ToolResult};

/// A validated message.
pub(super) struct Message {
    pub(super) dialogue_item: Option<DialogueItem>,
    pub(super) part: Part,
    /// Ids of its tool calls.
    calls: Vec<String>,
    /// Id of the call whose result it is.
    answers: Option<String>,
}

const ROLES: &str = "'system', 'assistant', 'user', 'function', 'tool', and 'developer'";

pub(super) fn read(request: &Object, rules: &OpenAiModel) -> Result<Vec<Message>, ApiError> {
    let Some(messages) = request.get("messages") else {
        return Err(openai::missing("messages"));
    };
    let Some(messages) = messages.as_array() else {
        return Err(openai::wrong_type(
            "messages",
            "an array of objects",
            messages,
        ));
    };
    if messages.is_empty() {
        return Err(openai::empty_array("messages"));
    }
    let messages: Vec<Message> = messages
        .iter()
        .enumerate()
        .map(|(at, message)| read_message(at, message, rules))
        .collect::<Result<_, _>>()?;
    check_tool_pairs(&messages)?;
    Ok(messages)
}

fn read_message(at: usize, message: &Value, rules: &OpenAiModel) -> Result<Message, ApiError> {
    let param = format!("messages[{at}]");
    let fields = openai::object(param.as_str(), message)?;
    let role = openai::text(format!("{param}.role"), fields.get("role"))?;
    if !matches!(
        role,
        "system" | "developer" | "user" | "assistant" | "tool" | "function"
    ) {
        return Err(openai::wrong_value(format!("{param}.role"), role, ROLES));
    }
    let calls = calls(&param, role, fields)?;
    let answers = match (role, fields.get("tool_call_id")) {
        ("tool", Some(Value::String(id))) => Some(id.clone()),
        ("tool", _) => return Err(openai::missing(format!("{param}.tool_call_id"))),
        _ => None,
    };
    let mut long = openai::last_long_breakpoint(fields.get("content"));
    let mut blocks = content_blocks(&param, role, fields, calls.is_empty(), rules)?;
    let texts: Vec<String> = blocks
        .iter()
        .filter(|block| block.content.images == 0)
        .map(|block| block.content.text.clone())
        .collect();
    blocks.extend(calls.iter().map(call_block));
    if let Some(reasoning) = fields.get("reasoning_content").and_then(Value::as_str) {
        blocks.insert(0, openai::text_block("assistant|reasoning", reasoning));
        long = long.map(|at| at + 1);
    }
    Ok(Message {
        dialogue_item: dialogue_item(role, texts, &calls, answers.as_deref()),
        part: Part {
            speaker: super::speaker(role),
            blocks,
            long,
        },
        calls: calls.into_iter().map(|call| call.id).collect(),
        answers,
    })
}

fn dialogue_item(
    role: &str,
    texts: Vec<String>,
    calls: &[ToolCall],
    answers: Option<&str>,
) -> Option<DialogueItem> {
    match role {
        "user" => Some(DialogueItem::User(texts)),
        "assistant" => Some(DialogueItem::Model(calls.iter().map(parsed).collect())),
        "tool" => Some(DialogueItem::Results(vec![ToolResult {
            call_id: answers.unwrap_or_default().to_owned(),
            text: texts.join("\n"),
            is_error: false,
        }])),
        _ => None,
    }
}

/// Returns a call with parsed arguments, if they can be parsed.
fn parsed(call: &ToolCall) -> ToolCall {
    let text = call.arguments.as_str().unwrap_or_default();
    ToolCall {
        arguments: serde_json::from_str(text).unwrap_or_else(|_| call.arguments.clone()),
        ..call.clone()
    }
}

fn calls(param: &str, role: &str, fields: &Object) -> Result<Vec<ToolCall>, ApiError> {
    let calls = match fields.get("tool_calls") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(calls)) => calls,
        Some(other) => {
            let param = format!("{param}.tool_calls");
            return Err(openai::wrong_type(param, "an array", other));
        }
    };
    if role != "assistant" {
        let message = format!(
            "'tool_calls' is only allowed in messages with role 'assistant', not '{role}'."
        );
        return Err(ApiError::invalid(message).param(format!("{param}.tool_calls")));
    }
    if calls.is_empty() {
        return Err(openai::empty_array(format!("{param}.tool_calls")));
    }
    let calls = calls.iter().enumerate();
    calls
        .map(|(at, call)| one_call(&format!("{param}.tool_calls[{at}]"), call))
        .collect()
}

fn one_call(param: &str, call: &Value) -> Result<ToolCall, ApiError> {
    let Some(id) = call.get("id").and_then(Value::as_str) else {
        return Err(openai::missing(format!("{param}.id")));
    };
    match call.get("type").and_then(Value::as_str) {
        Some("function") => {}
        Some("custom") => {
            let name = call.pointer("/custom/name");
            return Ok(ToolCall {
                id: id.to_owned(),
                name: openai::tool_name(&format!("{param}.custom.name"), name)?,
                arguments: call.pointer("/custom/input").cloned().unwrap_or_default(),
            });
        }
        Some(other) => {
            let param = format!("{param}.type");
            return Err(openai::wrong_value(param, other, "'function' and 'custom'"));
        }
        None => return Err(openai::missing(format!("{param}.type"))),
    }
    let name = openai::tool_name(
        &format!("{param}.function.name"),
        call.pointer("/function/name"),
    )?;
    let arguments = call.pointer("/function/arguments");
    let arguments = openai::text(format!("{param}.function.arguments"), arguments)?;
    Ok(ToolCall {
        id: id.to_owned(),
        name,
        // Kept as text, because the prompt contains the bytes.
        arguments: Value::from(arguments),
    })
}

fn content_blocks(
    param: &str,
    role: &str,
    fields: &Object,
    is_needed: bool,
    rules: &OpenAiModel,
) -> Result<Vec<Block>, ApiError> {
    let named = [
        "role",
        "content",
        "tool_calls",
        "reasoning_content",
        "refusal",
        "annotations",
    ];
    let frame = format!("{role}|{}", other_fields(fields, &named));
    let param = format!("{param}.content");
    match fields.get("content") {
        Some(Value::String(text)) => Ok(vec![openai::text_block(&frame, text)]),
        Some(Value::Array(parts)) if parts.is_empty() && role != "assistant" => {
            Err(openai::empty_array(param))
        }
        Some(Value::Array(parts)) => {
            let parts = parts.iter().enumerate();
            parts
                .map(|(at, part)| one_part(&format!("{param}[{at}]"), role, &frame, part, rules))
                .collect()
        }
        None | Some(Value::Null) => {
            let has_refusal = fields.get("refusal").is_some_and(Value::is_string);
            if role == "assistant" && (!is_needed || has_refusal) {
                Ok(Vec::new())
            } else {
                let message = "Invalid value for 'content': expected a string, got null.";
                Err(ApiError::invalid(message).param(param))
            }
        }
        Some(other) => {
            let expected = "a string or an array of objects";
            Err(openai::wrong_type(param, expected, other))
        }
    }
}

fn one_part(
    param: &str,
    role: &str,
    frame: &str,
    part: &Value,
    rules: &OpenAiModel,
) -> Result<Block, ApiError> {
    let fields = openai::object(param, part)?;
    let allowed: &[&str] = match role {
        "user" => &["text", "image_url", "input_audio", "file"],
        "assistant" => &["text", "refusal"],
        _ => &["text"],
    };
    let kind = text_of(fields, "type");
    if !allowed.contains(&kind) {
        let allowed: Vec<String> = allowed.iter().map(|kind| format!("'{kind}'")).collect();
        let param = format!("{param}.type");
        return Err(openai::wrong_value(param, kind, &allowed.join(", ")));
    }
    let value = fields.get(kind);
    if !value.is_some_and(|value| value.is_string() || value.is_object()) {
        return Err(openai::missing(format!("{param}.{kind}")));
    }
    Ok(Block {
        content: openai::part_content(frame, fields),
        is_marked: openai::is_marked(param, fields, rules)?,
        end: None,
    })
}

fn call_block(call: &ToolCall) -> Block {
    let arguments = call.arguments.as_str().unwrap_or_default();
    openai::block(content(
        format!("assistant|call {}", call.id),
        format!("{} {arguments}", call.name),
    ))
}

/// Checks that the tool messages directly after a message answer all its tool calls, and that every tool
/// message answers a call.
fn check_tool_pairs(messages: &[Message]) -> Result<(), ApiError> {
    let mut open: Vec<&str> = Vec::new();
    let mut answered: HashSet<&str> = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        if let Some(id) = message.answers.as_deref() {
            if let Some(found) = open.iter().position(|call| *call == id) {
                open.remove(found);
                answered.insert(id);
                continue;
            }
            let message = if answered.contains(id) {
                format!(
                    "Duplicate tool message for 'tool_call_id' '{id}': each tool call is answered once."
                )
            } else {
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding \
                 message with 'tool_calls'."
                    .to_owned()
            };
            return Err(ApiError::invalid(message).param(format!("messages.[{at}].role")));
        }
        unanswered(&open, at)?;
        answered.clear();
        open = message.calls.iter().map(String::as_str).collect();
    }
    unanswered(&open, messages.len())
}

fn unanswered(open: &[&str], at: usize) -> Result<(), ApiError> {
    if open.is_empty() {
        return Ok(());
    }
    let message = format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
         'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        open.join(", ")
    );
    Err(ApiError::invalid(message).param(format!("messages.[{at}].role")))
}
