//! The dialect of Codex: that of Claude Code with a few differences.

use serde_json::Value;

use super::claude;
use super::vocabulary::{Form, Spoken, Tool, Vocabulary, argument, spoken, tool, unheard};
use crate::Dialect;
use crate::definition::Entry;
use crate::event::Event;
use crate::input::Input;

pub(super) static VOCABULARY: Vocabulary = Vocabulary {
    events: &EVENTS,
    unheard: &[unheard("SubagentStart"), unheard("Interrupt")],
    tools: &TOOLS,
    remarks: &["description", "statusMessage"],
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
static EVENTS: [Spoken; claude::COUNT] = claude::events(spoken("PostToolUse", Event::PostToolUse));

/// The input of its handlers.
pub(super) fn told(entry: &Entry, input: &Input) -> Value {
    let mut told = claude::fields(Dialect::Codex, entry, input);
    told.insert("turn_id".to_owned(), input.turn_id.as_str().into());
    told.insert("model".to_owned(), input.model_id.as_str().into());
    Value::Object(told)
}
