//! Renders Responses answers as events.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::{ApiError, event, extend};
use crate::answer::pieces;

/// Events with consecutive numbers.
#[derive(Default)]
struct Events(Vec<Bytes>);

/// Returns the events of a finished `response`.
pub(super) fn events_of_response(response: &Value) -> Vec<Bytes> {
    let mut events = Events::default();
    let mut begun = response.clone();
    begun["status"] = json!("in_progress");
    begun["output"] = json!([]);
    for key in ["usage", "incomplete_details", "completed_at"] {
        begun[key] = Value::Null;
    }
    events.push("response.created", &[&json!({"response": begun})]);
    events.push("response.in_progress", &[&json!({"response": begun})]);
    let output = response["output"].as_array();
    for (at, item) in output.into_iter().flatten().enumerate() {
        match item["type"].as_str() {
            Some("reasoning") => events.reasoning(at, item),
            Some("message") => events.message(at, item),
            Some("function_call") => events.call(at, item),
            _ => events.added(at, item, &json!({})),
        }
        let done = json!({"output_index": at, "item": item});
        events.push("response.output_item.done", &[&done]);
    }
    let last = match response["status"].as_str() {
        Some("incomplete") => "response.incomplete",
        _ => "response.completed",
    };
    events.push(last, &[&json!({"response": response})]);
    events.0
}

impl Events {
    /// Appends an event with the members of all `fields`.
    fn push(&mut self, kind: &str, fields: &[&Value]) {
        let mut data = json!({"type": kind, "sequence_number": self.0.len()});
        fields.iter().for_each(|fields| extend(&mut data, fields));
        self.0.push(event(kind, &data));
    }

    /// Appends the begin of an item, whose content is `empty`.
    fn added(&mut self, at: usize, item: &Value, empty: &Value) {
        let mut begun = item.clone();
        if begun.get("status").is_some() {
            begun["status"] = json!("in_progress");
        }
        extend(&mut begun, empty);
        let fields = json!({"output_index": at, "item": begun});
        self.push("response.output_item.added", &[&fields]);
    }

    fn reasoning(&mut self, at: usize, item: &Value) {
        self.added(at, item, &json!({"summary": []}));
        let names = ["reasoning_summary_part", "reasoning_summary_text"];
        for (index, part) in item["summary"].as_array().into_iter().flatten().enumerate() {
            let place = json!({"item_id": item["id"], "output_index": at, "summary_index": index});
            self.part(names, &place, part, &json!({}));
        }
    }

    fn message(&mut self, at: usize, item: &Value) {
        self.added(at, item, &json!({"content": []}));
        let names = ["content_part", "output_text"];
        for (index, part) in item["content"].as_array().into_iter().flatten().enumerate() {
            let place = json!({"item_id": item["id"], "output_index": at, "content_index": index});
            self.part(names, &place, part, &json!({"logprobs": []}));
        }
    }

    /// Appends the events of a part and its text, which are called `names`. Events of the text have the
    /// members of `further`.
    fn part(&mut self, names: [&str; 2], place: &Value, part: &Value, further: &Value) {
        let [of_part, of_text] = names.map(|name| format!("response.{name}"));
        let mut empty = part.clone();
        empty["text"] = json!("");
        self.push(
            &format!("{of_part}.added"),
            &[place, &json!({"part": empty})],
        );
        let text = part["text"].as_str().unwrap_or_default();
        for piece in pieces(text) {
            let delta = json!({"delta": piece});
            self.push(&format!("{of_text}.delta"), &[place, &delta, further]);
        }
        let done = json!({"text": text});
        self.push(&format!("{of_text}.done"), &[place, &done, further]);
        self.push(&format!("{of_part}.done"), &[place, &json!({"part": part})]);
    }

    fn call(&mut self, at: usize, item: &Value) {
        self.added(at, item, &json!({"arguments": ""}));
        let place = json!({"item_id": item["id"], "output_index": at});
        let arguments = item["arguments"].as_str().unwrap_or_default();
        for piece in pieces(arguments) {
            let delta = json!({"delta": piece});
            self.push("response.function_call_arguments.delta", &[&place, &delta]);
        }
        let done = json!({"arguments": arguments, "name": item["name"]});
        self.push("response.function_call_arguments.done", &[&place, &done]);
    }
}

/// Renders an error within a stream.
pub(in super::super) fn error_event(refusal: &ApiError, at: usize) -> Bytes {
    let data = json!({
        "type": "error",
        "sequence_number": at,
        "code": refusal.code.unwrap_or("server_error"),
        "message": refusal.message,
        "param": refusal.param,
    });
    event("error", &data)
}
