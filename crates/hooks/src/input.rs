//! The input of handlers.

use std::path::PathBuf;
use std::sync::Arc;

use cachalot_core::{Cost, Digest, Millis, Spend, Witnesses};
use cachalot_model::{Message, OutputFormat, StopReason, Usage};
use cachalot_operation::ResourceAccess;
use serde_json::{Map, Value};

use crate::{Event, Transcript};

pub use crate::permission_mode::PermissionMode;

/// The input of handlers. Builtins receive it directly; for all others it is serialized to JSON in their
/// dialect. Fields that the event does not have are empty.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// The event.
    pub event: Event,
    /// The time of the event, if known.
    pub at: Option<Millis>,
    /// The session.
    pub session_id: String,
    /// The id of the turn, unique among all turns. Empty outside of turns.
    pub turn_id: String,
    /// The working directory of the tools.
    pub cwd: PathBuf,
    /// The active agent.
    pub agent_name: String,
    /// Its model: `provider/model`.
    pub model_id: String,
    /// The permission mode of the session.
    pub permission_mode: PermissionMode,
    /// The number of the model call in the turn, from 1; 0 outside of model calls.
    pub iteration: u32,
    /// The user's last message, as typed.
    pub last_user_message: Option<String>,
    /// The reason why a session starts: `startup`, `resume`, `clear`, `compact`; or why a history is
    /// compacted: `manual`, `auto`.
    pub source: Option<String>,
    /// The reason why a session or a turn ended.
    pub reason: Option<String>,
    /// The user's message and its context.
    pub prompt: Option<Prompt>,
    /// The conversation.
    pub messages: Vec<Arc<Message>>,
    /// The number of messages at the end that were not sent before; only these can be rewritten.
    pub unsent: usize,
    /// The token usage of a model call, a turn or a history.
    pub usage: Option<Usage>,
    /// The cost of that usage.
    pub cost: Option<Cost>,
    /// The tool call.
    pub tool: Option<ToolUse>,
    /// The result of the tool.
    pub tool_response: Option<ToolResponse>,
    /// The answer of a turn.
    pub answer: Option<Answer>,
    /// A switch between agents.
    pub switch: Option<Switch>,
    /// The session that delegated the task of this one.
    pub parent_session_id: Option<String>,
    /// A compaction of the history.
    pub compaction: Option<Compaction>,
    /// The limit that was reached.
    pub max_iterations: Option<u32>,
    /// A notification of the user.
    pub notification: Option<Notification>,
    /// The error.
    pub error_message: Option<String>,
    /// The transcript of the session.
    pub transcript: Option<Transcript>,
}

/// The user's message and its context.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    /// The text as typed.
    pub text: String,
    /// A digest of the request prefix before the message: tools, system text and conversation as sent,
    /// including a summary at its start.
    pub prefix: Option<Digest>,
    /// The context that hooks have added so far, since the session started, in the order in which it is
    /// sent.
    pub context: Vec<String>,
    /// Set if the conversation before the message contains tool results.
    pub after_results: bool,
    /// Set if no user sent the message: another agent delegated the task.
    pub implicit: bool,
    /// Set if the user wants a new answer, bypassing cached ones.
    pub fresh: bool,
    /// Digests of the attachments.
    pub attachments: Vec<Digest>,
    /// The required output schema.
    pub form: Option<OutputFormat>,
}

/// A tool call.
#[derive(Debug, Clone, Default)]
pub struct ToolUse {
    /// The name of the tool.
    pub name: String,
    /// The provider's id of the call.
    pub id: String,
    /// The origin of the tool: `builtin`, `mcp`.
    pub category: String,
    /// For an MCP tool: its server, and its name on the server.
    pub mcp: Option<(String, String)>,
    /// Set if we guarantee that the tool changes nothing.
    pub read_only: bool,
    /// The arguments.
    pub input: Map<String, Value>,
    /// The resources that the call accesses, as its tool declares them: files, commands, URLs.
    /// Conditions and write guards rely on them. Empty for a call with invalid arguments.
    pub resource_access: ResourceAccess,
}

impl ToolUse {
    /// Removes arguments, and sets others.
    pub fn rewrite(&mut self, removed: &[String], updated: Option<&Map<String, Value>>) {
        for name in removed {
            self.input.shift_remove(name);
        }
        for (name, value) in updated.into_iter().flatten() {
            self.input.insert(name.clone(), value.clone());
        }
        // Resources that only the tool can declare are added when the call is looked up again.
        let shown = ResourceAccess::declared(&Value::Null, &self.input, self.read_only);
        self.resource_access.extend(shown);
    }
}

/// The result of a tool.
#[derive(Debug, Clone, Default)]
pub struct ToolResponse {
    /// The text of the result.
    pub text: String,
    /// Set if the tool failed.
    pub is_error: bool,
}

/// The answer of a turn.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The model's last text.
    pub text: String,
    /// The stop reason; `None` if no model was called.
    pub finish: Option<StopReason>,
    /// Set if a hook answered.
    pub synthetic: bool,
    /// Set if the turn continues because a stop hook asked for it.
    pub stop_hook_active: bool,
    /// The tool calls of the turn, in order.
    pub calls: Vec<TurnCall>,
    /// The cost of the turn, including the cost that caches saved: the savings if the answer is replayed
    /// without a model.
    pub worth: Spend,
    /// The origins of further additions to the user's message, beyond [`Prompt::context`].
    pub added_by: Vec<String>,
    /// Set if a fallback answered instead of the agent's model.
    pub by_fallback: bool,
    /// The reason why a hook of the same event rejected the answer, so that the turn continues. Set by
    /// the dispatcher for handlers that run after that hook; never part of the JSON.
    pub rejected: Option<String>,
}

/// A tool call of a turn.
#[derive(Debug, Clone)]
pub struct TurnCall {
    /// The name of the tool.
    pub name: String,
    /// Set if we guarantee that the tool changes nothing.
    pub read_only: bool,
    /// Set if the call failed or was denied.
    pub is_error: bool,
    /// The witnesses of its result.
    pub witnesses: Witnesses,
    /// The time at which its result expires; `None` if it has no expiry.
    pub expires: Option<Millis>,
}

/// A switch between agents.
#[derive(Debug, Clone, Default)]
pub struct Switch {
    /// The agent that pauses.
    pub from_agent: String,
    /// The agent that takes over.
    pub to_agent: String,
    /// `transfer_task`, `transfer_task_return`, `handoff`, or `user` for a switch by the user.
    pub kind: &'static str,
}

/// A compaction of the history.
#[derive(Debug, Clone, Default)]
pub struct Compaction {
    /// Tokens of the history.
    pub input_tokens: u64,
    /// Tokens of the answer that exceeded the limit.
    pub output_tokens: u64,
    /// The context window of the model in tokens; 0 if unknown.
    pub context_limit: u64,
    /// `threshold`, `overflow`, `manual`.
    pub reason: &'static str,
    /// The summary, after the compaction.
    pub summary: Option<String>,
}

/// A notification of the user.
#[derive(Debug, Clone, Default)]
pub struct Notification {
    /// `warning`, `error`, `info`.
    pub level: &'static str,
    /// The text.
    pub message: String,
    /// `permission_prompt`, `idle_prompt`, or `None`.
    pub kind: Option<&'static str>,
}
