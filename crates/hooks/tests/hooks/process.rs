//! Commands.

use std::time::{Duration, Instant};

use cachalot_hooks::input::{Prompt, ToolUse};
use cachalot_hooks::{Decision, Dialect, Event, Input};
use serde_json::{Value, json};

use crate::handler_fixture::{HandlerFixture, command, running, until_gone};

fn of_tool() -> Input {
    Input {
        session_id: "s-1".to_owned(),
        tool: Some(ToolUse {
            name: "shell".to_owned(),
            id: "call-1".to_owned(),
            input: json!({ "cmd": "ls" }).as_object().unwrap().clone(),
            ..ToolUse::default()
        }),
        ..Input::default()
    }
}

#[tokio::test]
async fn a_command_receives_json_on_stdin() {
    let handler_fixture = HandlerFixture::new();
    let entry = command(Event::PreToolUse, "cat > told.json");
    let verdict = handler_fixture.verdict(entry, of_tool()).await;
    assert_eq!(verdict.messages, [] as [String; 0]);
    let reported: Value = serde_json::from_str(&handler_fixture.read("told.json")).unwrap();
    assert_eq!(reported["hook_event_name"], "pre_tool_use");
    assert_eq!(reported["session_id"], "s-1");
    assert_eq!(reported["tool_name"], "shell");
    assert_eq!(reported["tool_input"], json!({ "cmd": "ls" }));
}

#[tokio::test]
async fn a_json_verdict_on_stdout_is_applied() {
    let handler_fixture = HandlerFixture::new();
    let said = json!({ "hook_specific_output": {
        "permission_decision": "deny", "permission_decision_reason": "not today",
    } });
    let verdict = handler_fixture
        .verdict(
            command(Event::PreToolUse, format!("echo '{said}'")),
            of_tool(),
        )
        .await;
    assert_eq!(verdict.denial(), Some("not today"));
}

#[tokio::test]
async fn exit_code_2_blocks_with_the_text_of_stderr() {
    let handler_fixture = HandlerFixture::new();
    let entry = command(Event::PreToolUse, "echo 'no rm here' >&2; exit 2");
    let verdict = handler_fixture.verdict(entry, of_tool()).await;
    assert_eq!(verdict.denial(), Some("no rm here"));
}

#[tokio::test]
async fn other_exit_code_denies_only_at_guards() {
    let handler_fixture = HandlerFixture::new();
    for (event, denies) in [(Event::PreToolUse, true), (Event::PostToolUse, false)] {
        let entry = command(event, "echo 'out of disk' >&2; exit 7");
        let verdict = handler_fixture.verdict(entry, of_tool()).await;
        assert_eq!(verdict.denial().is_some(), denies, "{event}");
        let fault = verdict.reports[0].result.as_ref().unwrap_err();
        assert!(fault.message.contains("out of disk"), "{fault}");
    }
}

#[tokio::test]
async fn plain_stdout_is_context_at_events_with_context() {
    let handler_fixture = HandlerFixture::new();
    let verdict = handler_fixture
        .verdict(
            command(Event::TurnStart, "echo 'It rains.'"),
            Input::default(),
        )
        .await;
    assert_eq!(verdict.context, ["It rains."]);
}

#[tokio::test]
async fn command_env_is_expanded_when_the_command_runs() {
    let handler_fixture = HandlerFixture::new()
        .with("TOKEN", "t-1")
        .with("HIDDEN", "h");
    let mut entry = command(Event::TurnStart, "echo \"$A|$B|$C|$TOKEN\"");
    entry.definition.env = [
        ("A", "x-${env.TOKEN}"),
        ("B", "${env.UNSET}"),
        ("C", "$HIDDEN"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let verdict = handler_fixture.verdict(entry, Input::default()).await;
    assert_eq!(verdict.context, ["x-t-1||$HIDDEN|t-1"]);
}

#[tokio::test]
async fn command_does_not_inherit_the_environment_of_the_program() {
    let handler_fixture = HandlerFixture::new();
    let entry = command(Event::TurnStart, "echo \"[$CARGO_MANIFEST_DIR]\"");
    let verdict = handler_fixture.verdict(entry, Input::default()).await;
    assert_eq!(verdict.context, ["[]"]);
}

#[tokio::test]
async fn the_variables_of_a_dialect_are_set() {
    let handler_fixture = HandlerFixture::new();
    let mut entry = command(Event::SessionStart, "echo \"$CLAUDE_PROJECT_DIR\"");
    entry.dialect = Dialect::Claude;
    entry.event_name = "SessionStart".into();
    let input = Input {
        cwd: handler_fixture.root(),
        ..Input::default()
    };
    let verdict = handler_fixture.verdict(entry, input).await;
    assert_eq!(
        verdict.context,
        [handler_fixture.root().display().to_string()]
    );
}

#[tokio::test]
async fn a_command_runs_in_its_configured_directory() {
    let handler_fixture = HandlerFixture::new();
    let root = handler_fixture.root().display().to_string();
    let handler_fixture = handler_fixture.with("HOME", &root).with("WHERE", "a/b");
    std::fs::create_dir_all(handler_fixture.root().join("a/b")).unwrap();
    for (named, place) in [
        (None, ""),
        (Some("a"), "/a"),
        (Some("$WHERE"), "/a/b"),
        (Some("${WHERE}"), "/a/b"),
        (Some("${env.WHERE}/.."), "/a"),
        (Some("~"), ""),
        (Some("~/a"), "/a"),
        (Some("$HOME/a"), "/a"),
    ] {
        let mut entry = command(Event::TurnStart, "pwd -P");
        entry.definition.working_dir = named.map(str::to_owned);
        let verdict = handler_fixture.verdict(entry, Input::default()).await;
        assert_eq!(verdict.context, [format!("{root}{place}")], "{named:?}");
    }
    let input = Input {
        cwd: handler_fixture.root().join("a"),
        ..Input::default()
    };
    let verdict = handler_fixture
        .verdict(command(Event::TurnStart, "pwd -P"), input)
        .await;
    assert_eq!(verdict.context, [format!("{root}/a")]);
}

#[tokio::test]
async fn missing_working_directory_is_named() {
    let handler_fixture = HandlerFixture::new();
    for (named, part) in [("no/such", "no/such` that"), ("$NOWHERE/x", "`NOWHERE`")] {
        let mut entry = command(Event::TurnStart, "pwd");
        entry.definition.working_dir = Some(named.to_owned());
        let fault = handler_fixture.fault(entry, Input::default()).await;
        assert!(fault.contains(part), "{fault}");
    }
}

#[tokio::test]
async fn missing_command_is_a_fault_with_a_remedy() {
    let handler_fixture = HandlerFixture::new();
    std::fs::write(handler_fixture.root().join("check.sh"), "echo\n").unwrap();
    for (line, what, remedy) in [
        ("no-such-command-here", "not found", "install it"),
        ("./nowhere/check.sh", "not found", "working_dir"),
        ("./check.sh", "cannot be run", "chmod +x"),
    ] {
        let fault = handler_fixture
            .fault(command(Event::PreToolUse, line), of_tool())
            .await;
        assert!(fault.contains(what) && fault.contains(remedy), "{fault}");
    }
}

#[tokio::test]
async fn invalid_command_line_is_a_problem_at_load() {
    let handler_fixture = HandlerFixture::new();
    for (line, part) in [("", "empty"), (" \n", "empty"), ("a\0b", "NUL")] {
        let problem = handler_fixture.problem(command(Event::Stop, line));
        assert!(problem.message.contains(part), "{problem}");
        assert!(problem.message.contains("`stop`"), "{problem}");
    }
}

#[tokio::test]
async fn input_larger_than_a_pipe_is_written_while_output_is_read() {
    let handler_fixture = HandlerFixture::new();
    let text = "Wörter. ".repeat(100_000);
    let input = Input {
        prompt: Some(Prompt {
            text: text.clone(),
            ..Prompt::default()
        }),
        ..Input::default()
    };
    let line = "printf 'x%.0s' $(seq 20000); cat > told.json";
    let report = handler_fixture
        .report(command(Event::UserPromptSubmit, line), input)
        .await;
    let said = report.result.unwrap();
    assert_eq!(said.additional_context.map(|text| text.len()), Some(20_000));
    let reported: Value = serde_json::from_str(&handler_fixture.read("told.json")).unwrap();
    assert_eq!(reported["prompt"], text.as_str());
}

#[tokio::test]
async fn cancelled_turn_kills_the_process_group() {
    let handler_fixture = HandlerFixture::new();
    let line = "echo $$ > group; sleep 1000 & (trap '' TERM HUP; sleep 1000)";
    let hooks = handler_fixture
        .hooks(vec![command(Event::Stop, line)])
        .unwrap();
    let input = Input {
        event: Event::Stop,
        ..Input::default()
    };
    let firing = hooks.fire(input);
    let file = handler_fixture.root().join("group");
    let begun = Instant::now();
    let started = async {
        while std::fs::read_to_string(&file).map_or(0, |text| text.len()) == 0 {
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "it does not begin"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = firing => panic!("it ended"),
        () = started => {}
    }
    until_gone(&[handler_fixture.read("group").trim().to_owned()]).await;
}

#[tokio::test]
async fn daemon_that_closes_its_outputs_is_left_running() {
    let handler_fixture = HandlerFixture::new();
    let line = "echo $$ > group; sleep 1000 < /dev/null > /dev/null 2>&1 &\necho '{}'";
    let report = handler_fixture
        .report(command(Event::Stop, line), Input::default())
        .await;
    assert!(report.result.is_ok(), "{report:?}");
    let group = handler_fixture.read("group").trim().to_owned();
    if cfg!(target_os = "linux") {
        assert_eq!(running(std::slice::from_ref(&group)).len(), 1);
    }
    let pid = rustix::process::Pid::from_raw(group.parse().unwrap()).unwrap();
    rustix::process::kill_process_group(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn descendant_with_open_outputs_does_not_delay_the_verdict() {
    let handler_fixture = HandlerFixture::new();
    let line = r#"echo $$ > group; sleep 1000 &
        echo '{"hook_specific_output": {"permission_decision": "ask"}}'"#;
    let begun = Instant::now();
    let verdict = handler_fixture
        .verdict(command(Event::PreToolUse, line), of_tool())
        .await;
    let decision = verdict.decision.map(|(decision, _)| decision);
    assert_eq!(decision, Some(Decision::Ask));
    assert!(begun.elapsed() < Duration::from_secs(120));
    until_gone(&[handler_fixture.read("group").trim().to_owned()]).await;
}
