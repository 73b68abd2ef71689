//! Taking back the end of a conversation.

use cachalot_model::{Block, Message, Role};
use cachalot_prefix::PrefixMonitor;

use super::{Conversation, unsent};
use crate::Error;

/// The end of a conversation that was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retracted {
    /// What the user said in its first message.
    pub text: String,
    /// Messages behind it that went with it: answers, tool calls, results.
    pub others: usize,
}

impl Conversation {
    /// Removes the last message of the user, and all messages behind it, durably. `None` if there is no
    /// such message. What stands before keeps its bytes, so that the provider reads it from its cache.
    ///
    /// # Errors
    /// The session cannot be kept; then it is as it was.
    pub(crate) async fn retract(&mut self) -> Result<Option<Retracted>, Error> {
        // Of a turn whose future was dropped.
        self.hold(None);
        let messages = self.session.prompt.messages();
        let Some(at) = messages.iter().rposition(|message| is_said(message)) else {
            return Ok(None);
        };
        let retracted = Retracted {
            text: words(&messages[at]),
            others: messages.len() - at - 1,
        };
        let removed = messages.len() - at;
        let mut notes = self.session.head.notes.clone();
        unsent::not_sent(&mut notes, self.unsent().saturating_sub(removed));
        let title = self.session.head.title.clone();
        if at == 0 {
            // The next first message is what the session is about.
            self.session.head.title = None;
        }
        if let Err(error) = self.session.retract(removed, notes).await {
            self.session.head.title = title;
            return Err(Error::session(&error));
        }
        self.forget_and_note();
        self.plans.go_on_from(None);
        self.watch = PrefixMonitor::default();
        Ok(Some(retracted))
    }
}

/// Whether the user said it: results of tools have the same role.
fn is_said(message: &Message) -> bool {
    let is_result = |block: &Block| matches!(block, Block::ToolResult(_));
    message.role == Role::User && !message.content.iter().all(is_result)
}

/// What the user said in a message: a summary may stand before it, and context behind it.
fn words(message: &Message) -> String {
    let texts = message.content.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text),
        _ => None,
    });
    let mut said = texts.filter(|text| !text.starts_with("<summary>\n"));
    said.next().cloned().unwrap_or_default()
}
