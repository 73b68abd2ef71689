//! Inputs of the own dialect, written and read back.

use super::*;

#[test]
fn inputs_of_the_own_dialect_round_trip_and_match_the_contract() {
    for event in Event::all() {
        let before = reported(Dialect::DockerAgent, &full(event));
        let input = parse_input(event, &before.to_string()).unwrap();
        assert_eq!(reported(Dialect::DockerAgent, &input), before, "{event}");
        let mut expected: Vec<&str> = cachalot_hooks::contract::Field::COMMON.to_vec();
        expected.extend(
            event
                .contract()
                .fields
                .iter()
                .flat_map(|field| field.keys()),
        );
        let mut keys: Vec<&str> = before
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        keys.sort_unstable();
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(keys, expected, "{event}");
    }
}

#[test]
fn an_invalid_input_is_reported() {
    for (json, code) in [
        ("{", "json-syntax"),
        ("[]", "wrong-type"),
        (r#"{"tool_nam": "shell"}"#, "unknown-key"),
        (r#"{"hook_event_name": "stop"}"#, "wrong-event"),
        (r#"{"tool_name": 3}"#, "bad-value"),
        (r#"{"permission_mode": "yolo"}"#, "bad-value"),
        (r#"{"tool_name": "shell", "tool_input": []}"#, "bad-value"),
    ] {
        assert_eq!(
            parse_input(Event::PreToolUse, json).unwrap_err().code,
            code,
            "{json}"
        );
    }
    let problem = parse_input(Event::PreToolUse, r#"{"tool_nam": "shell"}"#).unwrap_err();
    assert_eq!(problem.help.as_deref(), Some("did you mean `tool_name`?"));
    let input = parse_input(
        Event::PreToolUse,
        r#"{"hook_event_name": "PreToolUse", "tool_name": "shell"}"#,
    );
    assert_eq!(input.unwrap().tool.unwrap().name, "shell");
}
