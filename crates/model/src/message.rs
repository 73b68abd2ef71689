//! What is said to a model and what it says: our own types. The wire formats are converted at the edge.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Format;
use crate::wire::converse::is_sent;

/// Fields of the wire that we have no word for; they go back where they came from. An entry `@wire`
/// names the format that they were read from, and they go to no other; without it they go to each.
/// Entries whose names begin with `@` are notes of ours, and are never sent.
pub type Extra = Map<String, Value>;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user; results of tools are the user's, too.
    User,
    /// The model.
    Assistant,
}

/// The note of a [`ToolResult`] that names the tool: one format sends it with the result.
pub(crate) const RESULT_NAME: &str = "@name";

/// The note of a [`Message`] that says whose message stands before it: in one format, user and model
/// must take turns.
pub(crate) const AFTER: &str = "@after";

/// Whether [`prepare`] notes anything in messages that are rendered in this format.
#[must_use]
pub fn needs_notes(format: Format) -> bool {
    matches!(format, Format::Gemini | Format::Converse)
}

/// Notes in `messages`, which follow `before`, what their rendering in `format` depends on beside them:
/// for Gemini, which tool gave a result; for Converse, whose message stands before. Other formats need
/// no notes, and no format sends them.
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
        message.extra.shift_remove(AFTER);
        if message.role == last {
            let name = match last {
                Role::User => "user",
                Role::Assistant => "assistant",
            };
            message.extra.insert(AFTER.to_owned(), name.into());
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
            result.extra.insert(RESULT_NAME.to_owned(), name);
        }
    }
}

/// A message of a conversation. The system's text is no message: see [`crate::wire::Wire::system`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub content: Vec<Block>,
    /// Further fields of the message on the wire that it came from.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Extra,
}

impl Message {
    /// A message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::of(Role::User, vec![Block::text(text)])
    }

    /// A message of the model.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::of(Role::Assistant, vec![Block::text(text)])
    }

    /// A message of several blocks.
    #[must_use]
    pub fn of(role: Role, content: Vec<Block>) -> Self {
        Self {
            role,
            content,
            extra: Extra::new(),
        }
    }

    /// The text of its text blocks, one after the other.
    #[must_use]
    pub fn text(&self) -> String {
        self.content
            .iter()
            .filter_map(|block| match block {
                Block::Text { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The calls of tools in it, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolUse(call) => Some(call),
            _ => None,
        })
    }
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// Further fields on the wire (citations, annotations).
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        extra: Extra,
    },
    /// A picture.
    Image(Image),
    /// The model calls a tool.
    ToolUse(ToolUse),
    /// What a tool answered.
    ToolResult(ToolResult),
    /// What the model thought. Kept verbatim: signatures and encrypted content are checked by the
    /// provider when it comes back.
    Reasoning(Reasoning),
    /// Anything else, verbatim; goes back only to the format that it came from.
    Other {
        /// The format that it came from.
        format: crate::Format,
        /// The block or item as it was on the wire.
        verbatim: Value,
    },
}

impl Block {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text {
            text: text.into(),
            extra: Extra::new(),
        }
    }
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// Where its bytes are.
    pub source: ImageSource,
    /// Further fields on the wire (`detail`).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Extra,
}

/// Where the bytes of a picture are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageSource {
    /// At a URL that the provider fetches.
    Url(String),
    /// Here.
    Inline {
        /// `image/png`, `image/jpeg`, …
        media_type: String,
        /// The bytes, in base64 as they go over the wire.
        base64: String,
    },
}

/// The model calls a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// The provider's name for this call; the result carries it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them: JSON text, verbatim, possibly not valid.
    pub arguments: String,
    /// Further fields on the wire (the `id` of a Responses item beside its `call_id`).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Extra,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// Text and pictures.
    pub content: Vec<Block>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// Further fields on the wire.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Extra,
}

/// What the model thought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// What of it may be shown; empty if nothing.
    pub text: String,
    /// The format that it came from; it goes back to no other.
    pub format: crate::Format,
    /// As it was on the wire.
    pub verbatim: Value,
}
