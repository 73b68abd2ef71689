//! Details of answers, which reports of one session need.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::hash::hash;

/// Details of an answer. They are read on request only ([`SpendReader::with_details`](super::SpendReader::with_details)).
#[derive(Debug, Clone)]
pub struct AnswerDetails {
    /// The file of its session, or that of a copy.
    pub file: Arc<Path>,
    /// Its ID, by which [`LoggedBreak::answer`](crate::log::LoggedBreak::answer) names it.
    pub id: Option<Box<str>>,
    /// The sub-agent that it was sent to, where the transcript names it.
    pub agent: Option<Arc<str>>,
    /// The names of the tools that it calls, in their order. Empty for programs whose transcripts have the calls elsewhere.
    pub tools: Vec<Arc<str>>,
    /// The hashes of the IDs of these calls: a copy of a line repeats them.
    calls: Vec<u64>,
}

impl AnswerDetails {
    pub(super) fn new(file: Arc<Path>) -> Self {
        Self {
            file,
            id: None,
            agent: None,
            tools: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// Adds a call. One without an ID may be a copy, and is left out if the tool was called before.
    pub(super) fn add_call(&mut self, id: Option<&str>, name: &str) {
        let call = hash(id.unwrap_or(name));
        if !self.calls.contains(&call) {
            self.calls.push(call);
            self.tools.push(name.into());
        }
    }

    /// Adds the calls in the content of a line's message, as Claude Code and pi write it.
    pub(super) fn add_calls_of_message(&mut self, line: &[u8]) {
        let Ok(Line { message }) = serde_json::from_slice(line) else {
            return;
        };
        let Content::Blocks(blocks) = message.content else {
            return;
        };
        for block in blocks {
            if let (Some("tool_use" | "server_tool_use" | "toolCall"), Some(name)) =
                (block.kind.as_deref(), &block.name)
            {
                self.add_call(block.id.as_deref(), name);
            }
        }
    }
}

#[derive(Deserialize)]
struct Line {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    content: Content,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Blocks(Vec<Block>),
    /// A text has no calls.
    Other(IgnoredAny),
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: Option<String>,
    id: Option<String>,
    name: Option<String>,
}
