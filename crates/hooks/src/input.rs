//! What handlers are told.

use std::path::PathBuf;
use std::sync::Arc;

use cachalot_core::{Cost, Digest, Millis, Spend, Witnesses};
use cachalot_model::{Message, OutputFormat, StopReason, Usage};
use cachalot_operation::Touches;
use serde_json::{Map, Value};

use crate::{Event, Transcript};

/// What handlers are told. Builtins read it as it is; for all others it is written as JSON, in the
/// words of their dialect. What an event is not about is empty.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// What happened.
    pub event: Event,
    /// When, if that is known.
    pub at: Option<Millis>,
    /// The session.
    pub session_id: String,
    /// The turn: apart from all other turns. Empty outside of turns.
    pub turn_id: String,
    /// The directory that tools work in.
    pub cwd: PathBuf,
    /// The agent at work.
    pub agent_name: String,
    /// Its model: `provider/model`.
    pub model_id: String,
    /// How much the user is asked about.
    pub permission_mode: PermissionMode,
    /// Which model call of the turn, from 1; 0 outside of model calls.
    pub iteration: u32,
    /// What the user said last, as typed.
    pub last_user_message: Option<String>,
    /// Why a session starts: `startup`, `resume`, `clear`, `compact`; why a history is compacted:
    /// `manual`, `auto`.
    pub source: Option<String>,
    /// Why something ended.
    pub reason: Option<String>,
    /// What the user says, and what is known of it.
    pub prompt: Option<Prompt>,
    /// The conversation.
    pub messages: Vec<Arc<Message>>,
    /// How many messages at the end of it were not sent before: the others cannot be rewritten.
    pub unsent: usize,
    /// What a model call, a turn or a history used.
    pub usage: Option<Usage>,
    /// What that cost.
    pub cost: Option<Cost>,
    /// The call of a tool.
    pub tool: Option<ToolUse>,
    /// What a tool answered.
    pub tool_response: Option<ToolResponse>,
    /// How a turn was answered.
    pub answer: Option<Answer>,
    /// Who goes on for whom.
    pub switch: Option<Switch>,
    /// The session that gave the task of this one.
    pub parent_session_id: Option<String>,
    /// A history that is too long.
    pub compaction: Option<Compaction>,
    /// A limit that was reached.
    pub max_iterations: Option<u32>,
    /// What the user is told.
    pub notification: Option<Notification>,
    /// What failed.
    pub error_message: Option<String>,
    /// What was said in the session so far.
    pub transcript: Option<Transcript>,
}

/// How much the user is asked about before tools are called, in the words of Claude Code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PermissionMode {
    /// As the rules say.
    #[default]
    Default,
    /// Nothing is changed: a plan is made.
    Plan,
    /// Changes of files are not asked about.
    AcceptEdits,
    /// Somebody else than the user decides what would be asked about.
    Auto,
    /// Nobody is asked: what is not allowed is denied.
    DontAsk,
    /// Nobody is asked: what is not denied is allowed.
    BypassPermissions,
}

impl PermissionMode {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Default,
        Self::Plan,
        Self::AcceptEdits,
        Self::Auto,
        Self::DontAsk,
        Self::BypassPermissions,
    ];

    /// The names of all of them, in that order.
    pub const NAMES: [&'static str; 6] = [
        "default",
        "plan",
        "acceptEdits",
        "auto",
        "dontAsk",
        "bypassPermissions",
    ];

    /// Its name: `acceptEdits`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// What the user says.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    /// As typed.
    pub text: String,
    /// What stands before it in the conversation, tools and system text included, as it is sent; and
    /// the summary that it begins with, if there is one.
    pub prefix: Option<Digest>,
    /// What hooks have added to it so far, when the session began and since, in the order in which it
    /// is sent.
    pub context: Vec<String>,
    /// Whether results of tools stand before it in the conversation.
    pub after_results: bool,
    /// Whether no user said it: a task that another agent gave.
    pub implicit: bool,
    /// Whether the user wants a new answer, whatever was answered before.
    pub fresh: bool,
    /// What came with it beside the text: a digest of each.
    pub attachments: Vec<Digest>,
    /// The form that the answer must have.
    pub form: Option<OutputFormat>,
}

/// A call of a tool.
#[derive(Debug, Clone, Default)]
pub struct ToolUse {
    /// The tool.
    pub name: String,
    /// The provider's name for the call.
    pub id: String,
    /// Where the tool comes from: `builtin`, `mcp`.
    pub category: String,
    /// Of an MCP tool, its server and its name there.
    pub mcp: Option<(String, String)>,
    /// Whether it changes nothing, as far as we vouch for it.
    pub read_only: bool,
    /// The arguments.
    pub input: Map<String, Value>,
    /// What the call touches, as its tool declares it: files, commands, addresses. Conditions and
    /// write guards go by it. Empty for a call whose arguments are wrong.
    pub touches: Touches,
}

impl ToolUse {
    /// Takes arguments away, and puts others in place of those of the same name.
    pub fn rewrite(&mut self, removed: &[String], updated: Option<&Map<String, Value>>) {
        for name in removed {
            self.input.shift_remove(name);
        }
        for (name, value) in updated.into_iter().flatten() {
            self.input.insert(name.clone(), value.clone());
        }
        // What the tool itself declares is known once the call is looked up again.
        let shown = Touches::declared(&Value::Null, &self.input, self.read_only);
        self.touches.extend(shown);
    }
}

/// What a tool answered.
#[derive(Debug, Clone, Default)]
pub struct ToolResponse {
    /// Its text.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
}

/// How a turn was answered.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The model's last text.
    pub text: String,
    /// Why it ended; `None` if no model was asked.
    pub finish: Option<StopReason>,
    /// Whether a hook answered.
    pub synthetic: bool,
    /// Whether the turn goes on because a stop hook wanted it to.
    pub stop_hook_active: bool,
    /// The calls of tools, in order.
    pub calls: Vec<TurnCall>,
    /// What the turn spent and, if nothing had been saved, would have spent: what it saves to answer
    /// it without a model.
    pub worth: Spend,
    /// What was added to the user's message beside [`Prompt::context`]: who added it.
    pub added_by: Vec<String>,
    /// Whether a fallback answered in place of the agent's model.
    pub by_fallback: bool,
    /// The reason for which a hook of the same event does not accept the answer, so that the turn goes
    /// on. Set by the dispatcher for the handlers that run after that hook; never part of the JSON.
    pub rejected: Option<String>,
}

/// A call of a tool in a turn.
#[derive(Debug, Clone)]
pub struct TurnCall {
    /// The tool.
    pub name: String,
    /// Whether it changes nothing, as far as we vouch for it.
    pub read_only: bool,
    /// Whether it failed or was refused.
    pub is_error: bool,
    /// What its result was built from.
    pub witnesses: Witnesses,
    /// Until when its result is as good as a new one; `None` if nobody gave it an end.
    pub expires: Option<Millis>,
}

/// Who goes on for whom.
#[derive(Debug, Clone, Default)]
pub struct Switch {
    /// Who stops for now.
    pub from_agent: String,
    /// Who goes on.
    pub to_agent: String,
    /// `transfer_task`, `transfer_task_return`.
    pub kind: &'static str,
}

/// A history that is too long.
#[derive(Debug, Clone, Default)]
pub struct Compaction {
    /// Tokens of it.
    pub input_tokens: u64,
    /// Tokens of the answer that made it too long.
    pub output_tokens: u64,
    /// How many tokens the model takes; 0 if that is not known.
    pub context_limit: u64,
    /// `threshold`, `overflow`, `manual`.
    pub reason: &'static str,
    /// The summary, once there is one.
    pub summary: Option<String>,
}

/// What the user is told.
#[derive(Debug, Clone, Default)]
pub struct Notification {
    /// `warning`, `error`, `info`.
    pub level: &'static str,
    /// What.
    pub message: String,
    /// `permission_prompt`, `idle_prompt`, or nothing.
    pub kind: Option<&'static str>,
}
