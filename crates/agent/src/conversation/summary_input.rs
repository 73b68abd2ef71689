//! The input of a summary: the conversation as it was sent, or as much of it as the model accepts.

use std::sync::Arc;

use cachalot_model::wire::Wire;
use cachalot_model::{Block, Message, Role, SettingChanges};
use cachalot_prompt::Prompt;

use super::interrupted::InterruptedTurn;
use crate::Error;

/// Replaces messages that were left out.
const OMITTED_MESSAGES: &str = "(The beginning of this conversation is left out: it is too long.)";

/// Replaces the end of a shortened text.
const OMITTED_TEXT: &str = "\n(The rest of this text is left out: it is too long.)";

/// Texts of at most this many bytes are not shortened.
const MIN_SHORTENED_BYTES: usize = 2_000;

/// Each call of [`SummaryInput::shorten`] removes about one part in this many.
const SHORTEN_DIVISOR: usize = 4;

/// The input of a summary.
pub(crate) struct SummaryInput {
    messages: Vec<Arc<Message>>,
    /// Number of messages at the end of the conversation that are excluded.
    newest: usize,
    /// True if nothing is left out: the provider can read it from its cache.
    is_whole: bool,
}

impl SummaryInput {
    /// All messages of the conversation except the newest ones.
    pub(super) fn new(conversation: &Prompt, newest: usize) -> Self {
        Self {
            messages: conversation.without_last(newest).messages(),
            newest,
            is_whole: true,
        }
    }

    /// True if nothing is left out: the provider can read it from its cache.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Renders the prompt of a request that ends with `instruction`, an instruction about the material.
    pub(super) fn prompt(
        &self,
        conversation: &Prompt,
        wire: &dyn Wire,
        instruction: &str,
    ) -> Result<Prompt, Error> {
        let mut said = Vec::new();
        let mut prompt = if self.is_whole {
            conversation.without_last(self.newest)
        } else {
            // Changes of tools may refer to messages that are left out.
            let messages = self.messages.iter().cloned();
            let messages = messages.map(SettingChanges::removed_from);
            let messages = messages.map(Arc::unwrap_or_clone);
            said.extend(self.beginning().into_iter().chain(messages));
            conversation.frozen()
        };
        said.extend(self.end());
        said.push(Message::user(instruction));
        if wire.needs_notes() {
            wire.prepare(&prompt.messages(), &mut said);
        }
        for message in said {
            prompt = prompt.append(&wire.message(&message)?, Arc::new(message));
        }
        Ok(prompt)
    }

    /// Returns the messages of a request that ends with `instruction`, for another model than that of the conversation.
    pub(super) fn messages_before(&self, instruction: &str) -> Vec<Message> {
        // The request begins with the current tools and effort.
        let messages = self.messages.iter().cloned();
        let messages = messages.map(SettingChanges::removed_from);
        let messages = messages.map(Arc::unwrap_or_clone);
        let mut said: Vec<Message> = self.beginning().into_iter().chain(messages).collect();
        said.extend(self.end());
        said.push(Message::user(instruction));
        said
    }

    /// True if there is nothing to summarize.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The message that must precede the material if its first messages were left out.
    fn beginning(&self) -> Option<Message> {
        let first = self.messages.first()?;
        (first.role == Role::Assistant).then(|| Message::user(OMITTED_MESSAGES))
    }

    /// The message that must follow the material if its last message was not answered, so that user and model
    /// alternate.
    fn end(&self) -> Option<Message> {
        let last = self.messages.last()?;
        (last.role == Role::User).then(|| InterruptedTurn::default().answer())
    }

    /// Removes a part of the material: the second half of its longest texts, or else the oldest messages.
    /// Returns false if nothing can be removed.
    pub(crate) fn shorten(&mut self) -> bool {
        let part = self
            .messages
            .iter()
            .map(|message| size(message))
            .sum::<usize>()
            / SHORTEN_DIVISOR;
        let is_shorter = self.halve(part.max(MIN_SHORTENED_BYTES))
            || self.drop_oldest(part)
            || self.halve(MIN_SHORTENED_BYTES);
        self.is_whole &= !is_shorter;
        is_shorter
    }

    /// Removes the second half of each text of users and tools that has more than `longest` bytes.
    fn halve(&mut self, longest: usize) -> bool {
        let mut is_shorter = false;
        for message in &mut self.messages {
            let is_long = |text: &str| text.len() > longest;
            if message.role == Role::User && texts(message).any(is_long) {
                let message = Arc::make_mut(message);
                for text in texts_mut(message).filter(|text| is_long(text)) {
                    text.truncate(text.floor_char_boundary(text.len() / 2));
                    text.push_str(OMITTED_TEXT);
                }
                is_shorter = true;
            }
        }
        is_shorter
    }

    /// Removes at least `bytes` bytes of the oldest messages, if there are enough; more where results would
    /// lose their calls.
    fn drop_oldest(&mut self, bytes: usize) -> bool {
        let mut left_out = 0;
        let mut from = None;
        for (at, pair) in self.messages.windows(2).enumerate() {
            left_out += size(&pair[0]);
            // The rest begins with an answer, never with results, whose calls would be gone. `beginning` puts a message
            // of the user before it.
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

/// Approximate size of a message in bytes.
fn size(message: &Message) -> usize {
    let calls = message.tool_uses().map(|call| call.arguments.len());
    texts(message).map(str::len).sum::<usize>() + calls.sum::<usize>()
}

/// The texts of a message and of the tool results in it.
fn texts(message: &Message) -> impl Iterator<Item = &str> {
    let blocks = message.content.iter().flat_map(|block| match block {
        Block::ToolResult(result) => result.content.as_slice(),
        block => std::slice::from_ref(block),
    });
    blocks.filter_map(Block::as_text)
}

/// The same texts as [`texts`], mutable.
fn texts_mut(message: &mut Message) -> impl Iterator<Item = &mut String> {
    let blocks = message.content.iter_mut().flat_map(|block| match block {
        Block::ToolResult(result) => result.content.as_mut_slice(),
        block => std::slice::from_mut(block),
    });
    blocks.filter_map(|block| match block {
        Block::Text { text, .. } => Some(text),
        _ => None,
    })
}
