//! Conversion of answers in both directions.

mod chat;
mod gemini;
mod interactions;
mod messages;
mod properties;
mod responses;

use bytes::Bytes;
use cachalot_wire::sse::Decoder;
use cachalot_wire::{Format, Reply, for_format};
use serde_json::{Value, json};

/// The formats whose answers are converted.
const FORMATS: [Format; 5] = [
    Format::Chat,
    Format::Responses,
    Format::Messages,
    Format::Gemini,
    Format::Interactions,
];

fn to_whole(format: Format, events: &[u8]) -> Option<Bytes> {
    for_format(format).whole_of_stream(events)
}

fn to_events(format: Format, whole: &[u8], request: &Value) -> Option<Bytes> {
    let includes_usage = request.pointer("/stream_options/include_usage");
    let includes_usage = includes_usage == Some(&Value::Bool(true));
    for_format(format).stream_of_whole(whole, includes_usage)
}

/// A stream of events without names.
fn unnamed(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect()
}

/// A stream of events that are named by their types.
fn named(events: &[Value]) -> String {
    let named = events.iter().map(|event| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event
                .get("type")
                .unwrap_or(&event["event_type"])
                .as_str()
                .unwrap()
        )
    });
    named.collect()
}

fn whole_of(format: Format, events: &str) -> Option<Value> {
    let whole = to_whole(format, events.as_bytes())?;
    Some(serde_json::from_slice(&whole).unwrap())
}

fn events_of(format: Format, whole: &Value, request: &Value) -> Option<String> {
    let events = to_events(format, whole.to_string().as_bytes(), request)?;
    Some(String::from_utf8(events.into()).unwrap())
}

/// The data of the events of a stream, without `[DONE]`.
fn data_of(events: &str) -> Vec<Value> {
    let events = Decoder::new().push(events.as_bytes()).unwrap().into_iter();
    let data = events.filter(|event| event.data != "[DONE]");
    data.map(|event| serde_json::from_str(&event.data).unwrap())
        .collect()
}

/// The request of a stream that reports its usage.
fn with_usage() -> Value {
    json!({"stream": true, "stream_options": {"include_usage": true}})
}

/// The reply that the reader of the format reads in a stream.
fn read_events(format: Format, events: &str) -> Reply {
    let mut reader = for_format(format).reader();
    for event in Decoder::new().push(events.as_bytes()).unwrap() {
        reader.event(&event).unwrap();
    }
    reader.finish().unwrap()
}

/// The reply that the reader of the format reads in a document, without the empty list of annotations, which only a
/// document has.
fn read_whole(format: Format, whole: &Value) -> Reply {
    let wire = for_format(format);
    let mut reply = wire.reply(whole.to_string().as_bytes()).unwrap();
    if reply.message.extra.get("annotations") == Some(&json!([])) {
        reply.message.extra.shift_remove("annotations");
        // The name of the format, which only messages with further members have.
        if reply.message.extra.len() == 1 {
            reply.message.extra.clear();
        }
    }
    reply
}

/// Converts a document to events and back: nothing is lost, and the reader of the format reads the same reply.
#[track_caller]
fn round_trip(format: Format, whole: &Value) -> String {
    let Some(events) = events_of(format, whole, &with_usage()) else {
        panic!("not converted: {whole:#}");
    };
    assert_eq!(whole_of(format, &events).as_ref(), Some(whole), "{events}");
    assert_eq!(
        read_events(format, &events),
        read_whole(format, whole),
        "{events}"
    );
    events
}

/// A change to the events of a stream, and its name.
type Change<'a> = (&'a str, &'a dyn Fn(&mut Vec<Value>));

/// Asserts that a stream is not converted after each of these changes to its events, but is without them.
#[track_caller]
fn refused(
    format: Format,
    events: &[Value],
    render: impl Fn(&[Value]) -> String,
    changes: &[Change<'_>],
) {
    assert!(whole_of(format, &render(events)).is_some());
    for (name, change) in changes {
        let mut events = events.to_vec();
        change(&mut events);
        assert_eq!(whole_of(format, &render(&events)), None, "{name}");
    }
}

#[test]
fn answers_of_formats_without_a_conversion_are_not_converted() {
    assert_eq!(to_whole(Format::Converse, b"data: {}\n\n"), None);
    assert_eq!(to_events(Format::Converse, b"{}", &json!({})), None);
}

#[test]
fn damaged_streams_are_not_converted() {
    let chunk = gemini::chunk(json!([{"text": "a"}]), Some("STOP"));
    let good = format!(": comment\r\nid: 7\r\nretry: 1\r\ndata: {chunk}\r\n\r\n");
    assert!(whole_of(Format::Gemini, &good).is_some());
    let cut = good.trim_end().to_owned();
    let duplicate = good.replacen('{', "{\"a\":1,\"a\":2,", 1);
    let large = good.replacen('{', "{\"a\":123456789012345678901,", 1);
    let lone = good.replacen('{', "{\"a\":\"\\ud83d\",", 1);
    let named = good.replacen("data:", "event: error\r\ndata:", 1);
    let list = "data: []\n\n".to_owned();
    let after_end = format!("data: [DONE]\n\n{good}");
    for bad in [cut, duplicate, large, lone, named, list, after_end] {
        assert_eq!(whole_of(Format::Gemini, &bad), None, "{bad}");
    }
    let mut bytes = good.into_bytes();
    let place = bytes.iter().position(|byte| *byte == b'T').unwrap();
    bytes[place] = 0xff;
    assert_eq!(to_whole(Format::Gemini, &bytes), None);
}

#[test]
fn documents_that_a_value_would_not_keep_are_not_converted() {
    let whole = gemini::chunk(json!([{"text": "a"}]), Some("STOP")).to_string();
    let request = json!({});
    assert!(to_events(Format::Gemini, whole.as_bytes(), &request).is_some());
    for member in ["\"a\":1,\"a\":2,", "\"a\":-123456789012345678901,"] {
        let whole = whole.replacen('{', &format!("{{{member}"), 1);
        assert_eq!(to_events(Format::Gemini, whole.as_bytes(), &request), None);
    }
}
