//! What one handler says.

use std::collections::BTreeMap;

use cachalot_core::Spend;
use cachalot_model::Message;
use serde_json::{Map, Value};

/// What a handler wants to become of a call of a tool. In order of strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// It may be made.
    Allow,
    /// The user has to be asked.
    Ask,
    /// It must not be made, or what was about to happen must not.
    Deny,
}

impl Decision {
    /// `allow`, `ask` or `deny`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// An answer in place of the model's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Synthetic {
    /// The text.
    pub content: String,
    /// Where it comes from, in a few words for the user.
    pub provenance: Option<String>,
    /// Names and values that are kept beside it.
    pub metadata: BTreeMap<String, String>,
    /// What was not spent because of it.
    pub saved: Spend,
}

/// What one handler says. What its event does not honour is left out when verdicts are made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// Why what was about to happen must not: `continue: false`, `decision: block`, exit code 2.
    pub block: Option<String>,
    /// Why the turn ends: `continue: false` of other runtimes, where something goes on otherwise.
    pub ends_turn: Option<String>,
    /// What is to become of a call of a tool, and why.
    pub permission: Option<(Decision, Option<String>)>,
    /// For the user.
    pub system_message: Option<String>,
    /// For the model, in the newest message.
    pub additional_context: Option<String>,
    /// Arguments in place of those of the same name.
    pub updated_input: Option<Map<String, Value>>,
    /// Arguments that are taken away. In JSON, only dialects in which rewritten arguments are all of them
    /// can say so: by leaving them out.
    pub removed_input: Vec<String>,
    /// Messages in place of those that were not sent yet, and of no others; in JSON, all messages with
    /// those at the end.
    pub updated_messages: Option<Vec<Message>>,
    /// A result in place of the tool's; may be empty.
    pub updated_tool_response: Option<String>,
    /// A summary in place of the model's.
    pub summary: Option<String>,
    /// An answer in place of the model's.
    pub synthetic: Option<Synthetic>,
    /// Names and values that travel with the verdict.
    pub metadata: BTreeMap<String, String>,
    /// What finding out cost (a model that was asked).
    pub spent: Spend,
}

/// Why a handler has nothing to say: it broke down, was not there, took too long, or spoke nonsense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// What went wrong, and what to do.
    pub message: String,
    /// Whether it is the end of the turn that ended the handler: then nothing was denied.
    pub is_cancelled: bool,
    /// What it cost all the same (a model that spoke nonsense).
    pub spent: Spend,
}

impl Fault {
    /// A fault.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            is_cancelled: false,
            spent: Spend::default(),
        }
    }
}
