//! The contracts, and that schemas, files and our own dialect say the same.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use cachalot_core::tree::parse;
use cachalot_core::{Cost, Digest};
use cachalot_hooks::contract::{BlockEffect, FailureEffect, Order, SpecificOutput};
use cachalot_hooks::dialect::HandlerResponse;
use cachalot_hooks::input::{
    Answer, Compaction, Notification, Prompt, Switch, ToolResponse, ToolUse, TurnCall,
};
use cachalot_hooks::schema::{hooks_schema, input_schema, output_schema};
use cachalot_hooks::{Builtins, CONTRACTS, Dialect, Event, Input, definition};
use cachalot_model::{Message, StopReason, Usage};
use serde_json::{Value, json};

use crate::hook_builder::entry;

fn names(wanted: impl Fn(&cachalot_hooks::Contract) -> bool) -> Vec<&'static str> {
    let wanted = CONTRACTS.iter().filter(|contract| wanted(contract));
    wanted.map(|contract| contract.event.name()).collect()
}

#[test]
fn events_are_listed_in_turn_order() {
    let order = "session_start, user_prompt_submit, pre_user_turn, turn_start, before_llm_call, \
        after_llm_call, tool_input_transform, tool_guard, pre_tool_use, permission_request, \
        tool_response_transform, post_tool_use, turn_end, stop, subagent_stop, on_agent_switch, \
        pre_compact, before_compaction, after_compaction, on_user_input, on_max_iterations, \
        on_error, notification, session_end";
    assert_eq!(names(|_| true).join(", "), order);
}

#[test]
fn guards_are_closed_and_rewrites_are_sequential() {
    assert_eq!(
        names(|one| one.failure == FailureEffect::Denial),
        ["tool_guard", "pre_tool_use"]
    );
    assert_eq!(
        names(|one| one.failure == FailureEffect::DenialByDefault),
        [
            "user_prompt_submit",
            "pre_user_turn",
            "before_llm_call",
            "tool_input_transform",
            "permission_request"
        ]
    );
    assert_eq!(
        names(|one| one.order == Order::Sequential),
        [
            "before_llm_call",
            "tool_input_transform",
            "pre_tool_use",
            "tool_response_transform"
        ]
    );
    assert_eq!(
        names(|one| one.blocks == BlockEffect::Refusal),
        [
            "user_prompt_submit",
            "pre_user_turn",
            "before_llm_call",
            "tool_input_transform",
            "tool_guard",
            "pre_tool_use",
            "permission_request",
            "post_tool_use",
            "pre_compact",
            "before_compaction",
        ]
    );
    assert_eq!(names(|one| one.blocks == BlockEffect::Continue), ["stop"]);
    assert_eq!(
        names(|one| one.tool_matched),
        [
            "tool_input_transform",
            "tool_guard",
            "pre_tool_use",
            "permission_request",
            "tool_response_transform",
            "post_tool_use",
        ]
    );
    assert_eq!(
        names(|one| one.honours(SpecificOutput::SyntheticResponse)),
        ["user_prompt_submit", "pre_user_turn", "before_llm_call"]
    );
}

#[test]
fn failures_can_be_configured_to_block() {
    let closed = CONTRACTS
        .iter()
        .filter(|one| one.failure != FailureEffect::Warning);
    assert!(
        closed
            .into_iter()
            .all(|one| one.blocks == BlockEffect::Refusal)
    );
}

#[test]
fn hook_schemas_are_valid_json_schemas() {
    for event in Event::all() {
        jsonschema::meta::validate(&input_schema(event)).unwrap();
        jsonschema::meta::validate(&output_schema(event)).unwrap();
    }
    jsonschema::meta::validate(&hooks_schema()).unwrap();
}

/// An input in which nothing is empty.
fn full(event: Event) -> Input {
    let call = TurnCall {
        name: "shell".to_owned(),
        read_only: true,
        is_error: true,
        witnesses: cachalot_core::Witnesses::default(),
        expires: None,
    };
    Input {
        event,
        session_id: "session".to_owned(),
        turn_id: "turn".to_owned(),
        cwd: "/".into(),
        agent_name: "root".to_owned(),
        model_id: "provider/model".to_owned(),
        iteration: 1,
        last_user_message: Some("hello".to_owned()),
        source: Some("startup".to_owned()),
        reason: Some("normal".to_owned()),
        prompt: Some(Prompt {
            text: "hello".to_owned(),
            prefix: Some(Digest::sha256(b"prefix")),
            implicit: true,
            fresh: true,
            ..Prompt::default()
        }),
        messages: vec![Arc::new(Message::user("hello"))],
        unsent: 1,
        usage: Some(Usage::default()),
        cost: Some(Cost::from_picodollars(1)),
        tool: Some(ToolUse {
            resource_access: cachalot_operation::ResourceAccess::default(),
            name: "shell".to_owned(),
            id: "call".to_owned(),
            category: "builtin".to_owned(),
            mcp: None,
            read_only: true,
            input: [("command".to_owned(), json!("ls"))].into_iter().collect(),
        }),
        tool_response: Some(ToolResponse {
            text: "file".to_owned(),
            is_error: true,
        }),
        answer: Some(Answer {
            text: "done".to_owned(),
            finish: Some(StopReason::End),
            synthetic: true,
            stop_hook_active: true,
            calls: vec![call],
            ..Answer::default()
        }),
        switch: Some(Switch {
            from_agent: "root".to_owned(),
            to_agent: "other".to_owned(),
            kind: "transfer_task",
        }),
        parent_session_id: Some("parent".to_owned()),
        compaction: Some(Compaction {
            input_tokens: 1,
            output_tokens: 1,
            context_limit: 1,
            reason: "manual",
            summary: Some("summary".to_owned()),
        }),
        max_iterations: Some(1),
        notification: Some(Notification {
            level: "info",
            message: "told".to_owned(),
            kind: Some("idle_prompt"),
        }),
        error_message: Some("broken".to_owned()),
        ..Input::default()
    }
}

fn keys(schema: &Value) -> BTreeSet<String> {
    schema["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

#[test]
fn inputs_of_the_own_dialect_match_the_schema() {
    for event in Event::all() {
        let schema = input_schema(event);
        let reported = |input: &Input| -> Value {
            let entry = entry(event, "any", &[]);
            let reported = Dialect::DockerAgent.write(&entry, input).unwrap();
            let reported = serde_json::from_slice(&reported).unwrap();
            if let Err(error) = jsonschema::validate(&schema, &reported) {
                panic!("{event}: {error}: {reported}");
            }
            reported
        };
        let all: BTreeSet<String> = reported(&full(event))
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        assert_eq!(all, keys(&schema), "{event}");
        reported(&Input {
            event,
            ..Input::default()
        });
    }
}

/// An example of what may be said under a key.
fn example(what: SpecificOutput) -> (&'static str, Value) {
    let value = match what {
        SpecificOutput::AdditionalContext | SpecificOutput::Summary => json!("text"),
        SpecificOutput::InstructionContext => json!([{ "label": "rules", "content": "text" }]),
        SpecificOutput::PermissionDecision => json!("ask"),
        SpecificOutput::UpdatedInput => json!({ "command": "pwd" }),
        SpecificOutput::UpdatedMessages => json!([{ "role": "user", "content": "hello there" }]),
        SpecificOutput::UpdatedToolResponse => json!(""),
        SpecificOutput::SyntheticResponse => json!({
            "content": "an answer", "provenance": "somewhere", "metadata": { "name": "value" },
            "saved": { "calls": 1, "seconds": 0.5, "input_tokens": 3, "output_tokens": 4, "cost": 0.01 },
        }),
        SpecificOutput::Metadata => json!({ "name": "value" }),
    };
    (what.key(), value)
}

#[test]
fn strict_outputs_of_the_own_dialect_match_the_schema() {
    for event in Event::all() {
        let schema = output_schema(event);
        let mut strict = entry(event, "any", &[]);
        strict.definition.strict_output = true;
        for what in SpecificOutput::ALL {
            let (key, value) = example(what);
            let mut said = json!({
                "continue": false, "stop_reason": "why", "system_message": "hello",
                "decision": "block", "reason": "why",
                "hook_specific_output": { "hook_event_name": event.name() },
            });
            said["hook_specific_output"][key] = value;
            let ended = HandlerResponse {
                code: 0,
                stdout: said.to_string().into_bytes(),
                stderr: Vec::new(),
                ..HandlerResponse::default()
            };
            let read = Dialect::DockerAgent.read(&strict, &full(event), &ended);
            let is_honoured = event.contract().honours(what);
            assert_eq!(read.is_ok(), is_honoured, "{event} {key}: {read:?}");
            assert_eq!(
                jsonschema::is_valid(&schema, &said),
                is_honoured,
                "{event} {key}"
            );
        }
    }
}

static SCHEMA: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::validator_for(&hooks_schema()).unwrap());

/// Returns whether both the schema and the reader accept a section.
fn is_right(section: &str) -> bool {
    let text = format!("hooks: {section}");
    let document = parse("agent.yaml", &text).unwrap();
    let node = document.get("hooks").unwrap();
    let mut problems = Vec::new();
    definition::read(node, "agent.yaml", &Builtins::default(), &mut problems);
    let value = node.to_value();
    let valid = SCHEMA.validate(&value).map_err(|error| error.to_string());
    assert_eq!(
        problems.is_empty(),
        valid.is_ok(),
        "{section}: {problems:?} {valid:?}"
    );
    valid.is_ok()
}

#[test]
fn hook_files_match_the_schema() {
    let command = "{type: command, command: ./check.sh";
    let http = "{type: http, url: \"https://example.com/hook\"";
    let model = "{type: model, model: judge, prompt: \"good?\"";
    for event in Event::all() {
        assert!(is_right(&format!("{{{event}: {command}}}}}")));
        assert!(is_right(&format!("{{{event}: [{command}}}, {http}}}]}}")));
        assert!(is_right(&format!(
            "{{{event}: {{sequential: true, hooks: [{command}}}]}}}}"
        )));
        assert!(is_right(&format!(
            "{{{event}: {{dialect: gemini, hooks: {command}}}}}}}"
        )));
        assert!(is_right(&format!("{{{event}: }}")));
        assert!(!is_right(&format!("{{{event}: {command}, args: [one]}}}}")));
        assert!(!is_right(&format!("{{{event}: {command}, unknown: 1}}}}")));
        assert!(!is_right(&format!("{{{event}: {{type: command}}}}")));
        assert!(!is_right(&format!("{{{event}: text}}")));
        let blocks = format!("{{{event}: {command}, on_error: block}}}}");
        assert_eq!(
            is_right(&blocks),
            event.contract().blocks == BlockEffect::Refusal
        );
        if event.contract().tool_matched {
            let group = format!("{{matcher: shell, preempt_yolo: true, hooks: {command}}}}}");
            assert!(is_right(&format!("{{{event}: [{group}]}}")));
        }
    }
    for (hook, right) in [
        (
            format!(
                "{command}, name: check, timeout: 5, working_dir: \"~\", strict_output: true}}"
            ),
            true,
        ),
        (
            format!("{command}, env: {{A: 1, B: text, C: true}}, on_error: ignore}}"),
            true,
        ),
        (
            format!("{command}, sequential: true, dialect: claude}}"),
            true,
        ),
        (
            format!(
                "{command}, dialect: claude, once: true, async: true, args: [a], statusMessage: b}}"
            ),
            true,
        ),
        (format!("{command}, once: true}}"), false),
        ("{type: prompt, prompt: done?}".to_owned(), false),
        (
            "{type: prompt, prompt: done?, dialect: claude}".to_owned(),
            true,
        ),
        (format!("{command}, env: {{A: [1]}}}}"), false),
        (format!("{command}, strict_output: perhaps}}"), false),
        (format!("{command}, timeout: soon}}"), false),
        (format!("{command}, timeout: 1m30s}}"), true),
        (format!("{command}, dialect: klingon}}"), false),
        (format!("{command}, on_error: explode}}"), false),
        (
            format!("{http}, headers: {{X-Key: \"${{env.KEY}}\"}}}}"),
            true,
        ),
        ("{type: http}".to_owned(), false),
        (
            format!("{model}, system_prompt: judge, schema: guard_decision}}"),
            true,
        ),
        (format!("{model}, schema: other}}"), false),
        ("{type: model, model: judge}".to_owned(), false),
        ("{type: other, command: x}".to_owned(), false),
        ("{command: x}".to_owned(), false),
    ] {
        assert_eq!(is_right(&format!("{{stop: {hook}}}")), right, "{hook}");
    }
    assert!(is_right(&format!(
        "{{dialect: claude, PreToolUse: [{{matcher: Bash, hooks: [{command}}}]}}]}}"
    )));
    assert!(is_right(&format!(
        "{{dialect: claude, PreToolUse: [{{matcher: Bash, hooks: [{command}, if: \"Bash(rm *)\"}}]}}]}}"
    )));
    assert!(!is_right(&format!("{{no_such_event: {command}}}}}")));
    assert!(!is_right("[]"));
}
