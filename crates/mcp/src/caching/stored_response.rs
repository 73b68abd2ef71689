//! The stored form of a response: its bytes as they were received, and the places that a hit changes.

use std::ops::Range;

use bytes::Bytes;

use super::mark::Mark;
use super::result_view::{MarkPlace, ResultView};
use crate::relay::Frame;

/// The version of the stored form, which is its first byte.
const FORMAT: u8 = 1;
/// The first byte of a message that is passed to followers before the answer.
pub(super) const NOTIFICATION: u8 = 0x10;
/// The first byte of the notice to followers that the answer is for its leader only.
pub(super) const NOT_SHARED: u8 = 0x11;
/// The number of bytes before those of the response: the format, the kind of place of the mark, and seven offsets.
const HEAD: usize = 2 + 7 * 4;

/// The places in a response that a hit changes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Places {
    id: Range<usize>,
    result: Range<usize>,
    mark_at: usize,
    mark: MarkPlace,
    /// The value of `ttlMs`; empty if there is none.
    ttl: Range<usize>,
}

/// Returns the stored form of a response; `None` if it has no id or no result, or is too large.
pub(super) fn encode(response: &Frame, view: &ResultView<'_>) -> Option<Bytes> {
    let (id, result) = response.response_places()?;
    let begin = result.start;
    let ttl = view
        .ttl
        .as_ref()
        .map_or(0..0, |(_, place)| begin + place.start..begin + place.end);
    let offsets = [
        id.start,
        id.end,
        result.start,
        result.end,
        begin + view.mark_at,
        ttl.start,
        ttl.end,
    ];
    let mut stored = Vec::with_capacity(HEAD + response.bytes().len());
    stored.push(FORMAT);
    stored.push(match view.mark_place {
        MarkPlace::None => 0,
        MarkPlace::InMeta => 1,
        MarkPlace::InEmptyMeta => 2,
        MarkPlace::BeforeMembers => 3,
        MarkPlace::InEmptyResult => 4,
    });
    for offset in offsets {
        stored.extend_from_slice(&u32::try_from(offset).ok()?.to_le_bytes());
    }
    stored.extend_from_slice(response.bytes());
    Some(stored.into())
}

/// Returns true if `stored` has a form that this version reads.
pub(super) fn is_readable(stored: &Bytes) -> bool {
    places(stored).is_some()
}

/// Returns the response to the request `id`, with a mark, and with the remaining time in place of `ttlMs`. `None` if the
/// stored form cannot be read.
pub(super) fn decode(stored: &Bytes, id: &str, mark: &Mark<'_>) -> Option<Frame> {
    let places = places(stored)?;
    let response = &stored[HEAD..];
    let mark_text = mark.member();
    let inserted = match places.mark {
        MarkPlace::None => String::new(),
        MarkPlace::InMeta => format!("{mark_text},"),
        MarkPlace::InEmptyMeta => mark_text,
        MarkPlace::BeforeMembers => format!("\"_meta\":{{{mark_text}}},"),
        MarkPlace::InEmptyResult => format!("\"_meta\":{{{mark_text}}}"),
    };
    let ttl = mark.ttl_ms.map(|ttl| ttl.to_string());
    let mut edits: Vec<(Range<usize>, &str)> = vec![
        (places.id.clone(), id),
        (places.mark_at..places.mark_at, &inserted),
    ];
    if let Some(ttl) = ttl.as_deref().filter(|_| !places.ttl.is_empty()) {
        edits.push((places.ttl.clone(), ttl));
    }
    edits.sort_by_key(|(place, _)| place.start);
    let added: usize = edits.iter().map(|(_, text)| text.len()).sum();
    let mut bytes = Vec::with_capacity(response.len() + added);
    let mut copied = 0;
    for (place, text) in &edits {
        bytes.extend_from_slice(response.get(copied..place.start)?);
        bytes.extend_from_slice(text.as_bytes());
        copied = place.end;
    }
    bytes.extend_from_slice(response.get(copied..)?);
    // Everything behind an edit moves.
    let moved = |at: usize| {
        let before = edits.iter().filter(|(place, _)| place.end <= at);
        before.fold(at, |at, (place, text)| at + text.len() - place.len())
    };
    let id_start = moved(places.id.start);
    Some(Frame::known_response(
        bytes.into(),
        id_start..id_start + id.len(),
        moved(places.result.start)..moved(places.result.end),
    ))
}

fn places(stored: &[u8]) -> Option<Places> {
    let head = stored.get(..HEAD)?;
    if head[0] != FORMAT {
        return None;
    }
    let mark = match head[1] {
        0 => MarkPlace::None,
        1 => MarkPlace::InMeta,
        2 => MarkPlace::InEmptyMeta,
        3 => MarkPlace::BeforeMembers,
        4 => MarkPlace::InEmptyResult,
        _ => return None,
    };
    let mut offsets = [0_usize; 7];
    for (offset, bytes) in offsets.iter_mut().zip(head[2..].chunks_exact(4)) {
        *offset = u32::from_le_bytes(bytes.try_into().ok()?) as usize;
    }
    let [id_start, id_end, start, end, mark_at, ttl_start, ttl_end] = offsets;
    let length = stored.len() - HEAD;
    let is_within = id_start < id_end
        && start < end
        && end <= length
        && id_end <= length
        && (id_end <= start || end <= id_start)
        && (start..end).contains(&mark_at)
        && ttl_start <= ttl_end
        && (ttl_start == ttl_end || (start <= ttl_start && ttl_end <= end));
    is_within.then_some(Places {
        id: id_start..id_end,
        result: start..end,
        mark_at,
        mark,
        ttl: ttl_start..ttl_end,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn frame(text: &str) -> Frame {
        Frame::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    #[test]
    fn a_hit_changes_the_id_the_mark_and_the_time_only() {
        let mark = Mark {
            status: "hit",
            age_ms: 5,
            ttl_ms: Some(77),
            key: "k",
        };
        let member = mark.member();
        for (text, expected) in [
            (
                r#" {"x":1.50,"id":"old","result": {"content":[],"ttlMs":60000,"big":1180591620717411303424},"y":2} "#,
                r#" {"x":1.50,"id":12345,"result": {"_meta":{MARK},"content":[],"ttlMs":77,"big":1180591620717411303424},"y":2} "#,
            ),
            (
                r#"{"result":{"ttlMs":60000,"_meta":{"a":1}},"id":7}"#,
                r#"{"result":{"ttlMs":77,"_meta":{MARK,"a":1}},"id":12345}"#,
            ),
            (
                r#"{"id":7,"result":{"_meta":{},"ttlMs":60000}}"#,
                r#"{"id":12345,"result":{"_meta":{MARK},"ttlMs":77}}"#,
            ),
            (
                r#"{"id":7,"result":{}}"#,
                r#"{"id":12345,"result":{"_meta":{MARK}}}"#,
            ),
        ] {
            let response = frame(text);
            let stored = encode(
                &response,
                &ResultView::read(response.result().unwrap()).unwrap(),
            );
            let stored = stored.unwrap();
            assert!(is_readable(&stored));
            let hit = decode(&stored, "12345", &mark).unwrap();
            let expected = expected.replace("MARK", &member);
            assert_eq!(std::str::from_utf8(hit.bytes()).unwrap(), expected);
            let parsed = frame(&expected);
            assert_eq!(hit.id(), parsed.id());
            assert_eq!(hit.result(), parsed.result());
        }
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z\"\\\\ é{}]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-d{\"]{0,2}|_meta|ttlMs", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_hit_is_the_response_with_another_id_a_mark_and_a_time(
            result in prop::collection::btree_map("[a-c]|content|ttlMs", json_value(), 0..4),
            meta in prop::option::of(prop::collection::btree_map("[a-c]", json_value(), 0..3)),
            id_first in any::<bool>(),
            spaces in any::<bool>(),
        ) {
            let mut result: serde_json::Map<String, Value> = result.into_iter().collect();
            if let Some(meta) = meta {
                result.insert("_meta".to_owned(), Value::Object(meta.into_iter().collect()));
            }
            let result = Value::Object(result);
            let shown = if spaces { format!("{result:#}") } else { result.to_string() };
            let text = if id_first {
                format!("{{\"id\":\"old\",\"result\": {shown}}}")
            } else {
                format!("{{\"result\": {shown} ,\"id\":\"old\"}}")
            };
            let response = frame(&text);
            let view = ResultView::read(response.result().unwrap()).unwrap();
            let stored = encode(&response, &view).unwrap();
            let mark = Mark { status: "hit", age_ms: 1, ttl_ms: Some(5), key: "k" };
            let hit = decode(&stored, "12345", &mark).unwrap();
            let parsed = Frame::parse(hit.bytes().clone()).unwrap();
            prop_assert_eq!(parsed.id(), hit.id());
            prop_assert_eq!(parsed.result(), hit.result());
            let mut expected = result.clone();
            if let Some(ttl) = expected.get_mut("ttlMs") {
                *ttl = Value::from(5);
            }
            let mark: Value = serde_json::from_str(&format!("{{{}}}", mark.member())).unwrap();
            let marked = expected.as_object_mut().unwrap();
            let meta = marked.entry("_meta").or_insert_with(|| serde_json::json!({}));
            meta.as_object_mut().unwrap().extend(mark.as_object().unwrap().clone());
            let found: Value = serde_json::from_str(hit.result().unwrap()).unwrap();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn other_forms_are_not_read() {
        let response = frame(r#"{"id":7,"result":{}}"#);
        let stored = encode(&response, &ResultView::read("{}").unwrap()).unwrap();
        // Up to the last byte of the result.
        for cut in 0..stored.len() - 1 {
            assert!(!is_readable(&stored.slice(..cut)), "{cut}");
        }
        let mut other = stored.to_vec();
        other[0] = 2;
        assert!(!is_readable(&other.into()));
    }
}
