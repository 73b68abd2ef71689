//! Types and descriptions of the keys.

use crate::permission_mode::PermissionMode;

/// A key of the input or of the output.
#[derive(Debug)]
pub struct Key {
    /// The name.
    pub name: &'static str,
    /// The type of the value.
    pub kind: Kind,
    /// A description for users.
    pub about: &'static str,
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// An integer from 0.
    Whole,
    /// A number from 0.
    Number,
    /// A mapping with values of any type.
    Mapping,
    /// A mapping of strings.
    Texts,
    /// A list of mappings.
    List,
    /// A synthetic answer.
    Synthetic,
}

/// Declares a key.
pub(super) const fn key(name: &'static str, kind: Kind, about: &'static str) -> Key {
    Key { name, kind, about }
}

/// Declares a key with a text.
pub(super) const fn text(name: &'static str, about: &'static str) -> Key {
    key(name, Kind::Text, about)
}

const fn flag(name: &'static str, about: &'static str) -> Key {
    key(name, Kind::Flag, about)
}

const fn whole(name: &'static str, about: &'static str) -> Key {
    key(name, Kind::Whole, about)
}

/// Every key of the input: those of [`super::Field::COMMON`], then those of each [`super::Field`]. Empty
/// values are left out of the input.
#[rustfmt::skip]
pub static INPUT_KEYS: &[Key] = &[
    text("session_id", "The session."),
    text("cwd", "The directory that tools work in."),
    text("hook_event_name", "The event."),
    text("transcript_path", "A file with the conversation, for handlers of other dialects; empty for our own."),
    key("permission_mode", Kind::OneOf(PermissionMode::NAMES), "The approval mode."),
    text("agent_name", "The agent at work."),
    text("model_id", "Its model: `provider/model`."),
    text("turn_id", "The turn: apart from all others."),
    whole("iteration", "Which model call of the turn, from 1."),
    text("last_user_message", "The last message of the user, as typed."),
    text("source", "Why: `startup`, `resume`, `clear`, `compact` of a session; `manual`, `auto` of a compaction."),
    text("prompt", "The message of the user, as typed."),
    flag("fresh", "True if the user requests a new answer, bypassing the response cache."),
    flag("implicit", "True for a task from another agent, false for a message of the user."),
    text("prefix", "A digest of what stands before it in the conversation, tools and system text included."),
    key("messages", Kind::List, "The conversation, with what is about to be sent."),
    whole("unsent", "The number of messages at the end that were not sent before: only these can be rewritten."),
    key("usage", Kind::Mapping, "Tokens: `input_tokens`, `output_tokens`, `cached_input_tokens`, `cached_write_tokens`, `reasoning_tokens`."),
    key("cost", Kind::Number, "US dollars; absent if the price is not known."),
    text("finish_reason", "Why the model ended."),
    text("tool_name", "The tool."),
    text("tool_use_id", "The provider's name for the call."),
    text("tool_category", "The source of the tool: `builtin`, `mcp`."),
    flag("tool_read_only", "True if the call is known to be read-only."),
    key("tool_input", Kind::Mapping, "The arguments."),
    text("tool_response", "The result of the tool."),
    flag("tool_error", "True if it failed."),
    text("stop_response", "The model's last text, whole; after a model call the text of that answer."),
    flag("synthetic", "True if a hook answered instead of the model."),
    flag("stop_hook_active", "True if the turn continues because a stop hook requested it; a hook must not request it forever."),
    key("turn_tool_calls", Kind::List, "The calls of tools in the turn: `name`, `read_only`, `error`."),
    text("reason", "Why it ended."),
    text("from_agent", "The agent that pauses."),
    text("to_agent", "The agent that continues."),
    text("agent_switch_kind", "`transfer_task`, `transfer_task_return`, `handoff`, or `user` for a switch by the user."),
    text("parent_session_id", "The session that gave the task of this one."),
    whole("input_tokens", "Tokens of the history."),
    whole("output_tokens", "Tokens of the answer that made it too long."),
    whole("context_limit", "The size of the model's context window in tokens; 0 if unknown."),
    text("compaction_reason", "`threshold`, `overflow`, `manual`."),
    text("summary", "The summary."),
    whole("max_iterations", "The limit that was reached."),
    text("notification_level", "`warning`, `error`, `info`."),
    text("notification_message", "The message for the user."),
    text("notification_type", "`permission_prompt`, `idle_prompt`."),
    text("error_message", "The name of the failure."),
];

/// The output keys that all events have.
#[rustfmt::skip]
pub static OUTPUT_KEYS: &[Key] = &[
    flag("continue", "`false` blocks."),
    text("stop_reason", "Why, with `continue: false`."),
    flag("suppress_output", "Without effect; strict hooks must not set it."),
    text("system_message", "For the user."),
    key("decision", Kind::OneOf(&["block", "deny"]), "Both block. To grant a call, set `permission_decision: allow`."),
    text("reason", "Why, with `decision: block`."),
    key("hook_specific_output", Kind::Mapping, "Output that only some events support."),
];

#[cfg(test)]
#[path = "../../tests/unit/contract/kinds.rs"]
mod tests;
