//! Inputs of handlers in each dialect, and tool matching.

use super::*;

#[test]
fn inputs_of_every_dialect_contain_event_and_directory() {
    for dialect in Dialect::ALL {
        for event in Event::all() {
            let input = Input {
                event,
                session_id: "s".to_owned(),
                cwd: "/work".into(),
                ..Input::default()
            };
            let reported = reported(dialect, &input);
            for key in [
                "session_id",
                "cwd",
                "hook_event_name",
                "transcript_path",
                "permission_mode",
            ] {
                assert!(reported[key].is_string(), "{dialect} {event} {key}");
            }
            assert_eq!(reported["cwd"], "/work");
            assert_eq!(reported["hook_event_name"], dialect.event_name(event));
        }
    }
}

#[test]
fn the_own_dialect_uses_snake_case_and_omits_empty_fields() {
    let input = tool(Event::PreToolUse, "shell", json!({"command": "ls"}));
    assert_eq!(
        reported(Dialect::DockerAgent, &input),
        json!({
            "session_id": "s-1", "cwd": "/work", "hook_event_name": "pre_tool_use",
            "transcript_path": "", "permission_mode": "default",
            "agent_name": "root", "model_id": "openai/gpt", "turn_id": "t-1",
            "tool_name": "shell", "tool_use_id": "c-1", "tool_category": "builtin",
            "tool_input": {"command": "ls", "cmd": "ls"},
        })
    );
}

#[test]
fn the_claude_code_dialect_uses_its_field_names() {
    let input = tool(
        Event::PreToolUse,
        "edit_file",
        json!({
            "path": "src/a.rs", "old_text": "a", "new_text": "b", "replace_all": true,
        }),
    );
    assert_eq!(
        reported(Dialect::Claude, &input),
        json!({
            "session_id": "s-1", "cwd": "/work", "hook_event_name": "PreToolUse",
            "transcript_path": "", "permission_mode": "default",
            "tool_name": "Edit", "tool_use_id": "c-1",
            "tool_input": {"file_path": "/work/src/a.rs", "old_string": "a", "new_string": "b", "replace_all": true},
        })
    );
    let shell = tool(
        Event::PreToolUse,
        "shell",
        json!({"command": ["rm", "-rf", "my dir"], "timeout": 5}),
    );
    let shell = reported(Dialect::Claude, &shell);
    assert_eq!(shell["tool_name"], "Bash");
    assert_eq!(
        shell["tool_input"],
        json!({"command": "rm -rf 'my dir'", "timeout": 5000})
    );
}

#[test]
fn the_claude_code_dialect_reports_results_of_tools_and_turns() {
    let mut input = tool(Event::PostToolUse, "shell", json!({"command": "ls"}));
    input.tool_response = Some(ToolResponse {
        text: "a\nb".to_owned(),
        is_error: false,
    });
    let ok = reported(Dialect::Claude, &input);
    assert_eq!(ok["tool_response"]["stdout"], "a\nb");
    assert!(ok.get("error").is_none());
    input.tool_response = Some(ToolResponse {
        text: "no such file".to_owned(),
        is_error: true,
    });
    assert_eq!(reported(Dialect::Claude, &input)["error"], "no such file");
    let stop = Input {
        event: Event::Stop,
        answer: Some(Answer {
            text: "done".to_owned(),
            stop_hook_active: true,
            ..Answer::default()
        }),
        ..Input::default()
    };
    let stop = reported(Dialect::Claude, &stop);
    assert_eq!(stop["stop_hook_active"], true);
    assert_eq!(stop["last_assistant_message"], "done");
    let end = Input {
        event: Event::SessionEnd,
        reason: Some("stream_ended".to_owned()),
        ..Input::default()
    };
    assert_eq!(reported(Dialect::Claude, &end)["reason"], "other");
    let notification = Input {
        event: Event::Notification,
        notification: Some(Notification {
            level: "info",
            message: "may I?".to_owned(),
            kind: Some("permission_prompt"),
        }),
        ..Input::default()
    };
    let notification = reported(Dialect::Claude, &notification);
    assert_eq!(notification["message"], "may I?");
    assert_eq!(notification["notification_type"], "permission_prompt");
}

#[test]
fn the_codex_dialect_contains_turn_and_model() {
    let input = tool(Event::PreToolUse, "shell", json!({"command": "ls"}));
    let reported = reported(Dialect::Codex, &input);
    assert_eq!(
        (&reported["turn_id"], &reported["model"]),
        (&json!("t-1"), &json!("openai/gpt"))
    );
    assert_eq!(reported["tool_name"], "Bash");
}

#[test]
fn the_gemini_dialect_uses_its_field_names() {
    let mut input = tool(Event::PreToolUse, "list_dir", json!({"path": "src"}));
    input.at = Some(0);
    let before = reported(Dialect::Gemini, &input);
    assert_eq!(before["hook_event_name"], "BeforeTool");
    assert_eq!(before["tool_name"], "list_directory");
    assert_eq!(before["tool_input"], json!({"dir_path": "src"}));
    assert_eq!(before["timestamp"], "1970-01-01T00:00:00.000Z");
    let call = Input {
        event: Event::BeforeLlmCall,
        model_id: "google/gemini-pro".to_owned(),
        messages: vec![
            Arc::new(Message::user("hi")),
            Arc::new(Message::assistant("ho")),
        ],
        unsent: 2,
        ..Input::default()
    };
    let call = reported(Dialect::Gemini, &call);
    assert_eq!(
        call["llm_request"],
        json!({"model": "gemini-pro", "config": {}, "messages": [
            {"role": "user", "content": "hi"}, {"role": "model", "content": "ho"}]})
    );
}

/// A monitor reads the text of an answer, however long.
#[test]
fn after_llm_call_input_contains_the_complete_answer() {
    let text = "A long answer. ".repeat(10_000);
    let input = |finish| Input {
        event: Event::AfterLlmCall,
        messages: vec![Arc::new(Message::user("hi"))],
        answer: Some(Answer {
            text: text.clone(),
            finish: Some(finish),
            ..Answer::default()
        }),
        ..Input::default()
    };
    let gemini = reported(Dialect::Gemini, &input(StopReason::Length));
    assert_eq!(gemini["hook_event_name"], "AfterModel");
    let response = &gemini["llm_response"];
    assert_eq!(response["text"], text.as_str());
    let candidate = &response["candidates"][0];
    assert_eq!(candidate["content"]["parts"], json!([text]));
    assert_eq!(candidate["finishReason"], "MAX_TOKENS");
    assert_eq!(gemini["llm_request"]["messages"][0]["content"], "hi");
    for dialect in [Dialect::DockerAgent, Dialect::Claude, Dialect::Codex] {
        let reported = reported(dialect, &input(StopReason::End));
        assert_eq!(reported["stop_response"], text.as_str(), "{dialect}");
        assert_eq!(reported["finish_reason"], "stop", "{dialect}");
    }
}

#[test]
fn tools_match_by_own_and_dialect_names() {
    let named = |name: &str| ToolUse {
        name: name.to_owned(),
        ..ToolUse::default()
    };
    let matches = |dialect: Dialect, pattern: &str, tool: &ToolUse| {
        dialect.matches(&Matcher::new(pattern).unwrap(), tool)
    };
    for (dialect, pattern, tool) in [
        (Dialect::Claude, "Bash", "shell"),
        (Dialect::Claude, "shell", "shell"),
        (Dialect::Claude, "Edit|Write", "edit_file"),
        (Dialect::Codex, "Edit|Write", "apply_patch"),
        (Dialect::Claude, "Read", "read_file"),
        (Dialect::Claude, "Task", "transfer_task"),
        (Dialect::Claude, "WebFetch", "web_fetch"),
        (Dialect::Claude, "LS|Glob|Grep", "list_dir"),
        (Dialect::Codex, "Bash", "shell"),
        (Dialect::Gemini, "run_shell_command", "shell"),
        (Dialect::Gemini, "replace", "edit_file"),
        (Dialect::Gemini, "search_file_content", "grep"),
        (Dialect::DockerAgent, "list_directory", "list_dir"),
    ] {
        assert!(
            matches(dialect, pattern, &named(tool)),
            "{dialect} {pattern} {tool}"
        );
    }
    assert!(!matches(Dialect::Claude, "Edit", &named("read_file")));
    assert!(!matches(Dialect::DockerAgent, "Bash", &named("shell")));
    let server = of_server("push");
    assert!(matches(Dialect::Claude, "mcp__github__.*", &server));
    assert!(matches(Dialect::DockerAgent, "github_push", &server));
    assert!(matches(Dialect::Gemini, "mcp_github_push", &server));
    assert!(!matches(Dialect::Claude, "mcp__gitlab__.*", &server));
    for dialect in Dialect::ALL {
        assert!(dialect.matches(&Matcher::ALL, &named("anything")));
    }
}

#[test]
fn project_directory_is_passed_as_variable() {
    let input = tool(Event::PreToolUse, "shell", json!({}));
    let value = |dialect: Dialect, name: &str| {
        let variables = dialect.environment(&input).into_iter();
        variables
            .filter(|(known, _)| known == name)
            .map(|(_, value)| value)
            .next()
    };
    for dialect in Dialect::ALL {
        assert_eq!(
            value(dialect, "CACHALOT_PROJECT_DIR").as_deref(),
            Some("/work")
        );
        assert_eq!(
            value(dialect, "CACHALOT_HOOK_EVENT").as_deref(),
            Some("pre_tool_use")
        );
    }
    assert_eq!(
        value(Dialect::Claude, "CLAUDE_PROJECT_DIR").as_deref(),
        Some("/work")
    );
    assert_eq!(
        value(Dialect::Gemini, "GEMINI_PROJECT_DIR").as_deref(),
        Some("/work")
    );
    assert_eq!(value(Dialect::DockerAgent, "CLAUDE_PROJECT_DIR"), None);
}
