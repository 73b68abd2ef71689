//! The events of hooks.

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use super::{CONTRACTS, Contract};

/// An event, in the order of occurrence: within a turn or around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
#[derive(Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownEvent, parse_err_fn = unknown)]
pub enum Event {
    /// A session starts, is resumed, or starts anew after a compaction.
    #[default]
    SessionStart,
    /// The user sent a message.
    UserPromptSubmit,
    /// Before a turn: the last event at which it can be answered without a model.
    PreUserTurn,
    /// A turn starts.
    TurnStart,
    /// Before a model call.
    BeforeLlmCall,
    /// After a model call.
    AfterLlmCall,
    /// The model calls a tool; the arguments may be rewritten.
    ToolInputTransform,
    /// The arguments are final; the call may be denied.
    ToolGuard,
    /// The call may be allowed, denied, rewritten, or passed to the user for approval.
    PreToolUse,
    /// Before the user is asked for permission.
    PermissionRequest,
    /// A tool returned a result, which may be rewritten before the model receives it.
    ToolResponseTransform,
    /// The result of a tool is final.
    PostToolUse,
    /// A turn ended, for any reason.
    TurnEnd,
    /// The model has finished.
    Stop,
    /// A sub-agent has finished.
    SubagentStop,
    /// Another agent takes over.
    OnAgentSwitch,
    /// Before a compaction: the name in other runtimes.
    PreCompact,
    /// Before the history is summarized.
    BeforeCompaction,
    /// The history was summarized.
    AfterCompaction,
    /// The agent waits for the user.
    OnUserInput,
    /// The turn reached its maximum number of model calls.
    OnMaxIterations,
    /// A model or the turn failed.
    OnError,
    /// The user receives a notification.
    Notification,
    /// The session ends.
    SessionEnd,
}

/// The number of events.
pub(crate) const EVENTS: usize = Event::VARIANTS.len();

impl Event {
    /// The name in our files and in those of docker-agent: `pre_tool_use`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The contract of the event.
    #[must_use]
    pub fn contract(self) -> &'static Contract {
        &CONTRACTS[self as usize]
    }

    /// All events, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::VARIANTS.iter().copied()
    }
}

/// The error for an unknown event name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no event of that name")]
pub struct UnknownEvent;

fn unknown(_: &str) -> UnknownEvent {
    UnknownEvent
}
