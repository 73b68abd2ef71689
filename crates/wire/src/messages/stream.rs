//! Reads streamed answers.

use cachalot_core::json;
use serde_json::Value;

use super::answer::{self, Fields, malformed};
use super::failure;
use crate::StreamReader;
use crate::error::{Error, ErrorKind};
use crate::sse::Event;
use crate::{Block, Delta, Reply};

/// Maximum size of one answer, in bytes: 64 MiB.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Reads one streamed answer. Tolerates unknown events, blocks and deltas, and fields that arrive late.
#[derive(Default)]
pub(crate) struct AnthropicStreamReader {
    /// Fields of the message, without its content; `None` before it starts.
    message: Option<Fields>,
    /// Blocks by ascending index.
    blocks: Vec<PartialBlock>,
    calls: usize,
    kept: usize,
    stopped: bool,
    failed: bool,
}

/// A block that is being streamed.
struct PartialBlock {
    index: u64,
    fields: Fields,
    /// Index among the client's tool calls, if it is one.
    call: Option<usize>,
    /// Arguments received so far.
    input: String,
    /// Text of the arguments in the start event.
    first_input: String,
    ended: bool,
}

impl StreamReader for AnthropicStreamReader {
    fn event(&mut self, event: &Event) -> Result<Vec<Delta>, Error> {
        // After an error the state is incomplete; later events must not turn it into an answer.
        if self.stopped || self.failed {
            return Ok(Vec::new());
        }
        let deltas = self.take(event);
        self.failed = deltas.is_err();
        deltas
    }

    fn complete(&self) -> bool {
        self.stopped
    }

    fn finish(self: Box<Self>) -> Result<Reply, Error> {
        match self.message {
            Some(message) if self.stopped => {
                let blocks = self.blocks.into_iter().map(PartialBlock::block);
                Ok(answer::whole(message, blocks.collect::<Result<_, _>>()?))
            }
            _ => Err(Error::new(
                ErrorKind::CutOff,
                format!(
                    "the stream ended before the answer did, after {} of its blocks had begun; ask \
                     again",
                    self.blocks.len()
                ),
            )),
        }
    }
}

impl AnthropicStreamReader {
    fn take(&mut self, event: &Event) -> Result<Vec<Delta>, Error> {
        // Some proxies end every stream with `[DONE]`, like OpenAI.
        if event.data.trim_ascii().is_empty() || event.data == "[DONE]" {
            return Ok(Vec::new());
        }
        let mut fields = answer::object(&event.data, "an event of the stream")?;
        let kind = match fields.get("type").and_then(Value::as_str) {
            Some(kind) => kind.to_owned(),
            None if fields.contains_key("error") => "error".to_owned(),
            None => event.name.clone(),
        };
        match kind.as_str() {
            "error" => Err(failure::read(&fields)),
            "message_start" => self.start(&mut fields, &event.data),
            "content_block_start" => {
                let text = json::member(&event.data, "content_block").unwrap_or_default();
                let index = index(&fields)?;
                let block = take_object(&mut fields, "content_block")?;
                self.keep(event.data.len())?;
                self.start_block(index, block, text)
            }
            "content_block_delta" => {
                let delta = take_object(&mut fields, "delta")?;
                self.delta(index(&fields)?, delta, event.data.len())
            }
            "content_block_stop" => Ok(self.block(index(&fields)?)?.end().into_iter().collect()),
            "message_delta" => self.message_delta(fields, event.data.len()),
            "message_stop" => self.stop(),
            // `ping`, and unknown events.
            _ => Ok(Vec::new()),
        }
    }

    fn start(&mut self, fields: &mut Fields, text: &str) -> Result<Vec<Delta>, Error> {
        if self.message.is_some() {
            return Err(malformed("the stream has two `message_start`"));
        }
        self.keep(text.len())?;
        let mut message = take_object(fields, "message")?;
        let content = message.shift_remove("content");
        self.message = Some(message);
        let Some(Value::Array(content)) = content else {
            return Ok(Vec::new());
        };
        // Usually empty.
        let texts = json::member(text, "message").and_then(|text| json::member(text, "content"));
        let mut deltas = Vec::new();
        for ((index, block), text) in (0..)
            .zip(content)
            .zip(json::elements(texts.unwrap_or("[]")))
        {
            let Value::Object(block) = block else {
                return Err(malformed("a block of the answer is no object"));
            };
            deltas.extend(self.start_block(index, block, text)?);
            deltas.extend(self.block(index)?.end());
        }
        Ok(deltas)
    }

    fn start_block(&mut self, index: u64, fields: Fields, text: &str) -> Result<Vec<Delta>, Error> {
        self.message()?;
        // Blocks are searched by their index, so that it has to ascend.
        if self.blocks.last().is_some_and(|last| last.index >= index) {
            return Err(malformed(format!(
                "block {index} of the stream comes out of turn"
            )));
        }
        let mut block = PartialBlock {
            index,
            fields,
            call: None,
            input: String::new(),
            first_input: json::member(text, "input").unwrap_or_default().to_owned(),
            ended: false,
        };
        let deltas = block.start(&mut self.calls);
        self.blocks.push(block);
        Ok(deltas.into_iter().collect())
    }

    fn delta(&mut self, index: u64, delta: Fields, length: usize) -> Result<Vec<Delta>, Error> {
        // Most events consist mainly of framing. Only the text counts toward the size, unless the delta has
        // further fields.
        let text = ["text", "thinking", "partial_json"]
            .iter()
            .find_map(|name| delta.get(*name)?.as_str())
            .filter(|_| delta.len() <= 2);
        self.keep(text.map_or(length, str::len))?;
        let block = self.block(index)?;
        if block.ended {
            return Err(malformed(format!(
                "block {index} of the stream continues after its end"
            )));
        }
        Ok(block.apply_delta(delta).into_iter().collect())
    }

    /// Usage counts from the start of the answer: later values replace earlier ones.
    fn message_delta(&mut self, mut fields: Fields, length: usize) -> Result<Vec<Delta>, Error> {
        self.keep(length)?;
        let message = self.message()?;
        fields.shift_remove("type");
        if let Some(Value::Object(delta)) = fields.shift_remove("delta") {
            replace(message, delta);
        }
        if let Some(Value::Object(usage)) = fields.shift_remove("usage") {
            match message.get_mut("usage") {
                Some(Value::Object(before)) => replace(before, usage),
                _ => {
                    message.insert("usage".into(), Value::Object(usage));
                }
            }
        }
        replace(message, fields);
        Ok(Vec::new())
    }

    fn stop(&mut self) -> Result<Vec<Delta>, Error> {
        self.message()?;
        self.stopped = true;
        let blocks = self.blocks.iter_mut();
        // Blocks whose end the stream has not reported end with it.
        Ok(blocks.filter_map(PartialBlock::end).collect())
    }

    fn message(&mut self) -> Result<&mut Fields, Error> {
        let none = || malformed("the stream does not begin with `message_start`");
        self.message.as_mut().ok_or_else(none)
    }

    fn block(&mut self, index: u64) -> Result<&mut PartialBlock, Error> {
        self.blocks
            .binary_search_by_key(&index, |block| block.index)
            .ok()
            .and_then(|position| self.blocks.get_mut(position))
            .ok_or_else(|| malformed(format!("block {index} of the stream has not begun")))
    }

    fn keep(&mut self, length: usize) -> Result<(), Error> {
        self.kept = self.kept.saturating_add(length);
        if self.kept > MAX_ANSWER_BYTES {
            return Err(Error::new(
                ErrorKind::Malformed,
                format!("the answer is longer than {MAX_ANSWER_BYTES} bytes; ask for less at once"),
            ));
        }
        Ok(())
    }
}

impl PartialBlock {
    fn kind(&self) -> &str {
        let kind = self.fields.get("type").and_then(Value::as_str);
        kind.unwrap_or_default()
    }

    fn text(&self, name: &str) -> String {
        let text = self.fields.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    }

    /// Returns the delta for the start of the block.
    fn start(&mut self, calls: &mut usize) -> Option<Delta> {
        match self.kind() {
            "text" => shown(self.text("text")).map(Delta::Text),
            "thinking" => shown(self.text("thinking")).map(Delta::Reasoning),
            "tool_use" => {
                let index = *calls;
                *calls += 1;
                self.call = Some(index);
                Some(Delta::ToolUse {
                    index,
                    id: self.text("id"),
                    name: self.text("name"),
                })
            }
            _ => None,
        }
    }

    /// Applies a delta; returns the part for display.
    fn apply_delta(&mut self, mut delta: Fields) -> Option<Delta> {
        let kind = delta.shift_remove("type");
        match kind.as_ref().and_then(Value::as_str) {
            Some("input_json_delta") => self.apply_input_delta(&delta),
            Some("citations_delta") => {
                self.add_citation(delta.shift_remove("citation")?);
                None
            }
            // A signature arrives in one piece; of several, the official SDKs use the last.
            Some("signature_delta") => {
                let signature = delta.shift_remove("signature")?;
                self.fields.insert("signature".into(), signature);
                None
            }
            _ => {
                let shows = self.shows(&delta);
                self.append(delta);
                shows
            }
        }
    }

    fn apply_input_delta(&mut self, delta: &Fields) -> Option<Delta> {
        let text = delta.get("partial_json")?.as_str()?.to_owned();
        self.input.push_str(&text);
        let index = self.call?;
        shown(text).map(|text| Delta::Arguments { index, text })
    }

    fn add_citation(&mut self, citation: Value) {
        match self.fields.get_mut("citations") {
            Some(Value::Array(citations)) => citations.push(citation),
            _ => {
                let citations = Value::Array(vec![citation]);
                self.fields.insert("citations".into(), citations);
            }
        }
    }

    fn shows(&self, delta: &Fields) -> Option<Delta> {
        let text = |name: &str| delta.get(name)?.as_str().map(str::to_owned).and_then(shown);
        match self.kind() {
            "text" => text("text").map(Delta::Text),
            "thinking" => text("thinking").map(Delta::Reasoning),
            _ => None,
        }
    }

    /// Appends to texts and sets other values. A null does not replace a value, and a value of another type
    /// does not replace a text.
    fn append(&mut self, delta: Fields) {
        for (name, value) in delta {
            match (self.fields.get_mut(&name), value) {
                (Some(Value::String(text)), Value::String(more)) => text.push_str(&more),
                (Some(Value::String(_)), _) | (Some(_), Value::Null) => {}
                (_, value) => {
                    self.fields.insert(name, value);
                }
            }
        }
    }

    /// Ends the block. Arguments in the start event are shown now, if no others followed.
    fn end(&mut self) -> Option<Delta> {
        let ended = std::mem::replace(&mut self.ended, true);
        let index = self.call.filter(|_| !ended && self.input.is_empty())?;
        shown(self.first_input.clone()).map(|text| Delta::Arguments { index, text })
    }

    fn block(mut self) -> Result<Block, Error> {
        // Arguments can come whole in the start event. Their text is used as it was written, because the parsed value
        // may not be written back in the same spelling.
        if self.call.is_some() && self.input.is_empty() {
            return answer::block(self.fields, &self.first_input);
        }
        // The call of a server's tool is kept as it came, and there `input` is a value, not a text. The pieces of it
        // become that value.
        if self.call.is_none() && !self.input.is_empty() {
            let input = serde_json::from_str(&self.input);
            let input = input.unwrap_or_else(|_| Value::String(self.input.clone()));
            self.fields.insert("input".into(), input);
        }
        answer::block(self.fields, &self.input)
    }
}

fn shown(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn index(fields: &Fields) -> Result<u64, Error> {
    fields
        .get("index")
        .and_then(Value::as_u64)
        .ok_or_else(|| malformed("an event of the stream names no block"))
}

fn take_object(fields: &mut Fields, name: &str) -> Result<Fields, Error> {
    match fields.shift_remove(name) {
        Some(Value::Object(object)) => Ok(object),
        _ => Err(malformed(format!("an event of the stream has no `{name}`"))),
    }
}

/// Replaces fields by later values; a later null replaces nothing.
fn replace(fields: &mut Fields, later: Fields) {
    for (name, value) in later {
        if !value.is_null() || !fields.contains_key(&name) {
            fields.insert(name, value);
        }
    }
}
