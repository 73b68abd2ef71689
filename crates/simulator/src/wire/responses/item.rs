//! Input items, and the rules that relate them.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::openai::{self, Part, Speaker};
use super::super::{ApiError, Object, content, other_fields, text_of};
use super::items::NamespaceItems;
use crate::accounting::OpenAiModel;
use crate::accounting::openai::Block;
use crate::dialogue::{DialogueItem, ToolCall, ToolResult};
use crate::ids;

/// A validated item.
pub(super) struct Item {
    pub(super) dialogue_item: Option<DialogueItem>,
    pub(super) part: Option<Part>,
    id: Option<String>,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Message,
    Reasoning,
    ToolCall(String),
    Output(String),
    Other,
}

/// Types of items that are accepted unchecked.
const UNCHECKED_TYPES: [&str; 24] = [
    "program",
    "program_output",
    "file_search_call",
    "web_search_call",
    "computer_call",
    "computer_call_output",
    "tool_search_call",
    "tool_search_output",
    "additional_tools",
    "configuration_update",
    "compaction",
    "image_generation_call",
    "code_interpreter_call",
    "local_shell_call",
    "local_shell_call_output",
    "shell_call",
    "shell_call_output",
    "apply_patch_call",
    "apply_patch_call_output",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "compaction_trigger",
];

/// Fields of an item that are not part of the prompt.
const VARYING: [&str; 2] = ["id", "internal_chat_message_metadata_passthrough"];

/// Returns the items of the request; references are replaced by the items that they name. `continues` is
/// true if the request continues a stored response.
pub(super) fn given(
    request: &Object,
    known: NamespaceItems<'_>,
    continues: bool,
) -> Result<Vec<Value>, ApiError> {
    match request.get("input") {
        None | Some(Value::Null) if continues => Ok(Vec::new()),
        None | Some(Value::Null) => {
            let message = "Missing required parameter: one of 'input', 'previous_response_id', \
                           'prompt' or 'conversation' must be provided.";
            Err(ApiError::invalid(message).code("missing_required_parameter"))
        }
        Some(Value::String(text)) => Ok(vec![json!({"role": "user", "content": text})]),
        Some(Value::Array(items)) if items.is_empty() && !continues => {
            Err(openai::empty_array("input"))
        }
        Some(Value::Array(items)) => items.iter().map(|item| resolved(item, known)).collect(),
        Some(other) => Err(openai::wrong_type("input", "a string or an array", other)),
    }
}

/// Returns an item, or the stored item that it refers to.
fn resolved(item: &Value, known: NamespaceItems<'_>) -> Result<Value, ApiError> {
    let is_reference = item
        .as_object()
        .is_some_and(|fields| match fields.get("type") {
            None | Some(Value::Null) => fields.contains_key("id") && !fields.contains_key("role"),
            Some(kind) => kind == "item_reference",
        });
    if !is_reference {
        return Ok(item.clone());
    }
    let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
    known.item(id).cloned().ok_or_else(|| not_found(id))
}

/// Validates the items that are `given`, together with the `history` that they continue; returns both.
pub(super) fn read(
    history: &[Value],
    given: &[Value],
    rules: &OpenAiModel,
    known: NamespaceItems<'_>,
) -> Result<Vec<Item>, ApiError> {
    let places = (0..history.len()).chain(0..given.len());
    let items: Vec<Item> = places
        .zip(history.iter().chain(given))
        .map(|(at, item)| read_item(at, item, rules, known))
        .collect::<Result<_, _>>()?;
    let ids = items.iter().filter_map(|item| item.id.as_deref());
    if let Some(id) = super::super::check::first_duplicate(ids) {
        return wrong_input(format!(
            "Duplicate item found with id {id}. Remove duplicate items from your input and try again."
        ));
    }
    check_tool_pairs(&items)?;
    reasoning(&items, known)?;
    Ok(items)
}

fn read_item(
    at: usize,
    item: &Value,
    rules: &OpenAiModel,
    known: NamespaceItems<'_>,
) -> Result<Item, ApiError> {
    let param = format!("input[{at}]");
    let fields = openai::object(param.as_str(), item)?;
    let kind = match fields.get("type") {
        None if fields.contains_key("role") => "message",
        None => return Err(openai::missing(format!("{param}.type"))),
        Some(kind) => kind.as_str().unwrap_or_default(),
    };
    match kind {
        "message" => message(&param, fields, rules),
        "function_call" | "custom_tool_call" => call(&param, kind, fields),
        "function_call_output" | "custom_tool_call_output" => output(&param, fields, rules),
        "reasoning" => thought(&param, fields, known),
        other if UNCHECKED_TYPES.contains(&other) => Ok(Item {
            dialogue_item: None,
            part: Some(Part {
                speaker: match other {
                    "additional_tools" | "configuration_update" => Speaker::Developer,
                    _ => Speaker::Model,
                },
                blocks: vec![unchecked_block(other, item)],
                long: None,
            }),
            id: None,
            kind: Kind::Other,
        }),
        other => {
            let supported = "'message', 'function_call', 'function_call_output', 'reasoning', \
                             'item_reference', and those of hosted tools";
            Err(openai::wrong_value(
                format!("{param}.type"),
                other,
                supported,
            ))
        }
    }
}

/// Returns the block of an item that is accepted unchecked. Its id is not part of the prompt.
fn unchecked_block(kind: &str, item: &Value) -> Block {
    let mut item = item.clone();
    if let Some(fields) = item.as_object_mut() {
        fields.retain(|key, _| !VARYING.contains(&key.as_str()));
    }
    openai::block(content(kind, item.to_string()))
}

fn block(kind: &str, fields: &Object, text: String) -> Block {
    let mut named = vec!["type", "name", "arguments", "input", "output", "status"];
    named.extend(VARYING);
    let frame = format!("{kind}|{}", other_fields(fields, &named));
    openai::block(content(frame, text))
}

/// Returns the id of an item, which must begin with the prefix of its type.
fn id(param: &str, fields: &Object, prefix: &str) -> Result<Option<String>, ApiError> {
    let param = format!("{param}.id");
    match openai::optional_text(param.as_str(), fields.get("id"))? {
        Some(id) if !id.starts_with(prefix) => {
            let message =
                format!("Invalid '{param}': '{id}'. Expected an ID that begins with '{prefix}'.");
            Err(openai::refusal(param, "invalid_value", message))
        }
        id => Ok(id.map(str::to_owned)),
    }
}

fn message(param: &str, fields: &Object, rules: &OpenAiModel) -> Result<Item, ApiError> {
    let role = openai::text(format!("{param}.role"), fields.get("role"))?;
    let speaker = match role {
        "system" | "developer" => Speaker::Developer,
        "user" => Speaker::User,
        "assistant" => Speaker::Model,
        other => {
            let supported = "'assistant', 'system', 'developer', and 'user'";
            return Err(openai::wrong_value(
                format!("{param}.role"),
                other,
                supported,
            ));
        }
    };
    let id = match speaker {
        Speaker::Model => id(param, fields, "msg")?,
        _ => None,
    };
    let mut named = vec!["type", "role", "content", "status"];
    named.extend(VARYING);
    let others = other_fields(fields, &named);
    let frame = format!("{role}|{others}");
    let allowed: &[&str] = match speaker {
        Speaker::Model => &["output_text", "refusal"],
        _ => &["input_text", "input_image", "input_file", "input_audio"],
    };
    let long = openai::last_long_breakpoint(fields.get("content"));
    let content = format!("{param}.content");
    let blocks = blocks(content, fields.get("content"), allowed, &frame, rules)?;
    let texts = blocks.iter().map(|block| block.content.text.clone());
    let dialogue_item = match speaker {
        Speaker::User => Some(DialogueItem::User(
            texts.filter(|text| !text.is_empty()).collect(),
        )),
        Speaker::Model => Some(DialogueItem::Model(Vec::new())),
        _ => None,
    };
    Ok(Item {
        dialogue_item,
        part: Some(Part {
            speaker,
            blocks,
            long,
        }),
        id,
        kind: Kind::Message,
    })
}

/// Returns the blocks of a text, or of a list of parts of the types `allowed`.
fn blocks(
    param: String,
    content: Option<&Value>,
    allowed: &[&str],
    frame: &str,
    rules: &OpenAiModel,
) -> Result<Vec<Block>, ApiError> {
    match content {
        Some(Value::String(text)) => Ok(vec![openai::text_block(frame, text)]),
        Some(Value::Array(parts)) => parts_of(&param, allowed, frame, parts, rules),
        Some(other) => {
            let expected = "a string or an array of objects";
            Err(openai::wrong_type(param, expected, other))
        }
        None => Err(openai::missing(param)),
    }
}

fn parts_of(
    param: &str,
    allowed: &[&str],
    frame: &str,
    parts: &[Value],
    rules: &OpenAiModel,
) -> Result<Vec<Block>, ApiError> {
    let read_item = |(at, part): (usize, &Value)| {
        let param = format!("{param}[{at}]");
        let fields = openai::object(param.as_str(), part)?;
        let kind = text_of(fields, "type");
        if !allowed.contains(&kind) {
            let allowed: Vec<String> = allowed.iter().map(|kind| format!("'{kind}'")).collect();
            return Err(openai::wrong_value(param, kind, &allowed.join(" and ")));
        }
        let needed = match kind {
            "input_text" | "output_text" => Some("text"),
            "refusal" => Some("refusal"),
            _ => None,
        };
        if let Some(key) = needed.filter(|key| !fields.get(*key).is_some_and(Value::is_string)) {
            return Err(openai::missing(format!("{param}.{key}")));
        }
        Ok(Block {
            content: openai::part_content(frame, fields),
            is_marked: openai::is_marked(&param, fields, rules)?,
            end: None,
        })
    };
    parts.iter().enumerate().map(read_item).collect()
}

fn call(param: &str, kind: &str, fields: &Object) -> Result<Item, ApiError> {
    let (prefix, key) = match kind {
        "function_call" => ("fc", "arguments"),
        _ => ("ctc", "input"),
    };
    let id = id(param, fields, prefix)?;
    let call_id = call_id(param, fields)?;
    let name = openai::tool_name(&format!("{param}.name"), fields.get("name"))?;
    let arguments = openai::text(format!("{param}.{key}"), fields.get(key))?;
    let dialogue_item = ToolCall {
        id: call_id.clone(),
        name: name.clone(),
        arguments: serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments)),
    };
    Ok(Item {
        dialogue_item: Some(DialogueItem::Model(vec![dialogue_item])),
        part: Some(Part {
            speaker: Speaker::Model,
            blocks: vec![block(kind, fields, format!("{name} {arguments}"))],
            long: None,
        }),
        id,
        kind: Kind::ToolCall(call_id),
    })
}

fn call_id(param: &str, fields: &Object) -> Result<String, ApiError> {
    let param = format!("{param}.call_id");
    let id = openai::text(param.as_str(), fields.get("call_id"))?;
    if id.is_empty() {
        let message = format!(
            "Invalid '{param}': empty string. Expected a string with minimum length 1, but got an \
             empty string instead."
        );
        return Err(openai::refusal(param, "empty_string", message));
    }
    match id.len() {
        ..=64 => Ok(id.to_owned()),
        length => Err(openai::too_long(param, 64, length)),
    }
}

fn output(param: &str, fields: &Object, rules: &OpenAiModel) -> Result<Item, ApiError> {
    let call_id = call_id(param, fields)?;
    let frame = format!("output|{call_id}");
    let allowed = ["input_text", "input_image", "input_file"];
    let output = format!("{param}.output");
    let blocks = blocks(output, fields.get("output"), &allowed, &frame, rules)?;
    let texts: Vec<&str> = blocks
        .iter()
        .map(|block| block.content.text.as_str())
        .collect();
    let result = ToolResult {
        call_id: call_id.clone(),
        text: texts.join("\n"),
        is_error: false,
    };
    Ok(Item {
        dialogue_item: Some(DialogueItem::Results(vec![result])),
        part: Some(Part {
            speaker: Speaker::Tool,
            blocks,
            long: openai::last_long_breakpoint(fields.get("output")),
        }),
        id: None,
        kind: Kind::Output(call_id),
    })
}

fn thought(param: &str, fields: &Object, known: NamespaceItems<'_>) -> Result<Item, ApiError> {
    let id = id(param, fields, "rs")?;
    if !fields.get("summary").is_some_and(Value::is_array) {
        return Err(openai::missing(format!("{param}.summary")));
    }
    match fields.get("encrypted_content") {
        Some(Value::String(content)) if !ids::is_encrypted(content) => {
            let message = format!(
                "The encrypted content for item {} could not be verified. Reason: Encrypted content \
                 could not be decrypted or parsed.",
                id.as_deref().unwrap_or("(without id)")
            );
            return Err(ApiError::invalid(message).code("invalid_encrypted_content"));
        }
        Some(Value::String(_)) => {}
        // Without its content, the item must be stored by the provider.
        _ => match &id {
            Some(id) if known.item(id).is_some() => {}
            Some(id) => return Err(not_found(id)),
            None => return Err(openai::missing(format!("{param}.encrypted_content"))),
        },
    }
    let summary = fields.get("summary").map(Value::to_string);
    Ok(Item {
        dialogue_item: Some(DialogueItem::Model(Vec::new())),
        part: Some(Part {
            speaker: Speaker::Model,
            blocks: vec![block("reasoning", fields, summary.unwrap_or_default())],
            long: None,
        }),
        id,
        kind: Kind::Reasoning,
    })
}

fn wrong_input<T>(message: String) -> Result<T, ApiError> {
    Err(ApiError::invalid(message).param("input"))
}

fn not_found(id: &str) -> ApiError {
    let message = format!(
        "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again \
         with `store` set to true, or remove this item from your input."
    );
    ApiError::invalid(message).status(404).param("input")
}

/// Checks that every call has an output later in the input, and every output a call before it.
fn check_tool_pairs(items: &[Item]) -> Result<(), ApiError> {
    let mut open: Vec<&str> = Vec::new();
    let mut answered: HashSet<&str> = HashSet::new();
    for item in items {
        match &item.kind {
            Kind::ToolCall(id) => open.push(id),
            Kind::Output(id) => match open.iter().position(|call| call == id) {
                Some(found) => {
                    open.remove(found);
                    answered.insert(id);
                }
                None if answered.contains(id.as_str()) => {
                    return wrong_input(format!("Duplicate output for function call {id}."));
                }
                None => {
                    return wrong_input(format!(
                        "No tool call found for function call output with call_id {id}."
                    ));
                }
            },
            Kind::Message | Kind::Reasoning | Kind::Other => {}
        }
    }
    match open.first() {
        Some(id) => wrong_input(format!("No tool output found for function call {id}.")),
        None => Ok(()),
    }
}

/// Checks that a reasoning item and the item that it led to stay together.
fn reasoning(items: &[Item], known: NamespaceItems<'_>) -> Result<(), ApiError> {
    for (at, item) in items.iter().enumerate() {
        let is_followed = items.get(at + 1).is_some_and(|next| match next.kind {
            Kind::Message => {
                let part = next.part.as_ref();
                part.is_some_and(|part| part.speaker == Speaker::Model)
            }
            Kind::ToolCall(_) | Kind::Other | Kind::Reasoning => true,
            Kind::Output(_) => false,
        });
        if let (Kind::Reasoning, Some(id), false) = (&item.kind, &item.id, is_followed) {
            return wrong_input(format!(
                "Item '{id}' of type 'reasoning' was provided without its required following item."
            ));
        }
        let needed = item.id.as_deref().and_then(|id| known.reasoning_of(id));
        let before = items[..at].iter().rev();
        let mut before = before.take_while(|item| !matches!(item.kind, Kind::Output(_)));
        if let Some(needed) = needed
            && !before.any(|item| item.id.as_deref() == Some(needed))
        {
            let id = item.id.as_deref().unwrap_or_default();
            let kind = match item.kind {
                Kind::ToolCall(_) => "function_call",
                _ => "message",
            };
            return wrong_input(format!(
                "Item '{id}' of type '{kind}' was provided without its required 'reasoning' item: \
                 '{needed}'."
            ));
        }
    }
    Ok(())
}
