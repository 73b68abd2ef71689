//! Notes on the role of the previous message.

use std::sync::Arc;

use super::request::is_sent;
use crate::message::PREVIOUS_ROLE_NOTE;
use crate::{Message, Role};

/// Notes the role of the previous message on each message of the same role; `messages` follow `before`.
pub(super) fn note_turns(before: &[Arc<Message>], messages: &mut [Message]) {
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
