//! Answers of upstreams from any bytes: no panic, and the judgment does not depend on the parts in which they arrive.
//!
//! The first byte selects the endpoint, the second one the form, the third one the length of the parts.

use cachalot_gateway::fuzzing::{answer, converted};
use http::{HeaderMap, HeaderValue, header};

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let [api, form, length, body @ ..] = bytes else {
        return;
    };
    let media = match form % 4 {
        0 | 1 => "text/event-stream",
        2 => "application/json",
        _ => "application/json; charset=utf-8",
    };
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    let is_streamed = form % 4 < 2;
    let judge = |parts: &mut dyn Iterator<Item = &[u8]>| answer(*api, is_streamed, &headers, parts);
    let whole = judge(&mut std::iter::once(body));
    let length = usize::from(*length).max(1);
    let in_parts = judge(&mut body.chunks(length));
    assert_eq!(in_parts.is_storable, whole.is_storable);
    if whole.is_storable {
        assert_eq!(in_parts, whole);
    }
    // A stored answer in another form is one that may be stored, of the same model.
    if whole.is_storable {
        for (is_streamed, body) in converted(*api, is_streamed, body) {
            let mut headers = HeaderMap::new();
            let media = if is_streamed {
                "text/event-stream"
            } else {
                "application/json"
            };
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
            let other = answer(*api, is_streamed, &headers, &mut std::iter::once(&*body));
            assert!(other.is_storable, "{}", String::from_utf8_lossy(&body));
        }
    }
    // An empty part changes nothing.
    let (one, two) = body.split_at(body.len() / 2);
    let with_empty = judge(&mut [one, &[], two].into_iter());
    assert_eq!(with_empty.is_storable, whole.is_storable);
    // An answer in the other form than was asked for is never stored.
    let other = answer(*api, !is_streamed, &headers, &mut std::iter::once(body));
    assert!(!other.is_storable);
}
