//! The items of an answer that is being streamed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Delta;
use crate::openai::{self, Object, text_of};

/// Items by their index in the answer.
#[derive(Default)]
pub(super) struct PartialItems {
    items: BTreeMap<u64, PartialItem>,
    calls: usize,
}

#[derive(Default)]
struct PartialItem {
    /// The item as the server sent it last.
    fields: Object,
    /// True if the server sent the item complete.
    done: bool,
    /// Index among the calls of the answer.
    call: Option<usize>,
    arguments: String,
    /// Content parts received so far, by index.
    parts: BTreeMap<u64, PartialPart>,
    /// Summary parts received so far, by index.
    summary: BTreeMap<u64, String>,
}

#[derive(Default)]
struct PartialPart {
    kind: &'static str,
    text: String,
}

impl PartialItems {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Applies an event about an item; returns the deltas for display. Ignores events without content of an
    /// item.
    pub(super) fn take(&mut self, kind: &str, event: &Object) -> Vec<Delta> {
        let at = self.place(event);
        let piece = text_of(event, "delta");
        match kind {
            "response.output_item.added" | "response.output_item.done" => match event.get("item") {
                Some(Value::Object(fields)) => self.item(at, fields, kind.ends_with("done")),
                _ => Vec::new(),
            },
            "response.output_text.delta" => self.part(at, event, "output_text", piece),
            "response.output_text.done" => self.unseen(at, event),
            "response.refusal.delta" => self.part(at, event, openai::REFUSAL, piece),
            "response.reasoning_text.delta" => self.part(at, event, "reasoning_text", piece),
            "response.reasoning_summary_part.added" => self.summary(at, event, ""),
            "response.reasoning_summary_text.delta" => {
                self.summary(at, event, piece.unwrap_or_default())
            }
            "response.function_call_arguments.delta" => match (piece, self.items.get_mut(&at)) {
                (Some(piece), Some(item)) => {
                    item.arguments.push_str(piece);
                    item.shown_arguments(piece)
                }
                _ => Vec::new(),
            },
            "response.function_call_arguments.done" => match self.items.get_mut(&at) {
                Some(item) => item.whole_arguments(text_of(event, "arguments")),
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Returns the items as an output.
    pub(super) fn into_output(self) -> Vec<Value> {
        let items = self.items.into_values();
        items.map(|item| Value::Object(item.finish())).collect()
    }

    /// Returns the index of the item that an event is about: the index in the event, or that of the item
    /// with its id, or that of the newest item.
    fn place(&self, event: &Object) -> u64 {
        let by_id = || {
            let id = text_of(event, "item_id")?;
            let mut items = self.items.iter();
            items.find_map(|(at, item)| (text_of(&item.fields, "id") == Some(id)).then_some(*at))
        };
        event
            .get("output_index")
            .and_then(Value::as_u64)
            .or_else(by_id)
            .or_else(|| self.items.keys().next_back().copied())
            .unwrap_or(0)
    }

    fn item(&mut self, at: u64, fields: &Object, done: bool) -> Vec<Delta> {
        let calls = &mut self.calls;
        let item = self.items.entry(at).or_default();
        item.fields.clone_from(fields);
        item.done |= done;
        let mut deltas = Vec::new();
        match text_of(fields, "type") {
            Some("function_call") => {
                // A call comes twice, when it begins and when it is complete. It is announced once.
                if item.call.is_none() {
                    item.call = Some(*calls);
                    *calls += 1;
                    deltas.extend(item.announcement());
                }
                deltas.extend(item.whole_arguments(text_of(fields, "arguments")));
            }
            // A server that streams no text still sends it with the complete item.
            Some("message") if done && item.parts.is_empty() => {
                deltas.extend(texts(fields).map(|text| Delta::Text(text.to_owned())));
            }
            _ => {}
        }
        deltas
    }

    fn part(
        &mut self,
        at: u64,
        event: &Object,
        kind: &'static str,
        piece: Option<&str>,
    ) -> Vec<Delta> {
        let Some(piece) = piece else {
            return Vec::new();
        };
        let place = number(event, "content_index");
        let part = self.items.entry(at).or_default().parts.entry(place);
        let part = part.or_default();
        part.kind = kind;
        part.text.push_str(piece);
        vec![if kind == "reasoning_text" {
            Delta::Reasoning(piece.to_owned())
        } else {
            Delta::Text(piece.to_owned())
        }]
    }

    /// Applies a complete text; it is shown if no part of it was.
    fn unseen(&mut self, at: u64, event: &Object) -> Vec<Delta> {
        let place = number(event, "content_index");
        let seen = |item: &PartialItem| item.parts.contains_key(&place);
        if self.items.get(&at).is_some_and(seen) {
            return Vec::new();
        }
        self.part(at, event, "output_text", text_of(event, "text"))
    }

    /// Applies a piece of a summary; its parts are paragraphs.
    fn summary(&mut self, at: u64, event: &Object, piece: &str) -> Vec<Delta> {
        let place = number(event, "summary_index");
        let parts = &mut self.items.entry(at).or_default().summary;
        let next = !parts.contains_key(&place) && parts.values().any(|part| !part.is_empty());
        parts.entry(place).or_default().push_str(piece);
        match (next, piece) {
            (true, piece) => vec![Delta::Reasoning(format!("\n\n{piece}"))],
            (false, "") => Vec::new(),
            (false, piece) => vec![Delta::Reasoning(piece.to_owned())],
        }
    }
}

impl PartialItem {
    fn announcement(&self) -> Option<Delta> {
        let text = |name: &str| text_of(&self.fields, name);
        Some(Delta::ToolUse {
            index: self.call?,
            id: text("call_id")
                .or_else(|| text("id"))
                .unwrap_or_default()
                .to_owned(),
            name: text("name").unwrap_or_default().to_owned(),
        })
    }

    fn shown_arguments(&self, piece: &str) -> Vec<Delta> {
        match self.call {
            Some(index) if !piece.is_empty() => vec![Delta::Arguments {
                index,
                text: piece.to_owned(),
            }],
            _ => Vec::new(),
        }
    }

    /// Applies the complete arguments; returns the part that was not shown yet.
    fn whole_arguments(&mut self, whole: Option<&str>) -> Vec<Delta> {
        let Some(whole) = whole else {
            return Vec::new();
        };
        let rest = whole.strip_prefix(self.arguments.as_str()).unwrap_or("");
        let deltas = self.shown_arguments(rest);
        // The complete arguments win over the pieces, even if these differ.
        whole.clone_into(&mut self.arguments);
        deltas
    }

    /// Returns the item; it is assembled from its pieces if the server never sent it complete.
    fn finish(self) -> Object {
        let mut fields = self.fields;
        // A complete item has all its members; pieces would only repeat some of them.
        if self.done {
            return fields;
        }
        if fields.is_empty() {
            let mut parts = self.parts.values();
            let (kind, role) = if parts.all(|part| part.kind == "reasoning_text") {
                ("reasoning", None)
            } else {
                ("message", Some("assistant"))
            };
            fields.insert("type".into(), kind.into());
            fields.extend(role.map(|role| ("role".to_owned(), role.into())));
        }
        if !self.arguments.is_empty() {
            fields.insert("arguments".into(), self.arguments.into());
        }
        if !self.parts.is_empty() {
            let parts = self.parts.into_values().map(PartialPart::finish).collect();
            fields.insert("content".into(), Value::Array(parts));
        }
        if !self.summary.is_empty() {
            let parts = self.summary.into_values();
            let parts = parts.map(|text| json!({"type": "summary_text", "text": text}));
            fields.insert("summary".into(), parts.collect());
        }
        if text_of(&fields, "status") == Some("in_progress") {
            fields.insert("status".into(), "completed".into());
        }
        fields
    }
}

impl PartialPart {
    fn finish(self) -> Value {
        let name = match self.kind {
            openai::REFUSAL => openai::REFUSAL,
            _ => "text",
        };
        json!({"type": self.kind, name: self.text})
    }
}

fn texts(item: &Object) -> impl Iterator<Item = &str> {
    let parts = item.get("content").and_then(Value::as_array);
    let parts = parts.into_iter().flatten().filter_map(Value::as_object);
    parts.filter_map(|part| text_of(part, "text").or_else(|| text_of(part, openai::REFUSAL)))
}

fn number(event: &Object, name: &str) -> u64 {
    event.get(name).and_then(Value::as_u64).unwrap_or(0)
}
