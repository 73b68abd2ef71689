//! What all handlers of an event say together.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cachalot_core::Spend;
use cachalot_model::Message;
use serde_json::{Map, Value};

use crate::definition::{Action, Entry};
use crate::input::ToolUse;
use crate::output::{Decision, Fault, Output, Synthetic};

/// What all handlers of an event say together: in the order of the configuration, whoever was first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// The strongest decision, and the first reason for it. A block is a denial.
    pub decision: Option<(Decision, String)>,
    /// Why the turn goes on although the model has nothing more to do, each reason on its own lines
    /// ([`crate::contract::Blocks::GoingOn`]).
    pub goes_on: Option<String>,
    /// Why the turn ends, whatever else was decided: the first reason of a handler that said so.
    pub ends_turn: Option<String>,
    /// For the user, in order: what handlers said, and what went wrong with others.
    pub messages: Vec<String>,
    /// For the model, in order.
    pub context: Vec<String>,
    /// Arguments in place of those of the same name.
    pub updated_input: Option<Map<String, Value>>,
    /// Arguments that are taken away.
    pub removed_input: Vec<String>,
    /// Messages in place of those that were not sent yet; at least one.
    pub updated_messages: Option<Vec<Message>>,
    /// A result in place of the tool's.
    pub updated_tool_response: Option<String>,
    /// The first summary.
    pub summary: Option<String>,
    /// The first answer in place of the model's; none if something was denied.
    pub synthetic: Option<Synthetic>,
    /// Names and values; of two with one name the later.
    pub metadata: BTreeMap<String, String>,
    /// At `session_start`, the environment variables that hooks of this session have set so far
    /// (`CLAUDE_ENV_FILE`), whole values: for all commands that tools run in the session from now on,
    /// over the variables that they would have. Commands of hooks have them already. Empty at all other
    /// events, and if nothing was set.
    pub environment: BTreeMap<String, String>,
    /// What finding out cost.
    pub spent: Spend,
    /// What each handler said, in the order of the configuration.
    pub reports: Vec<Report>,
}

impl Verdict {
    /// Why it must not happen, if so.
    #[must_use]
    pub fn denial(&self) -> Option<&str> {
        match &self.decision {
            Some((Decision::Deny, reason)) => Some(reason),
            _ => None,
        }
    }

    /// Rewrites the arguments of a call as handlers want them. Whether they want others.
    pub fn rewrite(&self, tool: &mut ToolUse) -> bool {
        tool.rewrite(&self.removed_input, self.updated_input.as_ref());
        !self.removed_input.is_empty()
            || self
                .updated_input
                .as_ref()
                .is_some_and(|updated| !updated.is_empty())
    }
}

impl Report {
    /// What a handler said that began then.
    pub(crate) fn new(entry: &Entry, began: Instant, said: Result<Output, Fault>) -> Self {
        Self {
            handler: entry.definition.title().into_owned(),
            is_builtin: matches!(entry.definition.action, Action::Builtin { .. }),
            elapsed: began.elapsed(),
            said,
        }
    }

    /// Whether it is somebody's own hook, and changed what a model is sent or says: nobody can tell
    /// whether it would do the same another time.
    #[must_use]
    pub fn rewrites(&self) -> bool {
        let changes = |output: &Output| {
            output.updated_input.is_some()
                || !output.removed_input.is_empty()
                || output.updated_messages.is_some()
                || output.updated_tool_response.is_some()
                || output.synthetic.is_some()
        };
        !self.is_builtin && self.said.as_ref().is_ok_and(changes)
    }
}

/// What became of one handler.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Its name.
    pub handler: String,
    /// Whether it is a builtin: told the same, it says the same, but for what it adds to a message.
    pub is_builtin: bool,
    /// How long it took.
    pub elapsed: Duration,
    /// What it said, or why it has nothing to say.
    pub said: Result<Output, Fault>,
}
