//! `once`, `if`, `async`, `asyncRewake`, `shell`, the mode of permissions, and rewritten arguments.

use std::time::{Duration, Instant};

use cachalot_hooks::input::{PermissionMode, ToolResponse};
use cachalot_hooks::{Event, Hooks, Input};
use serde_json::{Value, json};

use super::{Project, command, hook, until};

#[tokio::test]
async fn once_hook_runs_once_per_session() {
    let project = Project::new();
    let hooks = project.hooks(&json!({
        "PreToolUse": hook("echo x >> ran", json!({"once": true})),
    }));
    for _ in 0..3 {
        project.shell(&hooks, "ls").await;
    }
    assert_eq!(project.handler_fixture.read("ran"), "x\n");
    let mut other = project.calling(Event::PreToolUse, "shell", &json!({}));
    other.session_id = "s-2".to_owned();
    hooks.fire(other).await;
    assert_eq!(project.handler_fixture.read("ran"), "x\nx\n");
}

#[tokio::test]
async fn conditional_hook_runs_for_matching_calls_only() {
    let project = Project::new();
    let hooks = project.hooks(&json!({"PreToolUse": [{
        "matcher": "Bash|Edit",
        "hooks": [
            {"type": "command", "command": "echo no git >&2; exit 2", "if": "Bash(git *)"},
            {"type": "command", "command": "echo no ts >&2; exit 2", "if": "Edit(*.ts)"},
        ],
    }]}));
    assert_eq!(
        project.shell(&hooks, "ls; git push").await.denial(),
        Some("no git")
    );
    assert_eq!(project.shell(&hooks, "ls").await.reports, []);
    let edit = |path: &str| project.calling(Event::PreToolUse, "edit_file", &json!({"path": path}));
    assert_eq!(hooks.fire(edit("a/b.ts")).await.denial(), Some("no ts"));
    assert_eq!(hooks.fire(edit("a/b.rs")).await.denial(), None);
}

/// The context and messages at the start of the next turn.
async fn next(project: &Project, hooks: &Hooks) -> (Vec<String>, Vec<String>) {
    let verdict = hooks.fire(project.input(Event::TurnStart)).await;
    assert_eq!(verdict.decision, None);
    (verdict.context, verdict.messages)
}

async fn reported(project: &Project, hooks: &Hooks) -> (Vec<String>, Vec<String>) {
    for _ in 0..6_000 {
        let said = next(project, hooks).await;
        if said != (vec![], vec![]) {
            return said;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing is ever said");
}

fn after(project: &Project) -> Input {
    let mut input = project.calling(Event::PostToolUse, "write_file", &json!({"path": "a"}));
    input.tool_response = Some(ToolResponse::default());
    input
}

#[tokio::test]
async fn async_hook_is_not_awaited_and_its_output_is_delivered_next_turn() {
    let project = Project::new();
    let line = r#"while [ ! -e go ]; do sleep 0.01; done
        echo '{"systemMessage": "tests passed", "decision": "block", "reason": "unheard", "continue": false}'"#;
    let hooks = project.hooks(&json!({
        "PreToolUse": hook(line, json!({"async": true, "timeout": 600})),
    }));
    assert!(hooks.handles(Event::TurnStart));
    let begun = Instant::now();
    let verdict = project.shell(&hooks, "ls").await;
    assert!(begun.elapsed() < Duration::from_secs(120), "nobody waits");
    assert_eq!((verdict.decision, verdict.messages), (None, vec![]));
    assert_eq!(next(&project, &hooks).await, (vec![], vec![]));
    project.write("go", "");
    let context = reported(&project, &hooks).await;
    assert_eq!(context, (vec!["tests passed".to_owned()], vec![]));
    assert_eq!(next(&project, &hooks).await, (vec![], vec![]), "told once");
}

/// A hook can declare itself async while it runs.
#[tokio::test]
async fn an_async_hook_continues_and_its_later_line_is_delivered() {
    for (event, said, expected) in [
        (
            "PreToolUse",
            r#"{"systemMessage": "tests passed", "decision": "block", "reason": "unheard", "continue": false}"#,
            "tests passed",
        ),
        (
            "Stop",
            r#"{"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "3 tests fail"}}"#,
            "3 tests fail",
        ),
    ] {
        let project = Project::new();
        let line = format!(
            "echo '{{\"async\":true,\"asyncTimeout\":600000}}'
            while [ ! -e go ]; do sleep 0.01; done
            echo working; echo '{said}'"
        );
        let hooks = project.hooks(&json!({event: hook(&line, json!({"timeout": 500}))}));
        let begun = Instant::now();
        let input = match event {
            "Stop" => project.input(Event::Stop),
            _ => project.calling(Event::PreToolUse, "shell", &json!({"command": "ls"})),
        };
        let verdict = hooks.fire(input).await;
        assert!(begun.elapsed() < Duration::from_secs(120), "nobody waits");
        let (decision, continue_reason) = (verdict.decision, verdict.continue_reason);
        assert_eq!(
            (decision, continue_reason, verdict.messages),
            (None, None, vec![])
        );
        assert_eq!(next(&project, &hooks).await, (vec![], vec![]));
        project.write("go", "");
        let context = reported(&project, &hooks).await;
        assert_eq!(context, (vec![expected.to_owned()], vec![]));
        assert_eq!(next(&project, &hooks).await, (vec![], vec![]), "told once");
    }
}

#[tokio::test]
async fn async_first_line_prevents_a_decision() {
    let project = Project::new();
    let line = r#"printf '{"async":true}\n{"systemMessage":"quick","decision":"block"}'"#;
    let hooks = project.hooks(&json!({"PreToolUse": hook(line, json!({}))}));
    let verdict = project.shell(&hooks, "ls").await;
    assert_eq!((verdict.decision, verdict.messages), (None, vec![]));
    let said = (vec!["quick".to_owned()], vec![]);
    assert_eq!(reported(&project, &hooks).await, said);
}

#[tokio::test]
async fn an_async_hook_is_killed_and_reported_at_its_timeout() {
    let project = Project::new();
    let line = r#"echo '{"async":true,"asyncTimeout":100}'; echo $$ > group; exec sleep 1000"#;
    let hooks = project.hooks(&json!({"PreToolUse": hook(line, json!({}))}));
    project.shell(&hooks, "ls").await;
    let (context, messages) = reported(&project, &hooks).await;
    assert_eq!(context, [""; 0]);
    assert!(messages[0].contains("within 100ms"), "{messages:?}");
    let group = project.handler_fixture.read("group").trim().to_owned();
    crate::handler_fixture::until_gone(&[group]).await;
}

#[tokio::test]
async fn the_reason_of_an_async_rewake_hook_is_delivered() {
    for (option, expected) in [
        ("asyncRewake", vec!["the deploy failed".to_owned()]),
        ("async", vec![]),
    ] {
        let project = Project::new();
        let line = "echo 'the deploy failed' >&2; touch done; exit 2";
        let hooks = project.hooks(&json!({"Stop": hook(line, json!({option: true}))}));
        let verdict = hooks.fire(project.input(Event::Stop)).await;
        assert_eq!(verdict.continue_reason, None, "nobody waits");
        if expected.is_empty() {
            until(async || project.handler_fixture.root().join("done").exists()).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(next(&project, &hooks).await, (vec![], vec![]));
        } else {
            assert_eq!(reported(&project, &hooks).await, (expected, vec![]));
        }
    }
}

#[tokio::test]
async fn failed_async_hook_is_reported_in_the_next_turn() {
    let project = Project::new();
    let hooks = project.hooks(&json!({
        "PostToolUse": hook("echo broken >&2; exit 1", json!({"async": true})),
    }));
    hooks.fire(after(&project)).await;
    let (context, messages) = reported(&project, &hooks).await;
    assert_eq!(context, [""; 0]);
    assert!(messages[0].contains("broken"), "{messages:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn shell_bash_runs_the_line_in_bash() {
    let project = Project::new();
    let line = "if [[ it == i* ]]; then echo \"it's $CLAUDE_PROJECT_DIR\" >&2; exit 2; fi";
    let hooks = project.hooks(&json!({"PreToolUse": hook(line, json!({"shell": "bash"}))}));
    let verdict = project.shell(&hooks, "ls").await;
    let reported = format!("it's {}", project.handler_fixture.root().display());
    assert_eq!(verdict.denial(), Some(reported.as_str()));
}

#[tokio::test]
async fn hooks_receive_the_permission_mode() {
    let project = Project::new();
    let hooks = project.hooks(&json!({
        "PreToolUse": command("grep -o '\"permission_mode\":\"[a-zA-Z]*\"' >> modes"),
    }));
    for permission_mode in PermissionMode::ALL {
        let input = Input {
            permission_mode,
            ..project.calling(Event::PreToolUse, "shell", &json!({}))
        };
        hooks.fire(input).await;
    }
    let modes = project.handler_fixture.read("modes");
    let reported: Vec<&str> = modes
        .lines()
        .map(|line| line.split('"').nth(3).unwrap())
        .collect();
    assert_eq!(reported, PermissionMode::NAMES);
    assert_eq!(reported[0], "default");
    assert_eq!(reported[5], "bypassPermissions");
}

#[tokio::test]
async fn updated_input_replaces_all_arguments() {
    let says = |updated: &Value| {
        let said = json!({"hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "allow",
            "updatedInput": updated,
        }});
        format!("echo '{said}'")
    };
    let project = Project::new();
    let arguments = json!({"command": "npm test", "timeout": 5, "working_directory": "a"});
    for (file, event, updated, expected) in [
        (
            ".claude/settings.json",
            "PreToolUse",
            json!({"command": "npm run lint", "timeout": 5000}),
            json!({"command": "npm run lint", "timeout": 5}),
        ),
        // Others patch.
        (
            ".codex/hooks.json",
            "PreToolUse",
            json!({"command": "npm run lint"}),
            json!({"command": "npm run lint", "timeout": 5, "working_directory": "a"}),
        ),
        (
            "hooks.json",
            "pre_tool_use",
            json!({"command": "npm run lint", "timeout": null}),
            json!({"command": "npm run lint", "timeout": null, "working_directory": "a"}),
        ),
    ] {
        let hooks = project.hooks_of(file, &json!({event: command(&says(&updated))}));
        let input = project.calling(Event::PreToolUse, "shell", &arguments);
        let mut tool = input.tool.clone().unwrap();
        let verdict = hooks.fire(input).await;
        assert!(verdict.rewrite(&mut tool), "{file}");
        assert_eq!(Value::Object(tool.input), expected, "{file}");
    }
}

#[tokio::test]
async fn hook_does_not_see_an_argument_removed_by_an_earlier_one() {
    let project = Project::new();
    let said = json!({"hookSpecificOutput": {"updatedInput": {"file_path": "/b"}}});
    let hooks = project.hooks(&json!({"PreToolUse": [{"hooks": [
        {"type": "command", "command": format!("echo '{said}'")},
        {"type": "command", "command": "cat > told"},
    ]}]}));
    let write = json!({"path": "a", "content": "c"});
    hooks
        .fire(project.calling(Event::PreToolUse, "write_file", &write))
        .await;
    let reported: Value = serde_json::from_str(&project.handler_fixture.read("told")).unwrap();
    assert_eq!(reported["tool_input"], json!({"file_path": "/b"}));
}
