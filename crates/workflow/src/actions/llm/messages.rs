//! Converts a conversation in the format of OpenAI's chat API, as workflows write it, to our messages.

use cachalot_model::wire::openai::written::{content_blocks, tool_call};
use cachalot_model::{Block, Extra, Message, Role, ToolDefinition, ToolResult};
use serde_json::{Map, Value};

use super::super::arguments::{CheckedArguments, kind_name};
use crate::Failure;

/// A conversation: the system prompt, and the messages.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Conversation {
    pub(super) system: Option<String>,
    pub(super) messages: Vec<Message>,
}

/// Reads `system`, `messages` and `prompt`.
pub(super) fn read(given: &CheckedArguments<'_>) -> Result<Conversation, Failure> {
    let mut conversation = Conversation {
        system: given.text("system")?.map(ToOwned::to_owned),
        messages: Vec::new(),
    };
    for (index, value) in given.list("messages")?.into_iter().flatten().enumerate() {
        let wrong = |what: &str| given.wrong("messages", format_args!("[{index}] {what}"));
        let Some(fields) = value.as_object() else {
            return Err(wrong("is no mapping with `role` and `content`"));
        };
        add(&mut conversation, fields, &wrong)?;
    }
    if let Some(prompt) = given.text("prompt")? {
        conversation.messages.push(Message::user(prompt));
    }
    if conversation.messages.is_empty() {
        return Err(given.wrong("messages", "is empty; give `messages` or a `prompt`"));
    }
    Ok(conversation)
}

fn add(
    conversation: &mut Conversation,
    fields: &Map<String, Value>,
    wrong: &dyn Fn(&str) -> Failure,
) -> Result<(), Failure> {
    const KNOWN: [&str; 5] = ["role", "content", "tool_calls", "tool_call_id", "name"];
    if let Some(key) = fields.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(wrong(&format!(
            "has `{key}`; known are {}",
            KNOWN.join(", ")
        )));
    }
    let content = fields.get("content").unwrap_or(&Value::Null);
    let said = match fields.get("role").and_then(Value::as_str) {
        Some("system" | "developer") => return system(conversation, content, wrong),
        Some("user") => Message::new(Role::User, blocks(content, wrong)?),
        Some("assistant") => {
            Message::new(Role::Assistant, assistant_blocks(content, fields, wrong)?)
        }
        Some("tool") => return result(conversation, content, fields, wrong),
        Some(other) => {
            return Err(wrong(&format!(
                "has the role `{other}`: expected system, developer, user, assistant or tool"
            )));
        }
        None => return Err(wrong("has no `role`")),
    };
    conversation.messages.push(Message {
        extra: extra(fields),
        ..said
    });
    Ok(())
}

/// Returns the participant's `name`, a field that only the chat format has.
fn extra(fields: &Map<String, Value>) -> Extra {
    let name = fields.get("name").and_then(Value::as_str);
    name.map(|name| {
        Extra::from_iter([
            ("name".to_owned(), Value::from(name)),
            ("@wire".to_owned(), Value::from("chat")),
        ])
    })
    .unwrap_or_default()
}

fn system(
    conversation: &mut Conversation,
    content: &Value,
    wrong: &dyn Fn(&str) -> Failure,
) -> Result<(), Failure> {
    let text = joined_text(content).ok_or_else(|| wrong("has a `content` that is no text"))?;
    if !conversation.messages.is_empty() {
        return Err(wrong(
            "is the system's, but stands behind another message: put it first",
        ));
    }
    match &mut conversation.system {
        Some(system) => {
            system.push_str("\n\n");
            system.push_str(&text);
        }
        none => *none = Some(text),
    }
    Ok(())
}

/// Returns an earlier answer of the model, with its tool calls.
fn assistant_blocks(
    content: &Value,
    fields: &Map<String, Value>,
    wrong: &dyn Fn(&str) -> Failure,
) -> Result<Vec<Block>, Failure> {
    let calls = match fields.get("tool_calls") {
        None | Some(Value::Null) => &[],
        Some(Value::Array(calls)) => calls.as_slice(),
        Some(other) => {
            return Err(wrong(&format!(
                "has `tool_calls` that are {}: expected a list",
                kind_name(other)
            )));
        }
    };
    let mut said = match content {
        Value::Null if !calls.is_empty() => Vec::new(),
        Value::String(text) if text.is_empty() && !calls.is_empty() => Vec::new(),
        content => blocks(content, wrong)?,
    };
    for call in calls {
        let call = tool_call(call).ok_or_else(|| {
            wrong("has a tool call without `id`, `function.name` or `function.arguments`")
        })?;
        said.push(Block::ToolUse(call));
    }
    Ok(said)
}

/// Adds a tool result. Results of parallel calls belong in one message.
fn result(
    conversation: &mut Conversation,
    content: &Value,
    fields: &Map<String, Value>,
    wrong: &dyn Fn(&str) -> Failure,
) -> Result<(), Failure> {
    let Some(id) = fields.get("tool_call_id").and_then(Value::as_str) else {
        return Err(wrong("is a tool's, and has no `tool_call_id`"));
    };
    let result = Block::ToolResult(ToolResult {
        id: id.to_owned(),
        content: blocks(content, wrong)?,
        is_error: false,
        extra: Extra::new(),
    });
    let is_result = |block: &Block| matches!(block, Block::ToolResult(_));
    match conversation.messages.last_mut() {
        Some(last) if last.content.iter().all(is_result) => last.content.push(result),
        _ => conversation
            .messages
            .push(Message::new(Role::User, vec![result])),
    }
    Ok(())
}

/// Returns the conversation as one text, for a program without roles: `System: …`, `Assistant: …`, and
/// everything else unchanged, separated by empty lines.
pub(super) fn prompt(given: &CheckedArguments<'_>) -> Result<String, Failure> {
    let mut parts = Vec::new();
    if let Some(system) = given.text("system")? {
        parts.push(format!("System: {system}"));
    }
    for (index, value) in given.list("messages")?.into_iter().flatten().enumerate() {
        let wrong = |what: &str| given.wrong("messages", format_args!("[{index}] {what}"));
        let content = value
            .get("content")
            .and_then(joined_text)
            .ok_or_else(|| wrong("has no `content` that is text"))?;
        parts.push(match value.get("role").and_then(Value::as_str) {
            Some("system" | "developer") => format!("System: {content}"),
            Some("assistant") => format!("Assistant: {content}"),
            Some("user" | "tool") => content,
            _ => {
                return Err(wrong(
                    "has no `role`: system, developer, user, assistant or tool",
                ));
            }
        });
    }
    parts.extend(given.text("prompt")?.map(ToOwned::to_owned));
    if parts.is_empty() {
        return Err(given.wrong("messages", "is empty; give `messages` or a `prompt`"));
    }
    Ok(parts.join("\n\n"))
}

/// Returns a text, or the joined text of text parts; `None` if a part has no text.
fn joined_text(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => parts
            .iter()
            .map(|part| part.get("text").and_then(Value::as_str))
            .collect::<Option<Vec<_>>>()
            .map(|texts| texts.join("")),
        _ => None,
    }
}

fn blocks(content: &Value, wrong: &dyn Fn(&str) -> Failure) -> Result<Vec<Block>, Failure> {
    content_blocks(content).ok_or_else(|| match content {
        Value::Array(_) => wrong(
            "has a part that is neither {type: text, text} nor {type: image_url, image_url: {url}}",
        ),
        _ => wrong("has no `content`"),
    })
}

/// Reads tools in the format of OpenAI's chat API, or their functions alone.
pub(super) fn tools(given: &CheckedArguments<'_>) -> Result<Vec<ToolDefinition>, Failure> {
    let list = given.list("tools")?.unwrap_or_default();
    list.iter()
        .enumerate()
        .map(|(index, tool)| {
            definition(tool.get("function").unwrap_or(tool)).ok_or_else(|| {
                given.wrong(
                    "tools",
                    format_args!(
                        "[{index}] is not of the form {{type: function, function: {{name, description, parameters}}}}"
                    ),
                )
            })
        })
        .collect()
}

fn definition(function: &Value) -> Option<ToolDefinition> {
    let description = function
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default();
    Some(ToolDefinition {
        name: function.get("name")?.as_str()?.to_owned(),
        description: description.to_owned(),
        parameters: function
            .get("parameters")
            .cloned()
            .unwrap_or_else(|| serde_json::json!({"type": "object", "properties": {}})),
    })
}
