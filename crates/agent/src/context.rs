//! What changes from turn to turn: it goes into the newest message, never into the system's text or
//! the tools, so that what was sent before stays the prefix of what is sent next.

use async_trait::async_trait;
use cachalot_model::{Block, Message};

use crate::AgentDefinition;

/// Something that adds a paragraph to the user's message, before it is sent for the first time.
#[async_trait]
pub trait ContextSource: Send + Sync {
    /// What it is, for whoever has to know who has added something.
    fn name(&self) -> &'static str {
        "context"
    }

    /// The paragraph for this agent and message; `None` for nothing. A failure is nothing, too.
    async fn paragraph(&self, agent: &AgentDefinition, message: &str) -> Option<String>;
}

/// What the user says, and behind it, told apart from it, these paragraphs as one block.
pub(crate) fn message(said: &str, paragraphs: &[String]) -> Message {
    let mut message = Message::user(said);
    message.content.extend(block(paragraphs));
    message
}

/// Paragraphs as a block of their own.
pub(crate) fn block(paragraphs: &[String]) -> Option<Block> {
    if paragraphs.is_empty() {
        return None;
    }
    let paragraphs = paragraphs.join("\n");
    Some(Block::text(format!("<context>\n{paragraphs}\n</context>")))
}
