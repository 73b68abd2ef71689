//! Converts a stored answer between its two forms: a stream of server-sent events and one JSON document.
//!
//! | module | API | last event |
//! |---|---|---|
//! | [`chat`] | OpenAI Chat Completions | `[DONE]` |
//! | [`responses`] | OpenAI Responses | `response.completed`, `response.incomplete` |
//! | [`messages`] | Anthropic Messages | `message_stop` |
//! | [`gemini`] | Gemini | the chunk with `finishReason` |
//!
//! A conversion keeps every member of its source, except those that the other form does not have by definition:
//! names of events, `ping`, obfuscation, sequence numbers, intermediate counts of tokens, and the usage of a chat
//! stream that was not asked for. A source that cannot be converted so is not converted at all. Each stream that is
//! made here is converted back and compared with its source before it is returned.

mod chat;
mod gemini;
mod messages;
mod repeated;
mod responses;
mod texts;

use bytes::Bytes;
use cachalot_core::canonical::Canonical;
use cachalot_core::json;
use cachalot_model::wire::sse::Decoder;
use serde_json::{Map, Value};

use crate::endpoint::Endpoint;

/// A JSON object.
type Object = Map<String, Value>;

/// A stream of events.
#[derive(Debug, Default)]
struct Stream {
    events: Vec<Event>,
    /// True if `[DONE]` follows the events.
    is_done: bool,
}

/// An event of a stream.
#[derive(Debug)]
struct Event {
    /// Name; `None` if the stream contains none.
    name: Option<String>,
    data: Object,
}

/// Returns the document that the provider would have answered to the same request without `stream`; `None` if the
/// stream cannot be converted without loss.
pub(crate) fn to_whole(endpoint: Endpoint, events: &[u8]) -> Option<Bytes> {
    let document = document(endpoint, &Stream::parse(events)?)?;
    if endpoint == Endpoint::Chat && !chat::has_usage(&document) {
        return None;
    }
    Some(Value::Object(document).to_string().into())
}

/// Returns the stream that the provider would have answered to `request`, the body of a request with `stream`; `None`
/// if the document cannot be converted without loss.
pub(crate) fn to_events(endpoint: Endpoint, whole: &[u8], request: &Value) -> Option<Bytes> {
    let whole = object(parse(std::str::from_utf8(whole).ok()?)?)?;
    let stream = match endpoint {
        Endpoint::Chat => chat::stream(&whole, request)?,
        Endpoint::Responses => responses::stream(&whole)?,
        Endpoint::Messages => messages::stream(&whole)?,
        Endpoint::Gemini => gemini::stream(&whole)?,
        _ => return None,
    };
    let restored = document(endpoint, &stream)?;
    let is_complete = match endpoint {
        Endpoint::Chat => chat::is_same(restored, whole),
        _ => restored == whole,
    };
    is_complete.then(|| stream.render(endpoint))
}

/// Returns the document with the members of all events.
fn document(endpoint: Endpoint, stream: &Stream) -> Option<Object> {
    match endpoint {
        Endpoint::Chat => chat::document(stream),
        Endpoint::Responses => responses::document(stream),
        Endpoint::Messages => messages::document(stream),
        Endpoint::Gemini => gemini::document(stream),
        _ => None,
    }
}

impl Stream {
    /// Parses the bytes of a stream that ends with a complete event.
    fn parse(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok()?;
        let mut decoder = Decoder::new();
        let mut stream = Self::default();
        for event in decoder.push(bytes).ok()? {
            if stream.is_done {
                return None;
            }
            if event.data == "[DONE]" {
                stream.is_done = true;
                continue;
            }
            stream.events.push(Event {
                data: object(parse(&event.data)?)?,
                // The name of an event without one.
                name: Some(event.name).filter(|name| name != "message"),
            });
        }
        // An event without a blank line at its end was cut off.
        let is_cut_off = !decoder.push(b"\n\n").ok()?.is_empty();
        (!is_cut_off).then_some(stream)
    }

    /// Appends an event without a name.
    fn push(&mut self, data: Object) {
        self.events.push(Event { name: None, data });
    }

    /// Appends an event whose name is the `type` in its data.
    fn push_typed(&mut self, data: Object) {
        let name = data.get("type").and_then(Value::as_str).map(str::to_owned);
        self.events.push(Event { name, data });
    }

    /// Returns the bytes of the stream.
    fn render(self, endpoint: Endpoint) -> Bytes {
        let end = match endpoint {
            Endpoint::Gemini => "\r\n\r\n",
            _ => "\n\n",
        };
        let mut text = String::new();
        for Event { name, data } in self.events {
            if let Some(name) = name {
                text.extend(["event: ", &name, "\n"]);
            }
            text.extend(["data: ", &Value::Object(data).to_string(), end]);
        }
        if self.is_done {
            text.extend(["data: [DONE]", end]);
        }
        text.into()
    }
}

impl Event {
    /// Returns the type of the event, which its name repeats.
    fn kind(&self) -> Option<&str> {
        let kind = text(&self.data, "type")?;
        let named = self.name.as_deref();
        named.is_none_or(|name| name == kind).then_some(kind)
    }
}

/// Parses a JSON text; `None` if a value tree would lose some of it: one of two members with the same name, or digits
/// of an integer.
fn parse(text: &str) -> Option<Value> {
    Canonical::json(text.as_bytes()).ok()?;
    let mut numbers = json::numbers(text).filter_map(|range| text.get(range));
    if numbers.any(json::is_beyond_64_bits) {
        return None;
    }
    json::parse(text.as_bytes()).ok()
}

fn object(value: Value) -> Option<Object> {
    match value {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// Returns an object with these members.
fn members<const N: usize>(members: [(&str, Value); N]) -> Object {
    let members = members.into_iter();
    members
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn owned((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

fn text<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    object.get(name)?.as_str()
}

/// Returns true for a value that the first chunk has only, since there may be many chunks.
fn is_compound(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// Returns true if the object has no members but these.
fn has_only(object: &Object, names: &[&str]) -> bool {
    object.keys().all(|name| names.contains(&name.as_str()))
}

/// Sets a member that a stream sends once. A null is no value.
fn set_once(object: &mut Object, name: &str, value: &Value) -> Option<()> {
    match object.get_mut(name) {
        None => {
            object.insert(name.to_owned(), value.clone());
        }
        Some(_) if value.is_null() => {}
        Some(known @ Value::Null) => known.clone_from(value),
        Some(_) => return None,
    }
    Some(())
}

/// Appends a piece to a text. A null is no piece.
fn append(object: &mut Object, name: &str, piece: &Value) -> Option<()> {
    match (object.get_mut(name), piece) {
        (Some(Value::String(text)), Value::String(piece)) => text.push_str(piece),
        (Some(Value::String(_) | Value::Null), Value::Null) => {}
        (Some(known @ Value::Null), Value::String(_)) => known.clone_from(piece),
        (None, Value::String(_) | Value::Null) => {
            object.insert(name.to_owned(), piece.clone());
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
