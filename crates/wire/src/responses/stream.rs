//! Reads a streamed answer: typed events, the last of which carries the response.

use serde_json::Value;

use super::answer::{self, failure};
use super::partial_items::PartialItems;
use crate::error::{Error, ErrorKind};
use crate::openai::{self, Object, text_of};
use crate::{Delta, Reply};
use crate::{StreamReader, sse};

/// Fields of the first response that do not apply to the last one.
const TRANSIENT_FIELDS: [&str; 5] = ["status", "output", "usage", "error", "incomplete_details"];

/// Reads the events of an answer.
///
/// The answer is the response of the last event. Several servers leave its output empty or omit it; then
/// the output is assembled from the items that arrived before.
#[derive(Default)]
pub(crate) struct ResponsesStreamReader {
    /// The response as it was at the start.
    begun: Object,
    items: PartialItems,
    ended: Option<Object>,
}

impl StreamReader for ResponsesStreamReader {
    fn event(&mut self, event: &sse::Event) -> Result<Vec<Delta>, Error> {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" || self.ended.is_some() {
            return Ok(Vec::new());
        }
        let mut fields = openai::parse(data.as_bytes(), "an event of the stream")?;
        let kind = text_of(&fields, "type").unwrap_or(&event.name).to_owned();
        match kind.as_str() {
            "response.created" | "response.in_progress" | "response.queued" => {
                self.begun = response(&mut fields);
            }
            "response.completed" | "response.incomplete" => {
                let mut ended = response(&mut fields);
                let status = kind.trim_start_matches("response.");
                ended.insert("status".into(), status.into());
                self.ended = Some(ended);
            }
            "response.failed" => {
                let response = response(&mut fields);
                let reported = response.get("error").unwrap_or(&Value::Null);
                return Err(failure(reported));
            }
            "error" => return Err(reported(fields)),
            _ if fields.get("error").is_some_and(Value::is_object) => {
                return Err(reported(fields));
            }
            _ => return Ok(self.items.take(&kind, &fields)),
        }
        Ok(Vec::new())
    }

    fn complete(&self) -> bool {
        self.ended.is_some()
    }

    fn finish(self: Box<Self>) -> Result<Reply, Error> {
        let Some(mut ended) = self.ended else {
            return Err(Error::new(
                ErrorKind::CutOff,
                "the stream ended before the answer did: no response.completed came; ask again",
            ));
        };
        for (name, value) in self.begun {
            if !TRANSIENT_FIELDS.contains(&name.as_str()) && !ended.contains_key(&name) {
                ended.insert(name, value);
            }
        }
        let carried = ended.get("output").and_then(Value::as_array);
        if carried.is_none_or(Vec::is_empty) && !self.items.is_empty() {
            ended.insert("output".into(), self.items.into_output().into());
        }
        ended
            .entry("output")
            .or_insert_with(|| Value::Array(Vec::new()));
        answer::reply(ended)
    }
}

fn response(event: &mut Object) -> Object {
    match event.shift_remove("response") {
        Some(Value::Object(response)) => response,
        _ => Object::new(),
    }
}

/// Returns the error that an event is, or contains.
fn reported(mut event: Object) -> Error {
    event.shift_remove("type");
    match event.shift_remove("error") {
        Some(error @ (Value::Object(_) | Value::String(_))) => failure(&error),
        _ => failure(&Value::Object(event)),
    }
}
