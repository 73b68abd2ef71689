//! Renders Responses answers as events.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::{ApiError, event};
use crate::answer::pieces;

/// Events with consecutive numbers.
#[derive(Default)]
struct Events(Vec<Bytes>);

impl Events {
    fn push(&mut self, kind: &str, fields: Value) {
        let mut data = json!({"type": kind, "sequence_number": self.0.len()});
        for (key, value) in fields.as_object().into_iter().flatten() {
            data[key] = value.clone();
        }
        self.0.push(event(kind, &data));
    }
}

/// Returns the events of a finished `response`.
pub(super) fn events_of_response(response: &Value) -> Vec<Bytes> {
    let mut events = Events::default();
    let mut begun = response.clone();
    begun["status"] = json!("in_progress");
    begun["output"] = json!([]);
    for key in ["usage", "incomplete_details", "completed_at"] {
        begun[key] = Value::Null;
    }
    events.push("response.created", json!({"response": begun}));
    events.push("response.in_progress", json!({"response": begun}));
    let output = response["output"].as_array();
    for (at, item) in output.into_iter().flatten().enumerate() {
        match item["type"].as_str() {
            Some("reasoning") => reasoning(&mut events, at, item),
            Some("message") => message(&mut events, at, item),
            _ => call(&mut events, at, item),
        }
        let done = json!({"output_index": at, "item": item});
        events.push("response.output_item.done", done);
    }
    let last = match response["status"].as_str() {
        Some("incomplete") => "response.incomplete",
        _ => "response.completed",
    };
    events.push(last, json!({"response": response}));
    events.0
}

fn added(events: &mut Events, at: usize, item: &Value, empty: &[(&str, Value)]) {
    let mut begun = item.clone();
    if begun.get("status").is_some() {
        begun["status"] = json!("in_progress");
    }
    for (key, value) in empty {
        begun[*key] = value.clone();
    }
    let fields = json!({"output_index": at, "item": begun});
    events.push("response.output_item.added", fields);
}

fn reasoning(events: &mut Events, at: usize, item: &Value) {
    added(events, at, item, &[("summary", json!([]))]);
    let id = &item["id"];
    for (index, part) in item["summary"].as_array().into_iter().flatten().enumerate() {
        let place = json!({"item_id": id, "output_index": at, "summary_index": index});
        let with = |key: &str, value: Value| {
            let mut fields = place.clone();
            fields[key] = value;
            fields
        };
        let empty = json!({"type": "summary_text", "text": ""});
        events.push("response.reasoning_summary_part.added", with("part", empty));
        let text = part["text"].as_str().unwrap_or_default();
        for piece in pieces(text) {
            let delta = with("delta", json!(piece));
            events.push("response.reasoning_summary_text.delta", delta);
        }
        let done = with("text", json!(text));
        events.push("response.reasoning_summary_text.done", done);
        let done = with("part", part.clone());
        events.push("response.reasoning_summary_part.done", done);
    }
}

fn message(events: &mut Events, at: usize, item: &Value) {
    added(events, at, item, &[("content", json!([]))]);
    let id = &item["id"];
    for (index, part) in item["content"].as_array().into_iter().flatten().enumerate() {
        let place = json!({"item_id": id, "output_index": at, "content_index": index});
        let with = |more: Value| {
            let mut fields = place.clone();
            for (key, value) in more.as_object().into_iter().flatten() {
                fields[key] = value.clone();
            }
            fields
        };
        let mut empty = part.clone();
        empty["text"] = json!("");
        events.push("response.content_part.added", with(json!({"part": empty})));
        let text = part["text"].as_str().unwrap_or_default();
        for piece in pieces(text) {
            let delta = with(json!({"delta": piece, "logprobs": []}));
            events.push("response.output_text.delta", delta);
        }
        let done = with(json!({"text": text, "logprobs": []}));
        events.push("response.output_text.done", done);
        events.push("response.content_part.done", with(json!({"part": part})));
    }
}

fn call(events: &mut Events, at: usize, item: &Value) {
    added(events, at, item, &[("arguments", json!(""))]);
    let place = json!({"item_id": item["id"], "output_index": at});
    let arguments = item["arguments"].as_str().unwrap_or_default();
    for piece in pieces(arguments) {
        let mut fields = place.clone();
        fields["delta"] = json!(piece);
        events.push("response.function_call_arguments.delta", fields);
    }
    let mut fields = place;
    fields["arguments"] = json!(arguments);
    fields["name"] = item["name"].clone();
    events.push("response.function_call_arguments.done", fields);
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
