//! Validation of content blocks.

use serde_json::{Map, Value};

use super::super::{ApiError, text_of};
use super::role::Role;
use super::{refuse, required_at};
use crate::ids;

/// Blocks of server tools and similar blocks, which are accepted unchecked.
const UNCHECKED_BLOCKS: [&str; 12] = [
    "search_result",
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "container_upload",
    "mcp_tool_use",
    "mcp_tool_result",
    "compaction",
];

pub(super) fn read(at: &str, role: Role, block: &Value) -> Result<Map<String, Value>, ApiError> {
    let Some(fields) = block.as_object() else {
        return refuse(format!("{at}: Input should be a valid dictionary"));
    };
    let kind = match fields.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(_) => return refuse(format!("{at}.type: Input should be a valid string")),
        None => return refuse(format!("{at}.type: Field required")),
    };
    place(at, role, kind)?;
    let inner = format!("{at}.{kind}");
    match kind {
        "text" => text(&inner, "messages", fields)?,
        "image" | "document" => source(&inner, fields)?,
        "tool_use" => tool_use(&inner, fields)?,
        "tool_result" => tool_result(&inner, fields)?,
        "thinking" => thinking(at, &inner, fields)?,
        "redacted_thinking" => {
            check_keys(&inner, fields, &["type", "data"])?;
            required_at(&inner, fields, "data")?;
        }
        other if UNCHECKED_BLOCKS.contains(&other) => {}
        other => {
            return refuse(format!(
                "{at}: Input tag '{other}' found using 'type' does not match any of the expected \
                 tags: 'document', 'image', 'redacted_thinking', 'search_result', 'text', 'thinking', \
                 'tool_result', 'tool_use'"
            ));
        }
    }
    Ok(fields.clone())
}

fn place(at: &str, role: Role, kind: &str) -> Result<(), ApiError> {
    let only = match kind {
        "tool_use" | "thinking" | "redacted_thinking" => Role::Assistant,
        "tool_result" | "image" | "document" => Role::User,
        _ => return Ok(()),
    };
    if role == only {
        return Ok(());
    }
    let only = only.name();
    refuse(format!(
        "{at}: `{kind}` blocks can only be in `{only}` messages"
    ))
}

fn check_keys(at: &str, fields: &Map<String, Value>, keys: &[&str]) -> Result<(), ApiError> {
    match fields.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => refuse(format!("{at}.{key}: Extra inputs are not permitted")),
        None => Ok(()),
    }
}

/// Checks a text block of `system` or `messages`.
pub(super) fn text(at: &str, level: &str, fields: &Map<String, Value>) -> Result<(), ApiError> {
    check_keys(at, fields, &["type", "text", "cache_control", "citations"])?;
    let text = required_at(at, fields, "text")?;
    let is_marked = fields
        .get("cache_control")
        .is_some_and(|marker| !marker.is_null());
    if text.is_empty() && is_marked {
        return refuse(format!(
            "{at}: cache_control cannot be set for empty text blocks"
        ));
    }
    if text.is_empty() {
        return refuse(format!("{level}: text content blocks must be non-empty"));
    }
    if text.trim().is_empty() {
        return refuse(format!(
            "{level}: text content blocks must contain non-whitespace text"
        ));
    }
    Ok(())
}

fn source(at: &str, fields: &Map<String, Value>) -> Result<(), ApiError> {
    let keys = [
        "type",
        "source",
        "cache_control",
        "citations",
        "context",
        "title",
        "transformations",
    ];
    check_keys(at, fields, &keys)?;
    let Some(source) = fields.get("source") else {
        return refuse(format!("{at}.source: Field required"));
    };
    let Some(source) = source.as_object() else {
        return refuse(format!("{at}.source: Input should be a valid dictionary"));
    };
    let needed: &[&str] = match text_of(source, "type") {
        "base64" => &["media_type", "data"],
        "url" => &["url"],
        "text" => &["media_type", "data"],
        "file" => &["file_id"],
        "content" => &[],
        other => {
            return refuse(format!(
                "{at}.source: Input tag '{other}' found using 'type' does not match any of the \
                 expected tags: 'base64', 'content', 'file', 'text', 'url'"
            ));
        }
    };
    for key in needed {
        required_at(&format!("{at}.source"), source, key)?;
    }
    Ok(())
}

fn tool_use(at: &str, fields: &Map<String, Value>) -> Result<(), ApiError> {
    check_keys(
        at,
        fields,
        &[
            "type",
            "id",
            "name",
            "input",
            "cache_control",
            "caller",
            "toolset_name",
        ],
    )?;
    let id = required_at(at, fields, "id")?;
    let is_id = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if id.is_empty() || !id.bytes().all(is_id) {
        return refuse(format!(
            "{at}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        ));
    }
    let name = required_at(at, fields, "name")?;
    if name.is_empty() || name.chars().count() > 200 {
        return refuse(format!(
            "{at}.name: String should have at least 1 and at most 200 characters"
        ));
    }
    match fields.get("input") {
        Some(Value::Object(_)) => Ok(()),
        Some(_) => refuse(format!("{at}.input: Input should be a valid dictionary")),
        None => refuse(format!("{at}.input: Field required")),
    }
}

fn tool_result(at: &str, fields: &Map<String, Value>) -> Result<(), ApiError> {
    let keys = [
        "type",
        "tool_use_id",
        "content",
        "is_error",
        "cache_control",
        "toolset_name",
    ];
    check_keys(at, fields, &keys)?;
    required_at(at, fields, "tool_use_id")?;
    if fields
        .get("is_error")
        .is_some_and(|flag| !flag.is_boolean() && !flag.is_null())
    {
        return refuse(format!("{at}.is_error: Input should be a valid boolean"));
    }
    let parts = match fields.get("content") {
        None | Some(Value::Null | Value::String(_)) => return Ok(()),
        Some(Value::Array(parts)) => parts,
        Some(_) => {
            return refuse(format!(
                "{at}.content: Input should be a valid string or array"
            ));
        }
    };
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{at}.content.{index}");
        let Some(fields) = part.as_object() else {
            return refuse(format!("{at}: Input should be a valid dictionary"));
        };
        if fields
            .get("cache_control")
            .is_some_and(|marker| !marker.is_null())
        {
            return refuse(format!(
                "{at}.cache_control: blocks inside a `tool_result` cannot be marked; mark the \
                 `tool_result`"
            ));
        }
        match text_of(fields, "type") {
            "text" => text(&format!("{at}.text"), "messages", fields)?,
            "image" | "document" => source(&at, fields)?,
            "search_result" | "tool_reference" => {}
            other => {
                return refuse(format!(
                    "{at}: Input tag '{other}' found using 'type' does not match any of the expected \
                     tags: 'document', 'image', 'search_result', 'text', 'tool_reference'"
                ));
            }
        }
    }
    Ok(())
}

fn thinking(at: &str, inner: &str, fields: &Map<String, Value>) -> Result<(), ApiError> {
    check_keys(inner, fields, &["type", "thinking", "signature"])?;
    let thinking = required_at(inner, fields, "thinking")?;
    let signature = required_at(inner, fields, "signature")?;
    if signature != ids::signature(thinking) {
        return refuse(format!("{at}: Invalid `signature` in `thinking` block"));
    }
    Ok(())
}
