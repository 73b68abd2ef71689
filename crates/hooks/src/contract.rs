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

use BlockEffect::{Continue, Nothing, Refusal};
use FailureEffect::{Denial, DenialByDefault, Warning};
use Order::{Parallel, Sequential};
use SpecificOutput as H;

/// The contract of an event without a tool matcher.
const fn contract(
    event: Event,
    fires: &'static str,
    order: Order,
    blocks: BlockEffect,
    honours: &'static [SpecificOutput],
    fields: &'static [Field],
) -> Contract {
    Contract {
        event,
        fires,
        tool_matched: false,
        order,
        blocks,
        failure: Warning,
        honours,
        fields,
    }
}

/// The contract of an event without a tool matcher whose hooks are guards.
const fn guard_contract(
    event: Event,
    fires: &'static str,
    order: Order,
    blocks: BlockEffect,
    honours: &'static [SpecificOutput],
    fields: &'static [Field],
) -> Contract {
    Contract {
        failure: DenialByDefault,
        ..contract(event, fires, order, blocks, honours, fields)
    }
}

/// The contract of an event with a tool matcher.
const fn tool_contract(
    event: Event,
    fires: &'static str,
    order: Order,
    blocks: BlockEffect,
    failure: FailureEffect,
    honours: &'static [SpecificOutput],
    fields: &'static [Field],
) -> Contract {
    Contract {
        tool_matched: true,
        failure,
        ..contract(event, fires, order, blocks, honours, fields)
    }
}

/// One contract per event, in the order of [`Event`].
pub static CONTRACTS: [Contract; EVENTS] = [
    contract(
        Event::SessionStart,
        "when a session begins, is resumed, or begins anew after a compaction; what is added goes into its next message",
        Parallel,
        Nothing,
        &[H::AdditionalContext, H::InstructionContext],
        &[Field::Source, Field::Parent],
    ),
    guard_contract(
        Event::UserPromptSubmit,
        "after each user message, once per turn; not for tasks that agents give to sub-agents",
        Parallel,
        Refusal,
        &[H::AdditionalContext, H::SyntheticResponse],
        &[Field::Prompt],
    ),
    guard_contract(
        Event::PreUserTurn,
        "behind user_prompt_submit, also for tasks of sub-agents: the last moment at which the turn can be answered without a model",
        Parallel,
        Refusal,
        &[H::SyntheticResponse],
        &[Field::Prompt],
    ),
    contract(
        Event::TurnStart,
        "when a turn has begun, before its message is put together",
        Parallel,
        Nothing,
        &[H::AdditionalContext, H::InstructionContext],
        &[Field::Prompt],
    ),
    guard_contract(
        Event::BeforeLlmCall,
        "before each model call; only what was not sent yet can be rewritten",
        Sequential,
        Refusal,
        &[H::UpdatedMessages, H::SyntheticResponse],
        &[Field::Messages],
    ),
    contract(
        Event::AfterLlmCall,
        "after each model call that was answered",
        Parallel,
        Nothing,
        &[],
        &[Field::Usage, Field::Text],
    ),
    tool_contract(
        Event::ToolInputTransform,
        "when the model calls a tool, before anything else",
        Sequential,
        Refusal,
        DenialByDefault,
        &[H::UpdatedInput],
        &[Field::Tool],
    ),
    tool_contract(
        Event::ToolGuard,
        "when the arguments of a call are rewritten, before permissions are looked at",
        Parallel,
        Refusal,
        Denial,
        &[H::PermissionDecision, H::Metadata],
        &[Field::Tool],
    ),
    tool_contract(
        Event::PreToolUse,
        "before every call, independent of permissions; allowing does not override a rule that denies or asks",
        Sequential,
        Refusal,
        Denial,
        &[H::UpdatedInput, H::PermissionDecision, H::AdditionalContext],
        &[Field::Tool],
    ),
    tool_contract(
        Event::PermissionRequest,
        "before the user is asked whether a call may be made, instead of whom a hook may answer",
        Parallel,
        Refusal,
        DenialByDefault,
        &[H::PermissionDecision, H::UpdatedInput, H::Metadata],
        &[Field::Tool],
    ),
    tool_contract(
        Event::ToolResponseTransform,
        "when a tool has answered or failed, before the model sees it",
        Sequential,
        Nothing,
        Warning,
        &[H::UpdatedToolResponse],
        &[Field::Tool, Field::ToolResponse],
    ),
    tool_contract(
        Event::PostToolUse,
        "when the result of a call is final; blocking ends the turn behind the calls of the same answer",
        Parallel,
        Refusal,
        Warning,
        &[H::AdditionalContext, H::UpdatedToolResponse],
        &[Field::Tool, Field::ToolResponse],
    ),
    contract(
        Event::TurnEnd,
        "when a turn is over, however it ended",
        Parallel,
        Nothing,
        &[],
        &[Field::Reason],
    ),
    contract(
        Event::Stop,
        "when the model has nothing more to do, or a hook has answered",
        Parallel,
        Continue,
        &[],
        &[Field::Answer, Field::Prompt],
    ),
    contract(
        Event::SubagentStop,
        "when a sub-agent has finished; runs the hooks of the agent that gave it the task",
        Parallel,
        Nothing,
        &[],
        &[Field::Answer, Field::Parent],
    ),
    contract(
        Event::OnAgentSwitch,
        "when an agent gives a task to another one, and when that comes back",
        Parallel,
        Nothing,
        &[],
        &[Field::Agents],
    ),
    contract(
        Event::PreCompact,
        "before the history is summarized, ahead of before_compaction: the name that other runtimes have for it",
        Parallel,
        Refusal,
        &[H::AdditionalContext],
        &[Field::Source, Field::Compaction],
    ),
    contract(
        Event::BeforeCompaction,
        "before the history is summarized; a hook may bring a summary of its own",
        Parallel,
        Refusal,
        &[H::Summary],
        &[Field::Compaction],
    ),
    contract(
        Event::AfterCompaction,
        "when the history was summarized",
        Parallel,
        Nothing,
        &[],
        &[Field::Compaction, Field::Summary],
    ),
    contract(
        Event::OnUserInput,
        "when the user is waited for",
        Parallel,
        Nothing,
        &[],
        &[],
    ),
    contract(
        Event::OnMaxIterations,
        "when a turn has made as many model calls as it may",
        Parallel,
        Nothing,
        &[],
        &[Field::Limit],
    ),
    contract(
        Event::OnError,
        "when a model or the turn has failed",
        Parallel,
        Nothing,
        &[],
        &[Field::Error],
    ),
    contract(
        Event::Notification,
        "when the user gets a warning, an error or a permission prompt",
        Parallel,
        Nothing,
        &[],
        &[Field::Notification],
    ),
    contract(
        Event::SessionEnd,
        "when a session ends",
        Parallel,
        Nothing,
        &[],
        &[Field::Reason],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contracts_are_ordered_by_event() {
        for (index, contract) in CONTRACTS.iter().enumerate() {
            assert_eq!(contract.event as usize, index);
            assert_eq!(contract.event.name().parse(), Ok(contract.event));
        }
    }
}
