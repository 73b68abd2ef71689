//! Messages in the form of OpenAI's chat API, as people and programs write them: content, tool calls, tool results.
//!
//! Workflows, hooks and the gateway read this form. Roles and the order of messages are theirs to judge.

use serde_json::Value;

use crate::{Block, Extra, Image, ImageSource, ToolUse};

/// Returns the blocks of a content: of a text, a number, a flag, or a list of parts. `None` for anything else, and if a
/// part is neither a text nor an image.
#[must_use]
pub fn content_blocks(content: &Value) -> Option<Vec<Block>> {
    match content {
        Value::String(text) => Some(vec![Block::text(text)]),
        Value::Number(number) => Some(vec![Block::text(number.to_string())]),
        Value::Bool(flag) => Some(vec![Block::text(flag.to_string())]),
        Value::Array(parts) => parts.iter().map(content_block).collect(),
        Value::Null | Value::Object(_) => None,
    }
}

/// Returns the block of a part: `{type: text, text}` or `{type: image_url, image_url: {url}}`; the type may be absent.
#[must_use]
pub fn content_block(part: &Value) -> Option<Block> {
    let kind = part.get("type").and_then(Value::as_str);
    match (kind, part.get("text").and_then(Value::as_str)) {
        (None | Some("text"), Some(text)) => return Some(Block::text(text)),
        (None | Some("image_url"), _) => {}
        _ => return None,
    }
    let image = part.get("image_url")?;
    let url = image.as_str().or_else(|| image.get("url")?.as_str())?;
    let mut extra = Extra::new();
    if let Some(detail) = image.get("detail") {
        extra.insert("detail".to_owned(), detail.clone());
    }
    Some(Block::Image(Image {
        source: image_source(url),
        extra,
    }))
}

/// Returns an image source: a URL, or the bytes of a `data:` URL.
#[must_use]
pub fn image_source(url: &str) -> ImageSource {
    let inline = url
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"));
    match inline {
        Some((media_type, base64)) => ImageSource::Inline {
            media_type: media_type.to_owned(),
            base64: base64.to_owned(),
        },
        None => ImageSource::Url(url.to_owned()),
    }
}

/// Returns a tool call: `{id, function: {name, arguments}}`. Arguments that are not a text become one with sorted
/// members, so that equal arguments are the same text.
#[must_use]
pub fn tool_call(call: &Value) -> Option<ToolUse> {
    let function = call.get("function")?;
    let arguments = match function.get("arguments")? {
        Value::String(text) => text.clone(),
        other => {
            let mut sorted = other.clone();
            sorted.sort_all_objects();
            sorted.to_string()
        }
    };
    Some(ToolUse {
        id: call.get("id")?.as_str()?.to_owned(),
        name: function.get("name")?.as_str()?.to_owned(),
        arguments,
        extra: Extra::new(),
    })
}
