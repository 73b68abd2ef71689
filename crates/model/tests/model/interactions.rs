//! Gemini's Interactions: what goes over the wire.

mod requests;
mod simulated;

use serde_json::Value;

/// A body, parsed again, which the official types accept.
#[track_caller]
fn checked(body: &[u8]) -> Value {
    let format = cachalot_simulator::Format::Interactions;
    let checked = cachalot_simulator::check_request(format, false, body);
    assert_eq!(checked, Ok(()), "{}", String::from_utf8_lossy(body));
    serde_json::from_slice(body).unwrap()
}
