//! What a summary is made of: the conversation as it was sent, or as much of it as the model takes.

use std::sync::Arc;

use bytes::Bytes;
use cachalot_model::{Block, Message, Role, needs_notes, prepare};

use super::{Conversation, Remains};
use crate::Error;

/// What stands for messages that were left out.
const LEFT_OUT: &str = "(The beginning of this conversation is left out: it is too long.)";

/// What stands behind the beginning of a text of which the rest was left out.
const SHORTENED: &str = "\n(The rest of this text is left out: it is too long.)";

/// Texts of so many bytes are short enough.
const SHORT: usize = 2_000;

/// Each time, about this part of what is left is left out.
const PART: usize = 4;

/// What a summary is asked for about.
pub(crate) struct Material {
    messages: Vec<Arc<Message>>,
    /// How many messages at the end of the conversation are no part of it.
    newest: usize,
    /// Whether nothing of it is left out, so that it is read as it was sent before.
    is_whole: bool,
}

impl Conversation {
    /// What was said, but for the newest messages.
    pub(crate) fn material(&self, newest: usize) -> Material {
        Material {
            messages: self.session.prompt.without_last(newest).messages(),
            newest,
            is_whole: true,
        }
    }

    /// A request that ends with a wish about some material. It does not become part of the
    /// conversation.
    pub(crate) fn body_about(&self, material: &Material, wish: &str) -> Result<Bytes, Error> {
        let wire = self.model.wire();
        let mut said = Vec::new();
        let mut prompt = match material.is_whole {
            true => self.session.prompt.without_last(material.newest),
            false => {
                let messages = material.messages.iter().map(|message| (**message).clone());
                said.extend(material.beginning().into_iter().chain(messages));
                self.session.prompt.frozen()
            }
        };
        said.extend(material.end());
        said.push(Message::user(wish));
        if needs_notes(wire.format()) {
            prepare(wire.format(), &prompt.messages(), &mut said);
        }
        for message in said {
            prompt = prompt.append(&wire.message(&message)?, Arc::new(message));
        }
        let plan = self.plans.aside(&prompt, material.is_whole);
        Ok(self.body_of(&prompt, &plan, &self.parameters()))
    }
}

impl Material {
    /// Whether there is nothing to be summarized.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// What has to stand before the messages, if the first of them were left out.
    fn beginning(&self) -> Option<Message> {
        let first = self.messages.first()?;
        (first.role == Role::Assistant).then(|| Message::user(LEFT_OUT))
    }

    /// What has to stand behind the messages, so that user and model take turns, if the last of them
    /// was not answered.
    fn end(&self) -> Option<Message> {
        let last = self.messages.last()?;
        (last.role == Role::User).then(|| Remains::default().answer())
    }

    /// Leaves out a part of it: the ends of texts that make up much of it, or else the oldest
    /// messages. Whether there was something to leave out.
    pub(crate) fn shorten(&mut self) -> bool {
        let part = self
            .messages
            .iter()
            .map(|message| size(message))
            .sum::<usize>()
            / PART;
        let is_shorter = self.halve(part.max(SHORT)) || self.leave_out(part) || self.halve(SHORT);
        self.is_whole &= !is_shorter;
        is_shorter
    }

    /// Leaves out the second half of texts of users and tools that are longer than so many bytes.
    fn halve(&mut self, longest: usize) -> bool {
        let mut is_shorter = false;
        for message in &mut self.messages {
            let is_long = |text: &str| text.len() > longest;
            if message.role == Role::User && texts(message).any(is_long) {
                let message = Arc::make_mut(message);
                for text in texts_of(message).filter(|text| is_long(text)) {
                    text.truncate(text.floor_char_boundary(text.len() / 2));
                    text.push_str(SHORTENED);
                }
                is_shorter = true;
            }
        }
        is_shorter
    }

    /// Leaves out the oldest messages: so many bytes, or more, since results cannot be without their
    /// calls.
    fn leave_out(&mut self, bytes: usize) -> bool {
        let mut left_out = 0;
        let mut from = None;
        for (at, pair) in self.messages.windows(2).enumerate() {
            left_out += size(&pair[0]);
            if pair[1].role == Role::Assistant {
                from = Some(at + 1);
                if left_out >= bytes {
                    break;
                }
            }
        }
        self.messages.drain(..from.unwrap_or(0));
        from.is_some()
    }
}

/// About how many bytes a message has.
fn size(message: &Message) -> usize {
    let calls = message.tool_uses().map(|call| call.arguments.len());
    texts(message).map(str::len).sum::<usize>() + calls.sum::<usize>()
}

/// The texts of a message, and of the results in it.
fn texts(message: &Message) -> impl Iterator<Item = &str> {
    let blocks = message.content.iter().flat_map(|block| match block {
        Block::ToolResult(result) => result.content.as_slice(),
        block => std::slice::from_ref(block),
    });
    blocks.filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    })
}

/// As of [`texts`], to be changed.
fn texts_of(message: &mut Message) -> impl Iterator<Item = &mut String> {
    let blocks = message.content.iter_mut().flat_map(|block| match block {
        Block::ToolResult(result) => result.content.as_mut_slice(),
        block => std::slice::from_mut(block),
    });
    blocks.filter_map(|block| match block {
        Block::Text { text, .. } => Some(text),
        _ => None,
    })
}
