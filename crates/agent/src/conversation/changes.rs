//! Notices of what has changed around a session since it was last used.

use std::collections::BTreeMap;

use bytes::Bytes;
use cachalot_model::Format;
use cachalot_model::wire::{Rendered, Wire, for_format};
use cachalot_prompt::{Level, Prompt, Session, SessionHead};

use super::agent_prompt::RenderedPrompt;
use super::tool_changes;
use super::tool_name::name;
use crate::{Error, ErrorKind};

/// Returns a notice if the working directory has changed.
pub(super) fn workspace(head: &SessionHead, now: &str) -> Option<String> {
    let before = head.workspace.as_deref().filter(|before| *before != now)?;
    Some(format!(
        "the session was held in {before}; its tools work in {now} now"
    ))
}

/// Returns notices of changed tools and system text. The session keeps the old ones.
pub(super) fn prompt(session: &Session, wire: &dyn Wire, now: &RenderedPrompt) -> Vec<String> {
    let mut notices = Vec::new();
    if let Some(which) = tools(session, wire, now) {
        notices.push(format!(
            "the agent's tools are not those that the session began with ({which}); the model keeps the tools of the session. A new session or `/reload` uses the new ones"
        ));
    }
    if !is_same_system(&session.prompt, now) {
        notices.push(
            "the agent's instruction has changed since the session began; the session keeps the old one, a new session uses the new one"
                .to_owned(),
        );
    }
    notices
}

/// Describes which tools were added, removed or changed; `None` if they are the same.
pub(super) fn tools(session: &Session, wire: &dyn Wire, now: &RenderedPrompt) -> Option<String> {
    let notes = &session.head.notes;
    let current = tool_changes::current(&session.prompt, wire, notes);
    let difference = difference(&bytes(&current), &now.tools)?;
    // Tools that were added later follow those that the session began with.
    let is_order = difference == OTHER_ORDER && tool_changes::noted(notes).is_some();
    (!is_order).then_some(difference)
}

/// Returns true if the system text is that of the prompt.
pub(super) fn is_same_system(prompt: &Prompt, now: &RenderedPrompt) -> bool {
    let mut pieces: Vec<Bytes> = prompt
        .backwards()
        .filter(|piece| piece.level == Level::System)
        .map(|piece| piece.bytes.clone())
        .collect();
    pieces.reverse();
    pieces == bytes(&now.system)
}

/// Describes tools that differ in their order only.
const OTHER_ORDER: &str = "their order is another";

fn bytes(pieces: &[Rendered]) -> Vec<Bytes> {
    pieces.iter().map(|piece| piece.bytes.clone()).collect()
}

fn difference(before: &[Bytes], now: &[Rendered]) -> Option<String> {
    let now = bytes(now);
    if before == now {
        return None;
    }
    let by_name = |pieces: &[Bytes]| -> BTreeMap<String, Bytes> {
        let named = |piece: &Bytes| (name(piece), piece.clone());
        pieces.iter().map(named).collect()
    };
    let (before, now) = (by_name(before), by_name(&now));
    let gone = before.keys().filter(|name| !now.contains_key(*name));
    let new = now.keys().filter(|name| !before.contains_key(*name));
    let other = before
        .iter()
        .filter(|(name, piece)| now.get(*name).is_some_and(|now| now != *piece))
        .map(|(name, _)| name);
    let told: Vec<String> = gone
        .map(|name| format!("`{name}` is gone"))
        .chain(new.map(|name| format!("`{name}` is new")))
        .chain(other.map(|name| format!("`{name}` is described otherwise")))
        .collect();
    Some(if told.is_empty() {
        OTHER_ORDER.to_owned()
    } else {
        told.join(", ")
    })
}

/// True if the messages can only be sent with tools: they contain tool calls, and the format then requires
/// tools.
pub(super) fn needs_tools(said: &Prompt, format: Format) -> bool {
    let called = || {
        let messages = said.messages();
        messages
            .iter()
            .any(|message| message.tool_uses().next().is_some())
    };
    for_format(format).request_rules().needs_tools_for_calls && called()
}

/// Fails if the conversation contains tool calls, the format then requires tools, and the agent has none.
pub(super) fn check_tools(
    session: &Session,
    now: &RenderedPrompt,
    format: Format,
) -> Result<(), Error> {
    if !now.tools.is_empty() || !needs_tools(&session.prompt, format) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Session,
        format!(
            "the session `{}` has tool calls, and its agent has no tools now: this provider takes no such conversation. Give the agent tools, or begin a new session",
            session.head.id
        ),
    ))
}
