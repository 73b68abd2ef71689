//! Notes on messages, on which their rendering in some formats depends.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::converse::is_sent;
use crate::message::{PREVIOUS_ROLE_NOTE, RESULT_NAME_NOTE};
use crate::{Block, Format, Message, Role};

/// Returns true if [`prepare`] adds notes to messages of this format.
#[must_use]
pub fn needs_notes(format: Format) -> bool {
    matches!(format, Format::Gemini | Format::Converse)
}

/// Adds the notes on which the rendering of `messages` in `format` depends; `messages` follow `before`. For
/// Gemini, notes name the tool of each result; for Converse, the role of the previous message. Other
/// formats need no notes, and no format sends them.
pub fn prepare(format: Format, before: &[Arc<Message>], messages: &mut [Message]) {
    match format {
        Format::Gemini => name_results(before, messages),
        Format::Converse => note_turns(before, messages),
        Format::Chat | Format::Responses | Format::Messages => {}
    }
}

fn note_turns(before: &[Arc<Message>], messages: &mut [Message]) {
    let last = before.iter().rev().find(|message| is_sent(message));
    // A conversation begins with the user.
    let mut last = last.map_or(Role::Assistant, |message| message.role);
    for message in messages.iter_mut().filter(|message| is_sent(message)) {
        message.extra.shift_remove(PREVIOUS_ROLE_NOTE);
        if message.role == last {
            let name = match last {
                Role::User => "user",
                Role::Assistant => "assistant",
            };
            message
                .extra
                .insert(PREVIOUS_ROLE_NOTE.to_owned(), name.into());
        }
        last = message.role;
    }
}

fn name_results(before: &[Arc<Message>], messages: &mut [Message]) {
    let mut names: HashMap<String, String> = HashMap::new();
    let mut learn = |message: &Message| {
        let calls = message.tool_uses();
        names.extend(calls.map(|call| (call.id.clone(), call.name.clone())));
    };
    before.iter().for_each(|message| learn(message));
    messages.iter().for_each(learn);
    for block in messages.iter_mut().flat_map(|it| &mut it.content) {
        if let Block::ToolResult(result) = block
            && let Some(name) = names.get(&result.id)
        {
            let name = Value::from(name.as_str());
            result.extra.insert(RESULT_NAME_NOTE.to_owned(), name);
        }
    }
}
