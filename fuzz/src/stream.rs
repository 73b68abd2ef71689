//! Answers of models from any bytes: no panic; the text that was shown is the text of the answer; the answer
//! can be sent back, as JSON, and always as the same bytes.

use cachalot_model::wire::sse::Decoder;
use cachalot_model::wire::{self, Wire};
use cachalot_model::{Delta, Error, Format, Reply};
use serde::de::IgnoredAny;

/// Reads the bytes as a stream, and as a whole answer.
pub fn check(format: Format, bytes: &[u8]) {
    let wire = wire::for_format(format);
    if let Ok((shown, reply)) = read(wire, bytes) {
        // The events of Responses say everything again at the end: there the last word counts.
        if format != Format::Responses {
            assert_eq!(shown, reply.message.text());
        }
        check_reply(wire, &reply);
    }
    if let Ok(reply) = wire.reply(bytes) {
        check_reply(wire, &reply);
    }
}

/// The text that was shown, and the answer.
fn read(wire: &dyn Wire, bytes: &[u8]) -> Result<(String, Reply), Error> {
    let mut reader = wire.reader();
    let mut shown = String::new();
    for event in Decoder::new().push(bytes)? {
        for delta in reader.event(&event)? {
            if let Delta::Text(text) = delta {
                shown.push_str(&text);
            }
        }
    }
    Ok((shown, reader.finish()?))
}

fn check_reply(wire: &dyn Wire, reply: &Reply) {
    let Ok(pieces) = wire.message(&reply.message) else {
        return;
    };
    assert_eq!(wire.message(&reply.message).as_ref(), Ok(&pieces));
    for piece in &pieces {
        // Nested as deep as it came: a value tree would refuse what is deeper than 128.
        assert!(serde_json::from_slice::<IgnoredAny>(&piece.bytes).is_ok());
        if let Some(at) = piece.mark_at {
            assert_eq!(piece.bytes.get(at as usize), Some(&b'}'));
        }
    }
    if let Some(usage) = reply.usage {
        assert!(usage.total_input() >= usage.cache_write());
    }
}

/// Checks one input as a stream of [`Format::Messages`].
pub fn anthropic_stream(bytes: &[u8]) {
    check(Format::Messages, bytes);
}

/// Checks one input as a stream of [`Format::Chat`].
pub fn chat_stream(bytes: &[u8]) {
    check(Format::Chat, bytes);
}

/// Checks one input as a stream of [`Format::Gemini`].
pub fn gemini_stream(bytes: &[u8]) {
    check(Format::Gemini, bytes);
}

/// Checks one input as a stream of [`Format::Interactions`].
pub fn interactions_stream(bytes: &[u8]) {
    check(Format::Interactions, bytes);
}

/// Checks one input as a stream of [`Format::Responses`].
pub fn responses_stream(bytes: &[u8]) {
    check(Format::Responses, bytes);
}
