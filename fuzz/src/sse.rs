//! Server-sent events of any bytes: no panic, and the same events wherever the pieces end.
//!
//! The first byte says how long the pieces are, the second how long an event may be.

use cachalot_model::wire::sse::{Decoder, Event};

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let [length, longest, stream @ ..] = bytes else {
        return;
    };
    let length = usize::from(*length).max(1);
    let longest = match longest {
        0 => usize::MAX,
        longest => usize::from(*longest) * 4,
    };
    let whole = Decoder::with_max_event_bytes(longest).push(stream);
    let mut decoder = Decoder::with_max_event_bytes(longest);
    let pieces: Result<Vec<Vec<Event>>, _> = stream
        .chunks(length)
        .map(|piece| decoder.push(piece))
        .collect();
    assert_eq!(pieces.map(|events| events.concat()), whole);
}
