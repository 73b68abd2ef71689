//! The combined output of all handlers of an event.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cachalot_core::Spend;
use cachalot_model::Message;
use serde_json::{Map, Value};

use crate::definition::{Action, HookEntry};
use crate::input::ToolUse;
use crate::output::{Decision, Fault, Output, Synthetic};

/// The combined output of all handlers of an event, in the order of the configuration, independent of
/// the order of completion.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// The strongest decision, with the first reason for it. A block is a denial.
    pub decision: Option<(Decision, String)>,
    /// The reasons why the turn continues although the model has finished, one per line
    /// ([`crate::contract::BlockEffect::Continue`]).
    pub continue_reason: Option<String>,
    /// The first reason to end the turn. Overrides all other decisions.
    pub ends_turn: Option<String>,
    /// Messages for the user, in order: those of handlers, and reports of failures.
    pub messages: Vec<String>,
    /// Context for the model, in order.
    pub context: Vec<String>,
    /// Arguments that replace those of the same name.
    pub updated_input: Option<Map<String, Value>>,
    /// Arguments to remove.
    pub removed_input: Vec<String>,
    /// Messages that replace the unsent ones; at least one.
    pub updated_messages: Option<Vec<Message>>,
    /// Replaces the result of the tool.
    pub updated_tool_response: Option<String>,
    /// The first summary.
    pub summary: Option<String>,
    /// The first synthetic answer; `None` if something was denied.
    pub synthetic: Option<Synthetic>,
    /// Names and values; the later of two values with the same name.
    pub metadata: BTreeMap<String, String>,
    /// At `session_start`: the environment variables that hooks of this session have set so far
    /// (`CLAUDE_ENV_FILE`), with their complete values. They override the environment of all commands
    /// that tools run in the session from now on; commands of hooks already have them. Empty at all
    /// other events, and if nothing was set.
    pub environment: BTreeMap<String, String>,
    /// The cost of the handlers themselves.
    pub spent: Spend,
    /// The report of each handler, in the order of the configuration.
    pub reports: Vec<HandlerReport>,
}

impl Verdict {
    /// Returns the reason of a denial, if there is one.
    #[must_use]
    pub fn denial(&self) -> Option<&str> {
        match &self.decision {
            Some((Decision::Deny, reason)) => Some(reason),
            _ => None,
        }
    }

    /// Applies the rewrites of the handlers to a call. Returns true if there are any.
    pub fn rewrite(&self, tool: &mut ToolUse) -> bool {
        tool.rewrite(&self.removed_input, self.updated_input.as_ref());
        !self.removed_input.is_empty()
            || self
                .updated_input
                .as_ref()
                .is_some_and(|updated| !updated.is_empty())
    }
}

impl HandlerReport {
    /// Creates the report of a handler that started at `began`.
    pub(crate) fn new(entry: &HookEntry, began: Instant, result: Result<Output, Fault>) -> Self {
        Self {
            handler: entry.definition.title().into_owned(),
            is_builtin: matches!(entry.definition.action, Action::Builtin { .. }),
            elapsed: began.elapsed(),
            result,
        }
    }

    /// True if it is a user's own hook that changed what a model receives or answers: another run may
    /// give another result.
    #[must_use]
    pub fn rewrites(&self) -> bool {
        let changes = |output: &Output| {
            output.updated_input.is_some()
                || !output.removed_input.is_empty()
                || output.updated_messages.is_some()
                || output.updated_tool_response.is_some()
                || output.synthetic.is_some()
        };
        !self.is_builtin && self.result.as_ref().is_ok_and(changes)
    }
}

/// The report of one handler.
#[derive(Debug, Clone, PartialEq)]
pub struct HandlerReport {
    /// The title of the hook.
    pub handler: String,
    /// Set if it is a builtin: its output depends only on its input, except for context that it adds.
    pub is_builtin: bool,
    /// The running time.
    pub elapsed: Duration,
    /// The output, or the failure.
    pub result: Result<Output, Fault>,
}
