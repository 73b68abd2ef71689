//! The contract of each event. The dispatcher, the JSON Schemas and `docs/HOOKS.md` derive from this
//! table.

mod event;
mod keys;
mod kinds;

pub(crate) use event::EVENTS;
pub use event::{Event, UnknownEvent};
pub use keys::{Field, SpecificOutput};
pub use kinds::{INPUT_KEYS, Key, Kind, OUTPUT_KEYS};

/// The contract of an event.
#[derive(Debug)]
pub struct Contract {
    /// The event.
    pub event: Event,
    /// The moment at which it fires, and its purpose.
    pub fires: &'static str,
    /// True if its hooks have a matcher for tools.
    pub tool_matched: bool,
    /// The order in which handlers run.
    pub order: Order,
    /// The effect of a handler that blocks.
    pub blocks: BlockEffect,
    /// The effect of a handler that fails.
    pub failure: FailureEffect,
    /// The outputs that take effect, in addition to a message for the user.
    pub honours: &'static [SpecificOutput],
    /// The input fields, in addition to those of all events ([`Field::COMMON`]).
    pub fields: &'static [Field],
}

impl Contract {
    /// True if the output takes effect at this event.
    #[must_use]
    pub fn honours(&self, what: SpecificOutput) -> bool {
        self.honours.contains(&what)
    }
}

/// The order in which the handlers of an event run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Concurrently.
    Parallel,
    /// One after the other: each sees the rewrites of the earlier ones.
    Sequential,
}

/// The effect of a handler that blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockEffect {
    /// Only a message: it is too late, or there is nothing to deny.
    Nothing,
    /// The operation is not carried out.
    Refusal,
    /// The agent continues and receives the reason. Only for handlers of a dialect with this meaning
    /// ([`crate::Dialect::continues_on_stop_block`]); for others, a message.
    Continue,
}

/// The effect of a handler that fails, unless its definition overrides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureEffect {
    /// A warning.
    Warning,
    /// A denial, unless the definition has `on_error: warn` or `ignore`, or the handler is a builtin
    /// that guards nothing ([`crate::Builtin::fails_open`]).
    DenialByDefault,
    /// A denial; `on_error` cannot override it. Handlers of other dialects still fail open
    /// ([`crate::Dialect::fails_open`]).
    Denial,
}

use BlockEffect::{Continue, Refusal};
use FailureEffect::{Denial, DenialByDefault};
use Order::Sequential;
use SpecificOutput as H;

/// The contract of an event without input of its own at which a handler has no effect.
const fn contract(event: Event) -> Contract {
    Contract {
        event,
        fires: "",
        tool_matched: false,
        order: Order::Parallel,
        blocks: BlockEffect::Nothing,
        failure: FailureEffect::Warning,
        honours: &[],
        fields: &[],
    }
}

/// One contract per event, in the order of [`Event`].
pub static CONTRACTS: [Contract; EVENTS] = [
    Contract {
        fires: "when a session begins, is resumed, or begins anew after a compaction; what is added goes into its next message",
        honours: &[H::AdditionalContext, H::InstructionContext],
        fields: &[Field::Source, Field::Parent],
        ..contract(Event::SessionStart)
    },
    Contract {
        fires: "after each user message, once per turn; not for tasks that agents give to sub-agents",
        blocks: Refusal,
        failure: DenialByDefault,
        honours: &[H::AdditionalContext, H::SyntheticResponse],
        fields: &[Field::Prompt],
        ..contract(Event::UserPromptSubmit)
    },
    Contract {
        fires: "behind user_prompt_submit, also for tasks of sub-agents: the last moment at which the turn can be answered without a model",
        blocks: Refusal,
        failure: DenialByDefault,
        honours: &[H::SyntheticResponse],
        fields: &[Field::Prompt],
        ..contract(Event::PreUserTurn)
    },
    Contract {
        fires: "when a turn has begun, before its message is put together",
        honours: &[H::AdditionalContext, H::InstructionContext],
        fields: &[Field::Prompt],
        ..contract(Event::TurnStart)
    },
    Contract {
        fires: "before each model call; only what was not sent yet can be rewritten",
        order: Sequential,
        blocks: Refusal,
        failure: DenialByDefault,
        honours: &[H::UpdatedMessages, H::SyntheticResponse],
        fields: &[Field::Messages],
        ..contract(Event::BeforeLlmCall)
    },
    Contract {
        fires: "after each model call that was answered",
        fields: &[Field::Usage, Field::Text],
        ..contract(Event::AfterLlmCall)
    },
    Contract {
        fires: "when the model calls a tool, before anything else",
        tool_matched: true,
        order: Sequential,
        blocks: Refusal,
        failure: DenialByDefault,
        honours: &[H::UpdatedInput],
        fields: &[Field::Tool],
        ..contract(Event::ToolInputTransform)
    },
    Contract {
        fires: "when the arguments of a call are rewritten, before permissions are looked at",
        tool_matched: true,
        blocks: Refusal,
        failure: Denial,
        honours: &[H::PermissionDecision, H::Metadata],
        fields: &[Field::Tool],
        ..contract(Event::ToolGuard)
    },
    Contract {
        fires: "before every call, independent of permissions; allowing does not override a rule that denies or asks",
        tool_matched: true,
        order: Sequential,
        blocks: Refusal,
        failure: Denial,
        honours: &[H::UpdatedInput, H::PermissionDecision, H::AdditionalContext],
        fields: &[Field::Tool],
        ..contract(Event::PreToolUse)
    },
    Contract {
        fires: "before the user is asked whether a call may be made, instead of whom a hook may answer",
        tool_matched: true,
        blocks: Refusal,
        failure: DenialByDefault,
        honours: &[H::PermissionDecision, H::UpdatedInput, H::Metadata],
        fields: &[Field::Tool],
        ..contract(Event::PermissionRequest)
    },
    Contract {
        fires: "when a tool has answered or failed, before the model sees it",
        tool_matched: true,
        order: Sequential,
        honours: &[H::UpdatedToolResponse],
        fields: &[Field::Tool, Field::ToolResponse],
        ..contract(Event::ToolResponseTransform)
    },
    Contract {
        fires: "when the result of a call is final; blocking ends the turn behind the calls of the same answer",
        tool_matched: true,
        blocks: Refusal,
        honours: &[H::AdditionalContext, H::UpdatedToolResponse],
        fields: &[Field::Tool, Field::ToolResponse],
        ..contract(Event::PostToolUse)
    },
    Contract {
        fires: "when a turn is over, however it ended",
        fields: &[Field::Reason],
        ..contract(Event::TurnEnd)
    },
    Contract {
        fires: "when the model has nothing more to do, or a hook has answered",
        blocks: Continue,
        fields: &[Field::Answer, Field::Prompt],
        ..contract(Event::Stop)
    },
    Contract {
        fires: "when a sub-agent has finished; runs the hooks of the agent that gave it the task",
        fields: &[Field::Answer, Field::Parent],
        ..contract(Event::SubagentStop)
    },
    Contract {
        fires: "when an agent gives a task to another one, and when that comes back",
        fields: &[Field::Agents],
        ..contract(Event::OnAgentSwitch)
    },
    Contract {
        fires: "before the history is summarized, ahead of before_compaction: the name that other runtimes have for it",
        blocks: Refusal,
        honours: &[H::AdditionalContext],
        fields: &[Field::Source, Field::Compaction],
        ..contract(Event::PreCompact)
    },
    Contract {
        fires: "before the history is summarized; a hook may bring a summary of its own",
        blocks: Refusal,
        honours: &[H::Summary],
        fields: &[Field::Compaction],
        ..contract(Event::BeforeCompaction)
    },
    Contract {
        fires: "when the history was summarized",
        fields: &[Field::Compaction, Field::Summary],
        ..contract(Event::AfterCompaction)
    },
    Contract {
        fires: "when the user is waited for",
        ..contract(Event::OnUserInput)
    },
    Contract {
        fires: "when a turn has made as many model calls as it may",
        fields: &[Field::Limit],
        ..contract(Event::OnMaxIterations)
    },
    Contract {
        fires: "when a model or the turn has failed",
        fields: &[Field::Error],
        ..contract(Event::OnError)
    },
    Contract {
        fires: "when the user gets a warning, an error or a permission prompt",
        fields: &[Field::Notification],
        ..contract(Event::Notification)
    },
    Contract {
        fires: "when a session ends",
        fields: &[Field::Reason],
        ..contract(Event::SessionEnd)
    },
];

#[cfg(test)]
#[path = "../tests/unit/contract.rs"]
mod tests;
