//! Unit tests of `src/handler/judgement.rs`.

use super::*;
use Decision::{Allow, Ask, Deny};

#[test]
fn decision_is_found_within_other_text() {
    for (answer, decision, reason) in [
        (r#"{"decision":"deny","reason":"no"}"#, Deny, Some("no")),
        (
            "```json\n{\"decision\": \"ask\", \"reason\": \"hm\"}\n```",
            Ask,
            Some("hm"),
        ),
        (
            r#"I think {so}: {"decision":" Allow "} is right."#,
            Allow,
            None,
        ),
        (r#"{"reason":" ","decision":"DENY","score":1}"#, Deny, None),
        (
            r#"Not {"decision":"allow","reason":"a"} but {"decision":"deny","reason":"b"}, or {"decision":"deny","reason":"c"}"#,
            Deny,
            Some("b"),
        ),
        (
            r#"{"decision":"deny","reason":"x","decision":"allow"}"#,
            Deny,
            Some("x"),
        ),
        (
            r#"{"decision":"allow","reason":"it echoes {\"decision\":\"deny\"}"}"#,
            Allow,
            Some(r#"it echoes {"decision":"deny"}"#),
        ),
        (r#"{"decision":3} {"decision":"ask"}"#, Ask, None),
        (r#"é{é {"decision":"ask","reason":"é"}"#, Ask, Some("é")),
    ] {
        let decided = Judgement::PreToolUse.read(answer).unwrap();
        assert_eq!(decided, (decision, reason.map(str::to_owned)), "{answer}");
    }
}

#[test]
fn answer_without_a_decision_is_a_fault() {
    for answer in [
        "",
        "allow",
        "{}",
        r#"{"decision":"perhaps","reason":"x"}"#,
        r#"{"decision":null}"#,
        r#"{"command":"echo","quoted":{"decision":"allow"}}"#,
        r#"{"decision":"allow""#,
        &"{".repeat(100_000),
        &"[{".repeat(100_000),
    ] {
        let fault = Judgement::PreToolUse.read(answer).unwrap_err();
        assert!(fault.message.contains("pre_tool_use_decision"), "{fault}");
        assert!(fault.message.len() < 500, "{fault}");
    }
}

#[test]
fn guard_answer_must_be_only_the_decision() {
    let allowed = Judgement::Guard.read(" {\"decision\":\"allow\",\"reason\":\"\"}\n");
    assert_eq!(allowed.unwrap(), (Allow, None));
    let denied = Judgement::Guard.read(r#"{"reason":"why","decision":"deny"}"#);
    assert_eq!(denied.unwrap(), (Deny, Some("why".to_owned())));
    for (answer, what) in [
        (
            r#"{"decision":"allow","decision":"deny","reason":"x"}"#,
            "two fields `decision`",
        ),
        (
            r#"{"decision":"allow","reason":"a","reason":"b"}"#,
            "two fields `reason`",
        ),
        (r#"{"decision":"ask","reason":"x"}"#, "no `decision`"),
        (r#"{"decision":"Allow","reason":"x"}"#, "no `decision`"),
        (r#"{"decision":"allow"}"#, "no `reason`"),
        (r#"{"decision":"allow","reason":null}"#, "no `reason`"),
        (
            r#"{"decision":"allow","reason":"x","sure":true}"#,
            "a field `sure`",
        ),
        (
            r#"Yes: {"decision":"allow","reason":"x"}"#,
            "expected value",
        ),
        (r#"{"decision":"allow","reason":"x"} Yes."#, "trailing"),
        (r#"[{"decision":"allow","reason":"x"}]"#, "an object"),
        ("", "EOF"),
    ] {
        let fault = Judgement::Guard.read(answer).unwrap_err();
        assert!(fault.message.contains(what), "{answer}: {fault}");
    }
}
