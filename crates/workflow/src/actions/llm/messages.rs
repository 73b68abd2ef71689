//! A conversation as workflows write it (the shape of OpenAI's chat), as our own messages.

use cachalot_model::{
    Block, Extra, Image, ImageSource, Message, Role, ToolDefinition, ToolResult, ToolUse,
};
use serde_json::{Map, Value};

use super::super::arguments::Given;
use crate::Failure;

/// A conversation: the system's text, and what follows.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Conversation {
    pub(super) system: Option<String>,
    pub(super) messages: Vec<Message>,
}

/// Reads `system`, `messages` and `prompt`.
pub(super) fn read(given: &Given<'_>) -> Result<Conversation, Failure> {
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
    let role = fields.get("role").and_then(Value::as_str);
    match role {
        Some("system" | "developer") => {
            let text = texts(content).ok_or_else(|| wrong("has a `content` that is no text"))?;
            if !conversation.messages.is_empty() {
                return Err(wrong("is the system's, but stands behind another message"));
            }
            match &mut conversation.system {
                Some(system) => {
                    system.push_str("\n\n");
                    system.push_str(&text);
                }
                none => *none = Some(text),
            }
        }
        Some("user") => {
            let message = Message::of(Role::User, blocks(content, wrong)?);
            conversation.messages.push(message);
        }
        Some("assistant") => {
            let mut parts = match content {
                Value::Null => Vec::new(),
                content => blocks(content, wrong)?,
            };
            for call in fields
                .get("tool_calls")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                parts.push(tool_use(call).ok_or_else(|| {
                    wrong("has a tool call without `id`, `function.name` or `function.arguments`")
                })?);
            }
            conversation
                .messages
                .push(Message::of(Role::Assistant, parts));
        }
        Some("tool") => {
            let Some(id) = fields.get("tool_call_id").and_then(Value::as_str) else {
                return Err(wrong("is a tool's, and has no `tool_call_id`"));
            };
            let result = Block::ToolResult(ToolResult {
                id: id.to_owned(),
                content: blocks(content, wrong)?,
                is_error: false,
                extra: Extra::new(),
            });
            conversation
                .messages
                .push(Message::of(Role::User, vec![result]));
        }
        Some(other) => {
            return Err(wrong(&format!(
                "has the role `{other}`: expected system, developer, user, assistant or tool"
            )));
        }
        None => return Err(wrong("has no `role`")),
    }
    Ok(())
}

/// Text, or the text of text parts.
fn texts(content: &Value) -> Option<String> {
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
    match content {
        Value::String(text) => Ok(vec![Block::text(text)]),
        Value::Number(number) => Ok(vec![Block::text(number.to_string())]),
        Value::Bool(flag) => Ok(vec![Block::text(flag.to_string())]),
        Value::Array(parts) => parts
            .iter()
            .map(|part| {
                block(part).ok_or_else(|| {
                    wrong("has a part that is neither {type: text, text} nor {type: image_url, image_url: {url}}")
                })
            })
            .collect(),
        _ => Err(wrong("has no `content`")),
    }
}

fn block(part: &Value) -> Option<Block> {
    let text = |name: &str| part.get(name).and_then(Value::as_str);
    match text("type")? {
        "text" => Some(Block::text(text("text")?)),
        "image_url" => {
            let image = part.get("image_url")?;
            let url = image.as_str().or_else(|| image.get("url")?.as_str())?;
            let mut extra = Extra::new();
            if let Some(detail) = image.get("detail") {
                extra.insert("detail".to_owned(), detail.clone());
            }
            Some(Block::Image(Image {
                source: source(url),
                extra,
            }))
        }
        _ => None,
    }
}

/// A URL, or the bytes in a `data:` one.
fn source(url: &str) -> ImageSource {
    url.strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"))
        .map_or_else(
            || ImageSource::Url(url.to_owned()),
            |(media_type, base64)| ImageSource::Inline {
                media_type: media_type.to_owned(),
                base64: base64.to_owned(),
            },
        )
}

fn tool_use(call: &Value) -> Option<Block> {
    let function = call.get("function")?;
    let arguments = function.get("arguments")?;
    Some(Block::ToolUse(ToolUse {
        id: call.get("id")?.as_str()?.to_owned(),
        name: function.get("name")?.as_str()?.to_owned(),
        arguments: match arguments {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        },
        extra: Extra::new(),
    }))
}

/// Tools as of OpenAI's chat, or their functions alone.
pub(super) fn tools(given: &Given<'_>) -> Result<Vec<ToolDefinition>, Failure> {
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
