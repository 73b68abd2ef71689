//! Server-sent events.

use cachalot_wire::{
    ErrorKind,
    sse::{Decoder, Event, MAX_EVENT_BYTES},
};
use proptest::prelude::*;

fn event(name: &str, data: &str) -> Event {
    Event {
        name: name.into(),
        data: data.into(),
    }
}

fn decode(bytes: &[u8]) -> Vec<Event> {
    Decoder::new().push(bytes).unwrap()
}

#[test]
fn event_has_a_name_and_data_lines() {
    let stream = "event: start\ndata: {\"a\":1}\n\n: a comment\n\ndata: first\ndata:second\ndata:  third\n\n";
    assert_eq!(
        decode(stream.as_bytes()),
        [
            event("start", "{\"a\":1}"),
            event("message", "first\nsecond\n third")
        ]
    );
}

#[test]
fn field_names_are_exact_and_one_space_is_removed() {
    assert_eq!(decode(b"Data: x\n data: y\ndatax: z\n\n"), []);
    assert_eq!(decode(b"data\n\n"), [event("message", "")]);
    assert_eq!(decode(b"data:\n\n"), [event("message", "")]);
    assert_eq!(decode(b"data: \ndata\n\n"), [event("message", "\n")]);
    assert_eq!(decode(b"data:a:b: c\n\n"), [event("message", "a:b: c")]);
    assert_eq!(
        decode(b"id: 1\nretry: 5\ndata:x\nid\n\n"),
        [event("message", "x")]
    );
    assert_eq!(
        decode(b"event: a\nevent\ndata:x\n\n"),
        [event("message", "x")]
    );
}

#[test]
fn event_name_without_data_is_discarded() {
    assert_eq!(
        decode(b"event: lost\n\ndata: x\n\n"),
        [event("message", "x")]
    );
}

#[test]
fn cr_lf_and_crlf_end_a_line() {
    for end in ["\n", "\r", "\r\n"] {
        let stream = ["event: a", "data: x", "data: y", "", "data: z", "", ""].join(end);
        let expected = [event("a", "x\ny"), event("message", "z")];
        assert_eq!(decode(stream.as_bytes()), expected, "{end:?}");
    }
    assert_eq!(
        decode(b"data: x\r\n\rdata: y\r\r\ndata: z\n\r"),
        [
            event("message", "x"),
            event("message", "y"),
            event("message", "z")
        ]
    );
}

#[test]
fn carriage_return_ends_a_line_immediately() {
    let mut decoder = Decoder::new();
    assert_eq!(
        decoder.push(b"data: x\r\n\r").unwrap(),
        [event("message", "x")]
    );
    // The LF belongs to it: it is no blank line of its own.
    assert_eq!(decoder.push(b"\ndata: y\n").unwrap(), []);
    assert_eq!(decoder.push(b"\n").unwrap(), [event("message", "y")]);
}

#[test]
fn a_byte_order_mark_is_skipped_at_the_start_only() {
    assert_eq!(decode(b"\xEF\xBB\xBFdata: x\n\n"), [event("message", "x")]);
    assert_eq!(decode(b"\xEF\xBB\xBF\xEF\xBB\xBFdata: x\n\n"), []);
    assert_eq!(decode(b"\n\xEF\xBB\xBFdata: x\n\n"), []);
    assert_eq!(
        decode("data: \u{feff}x\n\n".as_bytes()),
        [event("message", "\u{feff}x")]
    );
}

#[test]
fn invalid_utf8_is_replaced() {
    assert_eq!(
        decode(b"event: \xC3\ndata: a\xFFb\xE2\x82\n\n"),
        [event("\u{fffd}", "a\u{fffd}b\u{fffd}")]
    );
}

#[test]
fn event_without_a_blank_line_is_not_emitted() {
    assert_eq!(decode(b"data: x\n\ndata: y\n"), [event("message", "x")]);
}

#[test]
fn event_length_is_limited() {
    let long = |length: usize| [b"data:", vec![b'x'; length].as_slice(), b"\n\n"].concat();
    let mut decoder = Decoder::with_max_event_bytes(100);
    assert_eq!(decoder.push(&long(95)).unwrap().len(), 1);
    assert_eq!(decoder.push(&long(95)).unwrap().len(), 1);
    let error = decoder.push(&long(96)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Malformed);
    assert!(error.message.contains("100 bytes"), "{error}");
    decoder.push(b"data: x\n\n").unwrap_err();
}

#[test]
fn endless_lines_and_many_short_lines_are_limited() {
    let mut endless = Decoder::with_max_event_bytes(1000);
    let pushed = (0..100).find(|_| endless.push(&[b'x'; 100]).is_err());
    assert_eq!(pushed, Some(10));
    let mut many = Decoder::with_max_event_bytes(1000);
    let pushed = (0..10_000).find(|_| many.push(b"data\n").is_err());
    assert_eq!(pushed, Some(1001));
    // Comments are not kept.
    let mut comments = Decoder::with_max_event_bytes(1000);
    assert!((0..10_000).all(|_| comments.push(b": ping\n\n").is_ok()));
}

#[test]
fn megabyte_event_is_decoded_byte_by_byte() {
    let mut decoder = Decoder::new();
    let stream = [b"data: ", vec![b'x'; 1 << 20].as_slice(), b"\n\n"].concat();
    let events: Vec<Event> = stream
        .iter()
        .flat_map(|byte| decoder.push(&[*byte]).unwrap())
        .collect();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].data.len(), 1 << 20);
    const { assert!(MAX_EVENT_BYTES > 1 << 20) };
}

/// The rules once more, over the whole text at once.
fn oracle(bytes: &[u8]) -> Vec<Event> {
    let text = String::from_utf8_lossy(bytes)
        .replace("\r\n", "\n")
        .replace('\r', "\n");
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let Some((lines, _unfinished)) = text.rsplit_once('\n') else {
        return Vec::new();
    };
    let mut events = Vec::new();
    let (mut name, mut data) = (String::new(), Vec::new());
    for line in lines.split('\n') {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => data.push(value),
            "event" => name = value.to_owned(),
            "" if line.is_empty() => {
                if !data.is_empty() {
                    let name = if name.is_empty() { "message" } else { &name };
                    events.push(event(name, &data.join("\n")));
                }
                name.clear();
                data.clear();
            }
            _ => {}
        }
    }
    events
}

fn streams() -> impl Strategy<Value = Vec<u8>> {
    const PARTS: &[&[u8]] = &[
        b"data",
        b"event",
        b"id",
        b":",
        b" ",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\r\r",
        b"data: x",
        b"event: y",
        b"\xEF\xBB\xBF",
        "é€🐋".as_bytes(),
        b"\xE2\x82",
        b"\xFF",
        b"{\"a\":1}",
        b"",
    ];
    prop::collection::vec(prop::sample::select(PARTS), 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn events_equal_those_of_the_oracle(stream in streams()) {
        prop_assert_eq!(decode(&stream), oracle(&stream));
    }

    #[test]
    fn events_are_independent_of_chunk_boundaries(
        stream in streams(),
        lengths in prop::collection::vec(0_usize..5, 0..200),
    ) {
        let mut decoder = Decoder::new();
        let mut rest = stream.as_slice();
        let mut events = Vec::new();
        for length in lengths {
            let (piece, after) = rest.split_at(length.min(rest.len()));
            events.extend(decoder.push(piece).unwrap());
            rest = after;
        }
        events.extend(decoder.push(rest).unwrap());
        prop_assert_eq!(events, decode(&stream));
    }

    #[test]
    fn limit_is_independent_of_chunk_boundaries(stream in streams(), longest in 1_usize..20) {
        let whole = Decoder::with_max_event_bytes(longest).push(&stream);
        let mut decoder = Decoder::with_max_event_bytes(longest);
        let bytes = stream.chunks(1).map(|byte| decoder.push(byte));
        let split = bytes.collect::<Result<Vec<_>, _>>().map(|events| events.concat());
        prop_assert_eq!(whole, split);
    }
}
