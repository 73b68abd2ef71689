//! Requests of any client from any bytes: no panic, everything accepted that `serde_json` accepts, every
//! piece a JSON value, and a place for a marker where one leaves the piece valid. A request that renews the prefix of
//! another one has the same pieces.

use cachalot_model::Format;
use cachalot_model::wire::{for_format, renewal};
use cachalot_prefix::request::{Error, read};
use serde_json::Value;

const MARKER: &[u8] = br#","cache_control":{"type":"ephemeral"}"#;

/// Checks one input.
pub fn check(bytes: &[u8]) {
    check_request(bytes);
    for format in [Format::Chat, Format::Messages, Format::Responses] {
        check_renewal(format, bytes);
    }
}

fn check_renewal(format: Format, bytes: &[u8]) {
    let Ok(renewed) = renewal(for_format(format), "gpt-5.6", bytes) else {
        return;
    };
    if serde_json::from_slice::<Value>(bytes).is_err() {
        return;
    }
    assert!(serde_json::from_slice::<Value>(&renewed).is_ok());
    if let Ok(request) = read(bytes)
        && request.format == format
    {
        let renewed = read(&renewed).expect("the renewal is a request, too");
        assert_eq!(renewed.prompt.tip(), request.prompt.tip());
    }
}

fn check_request(bytes: &[u8]) {
    let theirs = serde_json::from_slice::<Value>(bytes);
    match read(bytes) {
        Ok(request) if theirs.is_ok() => {
            for node in request.prompt.nodes() {
                assert!(serde_json::from_slice::<Value>(&node.bytes).is_ok());
                if let Some(at) = node.mark_at {
                    let (before, behind) = node.bytes.split_at(at as usize);
                    let marked = [before, MARKER, behind].concat();
                    assert!(serde_json::from_slice::<Value>(&marked).is_ok());
                }
            }
            let mut tail = request.tail.to_vec();
            if tail.first() == Some(&b',') {
                tail[0] = b'{';
            } else {
                tail.insert(0, b'{');
            }
            assert!(serde_json::from_slice::<Value>(&tail).is_ok());
        }
        // What stands within strings and numbers is not checked.
        Ok(_) | Err(Error::NotARequest(_)) => {}
        Err(error) => assert!(theirs.is_err(), "{error}"),
    }
}
