//! Removal of the end of a conversation.

use cachalot_model::{Block, Message, Role};
use cachalot_prefix::PrefixMonitor;

use super::{Conversation, unsent};
use crate::Error;

/// The removed end of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retracted {
    /// The user's text in the first removed message.
    pub text: String,
    /// Number of messages removed after it: answers, tool calls, results.
    pub others: usize,
}

impl Conversation {
    /// Removes the last message of the user and all messages after it, durably. Returns `None` if there is no
    /// such message. The bytes before it are kept, so that the provider reads them from its cache.
    ///
    /// # Errors
    /// The session cannot be stored; it is unchanged.
    pub(crate) async fn retract(&mut self) -> Result<Option<Retracted>, Error> {
        // A held message belongs to an earlier turn whose future was dropped.
        self.hold(None);
        let messages = self.session.prompt.messages();
        let Some(at) = messages
            .iter()
            .rposition(|message| is_user_message(message))
        else {
            return Ok(None);
        };
        let retracted = Retracted {
            text: user_text(&messages[at]),
            others: messages.len() - at - 1,
        };
        let removed = messages.len() - at;
        let mut notes = self.session.head.notes.clone();
        unsent::not_sent(&mut notes, self.unsent().saturating_sub(removed));
        let title = self.session.head.title.clone();
        if at == 0 {
            // The next first message sets the title.
            self.session.head.title = None;
        }
        if let Err(error) = self.session.retract(removed, notes).await {
            self.session.head.title = title;
            return Err(Error::session(&error));
        }
        self.rebuild_indexes();
        self.planner.continue_from(None);
        self.monitor = PrefixMonitor::default();
        Ok(Some(retracted))
    }
}

/// True if the message is from the user and does not only hold tool results, which have the same role.
fn is_user_message(message: &Message) -> bool {
    let is_result = |block: &Block| matches!(block, Block::ToolResult(_));
    message.role == Role::User && !message.content.iter().all(is_result)
}

/// The user's text in a message. A summary may precede it, and context may follow it.
fn user_text(message: &Message) -> String {
    let texts = message.content.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text),
        _ => None,
    });
    let mut said = texts.filter(|text| !text.starts_with("<summary>\n"));
    said.next().cloned().unwrap_or_default()
}
