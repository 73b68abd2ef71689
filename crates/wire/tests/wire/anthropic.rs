//! Anthropic Messages.

use bytes::Bytes;
use cachalot_wire::{
    self as wire, Delta, Error, Extra, Format, Message, Reply, Wire,
    sse::{Decoder, Event},
};
use serde_json::{Value, json};

mod answer;
mod properties;
mod request;
mod stream;
mod tail;

fn messages() -> &'static dyn Wire {
    wire::for_format(Format::Messages)
}

/// The one piece of a message, as text.
fn piece(message: &Message) -> String {
    let pieces = messages().message(message).unwrap();
    assert_eq!(pieces.len(), 1);
    text(&pieces[0].bytes)
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A whole answer with this content.
fn body(content: Value) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": content, "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 5}
    })
}

fn reply(body: &Value) -> Result<Reply, Error> {
    messages().reply(body.to_string().as_bytes())
}

/// The events of a stream as the API writes them.
fn events(values: &[Value]) -> Vec<Event> {
    let stream: String = values
        .iter()
        .map(|value| {
            format!(
                "event: {}\ndata: {value}\n\n",
                value["type"].as_str().unwrap()
            )
        })
        .collect();
    Decoder::new().push(stream.as_bytes()).unwrap()
}

/// Everything that there was to show, and the whole.
fn read(events: &[Event]) -> Result<(Vec<Delta>, Reply), Error> {
    let mut reader = messages().reader();
    let mut deltas = Vec::new();
    for event in events {
        deltas.extend(reader.event(event)?);
    }
    Ok((deltas, reader.finish()?))
}

fn fields(value: Value) -> Extra {
    value.as_object().unwrap().clone()
}
