//! Unit tests of `src/actions/json_object.rs`.

use super::*;
use serde_json::json;

#[test]
fn object_is_found_in_prose_and_code_blocks() {
    for text in [
        r#"{"a": "```{"}"#,
        "Sure:\n{\"a\": \"```{\"}\nDone.",
        "Of {x}:\n```json\n{\"a\": \"`{\"}\n```\n{end}",
    ] {
        let found = find_object(text).map(Value::Object);
        let expected = json!({ "a": if text.contains("end") { "`{" } else { "```{" } });
        assert_eq!(found, Some(expected), "{text}");
    }
    for text in ["", "no", "}{", "{a}", "[1]", "```", "{\"a\": 1"] {
        assert_eq!(find_object(text), None, "{text}");
    }
}
