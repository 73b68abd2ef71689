//! What changes from turn to turn: it goes into the newest message, never into the system's text or
//! the tools, so that what was sent before stays the prefix of what is sent next.

use async_trait::async_trait;
use cachalot_core::clock::iso8601;
use cachalot_core::{Clock, Millis};
use cachalot_model::{Block, Message};

use crate::AgentDefinition;

/// Something that adds a paragraph to the user's message, before it is sent for the first time.
#[async_trait]
pub trait ContextSource: Send + Sync {
    /// The paragraph for this agent and message; `None` for nothing. A failure is nothing, too.
    async fn paragraph(&self, agent: &AgentDefinition, message: &str) -> Option<String>;
}

/// The time, for agents with `add_date: true`.
pub struct Date<C>(pub C);

#[async_trait]
impl<C: AsRef<dyn Clock> + Send + Sync> ContextSource for Date<C> {
    async fn paragraph(&self, agent: &AgentDefinition, _: &str) -> Option<String> {
        agent.add_date.then(|| now(self.0.as_ref().now()))
    }
}

fn now(at: Millis) -> String {
    format!("The time is {}.", iso8601(at))
}

/// What the user says, and behind it, told apart from it, these paragraphs as one block.
pub(crate) fn message(said: &str, paragraphs: &[String]) -> Message {
    let mut message = Message::user(said);
    if !paragraphs.is_empty() {
        let paragraphs = paragraphs.join("\n");
        let block = Block::text(format!("<context>\n{paragraphs}\n</context>"));
        message.content.push(block);
    }
    message
}
