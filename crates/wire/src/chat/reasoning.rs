//! Reasoning as fields of a message: `reasoning_content` (DeepSeek, xAI, older vLLM), `reasoning`
//! (OpenRouter, Groq, Ollama, vLLM) and `reasoning_details` (OpenRouter).

use serde_json::Value;

use crate::openai::{Object, text_of};
use crate::{Block, Format, Reasoning};

/// The fields by priority: the first one with text is shown.
pub(super) const FIELDS: [&str; 3] = ["reasoning_content", "reasoning", DETAILS];

const DETAILS: &str = "reasoning_details";

/// The reasoning of an answer that is being streamed.
#[derive(Default)]
pub(super) struct PartialReasoning {
    fields: Object,
}

impl PartialReasoning {
    /// Reads the reasoning of a message, or the next part of one; returns the text for display.
    ///
    /// Several fields may contain the same text: one of them is shown.
    pub(super) fn take(&mut self, message: &Object) -> Option<String> {
        for name in FIELDS {
            match message.get(name) {
                None | Some(Value::Null) => {}
                Some(Value::String(piece)) => self.append(name, piece),
                Some(Value::Array(pieces)) => self.merge(name, pieces),
                Some(other) => {
                    self.fields.insert(name.to_owned(), other.clone());
                }
            }
        }
        Some(shown(message)).filter(|text| !text.is_empty())
    }

    pub(super) fn into_block(self) -> Option<Block> {
        if self.fields.is_empty() {
            return None;
        }
        Some(Block::Reasoning(Reasoning {
            text: shown(&self.fields),
            format: Format::Chat,
            verbatim: self.fields.into(),
        }))
    }

    fn append(&mut self, name: &str, piece: &str) {
        match self.fields.get_mut(name) {
            Some(Value::String(text)) => text.push_str(piece),
            _ => {
                self.fields.insert(name.to_owned(), piece.into());
            }
        }
    }

    fn merge(&mut self, name: &str, pieces: &[Value]) {
        let known = self
            .fields
            .entry(name)
            .or_insert_with(|| Value::Array(Vec::new()))
            .as_array_mut();
        let Some(known) = known else { return };
        for piece in pieces {
            match known.last_mut() {
                Some(last) if continues(last, piece) => extend(last, piece),
                _ => known.push(piece.clone()),
            }
        }
    }
}

/// Returns the text for display.
fn shown(fields: &Object) -> String {
    let texts = FIELDS.iter().filter_map(|name| text_of(fields, name));
    if let Some(text) = texts.into_iter().next() {
        return text.to_owned();
    }
    let details = fields.get(DETAILS).and_then(Value::as_array);
    let details = details.into_iter().flatten().filter_map(Value::as_object);
    details
        .filter_map(|detail| text_of(detail, "text").or_else(|| text_of(detail, "summary")))
        .collect()
}

/// Returns true if a piece continues the previous detail: same type, index and id, and a type that is sent
/// in pieces.
fn continues(last: &Value, piece: &Value) -> bool {
    let grows = matches!(
        piece.get("type").and_then(Value::as_str),
        Some("reasoning.text" | "reasoning.summary")
    );
    let same = |name: &str| match (last.get(name), piece.get(name)) {
        (Some(Value::Null) | None, _) | (_, Some(Value::Null) | None) => true,
        (known, new) => known == new,
    };
    grows && last.get("type") == piece.get("type") && same("index") && same("id")
}

/// Appends texts; of all other fields, the last value that is not null wins.
fn extend(last: &mut Value, piece: &Value) {
    let (Some(last), Some(piece)) = (last.as_object_mut(), piece.as_object()) else {
        return;
    };
    for (name, value) in piece {
        match (last.get_mut(name), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more))
                if matches!(name.as_str(), "text" | "summary") =>
            {
                text.push_str(more);
            }
            _ => {
                last.insert(name.clone(), value.clone());
            }
        }
    }
}
