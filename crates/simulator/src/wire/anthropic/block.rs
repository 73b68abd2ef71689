//! Validation of content blocks.

use serde_json::Value;

use super::super::{ApiError, Object, present, refuse, text_of};
use super::role::Role;
use super::{check_keys, dictionary, missing, no_dictionary, required_at, unknown_tag};
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

pub(super) fn read(at: &str, role: Role, block: &Value) -> Result<Object, ApiError> {
    let fields = dictionary(at, block)?;
    let kind = required_at(at, fields, "type")?;
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
        "tool_addition" | "tool_removal" => {
            check_keys(&inner, fields, &["type", "tool", "cache_control"])?;
            let Some(tool) = fields.get("tool") else {
                return missing(&format!("{inner}.tool"));
            };
            dictionary(&format!("{inner}.tool"), tool)?;
        }
        other if UNCHECKED_BLOCKS.contains(&other) => {}
        other => {
            let expected = "'document', 'image', 'redacted_thinking', 'search_result', 'text', \
                            'thinking', 'tool_result', 'tool_use'";
            return unknown_tag(at, other, expected);
        }
    }
    Ok(fields.clone())
}

fn place(at: &str, role: Role, kind: &str) -> Result<(), ApiError> {
    let only = match kind {
        "tool_use" | "thinking" | "redacted_thinking" => Role::Assistant,
        "tool_result" | "image" | "document" => Role::User,
        "tool_addition" | "tool_removal" => Role::System,
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

/// Checks a text block of `system` or `messages`.
pub(super) fn text(at: &str, level: &str, fields: &Object) -> Result<(), ApiError> {
    check_keys(at, fields, &["type", "text", "cache_control", "citations"])?;
    let text = required_at(at, fields, "text")?;
    if text.is_empty() && present(fields, "cache_control").is_some() {
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

fn source(at: &str, fields: &Object) -> Result<(), ApiError> {
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
    let at = format!("{at}.source");
    let Some(source) = fields.get("source") else {
        return missing(&at);
    };
    let source = dictionary(&at, source)?;
    let needed: &[&str] = match text_of(source, "type") {
        "base64" | "text" => &["media_type", "data"],
        "url" => &["url"],
        "file" => &["file_id"],
        "content" => &[],
        other => return unknown_tag(&at, other, "'base64', 'content', 'file', 'text', 'url'"),
    };
    for key in needed {
        required_at(&at, source, key)?;
    }
    Ok(())
}

fn tool_use(at: &str, fields: &Object) -> Result<(), ApiError> {
    let keys = [
        "type",
        "id",
        "name",
        "input",
        "cache_control",
        "caller",
        "toolset_name",
    ];
    check_keys(at, fields, &keys)?;
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
        Some(_) => no_dictionary(&format!("{at}.input")),
        None => missing(&format!("{at}.input")),
    }
}

fn tool_result(at: &str, fields: &Object) -> Result<(), ApiError> {
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
    if present(fields, "is_error").is_some_and(|flag| !flag.is_boolean()) {
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
        let fields = dictionary(&at, part)?;
        if present(fields, "cache_control").is_some() {
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
                let expected = "'document', 'image', 'search_result', 'text', 'tool_reference'";
                return unknown_tag(&at, other, expected);
            }
        }
    }
    Ok(())
}

fn thinking(at: &str, inner: &str, fields: &Object) -> Result<(), ApiError> {
    check_keys(inner, fields, &["type", "thinking", "signature"])?;
    let thinking = required_at(inner, fields, "thinking")?;
    let signature = required_at(inner, fields, "signature")?;
    if signature != ids::signature(thinking) {
        return refuse(format!("{at}: Invalid `signature` in `thinking` block"));
    }
    Ok(())
}
