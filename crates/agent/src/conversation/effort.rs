//! The effort of a session whose requests keep the one that the session began with: a message of the user brings
//! another one.

use std::sync::Arc;

use cachalot_model::{Block, Message, Model, RequestedReasoning, SettingChanges};
use cachalot_prompt::{Prompt, SessionHead, normal};
use serde_json::{Map, Value};

/// The session note that holds the reasoning of its first request; null if the request has none.
const REASONING_NOTE: &str = "reasoning";

/// The efforts that a message can bring.
const LEVELS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// Notes the configured reasoning as that of a session whose prompt is rendered now.
pub(super) fn note_first(notes: &mut Map<String, Value>, model: &Model) {
    notes.shift_remove(REASONING_NOTE);
    if model.accepts_effort_changes()
        && let Ok(first) = serde_json::to_value(&model.parameters().reasoning)
    {
        notes.insert(REASONING_NOTE.to_owned(), first);
    }
}

/// Returns the reasoning of the requests of a session: that of its first request, if a message can bring the
/// configured one.
pub(super) fn sent(head: &SessionHead, model: &Model) -> Option<RequestedReasoning> {
    let configured = model.parameters().reasoning.clone();
    let is_own = (head.provider.as_str(), head.model.as_str()) == (model.provider(), model.name());
    let note = head.notes.get(REASONING_NOTE);
    let Some(note) = note.filter(|_| is_own && model.accepts_effort_changes()) else {
        return configured;
    };
    let Ok(first) = serde_json::from_value::<Option<RequestedReasoning>>(note.clone()) else {
        return configured;
    };
    let can_change = [&first, &configured]
        .into_iter()
        .all(|reasoning| level(reasoning.as_ref(), model).is_some());
    if can_change { first } else { configured }
}

/// Returns the effort that the next message after `prompt` brings; `None` if the model has it already.
pub(super) fn pending(head: &SessionHead, model: &Model, prompt: &Prompt) -> Option<String> {
    if !model.accepts_effort_changes() {
        return None;
    }
    let messages = prompt.messages();
    // The provider drops what was said before its summary; a message has to bring it again.
    let is_summary = |message: &&Arc<Message>| message.content.iter().any(Block::is_compaction);
    let said = messages
        .iter()
        .rev()
        .take_while(|message| !is_summary(message));
    let mut brought = said.filter_map(|message| SettingChanges::noted(message)?.effort);
    let brought = brought.next();
    // Reasoning without a level replaces the effort that an earlier message has brought by the usual one.
    let usual = || level(None, model).filter(|_| brought.is_some());
    let wanted = level(model.parameters().reasoning.as_ref(), model).or_else(usual)?;
    let now = match &brought {
        Some(brought) => Some(brought.clone()),
        None => level(sent(head, model).as_ref(), model),
    };
    (now.as_ref() != Some(&wanted)).then_some(wanted)
}

/// Returns the effort of a reasoning, if a message can bring it.
fn level(reasoning: Option<&RequestedReasoning>, model: &Model) -> Option<String> {
    let effort = match reasoning {
        Some(RequestedReasoning::Effort(effort)) => effort.as_str(),
        Some(RequestedReasoning::Budget(_)) => return None,
        None => normal::default_effort(model.wire().format(), model.name())?,
    };
    LEVELS.contains(&effort).then(|| effort.to_owned())
}
