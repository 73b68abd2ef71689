//! Unit tests of `src/user_record.rs`.

use super::*;
use serde_json::json;

/// The exact bytes and labels of stored records.
#[test]
fn record_has_stable_bytes_and_round_trips() {
    let remembered = UserRecord {
        value: json!({ "n": 9_007_199_254_740_993_u64 }),
        metadata: json!({ "a": 1, "b": "x", "deep": { "c": 2 } })
            .as_object()
            .cloned(),
    };
    let record = remembered.to_record("k");
    assert_eq!(
        &record.value[..],
        br#"{"value":{"n":9007199254740993},"metadata":{"a":1,"b":"x","deep":{"c":2}}}"#
    );
    assert_eq!(
        record.labels,
        [
            Label::new("key", "k"),
            Label::new("meta.a", "1"),
            Label::new("meta.b", "\"x\"")
        ]
    );
    assert_eq!(UserRecord::read(&record).unwrap(), remembered);
    let bare = UserRecord {
        value: json!(null),
        metadata: None,
    };
    let record = bare.to_record("k");
    assert_eq!(&record.value[..], br#"{"value":null,"metadata":null}"#);
    assert_eq!(UserRecord::read(&record).unwrap(), bare);
}

#[test]
fn scalars_of_different_types_have_different_labels() {
    let values: std::collections::BTreeSet<_> = [
        json!(1),
        json!(1.0),
        json!("1"),
        json!(true),
        json!("true"),
        json!(null),
        json!("null"),
    ]
    .iter()
    .map(|value| metadata_label("a", value).unwrap())
    .collect();
    assert_eq!(values.len(), 7);
    assert_eq!(metadata_label("a", &json!([1])), None);
    assert_eq!(metadata_label("a", &json!({})), None);
}

#[test]
fn labels_of_long_scalars_differ_by_digest() {
    let (one, other) = (json!("a".repeat(600)), json!("a".repeat(601)));
    assert_ne!(metadata_label("a", &one), metadata_label("a", &other));
    assert!(metadata_label("a", &one).unwrap().value.len() < 100);
}
