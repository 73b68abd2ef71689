//! The output of one handler.

use std::collections::BTreeMap;
use std::time::Duration;

use cachalot_core::Spend;
use cachalot_model::Message;
use serde_json::{Map, Value};
use strum::IntoStaticStr;

/// A permission decision about a tool call, in ascending order of strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Decision {
    /// The call is allowed.
    Allow,
    /// The user must approve the call.
    Ask,
    /// The call, or the operation of the event, is denied.
    Deny,
}

impl Decision {
    /// `allow`, `ask` or `deny`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A synthetic answer, which replaces the model's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Synthetic {
    /// The text.
    pub content: String,
    /// The origin, in a few words for the user.
    pub provenance: Option<String>,
    /// Names and values that are stored with it.
    pub metadata: BTreeMap<String, String>,
    /// The cost that it saved.
    pub saved: Spend,
}

/// The output of one handler. Outputs that the event does not support are ignored in the verdict.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// The reason to deny the operation: `continue: false`, `decision: block`, exit code 2.
    pub block: Option<String>,
    /// The reason to end the turn: `continue: false` of other runtimes at events where the turn would
    /// continue.
    pub ends_turn: Option<String>,
    /// The permission decision about a tool call, with its reason.
    pub permission: Option<(Decision, Option<String>)>,
    /// A message for the user.
    pub system_message: Option<String>,
    /// Context for the model, added to the newest message.
    pub additional_context: Option<String>,
    /// Arguments that replace those of the same name.
    pub updated_input: Option<Map<String, Value>>,
    /// Arguments to remove. In JSON, only dialects whose rewrite contains all arguments can express
    /// this, by leaving arguments out.
    pub removed_input: Vec<String>,
    /// Messages that replace the unsent ones. In JSON, these are the last messages of the whole
    /// conversation.
    pub updated_messages: Option<Vec<Message>>,
    /// Replaces the result of the tool; may be empty.
    pub updated_tool_response: Option<String>,
    /// Replaces the summary of the model.
    pub summary: Option<String>,
    /// Replaces the answer of the model.
    pub synthetic: Option<Synthetic>,
    /// Names and values that are passed on with the verdict.
    pub metadata: BTreeMap<String, String>,
    /// The cost of the handler itself (a model call).
    pub spent: Spend,
}

/// Appends a line to a text that may be absent.
pub(crate) fn append_line(text: &mut Option<String>, line: &str) {
    match text {
        Some(text) => {
            text.push('\n');
            text.push_str(line);
        }
        None => *text = Some(line.to_owned()),
    }
}

/// A failure of a handler: it crashed, was unavailable, timed out, or returned an invalid output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// The problem and the fix.
    pub message: String,
    /// Set if the handler was canceled because the turn ended: a failure that denies nothing.
    pub is_cancelled: bool,
    /// Set if the handler has given an output that may be a denial and of which not everything could be
    /// read: it is too long, was interrupted, or cannot be parsed. A guard then denies in every dialect.
    pub may_deny: bool,
    /// The cost of the failed handler (a model call with an invalid answer).
    pub spent: Spend,
}

impl Fault {
    /// A fault without cost.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            is_cancelled: false,
            may_deny: false,
            spent: Spend::default(),
        }
    }

    /// The fault of an output that may be a denial and was not read completely.
    pub(crate) fn of_cut_output(message: impl Into<String>) -> Self {
        Self {
            may_deny: true,
            ..Self::new(message)
        }
    }

    /// The fault of a handler that did not end in time.
    pub(crate) fn timed_out(limit: Duration) -> Self {
        Self::new(format!(
            "no answer within {limit:?}; a longer `timeout` gives it more time"
        ))
    }
}
