//! What hooks are told of.

use std::fmt;
use std::str::FromStr;

/// A moment of a turn, or around one, in the order in which they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Event {
    /// A session begins, goes on, or begins anew after a compaction.
    #[default]
    SessionStart,
    /// The user has said something.
    UserPromptSubmit,
    /// The turn is about to begin: the last moment at which it can be answered without a model.
    PreUserTurn,
    /// The turn begins.
    TurnStart,
    /// A model is about to be asked.
    BeforeLlmCall,
    /// A model has answered.
    AfterLlmCall,
    /// The model wants to call a tool; its arguments may be rewritten.
    ToolInputTransform,
    /// The arguments are final; the call may be forbidden.
    ToolGuard,
    /// The call may be allowed, forbidden, asked about or rewritten.
    PreToolUse,
    /// The user is about to be asked for permission.
    PermissionRequest,
    /// A tool has answered; its result may be rewritten before the model sees it.
    ToolResponseTransform,
    /// A tool has answered, and the result is final.
    PostToolUse,
    /// The turn is over, however it ended.
    TurnEnd,
    /// The model has nothing more to do.
    Stop,
    /// A sub-agent has nothing more to do.
    SubagentStop,
    /// Another agent goes on.
    OnAgentSwitch,
    /// The history is about to be compacted: the moment of other runtimes.
    PreCompact,
    /// The history is about to be summarized.
    BeforeCompaction,
    /// The history was summarized.
    AfterCompaction,
    /// The user is waited for.
    OnUserInput,
    /// The turn has made as many model calls as it may.
    OnMaxIterations,
    /// A model or the turn has failed.
    OnError,
    /// The user is told of something.
    Notification,
    /// The session ends.
    SessionEnd,
}

/// How many events there are.
pub(crate) const EVENTS: usize = Event::SessionEnd as usize + 1;

impl Event {
    /// Its name in our own and in docker-agent's files: `pre_tool_use`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SessionStart => "session_start",
            Self::UserPromptSubmit => "user_prompt_submit",
            Self::PreUserTurn => "pre_user_turn",
            Self::TurnStart => "turn_start",
            Self::BeforeLlmCall => "before_llm_call",
            Self::AfterLlmCall => "after_llm_call",
            Self::ToolInputTransform => "tool_input_transform",
            Self::ToolGuard => "tool_guard",
            Self::PreToolUse => "pre_tool_use",
            Self::PermissionRequest => "permission_request",
            Self::ToolResponseTransform => "tool_response_transform",
            Self::PostToolUse => "post_tool_use",
            Self::TurnEnd => "turn_end",
            Self::Stop => "stop",
            Self::SubagentStop => "subagent_stop",
            Self::OnAgentSwitch => "on_agent_switch",
            Self::PreCompact => "pre_compact",
            Self::BeforeCompaction => "before_compaction",
            Self::AfterCompaction => "after_compaction",
            Self::OnUserInput => "on_user_input",
            Self::OnMaxIterations => "on_max_iterations",
            Self::OnError => "on_error",
            Self::Notification => "notification",
            Self::SessionEnd => "session_end",
        }
    }

    /// What holds of it.
    #[must_use]
    pub fn contract(self) -> &'static crate::Contract {
        &crate::CONTRACTS[self as usize]
    }

    /// All of them, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        crate::CONTRACTS.iter().map(|contract| contract.event)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no event of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no event of that name")]
pub struct UnknownEvent;

/// By [`Event::name`].
impl FromStr for Event {
    type Err = UnknownEvent;

    fn from_str(name: &str) -> Result<Self, UnknownEvent> {
        Self::all()
            .find(|event| event.name() == name)
            .ok_or(UnknownEvent)
    }
}
