//! Messages that were not sent yet; hooks may rewrite them.
//!
//! The newest message is held until hooks have seen it. Then it becomes part of the session and is sent. A
//! turn that ends earlier leaves messages in the session that were neither seen by a hook nor sent. A session
//! note holds the number of such messages at the end. Hooks see them with the next request, while sent
//! messages never change.

use std::sync::Arc;

use cachalot_model::{Block, Extra, Message, Role, ToolResult, needs_notes, prepare};
use cachalot_prompt::Tail;
use serde_json::{Map, Value};

use super::{CHANGED_FIELD, Conversation, InterruptedTurn};
use crate::normalized_reply::is_visible;
use crate::{Error, media};

/// The session note that holds the number of unsent messages at the end.
const UNSENT_NOTE: &str = "unsent";

/// Notes that all messages were sent.
pub(super) fn all_sent(notes: &mut Map<String, Value>) {
    notes.shift_remove(UNSENT_NOTE);
}

/// Notes that the last `messages` messages were not sent.
pub(super) fn not_sent(notes: &mut Map<String, Value>, messages: usize) {
    match messages {
        0 => all_sent(notes),
        messages => {
            notes.insert(UNSENT_NOTE.to_owned(), Value::from(messages));
        }
    }
}

impl Conversation {
    /// Holds the newest message until it is sent.
    pub(crate) fn hold(&mut self, message: Option<Message>) {
        self.held = message;
    }

    /// The held message.
    pub(crate) fn held(&self) -> Option<&Message> {
        self.held.as_ref()
    }

    /// Takes the held message. The caller must append it; otherwise it is lost.
    fn release(&mut self) -> Option<Message> {
        self.held.take()
    }

    /// Returns the messages of the conversation with the held one, and the number of unsent messages at the
    /// end.
    pub(crate) fn with_held(&self) -> (Vec<Arc<Message>>, usize) {
        let mut messages = self.session.prompt.messages();
        messages.extend(self.held.clone().map(Arc::new));
        let unsent = self.unsent() + usize::from(self.held.is_some());
        (messages, unsent)
    }

    /// The number of unsent messages at the end of the session.
    pub(super) fn unsent(&self) -> usize {
        let noted = self
            .session
            .head
            .notes
            .get(UNSENT_NOTE)
            .and_then(Value::as_u64);
        usize::try_from(noted.unwrap_or(0)).unwrap_or(0)
    }

    /// Appends the held message, to be sent now. `rewritten` replaces it and the unsent messages before it.
    pub(crate) async fn append_held(
        &mut self,
        rewritten: Option<Vec<Message>>,
    ) -> Result<(), Error> {
        let Some(held) = self.release() else {
            return Ok(());
        };
        let Some(mut rewritten) = rewritten else {
            return self.append_to_send(held).await;
        };
        let unsent = self.unsent();
        if unsent == 0 {
            return self.append_to_send(rewritten.pop().unwrap_or(held)).await;
        }
        let before = || self.session.prompt.without_last(unsent).messages();
        let mut rewritten = media::fit_to_limits(rewritten, before, self.model.media()).await;
        let wire = self.model.wire();
        if needs_notes(wire.format()) {
            prepare(wire.format(), &before(), &mut rewritten);
        }
        let mut messages = Vec::with_capacity(rewritten.len());
        for message in rewritten {
            let pieces = wire.message(&message)?;
            messages.push((Arc::new(message), pieces));
        }
        let mut notes = self.session.head.notes.clone();
        all_sent(&mut notes);
        let amended = self.session.amend(unsent, &messages, notes).await;
        amended.map_err(|error| Error::session(&error))?;
        self.rebuild_indexes();
        Ok(())
    }

    async fn append_to_send(&mut self, message: Message) -> Result<(), Error> {
        let mut notes = self.session.head.notes.clone();
        all_sent(&mut notes);
        self.append_all(vec![message], notes).await
    }

    /// Appends the held message, which is not sent now.
    pub(crate) async fn append_held_unsent(&mut self) -> Result<(), Error> {
        match self.release() {
            Some(held) => self.append_unsent(held).await,
            None => Ok(()),
        }
    }

    /// Appends a message that is not sent now.
    pub(crate) async fn append_unsent(&mut self, message: Message) -> Result<(), Error> {
        self.append_all_unsent(vec![message]).await
    }

    /// Appends messages that are not sent now: all in one write, or none.
    pub(crate) async fn append_all_unsent(&mut self, messages: Vec<Message>) -> Result<(), Error> {
        let mut notes = self.session.head.notes.clone();
        not_sent(&mut notes, self.unsent() + messages.len());
        self.append_all(messages, notes).await
    }

    /// Repairs the conversation after an interrupted turn, so that it can continue: appends the held message,
    /// adds results to calls without results and an answer to an unanswered message. Uses `interrupted` where it
    /// has content. Nothing that was sent is changed.
    pub(crate) async fn repair(&mut self, interrupted: InterruptedTurn) -> Result<(), Error> {
        self.append_held_unsent().await?;
        if let Tail::OpenCalls(ids) = self.session.tail() {
            self.append_unsent(interrupted.results(ids)).await?;
        }
        if self.session.tail() == Tail::Unanswered {
            self.append_unsent(interrupted.answer()).await?;
        }
        Ok(())
    }
}

/// Checks messages that hooks have rewritten before they were sent. They are accepted if the provider accepts
/// the conversation with them as it does without: the same roles, calls and results. Changed results are
/// marked. Several messages of the user that replace a single one are joined into one.
///
/// # Errors
/// A description of the defect.
pub(crate) fn validate_rewrite(
    before: &[Arc<Message>],
    rewritten: Vec<Message>,
) -> Result<Vec<Message>, &'static str> {
    let mut rewritten = match before {
        [_] => vec![join_messages(rewritten)?],
        _ => rewritten,
    };
    if rewritten.len() != before.len() {
        return Err("there must be as many messages as before");
    }
    for (message, before) in rewritten.iter_mut().zip(before) {
        if message.role != before.role {
            return Err("user and model must take turns as before");
        }
        if ids(message) != ids(before) {
            return Err("the calls and the results of tools must be the same as before");
        }
        if !message.content.iter().any(has_content) {
            return Err("a message must say something");
        }
        mark_changes(message, before);
    }
    Ok(rewritten)
}

/// Joins messages of the user into one, tool results first.
fn join_messages(messages: Vec<Message>) -> Result<Message, &'static str> {
    let mut messages = messages.into_iter();
    let mut joined = messages.next().ok_or("there must be a message")?;
    for message in messages {
        if message.role != Role::User || joined.role != Role::User {
            return Err("only what the user says can be rewritten");
        }
        joined.content.extend(message.content);
    }
    let is_result = |block: &Block| matches!(block, Block::ToolResult(_));
    joined.content.sort_by_key(|block| !is_result(block));
    Ok(joined)
}

/// The IDs of calls (`true`) and results (`false`), in order.
fn ids(message: &Message) -> Vec<(bool, &str)> {
    message.content.iter().filter_map(id).collect()
}

fn id(block: &Block) -> Option<(bool, &str)> {
    match block {
        Block::ToolUse(call) => Some((true, &call.id)),
        Block::ToolResult(result) => Some((false, &result.id)),
        _ => None,
    }
}

fn has_content(block: &Block) -> bool {
    match block {
        Block::Text { text, .. } => is_visible(text),
        _ => true,
    }
}

/// Marks changed results: later calls cannot refer to them. Restores our marks of the message, because
/// handlers may have received it without them.
fn mark_changes(message: &mut Message, before: &Message) {
    let results = before.content.iter().filter_map(|block| match block {
        Block::ToolResult(result) => Some(result),
        _ => None,
    });
    let now = message.content.iter_mut().filter_map(|block| match block {
        Block::ToolResult(result) => Some(result),
        _ => None,
    });
    for (now, before) in now.zip(results) {
        if now.content != before.content || before.extra.contains_key(CHANGED_FIELD) {
            mark_changed(now);
        }
    }
    restore_marks(&mut message.extra, &before.extra);
}

/// Marks a result as what hooks have made of it.
pub(crate) fn mark_changed(result: &mut ToolResult) {
    result
        .extra
        .insert(CHANGED_FIELD.to_owned(), Value::Bool(true));
}

fn restore_marks(now: &mut Extra, before: &Extra) {
    let notes = before.iter().filter(|(name, _)| name.starts_with('@'));
    for (name, value) in notes {
        now.insert(name.clone(), value.clone());
    }
}
