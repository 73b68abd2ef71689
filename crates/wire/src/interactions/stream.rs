//! Reads a streamed answer: the beginning of each step and its parts, and at the end the interaction without them.

use serde_json::Value;

use super::answer;
use super::partial_steps::PartialSteps;
use crate::error::{Error, ErrorKind};
use crate::openai::{self, Object, malformed, text_of};
use crate::{Delta, Reply};
use crate::{StreamReader, sse};

/// Maximum size of one answer, in bytes: 64 MiB.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Fields of the interaction at its beginning that do not apply to its end.
pub(super) const TRANSIENT_FIELDS: [&str; 4] = ["status", "steps", "usage", "errors"];

/// Reads the events of an answer.
#[derive(Default)]
pub(super) struct InteractionsStreamReader {
    /// The interaction as it was at the start.
    begun: Object,
    steps: PartialSteps,
    ended: Option<Object>,
    /// Bytes that were read.
    read: usize,
}

impl StreamReader for InteractionsStreamReader {
    fn event(&mut self, event: &sse::Event) -> Result<Vec<Delta>, Error> {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" || self.ended.is_some() {
            return Ok(Vec::new());
        }
        self.read = self.read.saturating_add(data.len());
        if self.read > MAX_ANSWER_BYTES {
            return Err(malformed(format_args!(
                "it is longer than {MAX_ANSWER_BYTES} bytes"
            )));
        }
        let mut fields = openai::parse(data.as_bytes(), "an event of the stream")?;
        let kind = text_of(&fields, "event_type").unwrap_or(&event.name);
        let kind = kind.to_owned();
        let error = fields.get("error").filter(|error| !error.is_null());
        if kind == "error" || error.is_some() {
            return Err(openai::provider_error(error.unwrap_or(&Value::Null)));
        }
        let index = fields.get("index").and_then(Value::as_u64).unwrap_or(0);
        match kind.as_str() {
            "interaction.created" => {
                self.begun = part(&mut fields, "interaction");
                Ok(Vec::new())
            }
            "interaction.status_update" => {
                // The last event has the others, and all counters.
                if text_of(&fields, "status") == Some("failed") {
                    self.begun.insert("status".to_owned(), "failed".into());
                }
                Ok(Vec::new())
            }
            "interaction.completed" => {
                let mut ended = part(&mut fields, "interaction");
                let carried = ended.shift_remove("steps");
                self.ended = Some(ended);
                self.carried(carried)
            }
            "step.start" => {
                let step = part(&mut fields, "step");
                self.steps.begin(index, step)
            }
            "step.delta" => {
                let delta = part(&mut fields, "delta");
                self.steps.add(index, delta)
            }
            "step.stop" => Ok(self.steps.end(index)),
            _ => Ok(Vec::new()),
        }
    }

    fn complete(&self) -> bool {
        self.ended.is_some()
    }

    fn finish(self: Box<Self>) -> Result<Reply, Error> {
        let Self {
            begun,
            steps,
            ended,
            read: _,
        } = *self;
        let has_failed = text_of(&begun, "status") == Some("failed");
        let mut ended = match ended {
            Some(ended) => ended,
            None if has_failed => return answer::reply(begun, Vec::new()),
            None => {
                return Err(Error::new(
                    ErrorKind::CutOff,
                    "the stream ended before the answer did: no interaction.completed came; ask again",
                ));
            }
        };
        if let Some(kind) = steps.unknown_delta() {
            ended.insert("unknown_delta".to_owned(), kind.into());
        }
        for (name, value) in begun {
            if !TRANSIENT_FIELDS.contains(&name.as_str()) && !ended.contains_key(&name) {
                ended.insert(name, value);
            }
        }
        answer::reply(ended, steps.into_steps())
    }
}

impl InteractionsStreamReader {
    /// Reads the steps of the last event that did not come before.
    fn carried(&mut self, steps: Option<Value>) -> Result<Vec<Delta>, Error> {
        let Some(Value::Array(steps)) = steps else {
            return Ok(Vec::new());
        };
        let mut deltas = Vec::new();
        for (index, step) in steps.into_iter().enumerate().skip(self.steps.len()) {
            if let Value::Object(fields) = step {
                let index = index as u64;
                deltas.extend(self.steps.begin(index, fields)?);
                deltas.extend(self.steps.end(index));
            }
        }
        Ok(deltas)
    }
}

/// Takes an object out of an event.
fn part(event: &mut Object, name: &str) -> Object {
    match event.shift_remove(name) {
        Some(Value::Object(part)) => part,
        _ => Object::new(),
    }
}
