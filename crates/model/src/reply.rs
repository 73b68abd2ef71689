//! What a model answered.

use crate::{Extra, Message, Usage};

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// What it said; the role is the model's.
    pub message: Message,
    /// Why it ended.
    pub stop: StopReason,
    /// What it used, if the provider said so.
    pub usage: Option<Usage>,
    /// The model that answered, as the provider names it.
    pub model: String,
    /// The provider's name for the answer.
    pub id: Option<String>,
    /// Further fields of the answer.
    pub extra: Extra,
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// It was complete.
    End,
    /// It calls tools.
    ToolUse,
    /// It reached the limit of its tokens.
    Length,
    /// It reached a stop text.
    StopText,
    /// The model, or a filter of its provider, refused.
    Refusal,
    /// Another reason, as the provider calls it.
    Other(String),
}

/// A piece of an answer that is still growing. The pieces are for showing; the whole is in the
/// [`Reply`] at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// Text.
    Text(String),
    /// What it thinks.
    Reasoning(String),
    /// A call of a tool begins.
    ToolUse {
        /// Which of the calls of this answer, from 0.
        index: usize,
        /// The provider's name for the call.
        id: String,
        /// The tool.
        name: String,
    },
    /// Arguments of a call of a tool go on.
    Arguments {
        /// Which of the calls of this answer, from 0.
        index: usize,
        /// The next piece of the JSON text.
        text: String,
    },
}
