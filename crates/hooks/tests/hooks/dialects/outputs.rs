//! Outputs of handlers, and their meaning in each dialect.

use super::*;

#[test]
fn exit_code_2_blocks_with_the_text_of_stderr() {
    for dialect in Dialect::ALL {
        let input = tool(Event::PreToolUse, "shell", json!({}));
        let entry = entry(dialect, input.event);
        let blocked = dialect.read(
            &entry,
            &input,
            &ended(2, "{\"decision\": \"allow\"}", "no\n"),
        );
        assert_eq!(blocked.unwrap().block.as_deref(), Some("no"), "{dialect}");
        let silent = dialect.read(&entry, &input, &ended(2, "", "")).unwrap();
        assert!(silent.block.is_some(), "{dialect}");
    }
}

#[test]
fn other_exit_codes_are_faults_with_the_text_of_stderr() {
    for dialect in Dialect::ALL {
        for code in [1, 3, 127, -1] {
            let input = Input::default();
            let entry = entry(dialect, input.event);
            let fault = dialect
                .read(&entry, &input, &ended(code, "{}", "jq: not found"))
                .unwrap_err();
            assert!(fault.message.contains("jq: not found"), "{fault}");
            assert!(fault.message.contains(&code.to_string()), "{fault}");
            assert!(!fault.is_cancelled);
        }
        assert_eq!(dialect.fails_open(), dialect != Dialect::DockerAgent);
        assert_eq!(
            dialect.continues_on_stop_block(),
            dialect != Dialect::DockerAgent
        );
    }
}

#[test]
fn outputs_are_read_in_both_cases_and_nestings() {
    let input = tool(Event::PreToolUse, "shell", json!({"command": "ls"}));
    for dialect in [Dialect::DockerAgent, Dialect::Claude, Dialect::Codex] {
        for stdout in [
            r#"{"hook_specific_output": {"permission_decision": "deny", "permission_decision_reason": "no"}}"#,
            r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no"}}"#,
            r#"{"permissionDecision": "deny", "permissionDecisionReason": "no"}"#,
            r#"{"permission_decision": "deny", "permission_decision_reason": "no"}"#,
        ] {
            let output = said(dialect, &input, stdout).unwrap();
            let expected = Some((Decision::Deny, Some("no".to_owned())));
            assert_eq!(output.permission, expected, "{dialect} {stdout}");
        }
    }
}

#[test]
fn decisions_are_interpreted_per_dialect() {
    let input = tool(Event::PreToolUse, "shell", json!({}));
    for dialect in Dialect::ALL {
        for word in ["block", "deny"] {
            let output = said(
                dialect,
                &input,
                &format!(r#"{{"decision": "{word}", "reason": "no"}}"#),
            );
            assert_eq!(output.unwrap().block.as_deref(), Some("no"), "{dialect}");
        }
        let stopped = said(
            dialect,
            &input,
            r#"{"continue": false, "stopReason": "enough"}"#,
        );
        assert_eq!(stopped.unwrap().block.as_deref(), Some("enough"));
    }
    let allowed = |dialect| {
        said(dialect, &input, r#"{"decision": "approve"}"#)
            .unwrap()
            .permission
    };
    assert_eq!(allowed(Dialect::Claude), Some((Decision::Allow, None)));
    // Gemini CLI's handlers say so when they have nothing against it.
    assert_eq!(allowed(Dialect::Gemini), None);
    let deferred = said(
        Dialect::Claude,
        &input,
        r#"{"hookSpecificOutput": {"permissionDecision": "defer"}}"#,
    );
    assert_eq!(deferred.unwrap().permission, Some((Decision::Ask, None)));
}

#[test]
fn decisions_of_other_dialects_grant_nothing_in_the_own_dialect() {
    for event in [
        Event::ToolGuard,
        Event::PreToolUse,
        Event::PermissionRequest,
    ] {
        let input = tool(event, "shell", json!({}));
        for stdout in [
            r#"{"decision": "approve"}"#,
            r#"{"decision": "allow"}"#,
            r#"{"decision": "ask"}"#,
            r#"{"hook_specific_output": {"decision": "allow"}}"#,
            r#"{"permission_decision": "defer"}"#,
            r#"{"permission_decision": "approve"}"#,
        ] {
            let fault = said(Dialect::DockerAgent, &input, stdout).unwrap_err();
            assert!(fault.message.contains("it can be"), "{stdout}: {fault}");
        }
    }
}

fn denies(output: &Output) -> bool {
    output.block.is_some() || matches!(output.permission, Some((Decision::Deny, _)))
}

#[test]
fn strongest_of_several_decisions_in_one_output_wins() {
    let input = tool(Event::PreToolUse, "shell", json!({}));
    let allow = ["permission_decision", "permissionDecision"];
    for dialect in Dialect::ALL {
        for (snake, camel) in [("deny", "allow"), ("allow", "deny")] {
            for stdout in [
                format!(
                    r#"{{"{0}": "{snake}", "{1}": "{camel}"}}"#,
                    allow[0], allow[1]
                ),
                format!(
                    r#"{{"hook_specific_output": {{"permission_decision": "{snake}"}}, "hookSpecificOutput": {{"permissionDecision": "{camel}"}}}}"#
                ),
                format!(
                    r#"{{"permissionDecision": "{snake}", "hookSpecificOutput": {{"permissionDecision": "{camel}"}}}}"#
                ),
                format!(
                    r#"{{"hookSpecificOutput": {{"permission_decision": "{snake}", "permissionDecision": "{camel}"}}}}"#
                ),
            ] {
                let output = said(dialect, &input, &stdout).unwrap();
                assert!(denies(&output), "{dialect} {stdout}: {output:?}");
            }
        }
        // A value that there is not takes nothing from a denial.
        let odd = r#"{"permissionDecision": "perhaps", "hookSpecificOutput": {"permissionDecision": "deny"}}"#;
        assert!(denies(&said(dialect, &input, odd).unwrap()), "{dialect}");
        let asks = r#"{"permissionDecision": "ask", "hookSpecificOutput": {"permissionDecision": "allow"}}"#;
        let asks = said(dialect, &input, asks).unwrap().permission;
        assert_eq!(asks, Some((Decision::Ask, None)), "{dialect}");
    }
    let words = r#"{"decision": "approve", "hookSpecificOutput": {"decision": "deny"}}"#;
    assert!(denies(&said(Dialect::Claude, &input, words).unwrap()));
    let request = tool(Event::PermissionRequest, "shell", json!({}));
    let answers = r#"{"decision": {"behavior": "deny"}, "hookSpecificOutput": {"decision": {"behavior": "allow"}, "permissionDecision": "allow"}}"#;
    assert!(denies(&said(Dialect::Claude, &request, answers).unwrap()));
}

#[test]
fn repeated_key_keeps_a_denial() {
    let input = tool(Event::PreToolUse, "shell", json!({}));
    for dialect in Dialect::ALL {
        for stdout in [
            r#"{"decision": "block", "decision": null}"#,
            r#"{"decision": "deny", "reason": "no", "decision": "approve"}"#,
            r#"{"permissionDecision": "deny", "permissionDecision": "allow"}"#,
            r#"{"hook_specific_output": {"permission_decision": "deny"}, "hook_specific_output": {}}"#,
            r#"{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecision": "allow"}}"#,
            r#"{"hookSpecificOutput": {"permissionDecision": "deny", "updatedInput": {"a": 1, "a": 2}}}"#,
            r#"{"continue": false, "continue": true}"#,
            r#"{"decision": {"behavior": "deny", "behavior": "allow"}}"#,
            r#"{"decision": {"behavior": "deny"}, "decision": {"behavior": "allow"}}"#,
            r#"{"decision": "block", "decision": "perhaps"}"#,
        ] {
            let output = said(dialect, &input, stdout).unwrap();
            assert!(denies(&output), "{dialect} {stdout}: {output:?}");
            let warning = output.system_message.unwrap_or_default();
            assert!(warning.contains("more than once"), "{dialect}: {warning}");
        }
        // Without one, it is invalid with us, and the last value counts elsewhere.
        for stdout in [
            r#"{"system_message": "a", "system_message": "b"}"#,
            r#"{"permission_decision": "ask", "permission_decision": "allow"}"#,
            r#"{"updated_input": {"command": "a", "command": "b"}}"#,
        ] {
            let output = said(dialect, &input, stdout);
            match dialect {
                Dialect::DockerAgent => {
                    let fault = output.unwrap_err();
                    assert!(
                        fault.message.contains("more than once"),
                        "{stdout}: {fault}"
                    );
                }
                _ => assert!(!denies(&output.unwrap()), "{dialect} {stdout}"),
            }
        }
    }
}

#[test]
fn permission_request_output_is_read_as_in_claude_code() {
    let input = tool(
        Event::PermissionRequest,
        "write_file",
        json!({"path": "a", "content": "b"}),
    );
    let output = said(
        Dialect::Claude,
        &input,
        r#"{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow", "updatedInput": {"file_path": "/work/c", "content": "b"}}}}"#,
    )
    .unwrap();
    assert_eq!(output.permission, Some((Decision::Allow, None)));
    assert_eq!(
        output.updated_input,
        Some(object(json!({"path": "/work/c"})))
    );
    let denied = said(
        Dialect::Claude,
        &input,
        r#"{"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "no"}}}"#,
    );
    assert_eq!(
        denied.unwrap().permission,
        Some((Decision::Deny, Some("no".to_owned())))
    );
    let wrong = r#"{"hookSpecificOutput": {"decision": {"behavior": "maybe"}}}"#;
    assert!(said(Dialect::Claude, &input, wrong).is_err());
}

#[test]
fn invalid_output_is_a_fault() {
    let input = tool(Event::PreToolUse, "shell", json!({}));
    for dialect in Dialect::ALL {
        for (stdout, expected) in [
            ("{", "not valid JSON"),
            ("{} trailing", "not valid JSON"),
            ("{}{}", "not valid JSON"),
            (r#"{"decision": "perhaps"}"#, "`decision`"),
            (r#"{"decision": 3}"#, "`decision`"),
            (r#"{"decision": "block", "reason": 3}"#, "`reason`"),
            (r#"{"continue": "no"}"#, "`continue`"),
            (r#"{"hook_specific_output": []}"#, "`hook_specific_output`"),
            (
                r#"{"hook_specific_output": {"permission_decision": "never"}}"#,
                "`permission_decision`",
            ),
            (
                r#"{"hook_specific_output": {"updated_input": []}}"#,
                "`updated_input`",
            ),
            (r#"{"system_message": {}}"#, "`system_message`"),
        ] {
            let fault = said(dialect, &input, stdout).unwrap_err();
            assert!(
                fault.message.contains(expected),
                "{dialect} {stdout}: {fault}"
            );
        }
        let ended = HandlerResponse {
            code: 0,
            stdout: b"{\"system_message\": \"\xff\"}".to_vec(),
            stderr: Vec::new(),
            ..HandlerResponse::default()
        };
        let fault = dialect
            .read(&entry(dialect, input.event), &input, &ended)
            .unwrap_err();
        assert!(fault.message.contains("UTF-8"), "{fault}");
    }
}

#[test]
fn plain_text_is_context_only_at_events_of_the_dialect() {
    let context = |dialect: Dialect, event: Event| {
        let input = Input {
            event,
            ..Input::default()
        };
        said(dialect, &input, "  some text\n").unwrap()
    };
    for event in [
        Event::SessionStart,
        Event::UserPromptSubmit,
        Event::TurnStart,
    ] {
        let output = context(Dialect::DockerAgent, event);
        assert_eq!(output.additional_context.as_deref(), Some("some text"));
    }
    for dialect in [Dialect::Claude, Dialect::Codex] {
        for event in [Event::SessionStart, Event::UserPromptSubmit] {
            assert_eq!(
                context(dialect, event).additional_context.as_deref(),
                Some("some text")
            );
        }
        for event in [Event::PreToolUse, Event::Stop, Event::PostToolUse] {
            assert_eq!(
                context(dialect, event),
                Output::default(),
                "{dialect} {event}"
            );
        }
    }
    assert_eq!(
        context(Dialect::DockerAgent, Event::PreToolUse),
        Output::default()
    );
    let gemini = context(Dialect::Gemini, Event::UserPromptSubmit);
    assert_eq!(gemini.additional_context, None);
    assert_eq!(gemini.system_message.as_deref(), Some("some text"));
    let input = Input::default();
    let ended = HandlerResponse {
        code: 0,
        stdout: b"caf\xe9".to_vec(),
        stderr: Vec::new(),
        ..HandlerResponse::default()
    };
    let lossy = Dialect::Claude.read(&entry(Dialect::Claude, input.event), &input, &ended);
    assert_eq!(
        lossy.unwrap().additional_context.as_deref(),
        Some("caf\u{fffd}")
    );
}

#[test]
fn rewritten_arguments_are_mapped_to_own_names() {
    let input = tool(
        Event::PreToolUse,
        "shell",
        json!({"command": ["ls", "-l"], "timeout": 5}),
    );
    let updated = |dialect: Dialect, key: &str, arguments: Value| {
        let stdout = json!({"hookSpecificOutput": {key: arguments}}).to_string();
        said(dialect, &input, &stdout).unwrap().updated_input
    };
    let changed = updated(
        Dialect::Claude,
        "updatedInput",
        json!({"command": "ls -la", "timeout": 1500}),
    );
    assert_eq!(
        changed,
        Some(object(json!({"command": "ls -la", "timeout": 1.5})))
    );
    // What comes back as it was told is not rewritten.
    let same = updated(
        Dialect::Claude,
        "updatedInput",
        json!({"command": "ls -l", "timeout": 5000}),
    );
    assert_eq!(same, None);
    let merged = updated(Dialect::Gemini, "tool_input", json!({"dir_path": "src"}));
    assert_eq!(merged, Some(object(json!({"working_directory": "src"}))));
    let ours = updated(
        Dialect::DockerAgent,
        "updated_input",
        json!({"command": ["ls", "-l"], "cmd": "ls -a"}),
    );
    assert_eq!(ours, Some(object(json!({"command": "ls -a"}))));
    let ours = updated(
        Dialect::DockerAgent,
        "updated_input",
        json!({"command": "ls -b", "cmd": "ls -l"}),
    );
    assert_eq!(ours, Some(object(json!({"command": "ls -b"}))));
}

#[test]
fn after_a_tool_other_dialects_add_context_and_continue() {
    let input = tool(Event::PostToolUse, "shell", json!({}));
    let blocked = r#"{"decision": "block", "reason": "format it"}"#;
    let ours = said(Dialect::DockerAgent, &input, blocked).unwrap();
    assert_eq!(ours.block.as_deref(), Some("format it"));
    let claude = said(Dialect::Claude, &input, blocked).unwrap();
    assert_eq!(
        (claude.block, claude.additional_context.as_deref()),
        (None, Some("format it"))
    );
    let gemini = said(
        Dialect::Gemini,
        &input,
        r#"{"decision": "deny", "reason": "hidden"}"#,
    )
    .unwrap();
    assert_eq!(
        (gemini.block, gemini.updated_tool_response.as_deref()),
        (None, Some("hidden"))
    );
    let stopped = said(
        Dialect::Claude,
        &input,
        r#"{"continue": false, "stopReason": "enough"}"#,
    );
    assert_eq!(stopped.unwrap().block.as_deref(), Some("enough"));
}

#[test]
fn rewritten_results_are_read_as_text() {
    let input = tool(Event::PostToolUse, "shell", json!({}));
    for (key, value, expected) in [
        ("updatedToolOutput", json!("short"), "short"),
        (
            "updatedToolOutput",
            json!({"stdout": "a", "stderr": "b"}),
            "a\nb",
        ),
        (
            "updatedMCPToolOutput",
            json!([{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]),
            "x\ny",
        ),
        (
            "updatedMCPToolOutput",
            json!({"content": [{"type": "text", "text": "x"}]}),
            "x",
        ),
        ("updated_tool_response", json!(""), ""),
    ] {
        let stdout = json!({"hookSpecificOutput": {key: value}}).to_string();
        let output = said(Dialect::Claude, &input, &stdout).unwrap();
        assert_eq!(
            output.updated_tool_response.as_deref(),
            Some(expected),
            "{stdout}"
        );
    }
}

#[test]
fn end_of_turn_at_a_stop_hook_does_not_continue() {
    let stop = Input {
        event: Event::Stop,
        ..Input::default()
    };
    let both =
        r#"{"continue": false, "stopReason": "enough", "decision": "block", "reason": "more"}"#;
    let output = said(Dialect::Claude, &stop, both).unwrap();
    assert_eq!(
        (output.block, output.system_message.as_deref()),
        (None, Some("enough"))
    );
    let on = said(
        Dialect::Claude,
        &stop,
        r#"{"decision": "block", "reason": "more"}"#,
    )
    .unwrap();
    assert_eq!(on.block.as_deref(), Some("more"));
    let mute = said(Dialect::Codex, &stop, r#"{"decision": "block"}"#).unwrap_err();
    assert!(mute.message.contains("`reason`"), "{mute}");
}

#[test]
fn continue_false_ends_the_turn_in_other_dialects() {
    let enough = r#"{"continue": false, "stopReason": "enough"}"#;
    for dialect in Dialect::ALL {
        let ends = (dialect != Dialect::DockerAgent).then_some("enough");
        let call = tool(Event::PreToolUse, "shell", json!({}));
        let output = said(dialect, &call, enough).unwrap();
        assert_eq!(output.ends_turn.as_deref(), ends, "{dialect}");
        assert_eq!(output.block.as_deref(), Some("enough"), "{dialect}");
        let answer = Input {
            event: Event::AfterLlmCall,
            ..Input::default()
        };
        let output = said(dialect, &answer, enough).unwrap();
        assert_eq!(output.ends_turn.as_deref(), ends, "{dialect}");
    }
}

#[test]
fn claude_code_stop_context_continues_the_turn() {
    let stop = Input {
        event: Event::Stop,
        ..Input::default()
    };
    let adds =
        r#""hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "3 tests fail"}"#;
    let block = |dialect, stdout: &str| said(dialect, &stop, stdout).unwrap().block;
    let alone = format!("{{{adds}}}");
    assert_eq!(
        block(Dialect::Claude, &alone).as_deref(),
        Some("3 tests fail")
    );
    let both = format!(r#"{{"decision": "block", "reason": "go on", {adds}}}"#);
    assert_eq!(
        block(Dialect::Claude, &both).as_deref(),
        Some("go on\n3 tests fail")
    );
    let ends = format!(r#"{{"continue": false, {adds}}}"#);
    assert_eq!(block(Dialect::Claude, &ends), None);
    for dialect in [Dialect::DockerAgent, Dialect::Codex, Dialect::Gemini] {
        assert_eq!(block(dialect, &alone), None, "{dialect}");
    }
    let mut strict = entry(Dialect::Claude, Event::Stop);
    strict.definition.strict_output = true;
    let output = Dialect::Claude.read(&strict, &stop, &ended(0, &alone, ""));
    assert_eq!(output.unwrap().block.as_deref(), Some("3 tests fail"));
}

#[test]
fn synthetic_answers_are_read_in_every_form() {
    for (dialect, event) in [
        (Dialect::DockerAgent, Event::PreUserTurn),
        (Dialect::DockerAgent, Event::UserPromptSubmit),
        (Dialect::DockerAgent, Event::BeforeLlmCall),
        (Dialect::Claude, Event::UserPromptSubmit),
        (Dialect::Gemini, Event::BeforeLlmCall),
    ] {
        let input = Input {
            event,
            ..Input::default()
        };
        for stdout in [
            r#"{"hook_specific_output": {"synthetic_response": "42"}}"#,
            r#"{"hookSpecificOutput": {"syntheticResponse": {"content": "42"}}}"#,
            r#"{"hook_specific_output": {"llm_response": {"content": "42"}}}"#,
            r#"{"hookSpecificOutput": {"llm_response": {"candidates": [{"content": {"role": "model", "parts": ["4", {"text": "2"}]}}]}}}"#,
        ] {
            let output = said(dialect, &input, stdout).unwrap();
            assert_eq!(
                output.synthetic.unwrap().content,
                "42",
                "{dialect} {stdout}"
            );
        }
    }
    let input = Input {
        event: Event::PreUserTurn,
        ..Input::default()
    };
    let full = r#"{"hook_specific_output": {"synthetic_response": {"content": "a", "provenance": "the FAQ",
        "metadata": {"entry": 7}, "saved": {"calls": 1, "seconds": 1.5, "input_tokens": 10, "output_tokens": 2, "cost": 0.25}}}}"#;
    let full = said(Dialect::DockerAgent, &input, full)
        .unwrap()
        .synthetic
        .unwrap();
    assert_eq!(full.provenance.as_deref(), Some("the FAQ"));
    assert_eq!(full.metadata["entry"], "7");
    assert_eq!(
        (
            full.saved.calls,
            full.saved.input_tokens,
            full.saved.output_tokens
        ),
        (1, 10, 2)
    );
    assert_eq!(full.saved.time.as_millis(), 1500);
    assert_eq!(full.saved.cost, Cost::from_picodollars(250_000_000_000));
    for wrong in [
        "3",
        "{}",
        r#"{"content": 3}"#,
        r#""""#,
        r#"{"content": "a", "saved": {"calls": -1}}"#,
    ] {
        let stdout = format!(r#"{{"hook_specific_output": {{"synthetic_response": {wrong}}}}}"#);
        assert!(
            said(Dialect::DockerAgent, &input, &stdout).is_err(),
            "{wrong}"
        );
    }
}

/// JSON that looks like an output, with values that are not what they should be.
fn outputs() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        Just("null"),
        Just("true"),
        Just("false"),
        Just("3"),
        Just("-1e300"),
        Just("\"\""),
        Just("\"deny\""),
        Just("\"block\""),
        Just("[]"),
        Just("{}"),
        Just("[{}]"),
        Just("{\"behavior\":\"allow\"}"),
        Just("{\"messages\":[3]}"),
        Just("{\"candidates\":[]}"),
        Just("[{\"role\":\"user\",\"content\":\"x\"}]"),
        Just("{\"saved\":{\"cost\":1e308}}"),
        Just("{\"content\":\"a\",\"saved\":{\"seconds\":1e300,\"calls\":1e300,\"cost\":1e300}}"),
    ];
    let key = prop_oneof![
        Just("continue"),
        Just("decision"),
        Just("reason"),
        Just("stopReason"),
        Just("system_message"),
        Just("permissionDecision"),
        Just("updated_input"),
        Just("updated_messages"),
        Just("llm_request"),
        Just("updatedToolOutput"),
        Just("updatedMCPToolOutput"),
        Just("summary"),
        Just("tool_input"),
        Just("metadata"),
        Just("synthetic_response"),
        Just("llm_response"),
        Just("hookEventName"),
    ];
    let object = |pairs: Vec<(&str, &str)>| {
        let pairs = pairs
            .iter()
            .map(|(key, value)| format!("\"{key}\":{value}"));
        pairs.collect::<Vec<String>>().join(",")
    };
    let pairs = prop::collection::vec((key, value), 0..5);
    (pairs.clone(), pairs).prop_map(move |(top, specific)| {
        let (top, specific) = (object(top), object(specific));
        let comma = if top.is_empty() { "" } else { "," };
        format!("{{{top}{comma}\"hookSpecificOutput\":{{{specific}}}}}")
    })
}

proptest! {
    #[test]
    fn arbitrary_handler_output_is_an_output_or_a_fault(
        code in prop_oneof![Just(0), Just(2), any::<i32>()],
        noise in prop::collection::vec(any::<u8>(), 0..64),
        output in outputs(),
        is_noise: bool,
        is_strict: bool,
    ) {
        let stdout = if is_noise { noise.clone() } else { output.into_bytes() };
        let ended = HandlerResponse { code, stdout, stderr: noise, ..HandlerResponse::default() };
        for dialect in Dialect::ALL {
            for event in Event::all() {
                let mut entry = entry(dialect, event);
                entry.definition.strict_output = is_strict;
                let _ = dialect.read(&entry, &full(event), &ended);
            }
        }
    }
}
