//! The steps of an answer that is being streamed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Value, json};

use super::MODEL_OUTPUT;
use super::answer::{Step, check, is_type, texts};
use crate::Delta;
use crate::error::Error;
use crate::openai::{Object, malformed, text_of};

/// Steps in the order in which they began.
#[derive(Default)]
pub(super) struct PartialSteps {
    steps: Vec<PartialStep>,
    /// Places in `steps`, by the index in the events.
    places: HashMap<u64, usize>,
    calls: usize,
    /// The type of the first delta that does not belong to its step.
    unknown_delta: Option<String>,
}

struct PartialStep {
    fields: Object,
    /// Index among the calls of the answer.
    call: Option<usize>,
    /// The arguments of a call, as far as they were streamed.
    arguments: String,
}

impl PartialSteps {
    /// Begins a step; returns the deltas for display. A step that has begun already is not begun again.
    pub(super) fn begin(&mut self, index: u64, fields: Object) -> Result<Vec<Delta>, Error> {
        check(&fields)?;
        match self.places.entry(index) {
            Entry::Occupied(_) => return Ok(Vec::new()),
            Entry::Vacant(place) => place.insert(self.steps.len()),
        };
        let mut deltas = Vec::new();
        let mut call = None;
        match text_of(&fields, "type") {
            Some(MODEL_OUTPUT) => {
                let texts = texts(&fields, "content").filter(|text| !text.is_empty());
                deltas.extend(texts.map(|text| Delta::Text(text.to_owned())));
            }
            Some("thought") => {
                let texts = texts(&fields, "summary").filter(|text| !text.is_empty());
                deltas.extend(texts.map(|text| Delta::Reasoning(text.to_owned())));
            }
            Some("function_call") => {
                let text = |name: &str| text_of(&fields, name).unwrap_or_default().to_owned();
                deltas.push(Delta::ToolUse {
                    index: self.calls,
                    id: text("id"),
                    name: text("name"),
                });
                call = Some(self.calls);
                self.calls += 1;
            }
            _ => {}
        }
        self.steps.push(PartialStep {
            fields,
            call,
            arguments: String::new(),
        });
        Ok(deltas)
    }

    /// Applies a delta; returns the deltas for display.
    pub(super) fn add(&mut self, index: u64, delta: Object) -> Result<Vec<Delta>, Error> {
        let place = self.places.get(&index).copied();
        let is_last = place.is_some_and(|place| place + 1 == self.steps.len());
        let Some(step) = place.and_then(|place| self.steps.get_mut(place)) else {
            return Err(malformed("a delta belongs to a step that has not begun"));
        };
        let kind = text_of(&delta, "type").unwrap_or_default().to_owned();
        if is_type(&step.fields, MODEL_OUTPUT) {
            // The text of an earlier step has been shown already.
            if !is_last {
                return Err(malformed("a delta belongs to a step before the last one"));
            }
            return Ok(step.add_content(&kind, delta));
        }
        if is_foreign(&step.fields, &kind) {
            self.unknown_delta.get_or_insert(kind);
            return Ok(Vec::new());
        }
        Ok(step.add_member(&kind, delta))
    }

    /// Ends a step. Arguments that arrived with its beginning are shown now.
    pub(super) fn end(&mut self, index: u64) -> Vec<Delta> {
        let place = self.places.get(&index);
        let step = place.and_then(|place| self.steps.get(*place));
        let whole = step.and_then(|step| {
            let call = step.call.filter(|_| step.arguments.is_empty())?;
            let arguments = step.fields.get("arguments")?.as_object()?;
            (!arguments.is_empty()).then(|| Delta::Arguments {
                index: call,
                text: Value::from(arguments.clone()).to_string(),
            })
        });
        Vec::from_iter(whole)
    }

    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns the type of a delta that is not one of its step, a thought or a call of the client's function.
    pub(super) fn unknown_delta(&self) -> Option<&str> {
        self.unknown_delta.as_deref()
    }

    pub(super) fn into_steps(self) -> Vec<Step> {
        let steps = self.steps.into_iter().map(|step| Step {
            fields: step.fields,
            arguments: Some(step.arguments).filter(|text| !text.is_empty()),
        });
        steps.collect()
    }
}

impl PartialStep {
    /// Applies a delta of what the model says: a part of a text, its annotations, or another content.
    fn add_content(&mut self, kind: &str, mut delta: Object) -> Vec<Delta> {
        let annotations = match kind {
            "text_annotation_delta" => delta.shift_remove("annotations"),
            _ => None,
        };
        let shown = (kind == "text").then(|| text_of(&delta, "text")).flatten();
        let shown = shown.map(|text| Delta::Text(text.to_owned()));
        with_list(&mut self.fields, "content", |contents| match kind {
            "text" => append_text(contents, text_of(&delta, "text").unwrap_or_default()),
            "text_annotation_delta" => {
                append_text(contents, "");
                if let Some(Value::Object(text)) = contents.last_mut() {
                    with_list(text, "annotations", |known| {
                        if let Some(Value::Array(more)) = annotations {
                            known.extend(more);
                        }
                    });
                }
            }
            _ => contents.push(Value::Object(delta)),
        });
        Vec::from_iter(shown)
    }

    /// Applies a delta of another step: a part of a summary or of arguments, or members of the step.
    fn add_member(&mut self, kind: &str, mut delta: Object) -> Vec<Delta> {
        match (kind, self.call) {
            ("thought_summary", _) => {
                let content = delta.shift_remove("content").unwrap_or_default();
                let text = content.get("text").and_then(Value::as_str);
                let text = text.filter(|_| is_text(&content)).unwrap_or_default();
                let shown = (!text.is_empty()).then(|| Delta::Reasoning(text.to_owned()));
                with_list(&mut self.fields, "summary", |summary| {
                    match is_text(&content) {
                        true => append_text(summary, text),
                        false if content.is_object() => summary.push(content.clone()),
                        false => {}
                    }
                });
                Vec::from_iter(shown)
            }
            ("arguments_delta", Some(index)) => {
                let text = text_of(&delta, "arguments").unwrap_or_default().to_owned();
                self.arguments.push_str(&text);
                vec![Delta::Arguments { index, text }]
            }
            // `thought_signature`, and calls and results of the provider's own tools.
            _ => {
                delta.shift_remove("type");
                for (name, value) in delta {
                    let known = self.fields.entry(name).or_insert(Value::Null);
                    match (known, value) {
                        (Value::Array(known), Value::Array(more)) => known.extend(more),
                        (known, value) => *known = value,
                    }
                }
                Vec::new()
            }
        }
    }
}

/// Appends to the last content if it is a text, or begins one.
fn append_text(contents: &mut Vec<Value>, text: &str) {
    match contents.last_mut().filter(|content| is_text(content)) {
        Some(content) => match content.get_mut("text") {
            Some(Value::String(known)) => known.push_str(text),
            _ => content["text"] = text.into(),
        },
        None => contents.push(json!({"type": "text", "text": text})),
    }
}

/// Returns true for a delta of a type that a thought, or a call of the client's function, does not have.
fn is_foreign(step: &Object, kind: &str) -> bool {
    match text_of(step, "type") {
        Some("thought") => !["thought_signature", "thought_summary"].contains(&kind),
        Some("function_call") => !["arguments_delta", "thought_signature"].contains(&kind),
        _ => false,
    }
}

fn is_text(content: &Value) -> bool {
    content.get("type").is_some_and(|kind| kind == "text")
}

/// Changes the list in a member, which is begun anew if the member is none.
fn with_list(fields: &mut Object, name: &str, change: impl FnOnce(&mut Vec<Value>)) {
    let mut list = match fields.get_mut(name).map(Value::take) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    change(&mut list);
    fields.insert(name.to_owned(), Value::Array(list));
}
