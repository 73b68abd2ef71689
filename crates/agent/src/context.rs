//! What changes from turn to turn: it goes into the newest message, never into the system's text or
//! the tools, so that what was sent before stays the prefix of what is sent next.

use async_trait::async_trait;
use cachalot_core::clock::iso8601;
use cachalot_core::{Clock, Millis};

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

/// The paragraphs as one block behind the user's own text, told apart from it.
pub(crate) fn block(paragraphs: &[String]) -> Option<String> {
    (!paragraphs.is_empty()).then(|| format!("<context>\n{}\n</context>", paragraphs.join("\n")))
}
