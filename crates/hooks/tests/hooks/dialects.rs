//! Inputs and outputs of handlers in each dialect.

use std::sync::Arc;

use cachalot_core::{Cost, Digest};
use cachalot_hooks::dialect::{HandlerResponse, parse_input};
use cachalot_hooks::input::{
    Answer, Compaction, Notification, PermissionMode, Prompt, Switch, ToolResponse, ToolUse,
    TurnCall,
};
use cachalot_hooks::{
    Action, Decision, Definition, Dialect, Event, Fault, HookEntry, Input, Matcher, Output,
    Transcript,
};
use cachalot_model::{Block, Message, Reasoning, Role, StopReason, ToolResult, Usage};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

mod conversation;
mod inputs;
mod outputs;
mod rendered_inputs;
mod stray_output;

pub(crate) fn entry(dialect: Dialect, event: Event) -> HookEntry {
    HookEntry {
        event,
        event_name: dialect.event_name(event).into(),
        matcher: Matcher::ALL,
        only: None,
        definition: Definition::new(Action::Command {
            line: "test".to_owned(),
        }),
        dialect,
        source: "test".into(),
        place: None,
    }
}

fn reported(dialect: Dialect, input: &Input) -> Value {
    let bytes = dialect.write(&entry(dialect, input.event), input).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

pub(crate) fn ended(code: i32, stdout: &str, stderr: &str) -> HandlerResponse {
    HandlerResponse {
        code,
        stdout: stdout.into(),
        stderr: stderr.into(),
        ..HandlerResponse::default()
    }
}

/// The output of a handler with exit code 0.
fn said(dialect: Dialect, input: &Input, stdout: &str) -> Result<Output, Fault> {
    dialect.read(&entry(dialect, input.event), input, &ended(0, stdout, ""))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => panic!("an object"),
    }
}

fn tool(event: Event, name: &str, arguments: Value) -> Input {
    Input {
        event,
        session_id: "s-1".to_owned(),
        turn_id: "t-1".to_owned(),
        cwd: "/work".into(),
        agent_name: "root".to_owned(),
        model_id: "openai/gpt".to_owned(),
        tool: Some(ToolUse {
            name: name.to_owned(),
            id: "c-1".to_owned(),
            category: "builtin".to_owned(),
            input: object(arguments),
            ..ToolUse::default()
        }),
        ..Input::default()
    }
}

fn of_server(name: &str) -> ToolUse {
    ToolUse {
        name: format!("mcp_github_{name}"),
        mcp: Some(("github".to_owned(), name.to_owned())),
        ..ToolUse::default()
    }
}

/// A conversation of which the last two messages were not sent.
fn conversation() -> Input {
    let reasoning = Block::Reasoning(Reasoning {
        text: "hm".to_owned(),
        format: cachalot_model::Format::Messages,
        verbatim: json!({"signature": "x"}),
    });
    let call = Block::ToolUse(cachalot_model::ToolUse {
        id: "c-1".to_owned(),
        name: "shell".to_owned(),
        arguments: r#"{"command":"cat key"}"#.to_owned(),
        extra: object(json!({"id": "item-1"})),
    });
    let result = Block::ToolResult(ToolResult {
        id: "c-1".to_owned(),
        content: vec![Block::text("secret")],
        is_error: false,
        extra: Map::new(),
    });
    let messages = vec![
        Message::user("hello"),
        Message::new(
            Role::Assistant,
            vec![reasoning, Block::text("let me see"), call],
        ),
        Message::new(Role::User, vec![result, Block::text("and now?")]),
    ];
    Input {
        event: Event::BeforeLlmCall,
        messages: messages.into_iter().map(Arc::new).collect(),
        unsent: 2,
        ..Input::default()
    }
}

/// Something of everything.
fn full(event: Event) -> Input {
    let mut called = tool(event, "shell", json!({"command": "ls"}));
    called.tool.as_mut().unwrap().read_only = true;
    Input {
        prompt: Some(Prompt {
            text: "why?".to_owned(),
            prefix: Some(Digest::sha256(b"prefix")),
            fresh: true,
            implicit: true,
            ..Prompt::default()
        }),
        source: Some("startup".to_owned()),
        reason: Some("normal".to_owned()),
        iteration: 2,
        permission_mode: PermissionMode::AcceptEdits,
        last_user_message: Some("why?".to_owned()),
        usage: Some(Usage {
            uncached_input: 5,
            output: 3,
            cache_read: 2,
            cache_write_other: 1,
            reasoning: 1,
            ..Usage::default()
        }),
        cost: Some(Cost::from_picodollars(1_500_000_000)),
        tool_response: Some(ToolResponse {
            text: "out".to_owned(),
            is_error: true,
        }),
        answer: Some(Answer {
            text: "because".to_owned(),
            finish: Some(StopReason::Length),
            synthetic: true,
            stop_hook_active: true,
            calls: vec![TurnCall {
                name: "shell".to_owned(),
                read_only: true,
                is_error: true,
                witnesses: Default::default(),
                expires: None,
            }],
            ..Answer::default()
        }),
        switch: Some(Switch {
            from_agent: "a".to_owned(),
            to_agent: "b".to_owned(),
            kind: "transfer_task",
        }),
        parent_session_id: Some("s-0".to_owned()),
        compaction: Some(Compaction {
            input_tokens: 9,
            output_tokens: 8,
            context_limit: 7,
            reason: "manual",
            summary: Some("short".to_owned()),
        }),
        max_iterations: Some(3),
        notification: Some(Notification {
            level: "warning",
            message: "careful".to_owned(),
            kind: Some("idle_prompt"),
        }),
        error_message: Some("broken".to_owned()),
        messages: conversation().messages,
        unsent: 2,
        ..called
    }
}

/// The lines of the file that handlers of a dialect are told of.
fn transcript_of(dialect: Dialect, input: &Input) -> (std::path::PathBuf, Vec<Value>) {
    let path = reported(dialect, input)["transcript_path"].clone();
    let path = std::path::PathBuf::from(path.as_str().unwrap());
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (path, lines.collect())
}

#[test]
fn the_transcript_file_grows_and_is_removed_at_the_end() {
    let said = conversation().messages;
    let transcript = Transcript::default();
    let input = Input {
        event: Event::Stop,
        session_id: "s".to_owned(),
        cwd: "/work".into(),
        transcript: Some(transcript.clone()),
        ..Input::default()
    };
    // Our own handlers are told what was said, and a file is not made for them.
    assert_eq!(
        reported(Dialect::DockerAgent, &input)["transcript_path"],
        ""
    );
    said[..2].iter().for_each(|message| transcript.add(message));
    let (path, lines) = transcript_of(Dialect::Claude, &input);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["type"], "user");
    assert_eq!(
        lines[0]["message"],
        json!({"role": "user", "content": [{"type": "text", "text": "hello"}]})
    );
    let call = &lines[1]["message"]["content"][2];
    assert_eq!(
        (&call["type"], &call["id"]),
        (&json!("tool_use"), &json!("c-1"))
    );
    assert_eq!(lines[1]["parentUuid"], lines[0]["uuid"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    transcript.add(&said[2]);
    let (same, lines) = transcript_of(Dialect::Codex, &input);
    assert_eq!((&same, lines.len()), (&path, 3));
    let result = &lines[2]["message"]["content"][0];
    assert_eq!(
        (&result["type"], &result["content"]),
        (&json!("tool_result"), &json!("secret"))
    );
    // What was said is something else now.
    transcript.clear();
    assert!(!path.exists());
    transcript.add(&said[2]);
    let (other, lines) = transcript_of(Dialect::Gemini, &input);
    assert_eq!(lines.len(), 1);
    drop((input, transcript));
    assert!(!other.exists());
}
