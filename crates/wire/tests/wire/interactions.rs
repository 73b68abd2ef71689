//! Gemini's Interactions: requests and answers.

mod properties;
mod reading;
mod rendering;

use cachalot_wire::{Format, Request, Wire, for_format};
use serde_json::Value;

use crate::chat::support::strict;

fn wire() -> &'static dyn Wire {
    for_format(Format::Interactions)
}

/// A body, parsed again, which the official types accept.
#[track_caller]
fn checked(body: &[u8]) -> Value {
    let format = cachalot_simulator::Format::Interactions;
    let checked = cachalot_simulator::check_request(format, false, body);
    assert_eq!(checked, Ok(()), "{}", String::from_utf8_lossy(body));
    strict(body)
}

#[track_caller]
fn body(request: &Request) -> Value {
    checked(&request.body(wire(), true).unwrap())
}
