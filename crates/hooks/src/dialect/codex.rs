//! The dialect of Codex: that of Claude Code with a few differences.

use serde_json::Value;

use super::claude;
use super::handler_call::HandlerCall;
use super::vocabulary::{
    Form, NamedEvent, Tool, Vocabulary, argument, named_event, tool, unsupported_event,
};
use crate::Dialect;
use crate::contract::Event;
use crate::input::Input;

pub(super) static VOCABULARY: Vocabulary = Vocabulary {
    events: &EVENTS,
    unsupported: &[
        unsupported_event("SubagentStart"),
        unsupported_event("Interrupt"),
    ],
    tools: &TOOLS,
    comment_keys: &["description", "statusMessage"],
    options_of_claude: false,
    arguments_beside: false,
    input_is_replaced: false,
    timeouts_in_milliseconds: false,
    timeout: claude::TIMEOUT,
    plain_context: &[Event::SessionStart, Event::UserPromptSubmit],
};

/// Guards in Codex name its own patch tool or the tools of Claude Code.
static TOOLS: [Tool; claude::TOOLS_COUNT] = claude::tools(tool(
    "apply_patch",
    &["apply_patch", "Edit", "MultiEdit", "Write"],
    &[argument("patch", "command", Form::Same)],
));

/// Failed commands also fire `PostToolUse`.
static EVENTS: [NamedEvent; claude::COUNT] =
    claude::events(named_event("PostToolUse", Event::PostToolUse));

/// The input of its handlers.
pub(super) fn write_input(call: HandlerCall<'_>, input: &Input) -> Value {
    let mut told = claude::fields(Dialect::Codex, call, input);
    told.insert("turn_id".to_owned(), input.turn_id.as_str().into());
    told.insert("model".to_owned(), input.model_id.as_str().into());
    Value::Object(told)
}
