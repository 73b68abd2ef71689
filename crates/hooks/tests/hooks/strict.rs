//! Strict output: what an event does not honour is a fault.

use cachalot_hooks::{Dialect, Event, Fault, Input, Output};

use crate::dialects::{ended, entry};

fn strictly(dialect: Dialect, event: Event, stdout: &str) -> Result<Output, Fault> {
    let mut entry = entry(dialect, event);
    entry.definition.strict_output = true;
    let input = Input {
        event,
        ..Input::default()
    };
    dialect.read(&entry, &input, &ended(0, stdout, ""))
}

#[test]
fn failure_matrix() {
    for (event, stdout, expected) in [
        (Event::PreToolUse, r#"{"unknown": 1}"#, "`unknown`"),
        (
            Event::PreToolUse,
            r#"{"permission_decision": "deny"}"#,
            "`permission_decision`",
        ),
        (
            Event::PreToolUse,
            r#"{"suppress_output": true}"#,
            "`suppress_output`",
        ),
        (
            Event::PreToolUse,
            r#"{"hook_specific_output": {"unknown": 1}}"#,
            "`unknown`",
        ),
        (
            Event::PreToolUse,
            r#"{"hook_specific_output": {"summary": "a"}}"#,
            "not honoured",
        ),
        (
            Event::TurnStart,
            r#"{"hook_specific_output": {"permission_decision": "allow"}}"#,
            "not honoured",
        ),
        (
            Event::PostToolUse,
            r#"{"hook_specific_output": {"updated_input": {}}}"#,
            "not honoured",
        ),
        (
            Event::Stop,
            r#"{"hook_specific_output": {"synthetic_response": "a"}}"#,
            "not honoured",
        ),
        (Event::PreToolUse, r#"{"decision": "allow"}"#, "`decision`"),
        (Event::UserPromptSubmit, "plain text", "not a JSON object"),
        (Event::SessionStart, "[1]", "not a JSON object"),
    ] {
        let fault = strictly(Dialect::DockerAgent, event, stdout).unwrap_err();
        assert!(
            fault.message.contains(expected),
            "{event} {stdout}: {fault}"
        );
    }
}

#[test]
fn strict_protocol() {
    for (event, stdout) in [
        (Event::PreToolUse, ""),
        (Event::PreToolUse, "{}"),
        (
            Event::PreToolUse,
            r#"{"decision": "block", "reason": "no", "system_message": "a"}"#,
        ),
        (
            Event::PreToolUse,
            r#"{"continue": false, "stop_reason": "no"}"#,
        ),
        (
            Event::PreToolUse,
            r#"{"hook_specific_output": {"permission_decision": "ask", "permission_decision_reason": "a", "updated_input": {}}}"#,
        ),
        (
            Event::UserPromptSubmit,
            r#"{"hook_specific_output": {"additional_context": "a"}}"#,
        ),
        (
            Event::BeforeLlmCall,
            r#"{"hook_specific_output": {"llm_response": "a"}}"#,
        ),
        // Blocking where nothing can be blocked is said, and no fault.
        (
            Event::TurnEnd,
            r#"{"decision": "block", "reason": "too late"}"#,
        ),
    ] {
        strictly(Dialect::DockerAgent, event, stdout).unwrap();
    }
    let claude = r#"{"suppressOutput": true, "hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}"#;
    strictly(Dialect::Claude, Event::PreToolUse, claude).unwrap();
    let output = r#"{"hookSpecificOutput": {"updatedMCPToolOutput": "a"}}"#;
    strictly(Dialect::Claude, Event::PostToolUse, output).unwrap();
    let request = r#"{"hookSpecificOutput": {"decision": {"behavior": "deny"}}}"#;
    strictly(Dialect::Claude, Event::PermissionRequest, request).unwrap();
}

#[test]
fn wrong_event_refused() {
    let wrong = r#"{"hook_specific_output": {"hook_event_name": "post_tool_use"}}"#;
    let fault = strictly(Dialect::DockerAgent, Event::PreToolUse, wrong).unwrap_err();
    assert!(fault.message.contains("post_tool_use") && fault.message.contains("pre_tool_use"));
}

#[test]
fn event_name_compatibility() {
    for name in ["pre_tool_use", "PreToolUse", "BeforeTool"] {
        let stdout = format!(r#"{{"hookSpecificOutput": {{"hookEventName": "{name}"}}}}"#);
        for dialect in Dialect::ALL {
            strictly(dialect, Event::PreToolUse, &stdout).unwrap();
        }
    }
}

#[test]
fn non_strict_output_ignores_unknown_keys() {
    let entry = entry(Dialect::DockerAgent, Event::TurnEnd);
    let input = Input {
        event: Event::TurnEnd,
        ..Input::default()
    };
    let stdout =
        r#"{"unknown": 1, "hook_specific_output": {"hook_event_name": "stop", "more": 2}}"#;
    let output = Dialect::DockerAgent.read(&entry, &input, &ended(0, stdout, ""));
    assert_eq!(output.unwrap(), Output::default());
}
