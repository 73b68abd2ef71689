//! Messages that hooks have rewritten before they were sent.

use std::sync::Arc;

use cachalot_model::{Block, Extra, Message, Role};

use super::changed_mark::{is_marked_changed, mark_changed};
use crate::normalized_reply::is_visible;

/// Checks messages that hooks have rewritten before they were sent. They are accepted if the provider accepts
/// the conversation with them as it does without: the same roles, calls and results. Changed results are
/// marked. Several messages of the user that replace a single one are joined into one.
///
/// # Errors
/// A description of the defect.
pub(crate) fn validate_rewrite(
    before: &[Arc<Message>],
    rewritten: Vec<Message>,
) -> Result<Vec<Message>, &'static str> {
    let mut rewritten = match before {
        [_] => vec![join_messages(rewritten)?],
        _ => rewritten,
    };
    if rewritten.len() != before.len() {
        return Err("there must be as many messages as before");
    }
    for (message, before) in rewritten.iter_mut().zip(before) {
        if message.role != before.role {
            return Err("user and model must take turns as before");
        }
        if ids(message) != ids(before) {
            return Err("the calls and the results of tools must be the same as before");
        }
        if !message.content.iter().any(has_content) {
            return Err("a message must not be empty");
        }
        mark_changes(message, before);
    }
    Ok(rewritten)
}

/// Joins messages of the user into one, tool results first.
fn join_messages(messages: Vec<Message>) -> Result<Message, &'static str> {
    let mut messages = messages.into_iter();
    let mut joined = messages.next().ok_or("there must be a message")?;
    for message in messages {
        if message.role != Role::User || joined.role != Role::User {
            return Err("only messages of the user can be rewritten");
        }
        joined.content.extend(message.content);
    }
    let is_result = |block: &Block| matches!(block, Block::ToolResult(_));
    // Providers require results first. The sort is stable, so that texts keep their order.
    joined.content.sort_by_key(|block| !is_result(block));
    Ok(joined)
}

/// The IDs of calls (`true`) and results (`false`), in order.
fn ids(message: &Message) -> Vec<(bool, &str)> {
    message.content.iter().filter_map(id).collect()
}

fn id(block: &Block) -> Option<(bool, &str)> {
    match block {
        Block::ToolUse(call) => Some((true, &call.id)),
        Block::ToolResult(result) => Some((false, &result.id)),
        _ => None,
    }
}

fn has_content(block: &Block) -> bool {
    block.as_text().is_none_or(is_visible)
}

/// Marks changed results: later calls cannot refer to them. Restores our marks of the message, because
/// handlers may have received it without them.
fn mark_changes(message: &mut Message, before: &Message) {
    let results = before.content.iter().filter_map(|block| match block {
        Block::ToolResult(result) => Some(result),
        _ => None,
    });
    let now = message.content.iter_mut().filter_map(|block| match block {
        Block::ToolResult(result) => Some(result),
        _ => None,
    });
    for (now, before) in now.zip(results) {
        if now.content != before.content || is_marked_changed(before) {
            mark_changed(now);
        }
    }
    restore_marks(&mut message.extra, &before.extra);
}

fn restore_marks(now: &mut Extra, before: &Extra) {
    let notes = before.iter().filter(|(name, _)| name.starts_with('@'));
    for (name, value) in notes {
        now.insert(name.clone(), value.clone());
    }
}
