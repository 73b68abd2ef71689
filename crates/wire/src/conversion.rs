//! Conversion of a stored answer between its two forms: a stream of server-sent events and one JSON document.
//!
//! A conversion keeps every member of its source, except those that the other form does not have by definition:
//! names and IDs of events, `ping`, obfuscation, sequence numbers, intermediate counts of tokens, and the usage of a chat
//! stream that was not asked for. A source that cannot be converted so is not converted at all. Each stream that is
//! made here is converted back and compared with its source before it is returned.

pub(crate) mod repeated;
pub(crate) mod texts;

use bytes::Bytes;
use cachalot_core::canonical::Canonical;
use cachalot_core::json;
use serde_json::{Map, Value};

use crate::sse::Decoder;

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// The two forms of the answers of a format.
#[derive(Debug)]
pub struct Conversion {
    /// Returns the document with the members of all events; `None` if it would lose some.
    pub(crate) document: fn(&Stream) -> Option<Object>,
    /// Returns the stream of a document; `None` if it would lose something. The flag is set if the request asks for the
    /// usage of its stream.
    pub(crate) stream: fn(&Object, bool) -> Option<Stream>,
    /// Returns true if a document has what each whole answer has, and some streams leave out.
    pub(crate) is_complete: fn(&Object) -> bool,
    /// Compares a document that was made from a stream with the source of the stream.
    pub(crate) is_same: fn(Object, Object) -> bool,
    /// The end of each event.
    pub(crate) end_of_event: &'static str,
}

impl Conversion {
    /// Creates a conversion between forms with the same members.
    pub(crate) const fn new(
        document: fn(&Stream) -> Option<Object>,
        stream: fn(&Object, bool) -> Option<Stream>,
    ) -> Self {
        Self {
            document,
            stream,
            is_complete: |_| true,
            is_same: |restored, source| restored == source,
            end_of_event: "\n\n",
        }
    }
}

/// A stream of events.
#[derive(Debug, Default)]
pub struct Stream {
    pub(crate) events: Vec<Event>,
    /// True if `[DONE]` follows the events.
    pub(crate) is_done: bool,
}

/// An event of a stream.
#[derive(Debug)]
pub(crate) struct Event {
    /// Name; `None` if the stream contains none.
    pub(crate) name: Option<String>,
    pub(crate) data: Object,
}

/// Returns the document of a stream.
pub(crate) fn to_whole(conversion: &Conversion, events: &[u8]) -> Option<Bytes> {
    let document = (conversion.document)(&Stream::parse(events)?)?;
    let is_complete = (conversion.is_complete)(&document);
    is_complete.then(|| Value::Object(document).to_string().into())
}

/// Returns the stream of a document.
pub(crate) fn to_events(
    conversion: &Conversion,
    whole: &[u8],
    includes_usage: bool,
) -> Option<Bytes> {
    let whole = object(parse(std::str::from_utf8(whole).ok()?)?)?;
    let stream = (conversion.stream)(&whole, includes_usage)?;
    let restored = (conversion.document)(&stream)?;
    let is_complete = (conversion.is_same)(restored, whole);
    is_complete.then(|| stream.render(conversion.end_of_event))
}

impl Stream {
    /// Parses the bytes of a stream that ends with a complete event.
    fn parse(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok()?;
        let mut decoder = Decoder::new();
        let mut stream = Self::default();
        for event in decoder.push(bytes).ok()? {
            // A document has no place for what follows the end mark.
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
    pub(crate) fn push(&mut self, data: Object) {
        self.events.push(Event { name: None, data });
    }

    /// Appends an event whose name is the `type` in its data.
    pub(crate) fn push_typed(&mut self, data: Object) {
        self.push_named(data, "type");
    }

    /// Appends an event that is named by a member of its data.
    pub(crate) fn push_named(&mut self, data: Object, member: &str) {
        let name = text(&data, member).map(str::to_owned);
        self.events.push(Event { name, data });
    }

    /// Returns the bytes of the stream.
    fn render(self, end: &str) -> Bytes {
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
    pub(crate) fn kind(&self) -> Option<&str> {
        self.kind_in("type")
    }

    /// Returns the type of the event in a member of its data, which its name repeats.
    pub(crate) fn kind_in(&self, member: &str) -> Option<&str> {
        let kind = text(&self.data, member)?;
        let named = self.name.as_deref();
        named.is_none_or(|name| name == kind).then_some(kind)
    }
}

/// Parses a JSON text; `None` if a value tree would lose some of it: one of two members with the same name, or digits
/// of an integer.
pub(crate) fn parse(text: &str) -> Option<Value> {
    Canonical::json(text.as_bytes()).ok()?;
    let mut numbers = json::numbers(text).filter_map(|range| text.get(range));
    if numbers.any(json::is_beyond_64_bits) {
        return None;
    }
    json::parse(text.as_bytes()).ok()
}

pub(crate) fn object(value: Value) -> Option<Object> {
    match value {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// Returns an object with these members.
pub(crate) fn members<const N: usize>(members: [(&str, Value); N]) -> Object {
    let members = members.into_iter();
    members
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

pub(crate) fn owned((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

pub(crate) fn text<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    object.get(name)?.as_str()
}

/// Returns true for a value that the first chunk has only, since there may be many chunks.
pub(crate) fn is_compound(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// Returns true if the object has no members but these.
pub(crate) fn has_only(object: &Object, names: &[&str]) -> bool {
    object.keys().all(|name| names.contains(&name.as_str()))
}

/// Sets a member that a stream sends once. A null is no value.
pub(crate) fn set_once(object: &mut Object, name: &str, value: &Value) -> Option<()> {
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
pub(crate) fn append(object: &mut Object, name: &str, piece: &Value) -> Option<()> {
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
