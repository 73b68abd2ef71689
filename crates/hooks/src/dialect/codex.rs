//! Codex' words: Claude Code's, but for a few.

use serde_json::Value;

use super::claude;
use super::vocabulary::{Spoken, Vocabulary, only, spoken};
use crate::Dialect;
use crate::definition::{Entry, Only};
use crate::event::Event;
use crate::input::Input;

pub(super) static VOCABULARY: Vocabulary = Vocabulary {
    events: &EVENTS,
    unheard: &["SubagentStart"],
    tools: &claude::TOOLS,
    remarks: &["description", "statusMessage"],
    arguments_beside: false,
    timeouts_in_milliseconds: false,
    plain_context: &[Event::SessionStart, Event::UserPromptSubmit],
};

static EVENTS: [Spoken; 12] = [
    spoken("SessionStart", Event::SessionStart),
    spoken("SessionEnd", Event::SessionEnd),
    spoken("UserPromptSubmit", Event::UserPromptSubmit),
    spoken("PreToolUse", Event::PreToolUse),
    spoken("PermissionRequest", Event::PermissionRequest),
    // Commands that fail are told, too.
    spoken("PostToolUse", Event::PostToolUse),
    only("PostToolUseFailure", Event::PostToolUse, Only::Failures),
    spoken("Stop", Event::Stop),
    spoken("SubagentStop", Event::SubagentStop),
    spoken("PreCompact", Event::PreCompact),
    spoken("PostCompact", Event::AfterCompaction),
    spoken("Notification", Event::Notification),
];

/// What its handlers are told.
pub(super) fn told(entry: &Entry, input: &Input) -> Value {
    let mut told = claude::fields(Dialect::Codex, entry, input);
    told.insert("turn_id".to_owned(), input.turn_id.as_str().into());
    told.insert("model".to_owned(), input.model_id.as_str().into());
    Value::Object(told)
}
