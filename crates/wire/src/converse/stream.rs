//! Reads streamed answers. The name of an event is its type. Texts and reasoning begin with their first
//! delta. The usage follows the end of the message.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::answer::{self, Fields, cited, malformed};
use crate::error::{Error, ErrorKind};
use crate::{Block, Delta, Reply};
use crate::{StreamReader, openai, sse};

/// Maximum size of one answer, in bytes: 64 MiB.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Reads the events of one streamed answer; ignores unknown events.
#[derive(Default)]
pub(crate) struct ConverseStreamReader {
    blocks: BTreeMap<u64, PartialBlock>,
    calls: usize,
    kept: usize,
    /// Fields of the answer outside of its message.
    fields: Fields,
    stopped: bool,
    complete: bool,
}

/// A block that is being streamed.
enum PartialBlock {
    Text {
        text: String,
        citations: Vec<Value>,
    },
    Reasoning {
        text: String,
        signature: Option<String>,
        redacted: Option<String>,
    },
    Call {
        fields: Fields,
        input: String,
        /// Index among the tool calls; `None` if the provider runs the tool.
        index: Option<usize>,
    },
    /// Result of a tool that the provider ran.
    Result {
        fields: Fields,
        content: Vec<Value>,
    },
}

impl StreamReader for ConverseStreamReader {
    fn event(&mut self, event: &sse::Event) -> Result<Vec<Delta>, Error> {
        if self.complete || event.data.trim().is_empty() {
            return Ok(Vec::new());
        }
        let fields = openai::parse(event.data.as_bytes(), "an event of the stream")?;
        match event.name.as_str() {
            "contentBlockStart" => self.start(fields),
            "contentBlockDelta" => self.delta(fields, event.data.len()),
            "messageStop" => {
                self.stopped = true;
                self.note(fields);
                Ok(Vec::new())
            }
            "metadata" => {
                self.complete = self.stopped;
                self.note(fields);
                Ok(Vec::new())
            }
            _ => Ok(Vec::new()),
        }
    }

    fn complete(&self) -> bool {
        self.complete
    }

    fn finish(self: Box<Self>) -> Result<Reply, Error> {
        if !self.stopped {
            return Err(Error::new(
                ErrorKind::CutOff,
                format!(
                    "the stream ended before the answer did, after {} of its blocks had begun; ask again",
                    self.blocks.len()
                ),
            ));
        }
        let blocks = self.blocks.into_values().map(PartialBlock::block);
        let blocks = blocks.collect::<Result<_, _>>()?;
        Ok(answer::whole(self.fields, blocks))
    }
}

impl ConverseStreamReader {
    /// Keeps the fields of an event that belong to the whole answer. Drops `p`, the padding that hides the
    /// length of an event.
    fn note(&mut self, mut fields: Fields) {
        fields.shift_remove("p");
        self.fields.append(&mut fields);
    }

    fn start(&mut self, mut fields: Fields) -> Result<Vec<Delta>, Error> {
        let at = index(&fields)?;
        let Some(Value::Object(mut start)) = fields.shift_remove("start") else {
            return Err(malformed("a `contentBlockStart` has no `start`"));
        };
        let mut deltas = Vec::new();
        if let Some(Value::Object(call)) = start.shift_remove("toolUse") {
            let text = |name: &str| {
                let text = call.get(name).and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            };
            // A `type` marks a tool that the provider runs.
            let index = (!call.contains_key("type")).then_some(self.calls);
            if let Some(index) = index {
                self.calls += 1;
                deltas.push(Delta::ToolUse {
                    index,
                    id: text("toolUseId"),
                    name: text("name"),
                });
            }
            let growing = PartialBlock::Call {
                fields: call,
                input: String::new(),
                index,
            };
            self.blocks.insert(at, growing);
        } else if let Some(Value::Object(fields)) = start.shift_remove("toolResult") {
            let content = Vec::new();
            self.blocks
                .insert(at, PartialBlock::Result { fields, content });
        }
        Ok(deltas)
    }

    fn delta(&mut self, mut fields: Fields, length: usize) -> Result<Vec<Delta>, Error> {
        self.kept = self.kept.saturating_add(length);
        if self.kept > MAX_ANSWER_BYTES {
            return Err(malformed(format_args!(
                "the answer is longer than {MAX_ANSWER_BYTES} bytes"
            )));
        }
        let at = index(&fields)?;
        let Some(Value::Object(delta)) = fields.shift_remove("delta") else {
            return Err(malformed("a `contentBlockDelta` has no `delta`"));
        };
        let block = match self.blocks.entry(at) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                match PartialBlock::from_first_delta(&delta) {
                    Some(begun) => entry.insert(begun),
                    None => return Ok(Vec::new()),
                }
            }
        };
        Ok(block.apply_delta(delta).into_iter().collect())
    }
}

impl PartialBlock {
    /// Returns the block that begins with this delta.
    fn from_first_delta(delta: &Fields) -> Option<Self> {
        if delta.contains_key("text") || delta.contains_key("citation") {
            return Some(Self::Text {
                text: String::new(),
                citations: Vec::new(),
            });
        }
        delta
            .contains_key("reasoningContent")
            .then(|| Self::Reasoning {
                text: String::new(),
                signature: None,
                redacted: None,
            })
    }

    /// Applies a delta; returns the part for display.
    fn apply_delta(&mut self, mut delta: Fields) -> Option<Delta> {
        match self {
            Self::Text { text, citations } => {
                citations.extend(delta.shift_remove("citation"));
                let more = delta.get("text")?.as_str()?;
                text.push_str(more);
                shown(more).map(Delta::Text)
            }
            Self::Reasoning {
                text,
                signature,
                redacted,
            } => {
                let delta = delta.get("reasoningContent")?;
                let part = |name: &str| delta.get(name).and_then(Value::as_str);
                for (kept, more) in [
                    (signature, part("signature")),
                    (redacted, part("redactedContent")),
                ] {
                    if let Some(more) = more {
                        kept.get_or_insert_default().push_str(more);
                    }
                }
                let more = part("text")?;
                text.push_str(more);
                shown(more).map(Delta::Reasoning)
            }
            Self::Call { input, index, .. } => {
                let more = delta.get("toolUse")?.get("input")?.as_str()?;
                input.push_str(more);
                let index = (*index)?;
                shown(more).map(|text| Delta::Arguments { index, text })
            }
            Self::Result { content, .. } => {
                if let Some(Value::Array(parts)) = delta.shift_remove("toolResult") {
                    content.extend(parts);
                }
                None
            }
        }
    }

    fn block(self) -> Result<Block, Error> {
        match self {
            Self::Text { text, citations } if citations.is_empty() => Ok(Block::text(text)),
            Self::Text { text, citations } => answer::block(cited(&text, &citations), None),
            Self::Reasoning {
                redacted: Some(content),
                ..
            } => answer::block(
                json!({"reasoningContent": {"redactedContent": content}}),
                None,
            ),
            Self::Reasoning {
                text, signature, ..
            } => {
                let mut reasoning = json!({"text": text});
                if let Some(signature) = signature {
                    reasoning["signature"] = signature.into();
                }
                answer::block(
                    json!({"reasoningContent": {"reasoningText": reasoning}}),
                    None,
                )
            }
            Self::Call {
                mut fields, input, ..
            } => {
                // Arguments that are not an object are kept as the model wrote them; only the provider's
                // own tools get them parsed.
                let parsed = serde_json::from_str(&input).unwrap_or_else(|_| json!({}));
                fields.insert("input".to_owned(), parsed);
                answer::block(json!({"toolUse": fields}), Some(&input))
            }
            Self::Result {
                mut fields,
                content,
            } => {
                fields.insert("content".to_owned(), content.into());
                answer::block(json!({"toolResult": fields}), None)
            }
        }
    }
}

fn shown(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn index(fields: &Fields) -> Result<u64, Error> {
    fields
        .get("contentBlockIndex")
        .and_then(Value::as_u64)
        .ok_or_else(|| malformed("an event of the stream names no block"))
}
