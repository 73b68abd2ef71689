//! Reads a streamed answer: chunks, followed by `[DONE]`.

use serde_json::Value;

use super::answer::{ChatAnswerBuilder, first_choice};
use crate::error::{Error, ErrorKind};
use crate::openai;
use crate::{Delta, Reply};
use crate::{StreamReader, sse};

/// Reads the chunks of an answer.
///
/// The usage arrives in a chunk after the finish reason, so the answer is complete at `[DONE]`. A stream
/// without `[DONE]` is accepted if it has a finish reason.
#[derive(Default)]
pub(crate) struct ChatStreamReader {
    answer: ChatAnswerBuilder,
    /// True if a part of the message has arrived.
    begun: bool,
    done: bool,
}

impl StreamReader for ChatStreamReader {
    fn event(&mut self, event: &sse::Event) -> Result<Vec<Delta>, Error> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(Vec::new());
        }
        if data == "[DONE]" {
            self.done = true;
            return Ok(Vec::new());
        }
        if event.name == "error" {
            return Err(error_event(data));
        }
        let chunk = openai::parse(data.as_bytes(), "a chunk of the stream")?;
        self.answer.envelope(&chunk)?;
        // Chunks without a choice carry usage, or a filter's result for the request (Azure).
        let Some(choice) = first_choice(&chunk) else {
            return Ok(Vec::new());
        };
        let deltas = self.delta(choice.get("delta"), choice.get("message"));
        self.answer.choice(choice)?;
        Ok(deltas)
    }

    fn complete(&self) -> bool {
        self.done
    }

    fn finish(self: Box<Self>) -> Result<Reply, Error> {
        if !self.answer.has_finished() {
            return Err(Error::new(
                ErrorKind::CutOff,
                "the stream ended before the answer was complete, without a stop reason; retry",
            ));
        }
        self.answer.reply()
    }
}

impl ChatStreamReader {
    /// Reads a part of the message. Some servers send the whole message in one chunk, and some send it
    /// again at the end.
    fn delta(&mut self, delta: Option<&Value>, message: Option<&Value>) -> Vec<Delta> {
        let (piece, growing) = match (delta, message) {
            (Some(Value::Object(delta)), _) => (delta, true),
            (_, Some(Value::Object(message))) if !self.begun => (message, false),
            _ => return Vec::new(),
        };
        self.begun = true;
        self.answer.message(piece, growing)
    }
}

/// Parses an event named `error`: the error itself, or an object around it.
fn error_event(data: &str) -> Error {
    let value = serde_json::from_str(data).unwrap_or_else(|_| Value::from(data));
    openai::provider_error(value.get("error").unwrap_or(&value))
}
