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

impl Kind {
    /// A short description for tables.
    #[must_use]
    pub fn word(self) -> String {
        let word = match self {
            Self::Text => "text",
            Self::OneOf(texts) => return format!("`{}`", texts.join("`, `")),
            Self::Flag => "true or false",
            Self::Whole => "whole number",
            Self::Number => "number",
            Self::Mapping => "mapping",
            Self::Texts => "mapping of texts",
            Self::List => "list of mappings",
            Self::Synthetic => "mapping: `content`, `provenance`, `metadata`, `saved`",
        };
        word.to_owned()
    }
}

const fn key(name: &'static str, kind: Kind, about: &'static str) -> Key {
    Key { name, kind, about }
}

/// Every key of the input: those of [`super::Field::COMMON`], then those of each [`super::Field`]. Empty
/// values are left out of the input.
pub static INPUT_KEYS: &[Key] = &[
    key("session_id", Kind::Text, "The session."),
    key("cwd", Kind::Text, "The directory that tools work in."),
    key("hook_event_name", Kind::Text, "The event."),
    key(
        "transcript_path",
        Kind::Text,
        "A file with the conversation, for handlers of other dialects; empty for our own.",
    ),
    key(
        "permission_mode",
        Kind::OneOf(&PermissionMode::NAMES),
        "The approval mode.",
    ),
    key("agent_name", Kind::Text, "The agent at work."),
    key("model_id", Kind::Text, "Its model: `provider/model`."),
    key("turn_id", Kind::Text, "The turn: apart from all others."),
    key(
        "iteration",
        Kind::Whole,
        "Which model call of the turn, from 1.",
    ),
    key(
        "last_user_message",
        Kind::Text,
        "The last message of the user, as typed.",
    ),
    key(
        "source",
        Kind::Text,
        "Why: `startup`, `resume`, `clear`, `compact` of a session; `manual`, `auto` of a compaction.",
    ),
    key("prompt", Kind::Text, "The message of the user, as typed."),
    key(
        "fresh",
        Kind::Flag,
        "True if the user requests a new answer, bypassing the response cache.",
    ),
    key(
        "implicit",
        Kind::Flag,
        "True for a task from another agent, false for a message of the user.",
    ),
    key(
        "prefix",
        Kind::Text,
        "A digest of what stands before it in the conversation, tools and system text included.",
    ),
    key(
        "messages",
        Kind::List,
        "The conversation, with what is about to be sent.",
    ),
    key(
        "unsent",
        Kind::Whole,
        "The number of messages at the end that were not sent before: only these can be rewritten.",
    ),
    key(
        "usage",
        Kind::Mapping,
        "Tokens: `input_tokens`, `output_tokens`, `cached_input_tokens`, `cached_write_tokens`, `reasoning_tokens`.",
    ),
    key(
        "cost",
        Kind::Number,
        "US dollars; absent if the price is not known.",
    ),
    key("finish_reason", Kind::Text, "Why the model ended."),
    key("tool_name", Kind::Text, "The tool."),
    key(
        "tool_use_id",
        Kind::Text,
        "The provider's name for the call.",
    ),
    key(
        "tool_category",
        Kind::Text,
        "The source of the tool: `builtin`, `mcp`.",
    ),
    key(
        "tool_read_only",
        Kind::Flag,
        "True if the call is known to be read-only.",
    ),
    key("tool_input", Kind::Mapping, "The arguments."),
    key("tool_response", Kind::Text, "The result of the tool."),
    key("tool_error", Kind::Flag, "True if it failed."),
    key(
        "stop_response",
        Kind::Text,
        "The model's last text, whole; after a model call the text of that answer.",
    ),
    key(
        "synthetic",
        Kind::Flag,
        "True if a hook answered instead of the model.",
    ),
    key(
        "stop_hook_active",
        Kind::Flag,
        "True if the turn continues because a stop hook requested it; a hook must not request it forever.",
    ),
    key(
        "turn_tool_calls",
        Kind::List,
        "The calls of tools in the turn: `name`, `read_only`, `error`.",
    ),
    key("reason", Kind::Text, "Why it ended."),
    key("from_agent", Kind::Text, "The agent that pauses."),
    key("to_agent", Kind::Text, "The agent that continues."),
    key(
        "agent_switch_kind",
        Kind::Text,
        "`transfer_task`, `transfer_task_return`.",
    ),
    key(
        "parent_session_id",
        Kind::Text,
        "The session that gave the task of this one.",
    ),
    key("input_tokens", Kind::Whole, "Tokens of the history."),
    key(
        "output_tokens",
        Kind::Whole,
        "Tokens of the answer that made it too long.",
    ),
    key(
        "context_limit",
        Kind::Whole,
        "The size of the model's context window in tokens; 0 if unknown.",
    ),
    key(
        "compaction_reason",
        Kind::Text,
        "`threshold`, `overflow`, `manual`.",
    ),
    key("summary", Kind::Text, "The summary."),
    key("max_iterations", Kind::Whole, "The limit that was reached."),
    key(
        "notification_level",
        Kind::Text,
        "`warning`, `error`, `info`.",
    ),
    key(
        "notification_message",
        Kind::Text,
        "The message for the user.",
    ),
    key(
        "notification_type",
        Kind::Text,
        "`permission_prompt`, `idle_prompt`.",
    ),
    key("error_message", Kind::Text, "The name of the failure."),
];

/// The output keys that all events have.
pub static OUTPUT_KEYS: &[Key] = &[
    key("continue", Kind::Flag, "`false` blocks."),
    key("stop_reason", Kind::Text, "Why, with `continue: false`."),
    key(
        "suppress_output",
        Kind::Flag,
        "Without effect; strict hooks must not set it.",
    ),
    key("system_message", Kind::Text, "For the user."),
    key(
        "decision",
        Kind::OneOf(&["block", "deny"]),
        "Both block. To grant a call, set `permission_decision: allow`.",
    ),
    key("reason", Kind::Text, "Why, with `decision: block`."),
    key(
        "hook_specific_output",
        Kind::Mapping,
        "Output that only some events support.",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::contract::{CONTRACTS, Field};

    #[test]
    fn every_input_key_has_exactly_one_kind() {
        let mut told: Vec<&str> = Field::COMMON.to_vec();
        let fields = CONTRACTS.iter().flat_map(|contract| contract.fields);
        told.extend(fields.flat_map(|field| field.keys()));
        let told: BTreeSet<&str> = told.into_iter().collect();
        let known: BTreeSet<&str> = INPUT_KEYS.iter().map(|key| key.name).collect();
        assert_eq!(told, known);
        assert_eq!(INPUT_KEYS.len(), known.len());
    }
}
