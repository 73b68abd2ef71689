//! Answers of models.

use crate::{Extra, Message, Usage};

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The message; its role is the model's.
    pub message: Message,
    /// Reason for the end of the answer.
    pub stop: StopReason,
    /// Token usage, if the provider reported it.
    pub usage: Option<Usage>,
    /// The model that answered, under the provider's name.
    pub model: String,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// Further fields of the answer.
    pub extra: Extra,
}

/// Reasons for the end of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The answer is complete.
    End,
    /// The answer calls tools.
    ToolUse,
    /// The token limit was reached.
    Length,
    /// A stop sequence was reached.
    StopText,
    /// The model, or a filter of its provider, refused.
    Refusal,
    /// Another reason, under the provider's name.
    Other(String),
}

/// A part of an answer that is being streamed. Deltas are for display; the whole answer is in the [`Reply`]
/// at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// Text.
    Text(String),
    /// Reasoning.
    Reasoning(String),
    /// The start of a tool call.
    ToolUse {
        /// Index of the call within the answer, from 0.
        index: usize,
        /// The provider's id of the call.
        id: String,
        /// Name of the tool.
        name: String,
    },
    /// A part of the arguments of a tool call.
    Arguments {
        /// Index of the call within the answer, from 0.
        index: usize,
        /// The next part of the JSON text.
        text: String,
    },
}
