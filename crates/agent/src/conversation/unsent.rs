//! What is about to be sent for the first time: until then, hooks may rewrite it.
//!
//! The newest message is held until hooks have seen it, then it becomes part of the session and is
//! sent. A turn that ends before leaves messages in the session that no hook has seen and nobody was
//! sent. How many they are, at its end, stands in the session's notes: the next time they are seen,
//! too, and what was sent stays as it was sent all the same.

use std::sync::Arc;

use cachalot_model::{Block, Extra, Message, Role, ToolResult, needs_notes, prepare};
use cachalot_prompt::Tail;
use serde_json::{Map, Value};

use super::{CHANGED, Conversation, Remains};
use crate::said::is_visible;
use crate::{Error, media};

/// The note of a session that says how many messages at its end were not sent.
const UNSENT: &str = "unsent";

/// Notes that everything was sent.
pub(super) fn all_sent(notes: &mut Map<String, Value>) {
    notes.shift_remove(UNSENT);
}

/// Notes that so many messages at the end were not sent.
pub(super) fn not_sent(notes: &mut Map<String, Value>, messages: usize) {
    match messages {
        0 => all_sent(notes),
        messages => {
            notes.insert(UNSENT.to_owned(), Value::from(messages));
        }
    }
}

impl Conversation {
    /// Holds the newest message until it is sent.
    pub(crate) fn hold(&mut self, message: Option<Message>) {
        self.held = message;
    }

    /// The message that is held.
    pub(crate) fn held(&self) -> Option<&Message> {
        self.held.as_ref()
    }

    /// The message that is held. Whoever takes it says it, or it was never there.
    fn release(&mut self) -> Option<Message> {
        self.held.take()
    }

    /// The conversation with what is held, and how many messages at its end were not sent.
    pub(crate) fn with_held(&self) -> (Vec<Arc<Message>>, usize) {
        let mut messages = self.session.prompt.messages();
        messages.extend(self.held.clone().map(Arc::new));
        let unsent = self.unsent() + usize::from(self.held.is_some());
        (messages, unsent)
    }

    /// How many messages at the end of the session were not sent.
    pub(super) fn unsent(&self) -> usize {
        let noted = self.session.head.notes.get(UNSENT).and_then(Value::as_u64);
        usize::try_from(noted.unwrap_or(0)).unwrap_or(0)
    }

    /// Says what is held, to be sent now, with `rewritten` in place of it and of what was not sent
    /// before.
    pub(crate) async fn say_held(&mut self, rewritten: Option<Vec<Message>>) -> Result<(), Error> {
        let Some(held) = self.release() else {
            return Ok(());
        };
        let Some(mut rewritten) = rewritten else {
            return self.say_to_be_sent(held).await;
        };
        let left_over = self.unsent();
        if left_over == 0 {
            return self.say_to_be_sent(rewritten.pop().unwrap_or(held)).await;
        }
        let before = || self.session.prompt.without_last(left_over).messages();
        let mut rewritten = media::fit(rewritten, before, self.model.media()).await;
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
        let amended = self.session.amend(left_over, &messages, notes).await;
        amended.map_err(|error| Error::session(&error))?;
        self.forget_and_note();
        Ok(())
    }

    async fn say_to_be_sent(&mut self, message: Message) -> Result<(), Error> {
        let mut notes = self.session.head.notes.clone();
        all_sent(&mut notes);
        self.say_all(vec![message], notes).await
    }

    /// Says what is held, which is not sent now.
    pub(crate) async fn say_held_back(&mut self) -> Result<(), Error> {
        match self.release() {
            Some(held) => self.say_unsent(held).await,
            None => Ok(()),
        }
    }

    /// Adds a message that is not sent now.
    pub(crate) async fn say_unsent(&mut self, message: Message) -> Result<(), Error> {
        self.say_all_unsent(vec![message]).await
    }

    /// Adds messages that are not sent now: all in one step, or none.
    pub(crate) async fn say_all_unsent(&mut self, messages: Vec<Message>) -> Result<(), Error> {
        let mut notes = self.session.head.notes.clone();
        not_sent(&mut notes, self.unsent() + messages.len());
        self.say_all(messages, notes).await
    }

    /// Makes the conversation one that can go on: what is held is said, calls without results get
    /// some, and what was not answered gets an answer, from what a turn left behind as far as there is
    /// something. Nothing that was sent is changed.
    pub(crate) async fn mend(&mut self, remains: Remains) -> Result<(), Error> {
        self.say_held_back().await?;
        if let Tail::OpenCalls(ids) = self.session.tail() {
            self.say_unsent(remains.results(ids)).await?;
        }
        if self.session.tail() == Tail::Unanswered {
            self.say_unsent(remains.answer()).await?;
        }
        Ok(())
    }
}

/// What hooks have made of messages that were not sent yet, if a provider takes the conversation with
/// it as it takes it without: the same speakers, calls and results. Results that are others now are
/// marked. Of several messages of the user in place of the only one, one is made.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn is_as_good(
    before: &[Arc<Message>],
    rewritten: Vec<Message>,
) -> Result<Vec<Message>, &'static str> {
    let mut rewritten = match before {
        [_] => vec![joined(rewritten)?],
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
        if !message.content.iter().any(says_something) {
            return Err("a message must say something");
        }
        mark(message, before);
    }
    Ok(rewritten)
}

/// One message of the user, results first.
fn joined(messages: Vec<Message>) -> Result<Message, &'static str> {
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

/// Of calls and results, in order.
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

fn says_something(block: &Block) -> bool {
    match block {
        Block::Text { text, .. } => is_visible(text),
        _ => true,
    }
}

/// A result that is not what it was can be referred to by no later one. Handlers may have been told of
/// it without our marks, so that those that were there are put back.
fn mark(message: &mut Message, before: &Message) {
    let results = before.content.iter().filter_map(|block| match block {
        Block::ToolResult(result) => Some(result),
        _ => None,
    });
    let now = message.content.iter_mut().filter_map(|block| match block {
        Block::ToolResult(result) => Some(result),
        _ => None,
    });
    for (now, before) in now.zip(results) {
        if now.content != before.content || before.extra.contains_key(CHANGED) {
            changed(now);
        }
    }
    keep_notes(&mut message.extra, &before.extra);
}

/// Marks a result as what hooks have made of it.
pub(crate) fn changed(result: &mut ToolResult) {
    result.extra.insert(CHANGED.to_owned(), Value::Bool(true));
}

fn keep_notes(now: &mut Extra, before: &Extra) {
    let notes = before.iter().filter(|(name, _)| name.starts_with('@'));
    for (name, value) in notes {
        now.insert(name.clone(), value.clone());
    }
}
