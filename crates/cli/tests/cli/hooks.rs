//! `cachalot hooks test`, and the schemas of hooks.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Home, Ran, Server};

/// A home with the examples of hooks.
pub(crate) fn with_the_examples() -> Home {
    let home = Home::new();
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hooks"));
    copy(examples, &home.join("examples/hooks"));
    home
}

/// A copy keeps what may be run.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A project with the hooks of another runtime, as its folder in the examples has them.
pub(crate) fn project(of: &str) -> Home {
    let home = Home::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hooks");
    copy(&Path::new(examples).join(of), home.path());
    home.write("rm.json", RM);
    home
}

const RM: &str = r#"{"tool_name": "shell", "tool_input": {"command": "rm -rf build"}}"#;
const LS: &str = r#"{"tool_name": "shell", "tool_input": {"command": "ls"}}"#;

impl Home {
    /// `cachalot hooks test …` with the input on stdin.
    fn try_hooks(&self, event: &str, arguments: &[&str], input: impl AsRef<[u8]>) -> Ran {
        let arguments = [&["hooks", "test", event, "--input", "-"], arguments].concat();
        let mut child = self
            .command(&arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that fails does not read it.
        let _ = child.stdin.take().unwrap().write_all(input.as_ref());
        child.wait_with_output().unwrap().into()
    }
}

/// The words of a message, whose lines are wrapped.
pub(crate) fn words(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|sign: char| sign.is_whitespace() || sign == '│')
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ")
}

#[test]
fn the_example_denies_and_tells_each_handler() {
    let home = with_the_examples();
    let input = ["--input", "examples/hooks/rm.json"];
    let ran = home
        .run(&[&["hooks", "test", "pre_tool_use"][..], &input].concat())
        .ok();
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{ran}");
    let reason = "deny: rm -rf is for people; move it to a trash folder instead";
    assert!(
        lines[0].starts_with("no rm -rf  ") && lines[0].ends_with(reason),
        "{ran}"
    );
    assert_eq!(lines[1], format!("pre_tool_use: {reason}"));
    assert_eq!(ran.stderr, "");

    let told = home
        .run(&[&["hooks", "test", "pre_tool_use", "--json"][..], &input].concat())
        .ok()
        .json();
    assert_eq!(told["event"], "pre_tool_use");
    assert_eq!(told["decision"], "deny");
    assert_eq!(told["handlers"][0]["handler"], "no rm -rf");
    assert_eq!(told["handlers"][0]["said"], reason);
    assert!(told["handlers"][0]["fault"].is_null(), "{told}");
    assert!(
        told["handlers"][0]["ms"].as_f64().unwrap() > 0.0,
        "it is a process: {told}"
    );
}

#[test]
fn what_nobody_denies_goes_ahead() {
    let home = with_the_examples();
    home.write("examples/hooks/ls.json", LS);
    let ran = home
        .run(&[
            "hooks",
            "test",
            "pre_tool_use",
            "--input",
            "examples/hooks/ls.json",
        ])
        .ok();
    assert!(ran.stdout.contains("nothing to say\n"), "{ran}");
    assert!(ran.stdout.ends_with("pre_tool_use: goes ahead\n"), "{ran}");
}

#[test]
fn the_dialects_of_the_examples_deny_in_their_projects() {
    let cases = [
        (
            "claude",
            ".claude/settings.json",
            "rm -rf is not allowed here: rm -rf build",
        ),
        ("codex", ".codex/hooks.json", "no rm -rf in turn-1"),
        ("gemini", ".gemini/settings.json", "rm -rf is not allowed"),
        ("docker-agent", "hooks.yml", "rm -rf is not allowed"),
    ];
    for (dialect, file, reason) in cases {
        let home = project(dialect);
        let input = RM.replacen('{', r#"{"turn_id": "turn-1", "#, 1);
        let ran = home
            .try_hooks("pre_tool_use", &["--hooks", file, "--json"], &input)
            .ok();
        let told = ran.json();
        assert_eq!(told["decision"], "deny", "{dialect}: {ran}");
        assert_eq!(told["reason"], reason, "{dialect}: {ran}");
        let faults: Vec<&Value> = told["handlers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|handler| &handler["fault"])
            .collect();
        assert!(
            faults.iter().all(|fault| fault.is_null()),
            "{dialect}: {ran}"
        );
        // They lie beside the input, too, so that nobody has to name them.
        let beside = home
            .run(&["hooks", "test", "pre_tool_use", "--input", "rm.json"])
            .ok();
        assert!(
            beside.stdout.contains("pre_tool_use: deny: "),
            "{dialect}: {beside}"
        );
        let ls = home
            .try_hooks("pre_tool_use", &["--hooks", file, "--json"], LS)
            .ok();
        assert_ne!(ls.json()["decision"], "deny", "{dialect}: {ls}");
    }
}

#[test]
fn each_handler_has_a_row_and_the_strictest_wins() {
    let home = project("claude");
    let ran = home
        .try_hooks("pre_tool_use", &["--hooks", ".claude/settings.json"], RM)
        .ok();
    let rows: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(rows.len(), 3, "{ran}");
    assert!(rows[0].contains("guard.sh") && rows[0].contains("deny: rm -rf is not allowed here"));
    assert!(
        rows[1].contains("guard_json.sh") && rows[1].contains("deny: the rule of this project")
    );
    let pushed = RM.replace("rm -rf build", "git push origin");
    let told = home
        .try_hooks(
            "pre_tool_use",
            &["--hooks", ".claude/settings.json"],
            &pushed,
        )
        .ok();
    assert!(
        told.stdout
            .ends_with("pre_tool_use: ask: the rule of this project\n"),
        "{told}"
    );
}

#[test]
fn what_is_said_beside_a_decision_is_shown() {
    let home = project("claude");
    let ran = home
        .try_hooks(
            "user_prompt_submit",
            &["--hooks", ".claude/settings.json"],
            r#"{"prompt": "hello"}"#,
        )
        .ok();
    let name = home.path().file_name().unwrap().to_str().unwrap();
    assert!(
        ran.stdout.contains(&format!(
            "additional_context: The project is called {name}."
        )),
        "{ran}"
    );
    let stop = r#"{"stop_response": "Done."}"#;
    let ran = home
        .try_hooks("stop", &["--hooks", ".claude/settings.json"], stop)
        .ok();
    assert!(
        ran.stdout
            .ends_with("stop: goes on: run the tests before you stop\n"),
        "{ran}"
    );
    let home = with_the_examples();
    let asked = r#"{"prompt": "What are your opening hours?"}"#;
    let file = ["--hooks", "examples/hooks/hooks.yml"];
    let ran = home.try_hooks("pre_user_turn", &file, asked).ok();
    assert!(
        ran.stdout
            .contains("pre_user_turn: answered without a model\n"),
        "{ran}"
    );
    assert!(
        ran.stdout
            .contains("synthetic_response: We are open from 9 to 17 o'clock, Monday to Friday.\n"),
        "{ran}"
    );
}

#[test]
fn an_event_that_nobody_hears_of_says_so() {
    let home = with_the_examples();
    let ran = home
        .try_hooks("stop", &["--hooks", "examples/hooks/hooks.yml"], "{}")
        .ok();
    assert_eq!(ran.stdout, "stop: no hook is told of this\n");
    // A matcher that fits another tool is no reader either.
    let other = RM.replace("shell", "read_file");
    let ran = home
        .try_hooks(
            "pre_tool_use",
            &["--hooks", "examples/hooks/hooks.yml"],
            &other,
        )
        .ok();
    assert_eq!(ran.stdout, "pre_tool_use: no hook is told of this\n");
    let told = home
        .try_hooks(
            "stop",
            &["--hooks", "examples/hooks/hooks.yml", "--json"],
            "{}",
        )
        .ok()
        .json();
    assert_eq!(
        (&told["handlers"], &told["decision"]),
        (&json!([]), &Value::Null)
    );
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_ends_with_2() {
    let home = with_the_examples();
    let ran = home.try_hooks("pre_tol_use", &[], RM).fails(2);
    assert!(ran.stderr.contains("did you mean `pre_tool_use`?"), "{ran}");
    for (input, expected) in [
        (
            "{\"tool_name\": \"shell\",\n \"tool_input\": }",
            &["stdin", "line 2"][..],
        ),
        (r#"{"tool_name": 3}"#, &["stdin", "`tool_name`"]),
        ("[]", &["stdin", "object"]),
        (
            r#"{"stop_response": "x"}"#,
            &["`pre_tool_use` are not told `stop_response`"],
        ),
        ("", &["stdin", "JSON"]),
    ] {
        let ran = home.try_hooks("pre_tool_use", &[], input).fails(2);
        assert_eq!(ran.stdout, "");
        let said = words(&ran.stderr);
        for expected in expected {
            assert!(said.contains(expected), "{expected}: {ran}");
        }
    }
    let ran = home.try_hooks("stop", &[], b"\xff\xfe").fails(2);
    assert!(words(&ran.stderr).contains("stdin is not UTF-8"), "{ran}");
    let missing = |arguments: &[&str], name: &str| {
        let ran = home.run(&[&["hooks", "test", "stop"], arguments].concat());
        let ran = ran.fails(2);
        assert!(words(&ran.stderr).contains(name), "{name}: {ran}");
    };
    missing(&["--input", "nope.json"], "nope.json: No such file");
    home.write("none.json", "{}");
    let input = ["--input", "none.json"];
    missing(&[&input[..], &["--hooks", "nope.yml"]].concat(), "nope.yml");
    missing(
        &[&input[..], &["--file", "nope.yaml"]].concat(),
        "nope.yaml",
    );
    missing(&[], "--input");

    home.write("bad.yml", "hooks:\n  pre_tool_use:\n    - matcher: '('\n      hooks: [{type: command, command: 'true'}]\n  stopp: []\n");
    let ran = home
        .try_hooks("pre_tool_use", &["--hooks", "bad.yml"], RM)
        .fails(2);
    let said = words(&ran.stderr);
    for expected in ["bad.yml:3:", "stopp", "bad.yml:5:", "did you mean `stop`?"] {
        assert!(said.contains(expected), "{expected}: {ran}");
    }
}

#[test]
fn the_hooks_of_an_agent_are_tried() {
    let home = Home::new();
    home.write(
        "team.yaml",
        "
agents:
  root:
    model: openai/gpt-4o
    hooks:
      pre_tool_use:
        - matcher: shell
          hooks: [{name: ours, type: command, command: 'echo nobody does that >&2; exit 2'}]
  helper:
    model: openai/gpt-4o
    hooks:
      stop: [{name: theirs, type: command, command: 'true'}]
",
    );
    let ran = home
        .try_hooks("pre_tool_use", &["--file", "team.yaml"], RM)
        .ok();
    assert!(
        ran.stdout
            .ends_with("pre_tool_use: deny: nobody does that\n"),
        "{ran}"
    );
    let helper = ["--file", "team.yaml", "--agent", "helper"];
    let ran = home.try_hooks("pre_tool_use", &helper, RM).ok();
    assert!(ran.stdout.contains("no hook is told"), "{ran}");
    let ran = home.try_hooks("stop", &helper, "{}").ok();
    assert!(ran.stdout.starts_with("theirs  "), "{ran}");
    // The input may name the agent.
    let named = r#"{"agent_name": "helper"}"#;
    let ran = home.try_hooks("stop", &["--file", "team.yaml"], named).ok();
    assert!(ran.stdout.starts_with("theirs  "), "{ran}");
    let wrong = ["--file", "team.yaml", "--agent", "helpr"];
    let ran = home.try_hooks("stop", &wrong, "{}").fails(2);
    assert!(ran.stderr.contains("did you mean `helper`?"), "{ran}");
    home.try_hooks("stop", &["--agent", "helper"], "{}")
        .fails(2);
}

#[test]
fn a_hook_that_fails_is_told_and_denies_where_that_is_the_rule() {
    let home = Home::new();
    home.write(
        "hooks.yaml",
        "
hooks:
  pre_tool_use: [{hooks: [{name: slow, type: command, command: sleep 20, timeout: 1}]}]
  post_tool_use: [{hooks: [{name: gone, type: command, command: ./not_there.sh}]}]
  stop: [{name: silent, type: command, command: exit 7}]
",
    );
    let hooks = ["--hooks", "hooks.yaml"];
    let begun = std::time::Instant::now();
    let ran = home.try_hooks("pre_tool_use", &hooks, RM).ok();
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(10),
        "{ran}"
    );
    assert!(ran.stdout.starts_with("slow  "), "{ran}");
    assert!(ran.stdout.contains("pre_tool_use: deny: "), "{ran}");
    assert!(
        ran.stdout.contains("within 1s"),
        "the limit is named: {ran}"
    );
    let ran = home.try_hooks("post_tool_use", &hooks, RM).ok();
    assert!(
        ran.stdout.contains("not_there.sh") && ran.stdout.contains("post_tool_use: goes ahead"),
        "{ran}"
    );
    let told = home
        .try_hooks("stop", &["--hooks", "hooks.yaml", "--json"], "{}")
        .ok()
        .json();
    let fault = told["handlers"][0]["fault"].as_str().unwrap();
    assert!(fault.contains('7'), "{told}");
    assert!(told["decision"].is_null(), "{told}");
}

#[test]
fn a_server_is_asked_like_a_script() {
    let home = Home::new();
    let server = Server::start(r#"{"decision": "block", "reason": "the server says no"}"#);
    home.write(
        "hooks.yaml",
        format!(
            "hooks: {{pre_tool_use: [{{hooks: [{{type: http, url: '{}/guard'}}]}}]}}\n",
            server.url()
        ),
    );
    let ran = home
        .try_hooks("pre_tool_use", &["--hooks", "hooks.yaml"], RM)
        .ok();
    assert!(
        ran.stdout
            .ends_with("pre_tool_use: deny: the server says no\n"),
        "{ran}"
    );
    let requests = server.requests();
    assert!(requests[0].starts_with("POST /guard "), "{requests:?}");
    assert!(requests[0].contains("rm -rf build"), "{requests:?}");
    server.stop();
    // One that is not there denies where that is the rule.
    let ran = home
        .try_hooks("pre_tool_use", &["--hooks", "hooks.yaml"], RM)
        .ok();
    assert!(ran.stdout.contains("pre_tool_use: deny: "), "{ran}");
    assert!(ran.stdout.contains("cannot connect"), "{ran}");
}

#[test]
fn what_hooks_say_does_not_command_the_terminal() {
    let home = Home::new();
    home.write(
        "hooks.yaml",
        r#"
hooks:
  pre_tool_use:
    - hooks:
        - {name: "na\e[31mme", type: command, command: 'printf "\033]0;owned\007 no\033[2J\r" >&2; exit 2'}
  user_prompt_submit:
    - {name: context, type: command, command: 'printf "\033[31mred\033[0m"'}
"#,
    );
    for (event, input) in [
        ("pre_tool_use", RM),
        ("user_prompt_submit", r#"{"prompt": "x"}"#),
    ] {
        let ran = home
            .try_hooks(event, &["--hooks", "hooks.yaml"], input)
            .ok();
        let all = ran.to_string();
        assert!(
            !all.contains('\u{1b}') && !all.contains('\u{7}') && !all.contains('\r'),
            "{all:?}"
        );
        assert!(all.contains('␛'), "it is seen: {all}");
    }
}

#[test]
fn the_schemas_of_hooks_name_every_event() {
    let home = Home::new();
    let told = home.run(&["schema", "hooks"]).ok().json();
    let events = [
        "session_start",
        "user_prompt_submit",
        "pre_user_turn",
        "turn_start",
        "before_llm_call",
        "after_llm_call",
        "tool_input_transform",
        "tool_guard",
        "pre_tool_use",
        "permission_request",
        "tool_response_transform",
        "post_tool_use",
        "turn_end",
        "stop",
        "subagent_stop",
        "on_agent_switch",
        "pre_compact",
        "before_compaction",
        "after_compaction",
        "on_user_input",
        "on_max_iterations",
        "on_error",
        "notification",
        "session_end",
    ];
    for event in events {
        let schemas = &told["events"][event];
        assert!(schemas["input"]["properties"].is_object(), "{event}");
        assert!(schemas["output"].is_object(), "{event}");
        assert!(told["hooks"]["properties"][event].is_object(), "{event}");
    }
    assert_eq!(told["events"].as_object().unwrap().len(), events.len());
    let agent = home.run(&["schema"]).ok();
    assert_eq!(agent.stdout, home.run(&["schema", "agent"]).ok().stdout);
    assert!(agent.json()["properties"]["nodes"].is_object(), "{agent}");
    home.run(&["schema", "hook"]).fails(2);
}
