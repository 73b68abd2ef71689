//! Unit tests of `src/dialect/repeated.rs`.

use serde_json::json;

use super::*;

#[test]
fn values_of_repeated_keys_are_recorded() {
    let text = r#"{"a": {"b": 1, "b": [2], "c": null}, "a": 3, "d": [{"e": 1, "e": 2}]}"#;
    let document: Document = serde_json::from_str(text).unwrap();
    assert_eq!(document.value, json!({"a": 3, "d": [{"e": 2}]}));
    let overridden = [json!({"a": {"b": 1}}), json!({"a": {"b": [2], "c": null}})];
    assert_eq!(document.overridden, overridden);
    assert_eq!(document.repeated.as_deref(), Some("b"));
}

#[test]
fn documents_without_repeated_keys_are_read_unchanged() {
    let text = r#"{"a": [1, -2, 3.5, "x\u00e9", true, null, {}], "b": 18446744073709551615}"#;
    let document: Document = serde_json::from_str(text).unwrap();
    let value: Value = serde_json::from_str(text).unwrap();
    assert_eq!(document.value, value);
    assert!(document.overridden.is_empty() && document.repeated.is_none());
}
