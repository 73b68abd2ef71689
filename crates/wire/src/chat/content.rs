//! Parses the content of an answer: a text, or parts.

use serde_json::Value;

use crate::extra;
use crate::openai::{self, Object, text_of};
use crate::{Block, Delta, Extra, Format, Reasoning};

/// The content of an answer that is being streamed.
#[derive(Default)]
pub(super) struct PartialContent {
    /// Blocks in the order of their arrival, which is the order in which they were shown.
    blocks: Vec<Block>,
    is_refusal: bool,
}

impl PartialContent {
    /// Returns true if a part of it is a refusal.
    pub(super) fn is_refusal(&self) -> bool {
        self.is_refusal
    }

    /// Reads a content, or the next part of one.
    pub(super) fn take(&mut self, content: &Value, deltas: &mut Vec<Delta>) {
        match content {
            Value::String(text) => self.text(text, Extra::new(), deltas),
            Value::Array(parts) => {
                for part in parts {
                    self.part(part, deltas);
                }
            }
            _ => {}
        }
    }

    /// Reads a refusal, or the next part of one. It is shown as text.
    pub(super) fn refuse(&mut self, text: &str, deltas: &mut Vec<Delta>) {
        if !text.is_empty() {
            self.is_refusal = true;
            let kind = Extra::from_iter([("type".to_owned(), Value::from(openai::REFUSAL))]);
            self.text(text, extra::from_wire(Format::Chat, kind), deltas);
        }
    }

    pub(super) fn into_blocks(self) -> Vec<Block> {
        self.blocks
    }

    fn text(&mut self, piece: &str, further: Extra, deltas: &mut Vec<Delta>) {
        if !piece.is_empty() {
            deltas.push(Delta::Text(piece.to_owned()));
        }
        match self.blocks.last_mut() {
            Some(Block::Text { text, extra }) if *extra == further => text.push_str(piece),
            _ if piece.is_empty() && further.is_empty() => {}
            _ => self.blocks.push(Block::Text {
                text: piece.to_owned(),
                extra: further,
            }),
        }
    }

    fn part(&mut self, part: &Value, deltas: &mut Vec<Delta>) {
        let Some(fields) = part.as_object() else {
            return;
        };
        match text_of(fields, "type") {
            Some("text") => {
                let further = fields
                    .iter()
                    .filter(|(name, value)| {
                        !matches!(name.as_str(), "type" | "text") && !value.is_null()
                    })
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect();
                let further = extra::from_wire(Format::Chat, further);
                self.text(text_of(fields, "text").unwrap_or_default(), further, deltas);
            }
            Some("refusal") => self.refuse(text_of(fields, "refusal").unwrap_or_default(), deltas),
            Some("thinking") => self.think(fields, deltas),
            _ => self.blocks.push(Block::Other {
                format: Format::Chat,
                verbatim: part.clone(),
            }),
        }
    }

    /// Reads Mistral's part: `{"type": "thinking", "thinking": [{"type": "text", "text": …}]}`.
    fn think(&mut self, part: &Object, deltas: &mut Vec<Delta>) {
        let piece = thought(part);
        if !piece.is_empty() {
            deltas.push(Delta::Reasoning(piece.clone()));
        }
        if let Some(Block::Reasoning(reasoning)) = self.blocks.last_mut()
            && let Some(known) = reasoning.verbatim.as_object_mut()
        {
            reasoning.text.push_str(&piece);
            extend_thinking(known, part);
            return;
        }
        self.blocks.push(Block::Reasoning(Reasoning {
            text: piece,
            format: Format::Chat,
            verbatim: part.clone().into(),
        }));
    }
}

fn thought(part: &Object) -> String {
    match part.get("thinking") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(inner)) => inner
            .iter()
            .filter_map(|inner| inner.get("text")?.as_str())
            .collect(),
        _ => String::new(),
    }
}

fn extend_thinking(known: &mut Object, part: &Object) {
    for (name, value) in part {
        match (known.get_mut(name), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more)) if name == "thinking" => {
                text.push_str(more);
            }
            (Some(Value::Array(known)), Value::Array(more)) if name == "thinking" => {
                for inner in more {
                    extend_inner(known, inner);
                }
            }
            _ => {
                known.insert(name.clone(), value.clone());
            }
        }
    }
}

/// Merges with the last inner part if both contain only text.
fn extend_inner(known: &mut Vec<Value>, inner: &Value) {
    let plain = |value: &Value| {
        value
            .as_object()
            .is_some_and(|fields| fields.len() == 2 && text_of(fields, "type") == Some("text"))
    };
    if let Some(last) = known.last_mut()
        && plain(last)
        && plain(inner)
        && let Some(Value::String(text)) = last.get_mut("text")
        && let Some(more) = inner.get("text").and_then(Value::as_str)
    {
        text.push_str(more);
        return;
    }
    known.push(inner.clone());
}
