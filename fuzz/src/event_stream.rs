//! Event streams of AWS: no panic for any bytes, and the same events wherever the pieces end.
//!
//! The first byte is the length of the pieces. If the second is even, the rest is the stream; otherwise
//! each line of the rest is the payload of a valid frame, so that its content is reached.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use cachalot_model::Error;
use cachalot_model::wire::event_stream::Decoder;
use cachalot_model::wire::sse::Event;

/// A frame with this payload, whose first byte chooses its type.
fn frame(payload: &[u8]) -> Vec<u8> {
    let text = |name: &'static str, value: &'static str| {
        Header::new(name, HeaderValue::String(value.into()))
    };
    let (kind, name) = match payload.first().map_or(0, |byte| byte % 4) {
        0 => ("event", text(":event-type", "messageStart")),
        1 => ("exception", text(":exception-type", "throttlingException")),
        2 => ("unheard-of", text(":event-type", "chunk")),
        _ => ("event", text(":event-type", "chunk")),
    };
    let payload = payload.get(1..).unwrap_or_default().to_vec();
    let message = Message::new(payload).add_header(text(":message-type", kind));
    let mut frame = Vec::new();
    let written = write_message_to(&message.add_header(name), &mut frame);
    written.map(|()| frame).unwrap_or_default()
}

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let [length, kind, rest @ ..] = bytes else {
        return;
    };
    let stream: Vec<u8> = match kind % 2 {
        0 => rest.to_vec(),
        _ => rest.split(|byte| *byte == b'\n').flat_map(frame).collect(),
    };
    let whole = read(std::iter::once(stream.as_slice()));
    let pieces = read(stream.chunks(usize::from(*length).max(1)));
    assert_eq!(pieces, whole);
}

/// The events up to an error, and the error.
fn read<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> (Vec<Event>, Option<Error>) {
    let mut decoder = Decoder::default();
    let mut events = Vec::new();
    for piece in pieces {
        match decoder.push(piece) {
            Ok(more) => events.extend(more),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, decoder.check().err())
}
