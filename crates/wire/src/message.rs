//! Messages of a conversation, independent of the wire formats. They are converted at the edge.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Fields of the wire without a counterpart in these types; they are sent back to the format from which
/// they were read. An entry `@wire` names that format, and the fields are sent to no other; without it they
/// are sent to every format. Entries whose names begin with `@` are internal notes and are never sent.
pub type Extra = Map<String, Value>;

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user; tool results are the user's as well.
    User,
    /// The model.
    Assistant,
}

/// Note of a [`ToolResult`] with the name of the tool, which one format sends with the result.
pub(crate) const RESULT_NAME_NOTE: &str = "@name";

/// Note of a [`Message`] with the role of the previous message; in one format, user and model must
/// alternate.
pub(crate) const PREVIOUS_ROLE_NOTE: &str = "@after";

/// A message of a conversation. System text is not a message: see [`crate::Wire::system`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Author.
    pub role: Role,
    /// Content blocks, in order.
    pub content: Vec<Block>,
    /// Further fields of the message on the wire from which it was read.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Extra,
}

impl Message {
    /// Creates a message of the user with one text block.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, vec![Block::text(text)])
    }

    /// Creates a message of the model with one text block.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new(Role::Assistant, vec![Block::text(text)])
    }

    /// Creates a message of several blocks.
    #[must_use]
    pub fn new(role: Role, content: Vec<Block>) -> Self {
        Self {
            role,
            content,
            extra: Extra::new(),
        }
    }

    /// Returns the concatenated text of the text blocks.
    #[must_use]
    pub fn text(&self) -> String {
        self.content.iter().filter_map(Block::as_text).collect()
    }

    /// Returns the tool calls of the message, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolUse(call) => Some(call),
            _ => None,
        })
    }
}

/// A content block of a message.
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
    /// An image.
    Image(Image),
    /// A tool call of the model.
    ToolUse(ToolUse),
    /// Result of a tool call.
    ToolResult(ToolResult),
    /// Reasoning of the model. Kept verbatim: the provider verifies signatures and encrypted content when
    /// it is sent back.
    Reasoning(Reasoning),
    /// Any other block, verbatim; sent back only to the format from which it was read.
    Other {
        /// Format from which it was read.
        format: crate::Format,
        /// The block or item as on the wire.
        verbatim: Value,
    },
}

impl Block {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text {
            text: text.into(),
            extra: Extra::new(),
        }
    }

    /// Returns true for a summary by the provider, which stands for the conversation before it.
    #[must_use]
    pub fn is_compaction(&self) -> bool {
        match self {
            Self::Other { verbatim, .. } => {
                verbatim.get("type").and_then(Value::as_str) == Some("compaction")
            }
            _ => false,
        }
    }

    /// Returns the text of a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            _ => None,
        }
    }
}

/// An image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// Location of its bytes.
    pub source: ImageSource,
    /// Further fields on the wire (`detail`).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Extra,
}

/// Location of the bytes of an image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageSource {
    /// A URL that the provider fetches.
    Url(String),
    /// Inline data.
    Inline {
        /// `image/png`, `image/jpeg`, …
        media_type: String,
        /// The bytes in base64, as sent.
        base64: String,
    },
}

impl ImageSource {
    /// Returns the media type and the base64 text of an inline image, or the URL of another one.
    pub(crate) fn inline(&self) -> Result<(&str, &str), &str> {
        match self {
            Self::Inline { media_type, base64 } => Ok((media_type, base64)),
            Self::Url(url) => {
                let data = url.strip_prefix("data:");
                data.and_then(|data| data.split_once(";base64,")).ok_or(url)
            }
        }
    }
}

/// A tool call of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// The provider's id of the call; the result carries the same id.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments as the model wrote them: JSON text, verbatim, possibly invalid.
    pub arguments: String,
    /// Further fields on the wire (the `id` of a Responses item beside its `call_id`).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Extra,
}

/// Result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Id of the call.
    pub id: String,
    /// Text and images.
    pub content: Vec<Block>,
    /// True if the tool failed.
    pub is_error: bool,
    /// Further fields on the wire.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Extra,
}

/// Reasoning of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// Text that may be shown; empty if none.
    pub text: String,
    /// Format from which it was read; sent to no other.
    pub format: crate::Format,
    /// The block or item as on the wire.
    pub verbatim: Value,
}
