//! Content that changes from turn to turn. It is added to the newest message, never to the system text or the
//! tools, so that all sent bytes stay the prefix of the next request.

use async_trait::async_trait;
use cachalot_model::{Block, Message};

use crate::AgentDefinition;

/// A source of a paragraph that is added to the user's message before it is first sent.
#[async_trait]
pub trait ContextSource: Send + Sync {
    /// The name of the source, reported as the origin of the paragraph.
    fn name(&self) -> &'static str {
        "context"
    }

    /// Returns the paragraph for this agent and message, or `None`. A source that fails returns `None`, too.
    async fn paragraph(&self, agent: &AgentDefinition, message: &str) -> Option<String>;
}

/// A message of the user with its attachments, followed by the paragraphs as one separate block.
pub(crate) fn message(said: &str, attachments: &[Block], paragraphs: &[String]) -> Message {
    let mut message = Message::user(said);
    message.content.extend_from_slice(attachments);
    message.content.extend(block(paragraphs));
    message
}

/// The paragraphs as one block; `None` if there are none.
pub(crate) fn block(paragraphs: &[String]) -> Option<Block> {
    if paragraphs.is_empty() {
        return None;
    }
    let paragraphs = paragraphs.join("\n");
    Some(Block::text(format!("<context>\n{paragraphs}\n</context>")))
}
