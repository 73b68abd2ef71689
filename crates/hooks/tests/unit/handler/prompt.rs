//! Unit tests of `src/handler/prompt.rs`.

use super::*;

#[test]
fn objection_is_found_within_other_text() {
    for (answer, expected) in [
        (r#"{"ok": true}"#, None),
        (r#"{"ok": true, "reason": "fine"}"#, None),
        (
            "```json\n{\"ok\": false, \"reason\": \"no\"}\n```",
            Some("no"),
        ),
        (r#"{"ok": false}"#, Some("")),
        (
            r#"I think {"ok": true}, but {"ok": false, "reason": "x"}"#,
            Some("x"),
        ),
        (r#"{"ok": true, "reason": "it says {\"ok\": false}"}"#, None),
    ] {
        assert_eq!(
            find_objection(answer).unwrap().as_deref(),
            expected,
            "{answer}"
        );
    }
    for answer in ["", "yes", "{}", r#"{"ok": "true"}"#, r#"{"ok": fal"#] {
        assert!(find_objection(answer).is_err(), "{answer}");
    }
}
