//! What docker-agent's files and scripts have beside ours: instructions that are kept up to date, routes
//! to other agents, events that never happen here.

use std::sync::Arc;

use cachalot_core::{Problem, tree};
use cachalot_hooks::contract::BlockEffect;
use cachalot_hooks::input::Prompt;
use cachalot_hooks::schema::hooks_schema;
use cachalot_hooks::source::ParsedHooks;
use cachalot_hooks::{Builtins, Event, Input, Verdict, definition};
use cachalot_model::Message;
use serde_json::{Value, json};

use crate::handler_fixture::{HandlerFixture, command};

/// What a script says that prints this in `hook_specific_output`, in a conversation that says that.
async fn says(event: Event, specific: &Value, conversation: &[String]) -> Verdict {
    let handler_fixture = HandlerFixture::new();
    let said = json!({ "hook_specific_output": specific }).to_string();
    std::fs::write(handler_fixture.directory.path().join("said.json"), said).unwrap();
    let messages = conversation.iter().map(Message::user).map(Arc::new);
    let input = Input {
        messages: messages.collect(),
        ..Input::default()
    };
    handler_fixture
        .verdict(command(event, "cat said.json"), input)
        .await
}

/// The context at `turn_start` with these items of `instruction_context`.
async fn instructs(items: Value, conversation: &[String]) -> Vec<String> {
    let specific = json!({ "instruction_context": items });
    let verdict = says(Event::TurnStart, &specific, conversation).await;
    assert_eq!(verdict.messages, [] as [String; 0]);
    verdict.context
}

#[tokio::test]
async fn instructions_are_context_in_order_at_the_supported_events() {
    let specific = json!({
        "additional_context": "It rains.",
        "instruction_context": [
            { "key": "a", "path": "/a.md", "group": "files", "label": "House rules", "content": "Be kind.\n", "complete_group": true },
            { "key": "b", "content": "Be brief." },
            { "key": "c", "content": "" },
        ],
    });
    let expected = "It rains.\n<instructions of=\"House rules\">\nBe kind.\n</instructions>\n<instructions of=\"b\">\nBe brief.\n</instructions>";
    for event in [Event::SessionStart, Event::TurnStart] {
        let verdict = says(event, &specific, &[]).await;
        assert_eq!(verdict.context, [expected], "{event}");
    }
    let verdict = says(Event::UserPromptSubmit, &specific, &[]).await;
    assert_eq!(verdict.context, ["It rains."]);
}

#[tokio::test]
async fn instructions_are_repeated_only_after_a_change() {
    let rules = |content: &str| json!([{ "label": "rules", "content": content, "changed_content": format!("Now: {content}") }]);
    let mut conversation = vec!["hello".to_owned()];
    for (content, expected) in [
        ("one", Some("one")),
        ("one", None),
        ("two", Some("Now: two")),
        ("two", None),
        ("one", Some("Now: one")),
    ] {
        let said = instructs(rules(content), &conversation).await;
        let expected =
            expected.map(|words| format!("<instructions of=\"rules\">\n{words}\n</instructions>"));
        assert_eq!(said, Vec::from_iter(expected), "{content}");
        conversation.extend(said);
    }
    // Without words for the change, the new ones are said.
    let other = json!([{ "label": "rules", "content": "three" }]);
    let said = instructs(other, &conversation).await;
    assert!(said[0].contains("\nthree\n"), "{said:?}");
}

#[tokio::test]
async fn withdrawn_instructions_are_revoked_once() {
    let mut conversation = instructs(json!([{ "label": "rules", "content": "one" }]), &[]).await;
    let gone = json!([{ "label": "rules", "content": "one", "unavailable": true }]);
    assert_eq!(instructs(gone, &conversation).await, [] as [String; 0]);
    let removed = json!([{ "label": "rules", "removed": true }]);
    assert_eq!(instructs(removed.clone(), &[]).await, [] as [String; 0]);
    let said = instructs(removed.clone(), &conversation).await;
    assert!(said[0].contains("does not hold any more"), "{said:?}");
    conversation.extend(said);
    assert_eq!(instructs(removed, &conversation).await, [] as [String; 0]);
    let removed =
        json!([{ "label": "rules", "removed": true, "removed_content": "No rules are left." }]);
    let said = instructs(removed, &conversation).await;
    assert!(said[0].contains("No rules are left."), "{said:?}");
}

#[tokio::test]
async fn invalid_instructions_are_a_fault() {
    for (items, expected) in [
        (json!("Be kind."), "is no list"),
        (json!(["Be kind."]), "is no object"),
        (json!([{ "content": 1 }]), "`content` is no text"),
        (json!([{ "removed": "yes" }]), "`removed` is neither"),
    ] {
        let specific = json!({ "instruction_context": items });
        let verdict = says(Event::TurnStart, &specific, &[]).await;
        assert!(
            verdict.messages[0].contains(expected),
            "{:?}",
            verdict.messages
        );
    }
}

#[tokio::test]
async fn route_to_another_agent_is_reported() {
    let route = json!({ "transition": { "action": "route", "agent": "expert" } });
    for event in [Event::PreUserTurn, Event::Stop] {
        let verdict = says(event, &route, &[]).await;
        let [message] = verdict.messages.as_slice() else {
            panic!("{:?}", verdict.messages)
        };
        assert!(
            message.contains("`expert`") && message.contains("`transition`"),
            "{message}"
        );
        assert_eq!(verdict.denial(), None);
        let said = verdict.reports[0].result.as_ref().unwrap();
        assert_eq!(said.system_message.as_ref(), Some(message));
    }
}

fn read(text: &str) -> (ParsedHooks, Vec<Problem>) {
    let node = tree::parse("agent.yaml", text).unwrap();
    let mut problems = Vec::new();
    let read = definition::read(&node, "agent.yaml", &Builtins::default(), &mut problems);
    let is_valid = jsonschema::is_valid(&hooks_schema(), &node.to_value());
    assert_eq!(is_valid, problems.is_empty(), "{text}: {problems:?}");
    (read, problems)
}

#[test]
fn unsupported_event_is_a_warning_and_the_file_is_read() {
    for (event, nearest) in [
        ("user_steering_messages_submit", "`user_prompt_submit`"),
        ("user_followup_submit", "`user_prompt_submit`"),
        ("on_session_resume", "`on_max_iterations`"),
        ("on_tool_approval_decision", "`post_tool_use`"),
        ("worktree_create", "`session_start`"),
    ] {
        let (read, problems) = read(&format!(
            "stop: {{type: command, command: a}}\n{event}: {{type: command, command: b}}"
        ));
        assert_eq!(problems, []);
        let [entry] = read.entries.as_slice() else {
            panic!("{event}: {:?}", read.entries)
        };
        assert_eq!(entry.definition.title(), "a");
        let [warning] = read.warnings.as_slice() else {
            panic!("{event}: {:?}", read.warnings)
        };
        let said = warning.to_string();
        assert!(
            said.starts_with(&format!("agent.yaml:2:1: `{event}` never happens here")),
            "{said}"
        );
        assert!(said.contains(nearest), "{said}");
    }
}

#[test]
fn guard_that_would_never_run_is_refused() {
    for (event, nearest) in [
        ("after_agent_complete", "`stop`"),
        ("skill_content_guard", "`tool_guard`"),
        ("prompt_file_guard", "`turn_start`"),
    ] {
        let (read, problems) = read(&format!("{event}: {{type: command, command: b}}"));
        assert!(read.entries.is_empty() && read.warnings.is_empty());
        assert_eq!(problems[0].code, "unsupported-event");
        let said = problems[0].to_string();
        assert!(
            said.contains("would not be guarded") && said.contains(nearest),
            "{said}"
        );
    }
}

#[tokio::test]
async fn agent_guard_applies_to_turns_and_fails_closed() {
    let guard = r#"before_agent_run:
  type: command
  on_error: ignore
  command: |
    cat > told.json
    grep -q '"input":"rm ' told.json && exit 7
    grep -q '"input":"stop' told.json && exit 2
    exit 0
"#;
    let (read, problems) = read(guard);
    assert_eq!((problems, read.warnings), (vec![], vec![]));
    let entry = &read.entries[0];
    assert_eq!(entry.event, Event::PreUserTurn);
    assert_eq!(Event::PreUserTurn.contract().blocks, BlockEffect::Refusal);
    let handler_fixture = HandlerFixture::new();
    for (text, denies) in [("rm it", true), ("stop it", true), ("hello", false)] {
        let input = Input {
            turn_id: "turn-7".to_owned(),
            prompt: Some(Prompt {
                text: text.to_owned(),
                ..Prompt::default()
            }),
            ..Input::default()
        };
        let verdict = handler_fixture.verdict(entry.clone(), input).await;
        assert_eq!(verdict.denial().is_some(), denies, "{text}: {verdict:?}");
        let reported: Value = serde_json::from_str(&handler_fixture.read("told.json")).unwrap();
        assert_eq!(reported["hook_event_name"], "before_agent_run");
        assert_eq!(reported["invocation_id"], "turn-7");
    }
}

#[test]
fn own_event_name_keeps_its_own_semantics() {
    let (read, problems) = read("pre_user_turn: {type: command, command: a}");
    assert_eq!(problems, []);
    assert_eq!(&*read.entries[0].event_name, "pre_user_turn");
    assert_eq!(read.entries[0].definition.on_error, None);
}

#[test]
fn evaluator_is_refused_with_a_replacement() {
    let (_, problems) = read("tool_guard: {type: evaluator, evaluator: safe}");
    assert_eq!(problems[0].code, "unsupported-handler");
    let help = problems[0].help.as_ref().unwrap();
    let instead = help.split('`').nth(1).unwrap();
    let (read, problems) = read(&format!("tool_guard: {instead}"));
    assert_eq!((problems, read.entries.len()), (vec![], 1), "{instead}");
}
