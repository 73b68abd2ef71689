//! Removal of the end of a conversation.

use std::sync::Arc;

use cachalot_model::{Block, Message, Role};

/// The removed end of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retracted {
    /// The user's text in the first removed message.
    pub text: String,
    /// Number of messages removed after it: answers, tool calls, results.
    pub others: usize,
}

impl Retracted {
    /// The end of these messages from the last message of the user on; `None` if there is none.
    pub(super) fn last_of(messages: &[Arc<Message>]) -> Option<Self> {
        let mut last = messages.iter();
        let at = last.rposition(|message| is_user_message(message))?;
        Some(Self {
            text: user_text(&messages[at]),
            others: messages.len() - at - 1,
        })
    }
}

/// True if the message is from the user and does not only hold tool results, which have the same role.
fn is_user_message(message: &Message) -> bool {
    let is_result = |block: &Block| matches!(block, Block::ToolResult(_));
    message.role == Role::User && !message.content.iter().all(is_result)
}

/// The user's text in a message. A summary may precede it, and context may follow it.
fn user_text(message: &Message) -> String {
    let texts = message.content.iter().filter_map(Block::as_text);
    let mut said = texts.filter(|text| !text.starts_with("<summary>\n"));
    said.next().unwrap_or_default().to_owned()
}
