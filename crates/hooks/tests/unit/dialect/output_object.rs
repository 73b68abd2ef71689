//! Unit tests of `src/dialect/output_object.rs`.

use super::*;

#[test]
fn keys_are_found_in_snake_and_camel_case() {
    assert_eq!(camel("hook_specific_output"), "hookSpecificOutput");
    assert_eq!(snake("hookSpecificOutput"), "hook_specific_output");
    let object = serde_json::json!({"stopReason": "a", "system_message": "b", "reason": null});
    let said = OutputObject::new(Some(&object));
    assert_eq!(said.get("stop_reason"), Some(&"a".into()));
    assert_eq!(said.get("system_message"), Some(&"b".into()));
    assert_eq!(said.get("reason"), None);
    let both = serde_json::json!({"aB": 1, "a_b": 2, "c": 3});
    let said = OutputObject::new(Some(&both));
    assert_eq!(said.all("a_b").collect::<Vec<_>>(), [2, 1]);
    assert_eq!(said.all("c").collect::<Vec<_>>(), [3]);
}
