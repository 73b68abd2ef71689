//! Converts the conversation to the format of handlers, `{role, content, tool_calls, tool_call_id}`, and
//! back.
//!
//! One of our messages becomes one or more pieces: each tool result is a piece of its own. Data that
//! pieces cannot express (reasoning, further fields of a provider) is restored from the original
//! message. A message whose pieces come back unchanged stays unchanged.

use std::sync::Arc;

use cachalot_model::wire::openai::written::{content_block, tool_call};
use cachalot_model::{Block, ImageSource, Message, Role, ToolResult};
use serde_json::{Map, Value, json};

use crate::input::Input;
use crate::output::Fault;

/// Returns the pieces of the conversation, and the number of unsent pieces at its end.
pub(super) fn to_pieces(input: &Input) -> (Vec<Value>, usize) {
    let pieces = input.messages.iter().map(|message| pieces(message));
    let pieces: Vec<Vec<Value>> = pieces.collect();
    let sent = pieces.len().saturating_sub(input.unsent);
    let unsent = pieces[sent..].iter().map(Vec::len).sum();
    (pieces.concat(), unsent)
}

/// A conversation that a handler rewrote.
pub(super) struct RewrittenConversation {
    /// The messages that replace the unsent ones; `None` if they are unchanged.
    pub(super) unsent: Option<Vec<Message>>,
    /// Set if sent messages were changed, too; these changes are ignored.
    pub(super) changed_sent: bool,
}

/// Parses a rewritten conversation, which must include the sent messages.
///
/// # Errors
/// The invalid part of the conversation.
pub(super) fn parse_rewritten(
    input: &Input,
    updated: &[Value],
) -> Result<RewrittenConversation, Fault> {
    let (pieces, unsent) = to_pieces(input);
    let sent = pieces.len() - unsent;
    if updated.len() < sent {
        return Err(Fault::new(format!(
            "`updated_messages` has {} messages, and {sent} were sent already; only those behind them can be changed or left out",
            updated.len()
        )));
    }
    let (before, tail) = (&pieces[sent..], &updated[sent..]);
    let originals = &input.messages[input.messages.len().saturating_sub(input.unsent)..];
    // Only with the same number and roles does each piece belong to a known message, from which the data that pieces
    // cannot express is restored.
    let unsent = match is_aligned(before, tail) {
        _ if before == tail => None,
        true => Some(rebuild_aligned(originals, tail)?),
        false => Some(regroup(originals, tail)?),
    };
    Ok(RewrittenConversation {
        unsent,
        changed_sent: updated[..sent] != pieces[..sent],
    })
}

/// True if the number and the roles of the pieces are the same.
fn is_aligned(before: &[Value], after: &[Value]) -> bool {
    before.len() == after.len()
        && before
            .iter()
            .zip(after)
            .all(|(before, after)| before["role"] == after["role"])
}

fn rebuild_aligned(originals: &[Arc<Message>], mut tail: &[Value]) -> Result<Vec<Message>, Fault> {
    let mut messages = Vec::with_capacity(originals.len());
    for original in originals {
        let before = pieces(original);
        let (after, rest) = tail.split_at(before.len());
        tail = rest;
        messages.push(if before == after {
            original.as_ref().clone()
        } else {
            changed(original, after)?
        });
    }
    Ok(messages)
}

/// Rebuilds a changed message; data that pieces cannot express is taken from the original.
fn changed(original: &Message, pieces: &[Value]) -> Result<Message, Fault> {
    let silent = original.content.iter();
    let silent = silent.filter(|block| matches!(block, Block::Reasoning(_) | Block::Other { .. }));
    let mut content: Vec<Block> = silent.cloned().collect();
    for piece in pieces {
        content.extend(read(piece)?.content);
    }
    for block in &mut content {
        restore(block, original);
    }
    Ok(Message {
        role: original.role,
        content,
        extra: original.extra.clone(),
    })
}

/// Restores the further fields of a tool call or a tool result from the original with the same id.
fn restore(block: &mut Block, original: &Message) {
    for before in &original.content {
        match (&mut *block, before) {
            (Block::ToolUse(call), Block::ToolUse(before)) if call.id == before.id => {
                call.extra = before.extra.clone();
            }
            (Block::ToolResult(result), Block::ToolResult(before)) if result.id == before.id => {
                result.extra = before.extra.clone();
                result.is_error = before.is_error;
            }
            _ => {}
        }
    }
}

/// Converts pieces that were added, removed or moved to messages.
fn regroup(originals: &[Arc<Message>], mut tail: &[Value]) -> Result<Vec<Message>, Fault> {
    let mut originals = originals.to_vec();
    let mut messages = Vec::new();
    while !tail.is_empty() {
        let kept = originals.iter().position(|original| {
            let pieces = pieces(original);
            tail.starts_with(&pieces)
        });
        match kept {
            Some(index) => {
                let original = originals.remove(index);
                // An original is used once: of two equal messages, the second piece must find its own original.
                tail = &tail[pieces(&original).len()..];
                messages.push(original.as_ref().clone());
            }
            None => {
                add(&mut messages, read(&tail[0])?);
                tail = &tail[1..];
            }
        }
    }
    Ok(messages)
}

/// Converts a conversation without originals.
pub(super) fn parse(pieces: &[Value]) -> Result<Vec<Message>, Fault> {
    regroup(&[], pieces)
}

/// Appends a message. Consecutive tool results, and the user's text after them, become one message.
fn add(messages: &mut Vec<Message>, message: Message) {
    let is_result = |block: &Block| matches!(block, Block::ToolResult(_));
    match messages.last_mut() {
        Some(last) if message.role == Role::User && last.content.last().is_some_and(is_result) => {
            last.content.extend(message.content);
        }
        _ => messages.push(message),
    }
}

fn pieces(message: &Message) -> Vec<Value> {
    match message.role {
        Role::User => user(message),
        Role::Assistant => vec![assistant(message)],
    }
}

fn user(message: &Message) -> Vec<Value> {
    let mut pieces = Vec::new();
    let mut said: Vec<&Block> = Vec::new();
    for block in &message.content {
        let Block::ToolResult(result) = block else {
            said.push(block);
            continue;
        };
        if !said.is_empty() {
            pieces.push(piece("user", &std::mem::take(&mut said)));
        }
        let content: Vec<&Block> = result.content.iter().collect();
        let mut piece = piece("tool", &content);
        piece["tool_call_id"] = result.id.as_str().into();
        if result.is_error {
            piece["is_error"] = true.into();
        }
        pieces.push(piece);
    }
    if !said.is_empty() || pieces.is_empty() {
        pieces.push(piece("user", &said));
    }
    pieces
}

fn assistant(message: &Message) -> Value {
    let content: Vec<&Block> = message.content.iter().collect();
    let mut piece = piece("assistant", &content);
    let calls = message.tool_uses().map(|call| {
        json!({
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        })
    });
    let calls: Vec<Value> = calls.collect();
    if !calls.is_empty() {
        piece["tool_calls"] = Value::Array(calls);
    }
    piece
}

/// Writes `content`, or `multi_content` if there are parts other than text.
fn piece(role: &str, blocks: &[&Block]) -> Value {
    let parts: Vec<Value> = blocks.iter().filter_map(|block| part(block)).collect();
    let texts: Option<Vec<&str>> = parts.iter().map(|part| part["text"].as_str()).collect();
    match texts {
        Some(texts) => json!({"role": role, "content": texts.concat()}),
        None => json!({"role": role, "multi_content": parts}),
    }
}

fn part(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text, .. } => Some(json!({"type": "text", "text": text})),
        Block::Image(image) => {
            let url = match &image.source {
                ImageSource::Url(url) => url.clone(),
                ImageSource::Inline { media_type, base64 } => {
                    format!("data:{media_type};base64,{base64}")
                }
            };
            Some(json!({"type": "image_url", "image_url": {"url": url}}))
        }
        Block::ToolUse(_) | Block::ToolResult(_) | Block::Reasoning(_) | Block::Other { .. } => {
            None
        }
    }
}

/// Parses one piece.
fn read(piece: &Value) -> Result<Message, Fault> {
    let piece = piece
        .as_object()
        .ok_or_else(|| Fault::new("a message is no object"))?;
    let content = blocks(piece)?;
    match piece.get("role").and_then(Value::as_str) {
        Some("user") => Ok(Message::new(Role::User, content)),
        Some("tool") => {
            let id = piece.get("tool_call_id").and_then(Value::as_str);
            let result = ToolResult {
                id: id
                    .ok_or_else(|| Fault::new("a message of a tool has no `tool_call_id`"))?
                    .to_owned(),
                content,
                is_error: piece.get("is_error").and_then(Value::as_bool) == Some(true),
                extra: Map::new(),
            };
            Ok(Message::new(Role::User, vec![Block::ToolResult(result)]))
        }
        Some("assistant") => {
            let mut content = content;
            content.extend(calls(piece)?);
            Ok(Message::new(Role::Assistant, content))
        }
        Some(role) => Err(Fault::new(format!(
            "a message has the role `{role}`; there are `user`, `assistant` and `tool`"
        ))),
        None => Err(Fault::new("a message has no `role`")),
    }
}

fn blocks(piece: &Map<String, Value>) -> Result<Vec<Block>, Fault> {
    let parts = piece.get("multi_content").filter(|parts| !parts.is_null());
    let parts = match parts.or(piece.get("content")) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(text)) if text.is_empty() => return Ok(Vec::new()),
        Some(Value::String(text)) => return Ok(vec![Block::text(text)]),
        Some(Value::Array(parts)) => parts,
        Some(_) => {
            return Err(Fault::new(
                "the content of a message is neither text nor a list",
            ));
        }
    };
    parts.iter().map(block).collect()
}

fn block(part: &Value) -> Result<Block, Fault> {
    let block = content_block(part);
    block.ok_or_else(|| Fault::new("a part of a message is neither `text` nor `image_url`"))
}

fn calls(piece: &Map<String, Value>) -> Result<Vec<Block>, Fault> {
    let calls = piece.get("tool_calls").and_then(Value::as_array);
    let call = |call: &Value| {
        let is_text = call["function"]["arguments"].is_string();
        let read = tool_call(call).filter(|_| is_text);
        read.map(Block::ToolUse).ok_or_else(|| Fault::new("a call of a tool needs `id`, `function.name` and `function.arguments`, which are text"))
    };
    calls.into_iter().flatten().map(call).collect()
}

/// Parses a conversation rewritten by a handler that sees one text per message.
///
/// # Errors
/// The handler changed something other than texts.
pub(super) fn parse_rewritten_texts(
    input: &Input,
    before: &[Value],
    after: &[Value],
) -> Result<RewrittenConversation, Fault> {
    if before.len() != after.len() || !is_aligned(before, after) {
        return Err(Fault::new(
            "`llm_request.messages` may change the text of messages, but not their number and roles",
        ));
    }
    let sent = before.len().saturating_sub(input.unsent);
    let mut unsent = Vec::new();
    for (index, message) in input.messages.iter().enumerate().skip(sent) {
        let mut message = message.as_ref().clone();
        if before[index] != after[index] {
            let text = after[index]["content"].as_str();
            let text = text.ok_or_else(|| {
                Fault::new("the content of a message in `llm_request` is no text")
            })?;
            replace_text(&mut message, text);
        }
        unsent.push(message);
    }
    Ok(RewrittenConversation {
        unsent: (before[sent..] != after[sent..]).then_some(unsent),
        changed_sent: before[..sent] != after[..sent],
    })
}

/// Replaces all texts of the message by `text`, in the place of the first one.
fn replace_text(message: &mut Message, text: &str) {
    let is_text = |block: &Block| matches!(block, Block::Text { .. });
    let first = message.content.iter().position(is_text);
    let at = first.unwrap_or(message.content.len());
    message.content.retain(|block| !is_text(block));
    if !text.is_empty() {
        message
            .content
            .insert(at.min(message.content.len()), Block::text(text));
    }
}
