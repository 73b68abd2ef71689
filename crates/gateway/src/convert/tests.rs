//! Tests of both directions.

mod chat;
mod gemini;
mod messages;
mod properties;
mod responses;
mod simulator;

use cachalot_model::Reply;
use cachalot_model::wire::{self, sse::Decoder};
use serde_json::{Value, json};

use super::{to_events, to_whole};
use crate::endpoint::Endpoint;

/// The endpoints whose answers are converted.
const ENDPOINTS: [Endpoint; 4] = [
    Endpoint::Chat,
    Endpoint::Responses,
    Endpoint::Messages,
    Endpoint::Gemini,
];

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
            event["type"].as_str().unwrap()
        )
    });
    named.collect()
}

fn whole_of(endpoint: Endpoint, events: &str) -> Option<Value> {
    let whole = to_whole(endpoint, events.as_bytes())?;
    Some(serde_json::from_slice(&whole).unwrap())
}

fn events_of(endpoint: Endpoint, whole: &Value, request: &Value) -> Option<String> {
    let events = to_events(endpoint, whole.to_string().as_bytes(), request)?;
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
fn read_events(endpoint: Endpoint, events: &str) -> Reply {
    let mut reader = wire::for_format(endpoint.format().unwrap()).reader();
    for event in Decoder::new().push(events.as_bytes()).unwrap() {
        reader.event(&event).unwrap();
    }
    reader.finish().unwrap()
}

/// The reply that the reader of the format reads in a document, without the empty list of annotations, which only a
/// document has.
fn read_whole(endpoint: Endpoint, whole: &Value) -> Reply {
    let wire = wire::for_format(endpoint.format().unwrap());
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
fn round_trip(endpoint: Endpoint, whole: &Value) -> String {
    let Some(events) = events_of(endpoint, whole, &with_usage()) else {
        panic!("not converted: {whole:#}");
    };
    assert_eq!(
        whole_of(endpoint, &events).as_ref(),
        Some(whole),
        "{events}"
    );
    assert_eq!(
        read_events(endpoint, &events),
        read_whole(endpoint, whole),
        "{events}"
    );
    events
}

/// A change to the events of a stream, and its name.
type Change<'a> = (&'a str, &'a dyn Fn(&mut Vec<Value>));

/// Asserts that a stream is not converted after each of these changes to its events, but is without them.
#[track_caller]
fn refused(
    endpoint: Endpoint,
    events: &[Value],
    render: impl Fn(&[Value]) -> String,
    changes: &[Change<'_>],
) {
    assert!(whole_of(endpoint, &render(events)).is_some());
    for (name, change) in changes {
        let mut events = events.to_vec();
        change(&mut events);
        assert_eq!(whole_of(endpoint, &render(&events)), None, "{name}");
    }
}

#[test]
fn answers_of_other_endpoints_are_not_converted() {
    for endpoint in [
        Endpoint::Embeddings,
        Endpoint::CountTokens,
        Endpoint::Models,
        Endpoint::Other,
    ] {
        assert_eq!(to_whole(endpoint, b"data: {}\n\n"), None);
        assert_eq!(to_events(endpoint, b"{}", &json!({})), None);
    }
}

#[test]
fn damaged_streams_are_not_converted() {
    let chunk = gemini::chunk(json!([{"text": "a"}]), Some("STOP"));
    let good = format!(": comment\r\nid: 7\r\nretry: 1\r\ndata: {chunk}\r\n\r\n");
    assert!(whole_of(Endpoint::Gemini, &good).is_some());
    let cut = good.trim_end().to_owned();
    let duplicate = good.replacen('{', "{\"a\":1,\"a\":2,", 1);
    let large = good.replacen('{', "{\"a\":123456789012345678901,", 1);
    let lone = good.replacen('{', "{\"a\":\"\\ud83d\",", 1);
    let named = good.replacen("data:", "event: error\r\ndata:", 1);
    let list = "data: []\n\n".to_owned();
    let after_end = format!("data: [DONE]\n\n{good}");
    for bad in [cut, duplicate, large, lone, named, list, after_end] {
        assert_eq!(whole_of(Endpoint::Gemini, &bad), None, "{bad}");
    }
    let mut bytes = good.into_bytes();
    let place = bytes.iter().position(|byte| *byte == b'T').unwrap();
    bytes[place] = 0xff;
    assert_eq!(to_whole(Endpoint::Gemini, &bytes), None);
}

#[test]
fn documents_that_a_value_would_not_keep_are_not_converted() {
    let whole = gemini::chunk(json!([{"text": "a"}]), Some("STOP")).to_string();
    let request = json!({});
    assert!(to_events(Endpoint::Gemini, whole.as_bytes(), &request).is_some());
    for member in ["\"a\":1,\"a\":2,", "\"a\":-123456789012345678901,"] {
        let whole = whole.replacen('{', &format!("{{{member}"), 1);
        assert_eq!(
            to_events(Endpoint::Gemini, whole.as_bytes(), &request),
            None
        );
    }
}
