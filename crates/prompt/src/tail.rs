//! The end of a conversation: shows what is missing when it is resumed.

use cachalot_model::{Block, Message, Role};

use crate::Level;
use crate::chain::Prompt;

/// The end of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    /// Ends with an answer, or is empty.
    Complete,
    /// Ends with a user message or tool results without an answer.
    Unanswered,
    /// Ends with tool calls without results: their ids. Providers refuse such a conversation, so results
    /// have to be appended, for example an error that the tools were interrupted.
    OpenCalls(Vec<String>),
}

impl Tail {
    /// Returns the end of a prompt.
    #[must_use]
    pub fn from_prompt(prompt: &Prompt) -> Self {
        let mut behind = Vec::new();
        let answer = prompt
            .backwards()
            .take_while(|node| node.level == Level::Message)
            .filter_map(|node| node.source.as_deref())
            .find(|message| {
                let is_answer = message.role == Role::Assistant;
                if !is_answer {
                    behind.push(*message);
                }
                is_answer
            });
        let open: Vec<String> = answer
            .into_iter()
            .flat_map(Message::tool_uses)
            .map(|call| &call.id)
            .filter(|id| !behind.iter().any(|message| answers(message, id)))
            .cloned()
            .collect();
        match (open.is_empty(), behind.is_empty()) {
            (false, _) => Self::OpenCalls(open),
            (true, true) => Self::Complete,
            (true, false) => Self::Unanswered,
        }
    }
}

fn answers(message: &Message, call: &str) -> bool {
    message
        .content
        .iter()
        .any(|block| matches!(block, Block::ToolResult(result) if result.id == call))
}
