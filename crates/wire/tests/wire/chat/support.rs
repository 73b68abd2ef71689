//! Support of the tests of both OpenAI formats.

use bytes::Bytes;
use cachalot_wire::{
    Block, Delta, Error, Extra, Image, ImageSource, Message, Pieces, Rendered, Reply, Role,
    ToolResult, ToolUse, Wire, sse::Event,
};
use serde_json::Value;

/// The fields of an object.
pub(crate) fn extra(fields: Value) -> Extra {
    fields.as_object().unwrap().clone()
}

pub(crate) fn call(id: &str, name: &str, arguments: &str) -> Block {
    Block::ToolUse(ToolUse {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
        extra: Extra::new(),
    })
}

pub(crate) fn result(id: &str, content: Vec<Block>, is_error: bool) -> Block {
    Block::ToolResult(ToolResult {
        id: id.into(),
        content,
        is_error,
        extra: Extra::new(),
    })
}

pub(crate) fn picture() -> Block {
    Block::Image(Image {
        source: ImageSource::Inline {
            media_type: "image/png".into(),
            base64: "iVBORw0KGgo=".into(),
        },
        extra: Extra::new(),
    })
}

/// The pieces of a message, parsed again.
pub(crate) fn pieces(wire: &dyn Wire, message: &Message) -> Vec<Value> {
    let pieces = wire.message(message).unwrap();
    pieces.iter().map(json_of).collect()
}

/// A rendered piece, parsed again; it has no place for a marker and no key twice.
pub(crate) fn json_of(piece: &Rendered) -> Value {
    assert_eq!(piece.mark_at, None);
    strict(&piece.bytes)
}

/// Parses, and refuses an object that has a key twice.
pub(crate) fn strict(bytes: &[u8]) -> Value {
    cachalot_core::Canonical::json(bytes).unwrap();
    serde_json::from_slice(bytes).unwrap()
}

/// A whole body, parsed again, and checked as the simulator does.
pub(crate) fn body(wire: &dyn Wire, pieces: &Pieces, tail: &Bytes) -> Value {
    let body = pieces.body(wire, tail);
    let format = match wire.format() {
        cachalot_wire::Format::Responses => cachalot_simulator::Format::Responses,
        _ => cachalot_simulator::Format::Chat,
    };
    let checked = cachalot_simulator::check_request(format, false, &body);
    assert_eq!(checked, Ok(()), "{}", String::from_utf8_lossy(&body));
    strict(&body)
}

/// A message of the model.
pub(crate) fn assistant(content: Vec<Block>) -> Message {
    Message::new(Role::Assistant, content)
}

/// A message of the user.
pub(crate) fn user(content: Vec<Block>) -> Message {
    Message::new(Role::User, content)
}

/// An event without a name.
pub(crate) fn event(data: impl ToString) -> Event {
    Event {
        name: "message".into(),
        data: data.to_string(),
    }
}

/// Reads a stream to its end: what it showed, and the answer.
pub(crate) fn stream(wire: &dyn Wire, events: &[Event]) -> Result<(Vec<Delta>, Reply), Error> {
    let mut reader = wire.reader();
    let mut deltas = Vec::new();
    for event in events {
        deltas.extend(reader.event(event)?);
    }
    Ok((deltas, reader.finish()?))
}

/// The streamed text, reasoning, and arguments of each call.
pub(crate) fn shown(deltas: &[Delta]) -> (String, String, Vec<(String, String, String)>) {
    let mut text = String::new();
    let mut reasoning = String::new();
    let mut calls: Vec<(String, String, String)> = Vec::new();
    for delta in deltas {
        match delta {
            Delta::Text(piece) => text.push_str(piece),
            Delta::Reasoning(piece) => reasoning.push_str(piece),
            Delta::ToolUse { index, id, name } => {
                assert_eq!(*index, calls.len(), "calls are announced in order, once");
                calls.push((id.clone(), name.clone(), String::new()));
            }
            Delta::Arguments { index, text } => calls[*index].2.push_str(text),
        }
    }
    (text, reasoning, calls)
}

/// The calls of an answer: id, name, arguments.
pub(crate) fn calls(reply: &Reply) -> Vec<(String, String, String)> {
    let calls = reply.message.tool_uses();
    calls
        .map(|call| (call.id.clone(), call.name.clone(), call.arguments.clone()))
        .collect()
}
