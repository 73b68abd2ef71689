//! The scripts of `examples/hooks`, as people have them for other runtimes, through real processes.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use cachalot_hooks::dialect::{HandlerResponse, parse_input};
use cachalot_hooks::input::{Answer, Prompt, ToolUse};
use cachalot_hooks::source;
use cachalot_hooks::{
    Action, Builtins, Decision, Event, Fault, HookEntry, Hooks, Input, Output, Verdict,
};
use cachalot_model::Message;
use serde_json::json;

use crate::hook_builder::{EmptyAgent, hook_dependencies};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples/hooks")
}

fn entries(file: &str) -> Vec<HookEntry> {
    let mut problems = Vec::new();
    let builtins = Builtins::default();
    let read = source::read_file(&examples().join(file), None, &builtins, &mut problems);
    assert_eq!((problems, read.warnings), (vec![], vec![]));
    read.entries
}

/// The output of a script for an input that it matches.
fn run(entry: &HookEntry, input: &Input, project: &str) -> Result<Output, Fault> {
    let Action::Command { line } = &entry.definition.action else {
        panic!("a command")
    };
    let mut input = input.clone();
    input.cwd = examples().join(project);
    let mut child = Command::new("sh")
        .args(["-c", line])
        .current_dir(&input.cwd)
        .envs(entry.dialect.environment(&input))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let reported = entry.dialect.write(entry, &input).unwrap();
    child.stdin.take().unwrap().write_all(&reported).unwrap();
    let done = child.wait_with_output().unwrap();
    let ended = HandlerResponse {
        code: done.status.code().unwrap_or(-1),
        stdout: done.stdout,
        stderr: done.stderr,
        ..HandlerResponse::default()
    };
    entry.dialect.read(entry, &input, &ended)
}

/// The outputs of all scripts for an event and its tool.
fn fire(file: &str, project: &str, input: &Input) -> Vec<Output> {
    entries(file)
        .iter()
        .filter(|entry| entry.event == input.event)
        .filter(|entry| {
            let tool = input.tool.as_ref();
            tool.is_none_or(|tool| entry.dialect.matches(&entry.matcher, tool))
        })
        .map(|entry| run(entry, input, project).unwrap())
        .collect()
}

fn shell(command: &str) -> Input {
    calling("shell", "command", command)
}

fn calling(tool: &str, argument: &str, value: &str) -> Input {
    let mut tool = ToolUse {
        name: tool.to_owned(),
        ..ToolUse::default()
    };
    tool.input.insert(argument.to_owned(), json!(value));
    Input {
        event: Event::PreToolUse,
        turn_id: "turn-7".to_owned(),
        agent_name: "root".to_owned(),
        tool: Some(tool),
        ..Input::default()
    }
}

fn asking(event: Event, prompt: &str) -> Input {
    Input {
        event,
        prompt: Some(Prompt {
            text: prompt.to_owned(),
            ..Prompt::default()
        }),
        ..Input::default()
    }
}

fn answering(text: &str, stop_hook_active: bool) -> Input {
    Input {
        event: Event::Stop,
        agent_name: "root".to_owned(),
        answer: Some(Answer {
            text: text.to_owned(),
            stop_hook_active,
            ..Answer::default()
        }),
        ..Input::default()
    }
}

const CLAUDE: &str = "claude/.claude/settings.json";

#[test]
fn claude_code_guard_denies_rm_rf_by_exit_code_and_json() {
    let said = fire(CLAUDE, "claude", &shell("rm -rf build"));
    assert_eq!(
        said[0].block.as_deref(),
        Some("rm -rf is not allowed here: rm -rf build")
    );
    let reason = Some("the rule of this project".to_owned());
    assert_eq!(said[1].permission, Some((Decision::Deny, reason.clone())));
    assert_eq!(said.len(), 2, "the guard of files is for other tools");
    let pushed = fire(CLAUDE, "claude", &shell("git push"));
    assert_eq!(pushed[1].permission, Some((Decision::Ask, reason.clone())));
    let listed = fire(CLAUDE, "claude", &shell("ls -l"));
    assert_eq!(listed[1].permission, Some((Decision::Allow, reason)));
    assert_eq!(
        fire(CLAUDE, "claude", &shell("cargo test")),
        [Output::default(), Output::default()]
    );
}

#[test]
fn claude_code_guard_receives_absolute_paths() {
    let said = fire(CLAUDE, "claude", &calling("write_file", "path", ".env"));
    assert!(
        said[0]
            .block
            .as_ref()
            .unwrap()
            .ends_with("claude/.env holds secrets: leave it alone")
    );
    assert_eq!(
        fire(CLAUDE, "claude", &calling("edit_file", "path", "a.rs")),
        [Output::default()]
    );
    assert!(fire(CLAUDE, "claude", &calling("read_file", "path", ".env")).is_empty());
}

#[test]
fn claude_code_script_adds_context_to_a_prompt() {
    let said = fire(CLAUDE, "claude", &asking(Event::UserPromptSubmit, "hello"));
    let context = said[0].additional_context.as_deref();
    assert_eq!(context, Some("The project is called claude."));
}

#[test]
fn claude_code_stop_hook_continues_the_turn_once() {
    let first = fire(CLAUDE, "claude", &answering("done", false));
    assert_eq!(
        first[0].block.as_deref(),
        Some("run the tests before you stop")
    );
    assert_eq!(
        fire(CLAUDE, "claude", &answering("done", true)),
        [Output::default()]
    );
    assert_eq!(
        fire(CLAUDE, "claude", &answering("all tests pass", false)),
        [Output::default()]
    );
}

#[test]
fn docker_agent_hooks_guard_and_report_the_end_of_a_turn() {
    let file = "docker-agent/hooks.yml";
    let denied = fire(file, "docker-agent", &shell("rm -rf build"));
    assert_eq!(denied[0].block.as_deref(), Some("rm -rf is not allowed"));
    let reason = Some("rm -rf is not allowed".to_owned());
    assert_eq!(denied[0].permission, Some((Decision::Deny, reason)));
    assert_eq!(
        fire(file, "docker-agent", &shell("ls")),
        [Output::default()]
    );
    let stopped = fire(file, "docker-agent", &answering("done", false));
    assert_eq!(
        stopped[0].system_message.as_deref(),
        Some("root answered: done")
    );
}

#[test]
fn codex_guard_denies_and_receives_the_turn() {
    let file = "codex/.codex/hooks.json";
    let said = fire(file, "codex", &shell("rm -rf build"));
    let reason = Some("no rm -rf in turn-7".to_owned());
    assert_eq!(said[0].permission, Some((Decision::Deny, reason)));
    assert_eq!(fire(file, "codex", &shell("ls")), [Output::default()]);
}

#[test]
fn gemini_script_answers_instead_of_the_model() {
    let file = "gemini/.gemini/settings.json";
    let call = |text: &str| Input {
        event: Event::BeforeLlmCall,
        messages: vec![Arc::new(Message::user(text))],
        unsent: 1,
        ..Input::default()
    };
    let said = fire(file, "gemini", &call("ping"));
    assert_eq!(said[0].synthetic.as_ref().unwrap().content, "pong");
    assert_eq!(fire(file, "gemini", &call("hello")), [Output::default()]);
    let denied = fire(file, "gemini", &shell("rm -rf build"));
    assert_eq!(denied[0].block.as_deref(), Some("rm -rf is not allowed"));
    assert_eq!(fire(file, "gemini", &shell("ls")), [Output::default()]);
}

#[test]
fn shell_faq_script_answers_turns() {
    let text = std::fs::read_to_string(examples().join("faq.sh")).unwrap();
    assert!(text.lines().count() <= 15);
    let said = fire(
        "hooks.yml",
        "",
        &asking(Event::PreUserTurn, "When are you open?"),
    );
    let answer = said[0].synthetic.as_ref().unwrap();
    assert_eq!(
        answer.content,
        "We are open from 9 to 17 o'clock, Monday to Friday."
    );
    assert_eq!(answer.provenance.as_deref(), Some("the FAQ"));
    let other = fire("hooks.yml", "", &asking(Event::PreUserTurn, "Who are you?"));
    assert_eq!(other, [Output::default()]);
}

#[test]
fn example_input_is_denied_by_the_example_guard() {
    let json = std::fs::read_to_string(examples().join("rm.json")).unwrap();
    let input = parse_input(Event::PreToolUse, &json).unwrap();
    let said = fire("hooks.yml", "", &input);
    assert!(
        said[0]
            .block
            .as_ref()
            .unwrap()
            .starts_with("rm -rf is for people")
    );
}

/// The verdict on an event with the hooks of a file.
async fn verdict(file: &str, project: &str, input: &Input) -> Verdict {
    let mut fixture = hook_dependencies(Builtins::default());
    let path = std::env::var("PATH").unwrap();
    fixture.environment = Arc::new([("PATH".to_owned(), path)].into());
    fixture.directory = examples().join(project);
    let hooks = Hooks::assemble(entries(file), &EmptyAgent, &fixture).unwrap();
    let mut input = input.clone();
    input.cwd = fixture.directory;
    hooks.fire(input).await
}

#[tokio::test]
async fn example_scripts_have_their_effect_in_a_verdict() {
    let rm = shell("rm -rf build");
    for (file, project, reason) in [
        (CLAUDE, "claude", "rm -rf is not allowed here: rm -rf build"),
        (
            "docker-agent/hooks.yml",
            "docker-agent",
            "rm -rf is not allowed",
        ),
        ("codex/.codex/hooks.json", "codex", "no rm -rf in turn-7"),
        (
            "gemini/.gemini/settings.json",
            "gemini",
            "rm -rf is not allowed",
        ),
    ] {
        let denied = verdict(file, project, &rm).await;
        let denial = denied
            .denial()
            .unwrap_or_else(|| panic!("{file}: {denied:?}"));
        assert!(denial.contains(reason), "{file}: {denial}");
        let listed = verdict(file, project, &shell("cargo test")).await;
        assert_eq!(listed.denial(), None, "{file}");
        assert_eq!(listed.messages, [""; 0], "{file}");
    }
    let back = verdict(CLAUDE, "claude", &answering("done", false)).await;
    assert_eq!(
        back.continue_reason.as_deref(),
        Some("run the tests before you stop")
    );
    let reported = verdict(CLAUDE, "claude", &asking(Event::UserPromptSubmit, "hello")).await;
    assert_eq!(reported.context, ["The project is called claude."]);
}

#[tokio::test]
async fn claude_code_script_sets_variables_for_later_commands() {
    let start = Input {
        event: Event::SessionStart,
        session_id: "s-1".to_owned(),
        ..Input::default()
    };
    let started = verdict(CLAUDE, "claude", &start).await;
    let set = [("PROJECT_STAGE".to_owned(), "test".to_owned())].into();
    assert_eq!((started.environment, started.messages), (set, vec![]));
}

#[tokio::test]
async fn claude_code_plugin_guards_matching_commands() {
    let file = "plugin/hooks/hooks.json";
    let forced = verdict(file, "plugin", &shell("cd a && git push --force")).await;
    assert_eq!(forced.denial(), Some("no forced pushes"));
    for line in ["git push", "echo git push --force"] {
        let other = verdict(file, "plugin", &shell(line)).await;
        assert_eq!((other.decision, other.messages), (None, vec![]), "{line}");
    }
}
