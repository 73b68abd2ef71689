//! `elide_repeated_tool_results`: replaces repeated tool results by a reference.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_model::{Block, Message, ToolResult};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::BuiltinDependencies;
use super::simple::SimpleBuiltin;
use crate::Event;
use crate::input::{Input, ToolUse};
use crate::output::{Fault, Output};

/// Maximum number of turns whose conversations are kept. Beyond it, the oldest turn is dropped and its
/// results are not elided.
const MAX_TURNS: usize = 256;

/// Replaces a tool result that is already in the conversation by one line. Only the messages of the
/// turn's last model call are searched, so the line never refers to a result that was rewritten, elided,
/// truncated, compacted away, or sent to another agent.
#[derive(Default)]
pub(super) struct ElideRepeatedToolResults {
    turns: Mutex<Turns>,
}

/// The messages of the last model call, by turn.
#[derive(Default)]
struct Turns {
    by_id: HashMap<String, Turn>,
    begun: u64,
}

struct Turn {
    session: String,
    /// Increases from turn to turn.
    number: u64,
    messages: Vec<Arc<Message>>,
}

impl Turns {
    fn record(&mut self, input: &Input) {
        // Messages are kept by turn. Without an ID, those of different conversations would be mixed.
        if input.turn_id.is_empty() {
            return;
        }
        if let Some(turn) = self.by_id.get_mut(&input.turn_id) {
            turn.messages.clone_from(&input.messages);
            return;
        }
        if self.by_id.len() >= MAX_TURNS {
            self.drop_oldest();
        }
        self.begun += 1;
        let turn = Turn {
            session: input.session_id.clone(),
            number: self.begun,
            messages: input.messages.clone(),
        };
        self.by_id.insert(input.turn_id.clone(), turn);
    }

    fn drop_oldest(&mut self) {
        let oldest = self.by_id.iter().min_by_key(|(_, turn)| turn.number);
        if let Some(id) = oldest.map(|(id, _)| id.clone()) {
            self.by_id.remove(&id);
        }
    }

    fn drop_session(&mut self, session: &str) {
        self.by_id.retain(|_, turn| turn.session != session);
    }
}

impl ElideRepeatedToolResults {
    pub(super) fn new(_: &BuiltinDependencies) -> Self {
        Self::default()
    }

    /// Returns the line that replaces this result, or `None` to keep the result.
    fn line(&self, input: &Input) -> Option<String> {
        let (call, response) = (input.tool.as_ref()?, input.tool_response.as_ref()?);
        if !call.read_only || response.is_error {
            return None;
        }
        let messages = {
            let turns = self.turns.lock();
            // Only references are copied, so that the search through the conversation does not hold the lock.
            turns.by_id.get(&input.turn_id)?.messages.clone()
        };
        let earlier = earlier(&messages, call, &response.text)?;
        let line = format!(
            "[unchanged: the same result as that of the earlier call {earlier} of {} with the same arguments]",
            call.name
        );
        // The line is only worth it if it is shorter than the result.
        (response.text.len() > line.len()).then_some(line)
    }
}

/// Returns the id of the latest earlier call with the same arguments and exactly this result.
fn earlier<'a>(messages: &'a [Arc<Message>], call: &ToolUse, text: &str) -> Option<&'a str> {
    let results = messages.iter().rev().flat_map(|message| {
        message
            .content
            .iter()
            .rev()
            .filter_map(|block| match block {
                Block::ToolResult(result) => Some(result),
                _ => None,
            })
    });
    results
        .filter(|result| result.id != call.id && is_verbatim(result, text))
        .map(|result| result.id.as_str())
        .find(|id| is_same_call(messages, id, call))
}

/// True if the result is exactly this text.
fn is_verbatim(result: &ToolResult, text: &str) -> bool {
    match result.content.as_slice() {
        [Block::Text { text: told, .. }] => !result.is_error && told == text,
        _ => false,
    }
}

/// True if every call with this id has the same tool and arguments as `call`.
fn is_same_call(messages: &[Arc<Message>], id: &str, call: &ToolUse) -> bool {
    let mut calls = messages
        .iter()
        .flat_map(|message| message.tool_uses())
        .filter(|earlier| earlier.id == id)
        .peekable();
    calls.peek().is_some()
        && calls.all(|earlier| {
            earlier.name == call.name && arguments(&earlier.arguments).as_ref() == Some(&call.input)
        })
}

/// Parses arguments as the model wrote them; an empty text is an empty object.
fn arguments(written: &str) -> Option<Map<String, Value>> {
    match written.trim() {
        "" => Some(Map::new()),
        written => serde_json::from_str(written).ok(),
    }
}

#[async_trait]
impl SimpleBuiltin for ElideRepeatedToolResults {
    const NAME: &'static str = "elide_repeated_tool_results";
    const ABOUT: &'static str = "Puts one line in place of the result of a tool that changes nothing, if the same call gave the same result before and that result still stands in the conversation, word by word. The tool runs all the same. Agents with `elide_repeated_tool_results: true` have it.";
    const EVENTS: &'static [Event] = &[
        Event::SessionStart,
        Event::BeforeLlmCall,
        Event::ToolResponseTransform,
        Event::TurnEnd,
        Event::AfterCompaction,
        Event::SessionEnd,
    ];
    const HAS_FLAG: bool = true;

    async fn handle(&self, input: &Input) -> Result<Output, Fault> {
        match input.event {
            Event::BeforeLlmCall => self.turns.lock().record(input),
            Event::ToolResponseTransform => {
                return Ok(Output {
                    updated_tool_response: self.line(input),
                    ..Output::default()
                });
            }
            Event::TurnEnd => drop(self.turns.lock().by_id.remove(&input.turn_id)),
            Event::SessionStart | Event::SessionEnd | Event::AfterCompaction => {
                self.turns.lock().drop_session(&input.session_id);
            }
            _ => {}
        }
        Ok(Output::default())
    }
}
