//! The keys of hook input and hook output.

use cachalot_core::text::word_list;

use super::kinds::{key, text};
use super::{Key, Kind};

/// An output in `hook_specific_output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecificOutput {
    /// `additional_context`: appended to the newest message before it is first sent.
    AdditionalContext,
    /// `instruction_context`: instructions in the same place, which are kept up to date.
    InstructionContext,
    /// `permission_decision` and `permission_decision_reason`.
    PermissionDecision,
    /// `updated_input`: arguments that replace those of the same name.
    UpdatedInput,
    /// `updated_messages`: messages that replace the unsent ones.
    UpdatedMessages,
    /// `updated_tool_response`: replaces the result of the tool.
    UpdatedToolResponse,
    /// `summary`: replaces the summary of the model.
    Summary,
    /// `synthetic_response` (`llm_response`): replaces the answer of the model.
    SyntheticResponse,
    /// `metadata`: names and values that are passed on with the verdict.
    Metadata,
}

impl SpecificOutput {
    /// All outputs.
    pub const ALL: [Self; 9] = [
        Self::AdditionalContext,
        Self::InstructionContext,
        Self::PermissionDecision,
        Self::UpdatedInput,
        Self::UpdatedMessages,
        Self::UpdatedToolResponse,
        Self::Summary,
        Self::SyntheticResponse,
        Self::Metadata,
    ];

    /// The main key in `hook_specific_output`.
    #[must_use]
    pub fn key(self) -> &'static str {
        self.keys()[0].name
    }

    /// The keys in `hook_specific_output`: the main key first, then its companions or aliases.
    #[must_use]
    pub fn keys(self) -> &'static [Key] {
        let row = SPECIFIC_KEYS.iter().find(|(output, _)| *output == self);
        match row {
            Some((_, keys)) => keys,
            None => &[],
        }
    }
}

/// The keys of each output in `hook_specific_output`.
#[rustfmt::skip]
static SPECIFIC_KEYS: [(SpecificOutput, &[Key]); 9] = [
    (SpecificOutput::AdditionalContext, &[text("additional_context", "For the model: goes into the newest message before it is sent for the first time.")]),
    (SpecificOutput::InstructionContext, &[key("instruction_context", Kind::List, "For the model, behind that: instructions under names, `{label, content}`, which are sent again when they have changed (`changed_content`) or do not hold any more (`removed`, `removed_content`).")]),
    (SpecificOutput::PermissionDecision, &[
        key("permission_decision", Kind::OneOf(&["allow", "ask", "deny"]), "The decision about the call. Of several, the strongest applies: `deny`, then `ask`."),
        text("permission_decision_reason", "Why."),
    ]),
    (SpecificOutput::UpdatedInput, &[key("updated_input", Kind::Mapping, "Arguments in place of those of the same name; others stay.")]),
    (SpecificOutput::UpdatedMessages, &[key("updated_messages", Kind::List, "All messages of the input, with the last `unsent` of them rewritten; an empty list rewrites nothing.")]),
    (SpecificOutput::UpdatedToolResponse, &[text("updated_tool_response", "A result in place of the tool's; may be empty.")]),
    (SpecificOutput::Summary, &[text("summary", "A summary in place of the model's. The first counts.")]),
    (SpecificOutput::SyntheticResponse, &[
        key("synthetic_response", Kind::Synthetic, "An answer in place of the model's. The first counts, unless something was denied."),
        key("llm_response", Kind::Synthetic, "Another name of `synthetic_response`."),
    ]),
    (SpecificOutput::Metadata, &[key("metadata", Kind::Texts, "Names and values that travel with the verdict; of two with one name, the later.")]),
];

/// A group of input fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// `source`: `startup`, `resume`, `clear`, `compact`.
    Source,
    /// `prompt`: the user's message; `fresh`, `implicit`, `prefix`.
    Prompt,
    /// `messages`: the conversation including the messages to send; `unsent`: the number of messages, at
    /// the end, that were not sent before.
    Messages,
    /// `usage`, `cost` (absent: unpriced), `finish_reason`.
    Usage,
    /// `stop_response`: the text of one model answer.
    Text,
    /// `tool_name`, `tool_use_id`, `tool_category`, `tool_read_only`, `tool_input`.
    Tool,
    /// `tool_response`, `tool_error`.
    ToolResponse,
    /// `stop_response`, `finish_reason`, `synthetic`, `stop_hook_active`, `turn_tool_calls`.
    Answer,
    /// `reason`.
    Reason,
    /// `from_agent`, `to_agent`, `agent_switch_kind`.
    Agents,
    /// `parent_session_id`.
    Parent,
    /// `input_tokens`, `output_tokens`, `context_limit`, `compaction_reason`.
    Compaction,
    /// `summary`.
    Summary,
    /// `max_iterations`.
    Limit,
    /// `notification_level`, `notification_message`, `notification_type`.
    Notification,
    /// `error_message`.
    Error,
}

impl Field {
    /// The keys that all events have: session, agent and turn.
    pub const COMMON: &'static [&'static str] = &word_list::<10>(
        "session_id cwd hook_event_name transcript_path permission_mode agent_name model_id \
         turn_id iteration last_user_message",
    );

    /// The keys of the group.
    #[must_use]
    pub fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Source => &["source"],
            Self::Prompt => &["prompt", "fresh", "implicit", "prefix"],
            Self::Messages => &["messages", "unsent"],
            Self::Usage => &["usage", "cost", "finish_reason"],
            Self::Text => &["stop_response"],
            Self::Tool => &[
                "tool_name",
                "tool_use_id",
                "tool_category",
                "tool_read_only",
                "tool_input",
            ],
            Self::ToolResponse => &["tool_response", "tool_error"],
            Self::Answer => &[
                "stop_response",
                "finish_reason",
                "synthetic",
                "stop_hook_active",
                "turn_tool_calls",
            ],
            Self::Reason => &["reason"],
            Self::Agents => &["from_agent", "to_agent", "agent_switch_kind"],
            Self::Parent => &["parent_session_id"],
            Self::Compaction => &[
                "input_tokens",
                "output_tokens",
                "context_limit",
                "compaction_reason",
            ],
            Self::Summary => &["summary"],
            Self::Limit => &["max_iterations"],
            Self::Notification => &[
                "notification_level",
                "notification_message",
                "notification_type",
            ],
            Self::Error => &["error_message"],
        }
    }
}
