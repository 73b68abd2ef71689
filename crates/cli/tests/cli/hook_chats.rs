//! Chats with hooks: real scripts that deny, add, answer and fail.

#[cfg(unix)]
mod compaction;
mod faults;
mod keys;
mod mcp_tool;

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::hooks::{project, with_the_examples, words};
use crate::provider::{Provider, SCRIPTED_MODEL, SHELL, session};
use crate::support::{CommandOutput, Home};

fn with_scripted_model(home: Home) -> (Home, Provider) {
    home.write("agent.yaml", SHELL);
    (home, Provider::scripted(SCRIPTED_MODEL))
}

/// Asks with the hooks of a file; what is not denied is allowed.
fn ask(home: &Home, provider: &Provider, hooks: &str, question: &str) -> CommandOutput {
    home.ask(
        provider,
        &["agent.yaml", "--yes", "--hooks", hooks],
        question,
    )
}

/// The text of the last request.
fn asked_last(provider: &Provider) -> String {
    String::from_utf8_lossy(&provider.received().last().unwrap().body).into_owned()
}

#[test]
fn claude_code_guard_denies_before_the_tool_runs() {
    let (home, provider) = with_scripted_model(project("claude"));
    let build = home.write("build/marker", "here");
    let hooks = ".claude/settings.json";
    let ran = ask(&home, &provider, hooks, "run rm -rf build tests").ok();
    assert!(build.exists(), "{ran}");
    assert!(
        ran.stdout.contains("rm -rf is not allowed here"),
        "the model is told why: {ran}"
    );
    assert!(ran.stderr.contains("refused"), "{ran}");
    // What its script allows runs.
    let ran = ask(&home, &provider, hooks, "run ls build; echo tests").ok();
    assert!(ran.stdout.contains("marker"), "{ran}");
}

#[test]
fn guards_of_all_dialects_deny() {
    for (dialect, file) in [
        ("codex", ".codex/hooks.json"),
        ("gemini", ".gemini/settings.json"),
        ("docker-agent", "hooks.yml"),
    ] {
        let (home, provider) = with_scripted_model(project(dialect));
        let build = home.write("build/marker", "here");
        let ran = ask(&home, &provider, file, "run rm -rf build").ok();
        assert!(build.exists(), "{dialect}: {ran}");
        assert!(ran.stdout.contains("rm -rf"), "{dialect}: {ran}");
        assert!(ran.stderr.contains("refused"), "{dialect}: {ran}");
        ask(&home, &provider, file, "run touch made").ok();
        assert!(home.join("made").exists(), "{dialect}");
    }
}

#[test]
fn ask_of_a_hook_without_a_terminal_is_denied() {
    let (home, provider) = with_scripted_model(project("claude"));
    let ran = home
        .ask(
            &provider,
            &["agent.yaml", "--hooks", ".claude/settings.json"],
            "run git push tests",
        )
        .ok();
    assert!(
        ran.stderr.contains("no user is present to approve it"),
        "{ran}"
    );
}

#[test]
fn prompt_script_context_is_sent_to_the_model_once() {
    let provider = Provider::scripted("otherwise: {text: The tests pass.}");
    let home = project("claude");
    home.write("agent.yaml", SHELL);
    let ran = ask(&home, &provider, ".claude/settings.json", "say tests").ok();
    let name = home.path().file_name().unwrap().to_str().unwrap();
    let context = format!("The project is called {name}.");
    let messages = provider.received()[0].json()["messages"].clone();
    let reported = messages[1]["content"].to_string();
    assert!(reported.contains(&context), "{messages}");
    assert!(reported.contains("say tests"), "{messages}");
    assert_eq!(messages[0]["content"], "Run what you are told.");
    // It goes in once, and stays where it was sent.
    let next = home.ask(
        &provider,
        &["agent.yaml", "--session", &session(&ran)],
        "more",
    );
    next.ok();
    let body = asked_last(&provider);
    assert_eq!(body.matches(&context).count(), 1, "{body}");
}

#[test]
fn claude_code_stop_hook_continues_the_turn_once() {
    const SCRIPT: &str = "
rules: [{user: run the tests, steps: [{text: The tests pass.}]}]
otherwise: {text: Done.}
";
    let (home, provider) = (project("claude"), Provider::scripted(SCRIPT));
    home.write("agent.yaml", SHELL);
    let ran = ask(&home, &provider, ".claude/settings.json", "hello").ok();
    assert_eq!(ran.stdout, "The tests pass.\n");
    assert_eq!(provider.received().len(), 2, "{ran}");
    assert!(
        asked_last(&provider).contains("run the tests before you stop"),
        "{}",
        asked_last(&provider)
    );
}

#[test]
fn docker_agent_stop_hook_receives_the_answer() {
    let (home, provider) = with_scripted_model(project("docker-agent"));
    let ran = ask(&home, &provider, "hooks.yml", "hello").ok();
    assert_eq!(ran.stdout, "I was told: hello\n");
    assert!(
        ran.stderr.contains("root answered: I was told: hello"),
        "{ran}"
    );
}

#[test]
fn gemini_before_model_hook_answers_without_a_request() {
    let (home, provider) = with_scripted_model(project("gemini"));
    let ran = ask(&home, &provider, ".gemini/settings.json", "ping").ok();
    assert_eq!(ran.stdout, "pong\n", "{ran}");
    assert_eq!(provider.received().len(), 0);
    // The session has it, and the model is told of it.
    let arguments = ["agent.yaml", "--session", &session(&ran)];
    let next = home.ask(&provider, &arguments, "hello").ok();
    assert_eq!(next.stdout, "I was told: hello\n");
    let messages = provider.received()[0].json()["messages"].clone();
    assert_eq!(messages[2]["role"], "assistant", "{messages}");
    assert!(messages[2].to_string().contains("pong"), "{messages}");
}

#[test]
fn fifteen_line_script_answers_a_turn() {
    let (home, provider) = with_scripted_model(with_the_examples());
    let script = std::fs::read_to_string(home.join("examples/hooks/faq.sh")).unwrap();
    assert!(script.lines().count() <= 15, "{script}");
    let hooks = "examples/hooks/hooks.yml";
    let ran = ask(&home, &provider, hooks, "What are your opening hours?").ok();
    assert_eq!(
        ran.stdout,
        "We are open from 9 to 17 o'clock, Monday to Friday.\n"
    );
    assert!(ran.stderr.contains("the FAQ"), "{ran}");
    assert_eq!(provider.received().len(), 0);
    let shown = home.run(&["sessions", "show", &session(&ran)]).ok();
    assert!(shown.stdout.contains("  (the FAQ)\n"), "{shown}");
    // The end-of-turn hook receives that no model gave the answer.
    let arguments = [
        "agent.yaml",
        "--json",
        "--hooks",
        hooks,
        "--hook-stop",
        "cat > stop.json",
    ];
    let reported = home
        .ask(&provider, &arguments, "May I have my money back?")
        .ok()
        .json();
    let stop: Value =
        serde_json::from_slice(&std::fs::read(home.join("stop.json")).unwrap()).unwrap();
    assert_eq!(stop["synthetic"], true, "{stop}");
    assert_eq!(stop["stop_response"], reported["answer"]);
    assert_eq!(reported["answered_by"], "the FAQ");
    assert_eq!(reported["report"]["model_calls"], 0);
    let other = ask(&home, &provider, hooks, "hello").ok();
    assert_eq!(other.stdout, "I was told: hello\n");
}

#[test]
fn hooks_are_configured_by_command_line_flags() {
    let (home, provider) = with_scripted_model(Home::new());
    let flags = [
        "agent.yaml",
        "--yes",
        "--hook-session-start",
        "echo start >> told",
        "--hook-pre-tool-use",
        "echo pre >> told",
        "--hook-post-tool-use",
        "echo post >> told",
        "--hook-stop",
        "echo stop >> told",
        "--hook-session-end",
        "echo end >> told",
    ];
    home.ask(&provider, &flags, "run true").ok();
    let reported = std::fs::read_to_string(home.join("told")).unwrap();
    assert_eq!(reported, "start\npre\npost\nstop\nend\n");

    let deny = "echo 'not on a Sunday' >&2; exit 2";
    let ran = home
        .ask(
            &provider,
            &["agent.yaml", "--yes", "--hook-pre-tool-use", deny],
            "run touch made",
        )
        .ok();
    assert!(!home.join("made").exists());
    assert!(ran.stdout.contains("not on a Sunday"), "{ran}");
}

#[test]
fn hook_inputs_match_their_event() {
    let (home, provider) = with_scripted_model(Home::new());
    let flags = [
        "agent.yaml",
        "--yes",
        "--hook-pre-tool-use",
        "cat > pre.json",
        "--hook-stop",
        "cat > stop.json",
    ];
    let ran = home.ask(&provider, &flags, "run echo hi").ok();
    let read = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(home.join(name)).unwrap()).unwrap()
    };
    let pre = read("pre.json");
    assert_eq!(pre["hook_event_name"], "pre_tool_use");
    assert_eq!(pre["tool_name"], "shell");
    assert_eq!(pre["tool_input"]["command"], "echo hi");
    assert_eq!(pre["session_id"], session(&ran));
    assert_eq!(pre["agent_name"], "root");
    let cwd = PathBuf::from(pre["cwd"].as_str().unwrap());
    assert_eq!(cwd, home.path().canonicalize().unwrap());
    let stop = read("stop.json");
    assert_eq!(stop["stop_response"], "It said: hi\n[exit status 0]");
    assert_ne!(stop["synthetic"], true);
    // What it was told can be tried again.
    home.write(
        "hooks.yaml",
        "hooks: {stop: [{type: command, command: 'true'}]}\n",
    );
    for (event, file) in [("stop", "stop.json"), ("pre_tool_use", "pre.json")] {
        home.run(&["hooks", "test", event, "--input", file]).ok();
    }
}

/// A guard in the user's own configuration, which says `who`.
fn guard(who: &str) -> String {
    format!(
        "hooks:\n  pre_tool_use:\n    - matcher: shell\n      hooks: [{{type: command, command: \"echo {who} >&2; exit 2\"}}]\n"
    )
}

#[test]
fn user_configured_hooks_apply_to_every_agent() {
    let (home, provider) = with_scripted_model(Home::new());
    let configured = |command: &mut Command, home: &Home| {
        command.env("XDG_CONFIG_HOME", home.join("configuration"));
    };
    let ask = |question: &str| {
        home.ask_with(
            &provider,
            &["agent.yaml", "--yes"],
            question.as_bytes(),
            |command| configured(command, &home),
        )
    };
    home.write("configuration/cachalot/hooks.yaml", guard("ours alone"));
    let ran = ask("run touch made").ok();
    assert!(ran.stdout.contains("ours alone"), "{ran}");
    std::fs::remove_file(home.join("configuration/cachalot/hooks.yaml")).unwrap();

    // A folder of them.
    home.write(
        "configuration/cachalot/hooks.d/10-ours.yaml",
        guard("of the folder"),
    );
    let ran = ask("run touch made").ok();
    assert!(ran.stdout.contains("of the folder"), "{ran}");
    assert!(!home.join("made").exists());

    // A guard that does not load must not be missing in silence, wherever it stands.
    for file in ["hooks.d/20-broken.yaml", "hooks.yaml"] {
        let file = format!("configuration/cachalot/{file}");
        home.write(&file, "hooks:\n  pre_tol_use: []\n");
        let before = provider.received().len();
        let ran = ask("run touch made").fails(2);
        let said = words(&ran.stderr);
        let place = format!("{}:2:", file.rsplit('/').next().unwrap());
        for expected in [&*place, "pre_tol_use", "did you mean `pre_tool_use`?"] {
            assert!(said.contains(expected), "{expected}: {ran}");
        }
        assert_eq!(provider.received().len(), before, "nothing is paid for");
        assert!(!home.join("made").exists());
        std::fs::remove_file(home.join(&file)).unwrap();
    }
    assert!(ask("run touch made").ok().stdout.contains("of the folder"));
}

#[test]
fn configuration_without_xdg_is_read_from_the_home_directory() {
    let (home, provider) = with_scripted_model(Home::new());
    home.write(".config/cachalot/hooks.yaml", guard("at home"));
    let ran = home
        .ask(&provider, &["agent.yaml", "--yes"], "run touch made")
        .ok();
    assert!(ran.stdout.contains("at home"), "{ran}");
    assert!(!home.join("made").exists());
}

#[test]
fn user_configured_hooks_apply_to_agents_of_workflows() {
    let (home, provider) = with_scripted_model(Home::new());
    home.write(".config/cachalot/hooks.yaml", guard("in workflows"));
    let node =
        "nodes: [{name: ask, uses: agent.run, with: {input: run touch made}, output: answer}]";
    home.write(
        "work.yaml",
        format!("{SHELL}permissions: {{allow: [shell]}}\n{node}\n"),
    );
    let mut command = home.command(&["run", "work.yaml", "-q"]);
    provider.known_to(&mut command);
    let ran: CommandOutput = command.output().unwrap().into();
    let answer = ran.ok().json()["answer"]["text"].to_string();
    assert!(answer.contains("in workflows"), "{answer}");
    assert!(!home.join("made").exists());
}

/// Scripts that read the transcript of a session.
#[test]
fn claude_code_stop_hook_reads_the_transcript() {
    let (home, provider) = with_scripted_model(Home::new());
    home.write(
        ".claude/settings.json",
        r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "sh ./look.sh"}]}]}}"#,
    );
    home.write(
        "look.sh",
        "#!/bin/sh\npath=$(sed -n 's/.*\"transcript_path\" *: *\"\\([^\"]*\\)\".*/\\1/p')\ngrep -o '\"name\":\"Bash\"' \"$path\" > seen\ngrep -c . \"$path\" >> seen\n",
    );
    ask(&home, &provider, ".claude/settings.json", "run echo tests").ok();
    // The question, the call, its result, the answer.
    assert_eq!(
        std::fs::read_to_string(home.join("seen")).unwrap(),
        "\"name\":\"Bash\"\n4\n"
    );
}

#[test]
fn session_start_variables_are_passed_to_shell_commands() {
    let (home, provider) = with_scripted_model(project("claude"));
    let hooks = ".claude/settings.json";
    let ran = ask(
        &home,
        &provider,
        hooks,
        "run echo stage=$PROJECT_STAGE; echo tests",
    )
    .ok();
    assert!(ran.stdout.contains("stage=test"), "{ran}");
    // The variables belong to the session only.
    let ran = home.ask(
        &provider,
        &["agent.yaml", "--yes"],
        "run echo stage=$PROJECT_STAGE.",
    );
    assert!(ran.ok().stdout.contains("stage=."));
}

#[test]
fn hooks_receive_the_approval_mode() {
    let (home, provider) = with_scripted_model(Home::new());
    let hook = r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "grep -o '\"permission_mode\":\"[a-zA-Z]*\"' >> modes"}]}]}}"#;
    home.write(".claude/settings.json", hook);
    let hooks = ".claude/settings.json";
    ask(&home, &provider, hooks, "run echo one").ok();
    home.ask(&provider, &["agent.yaml", "--hooks", hooks], "run echo two");
    let modes = std::fs::read_to_string(home.join("modes")).unwrap();
    let modes: Vec<&str> = modes.lines().collect();
    assert_eq!(
        modes,
        [
            r#""permission_mode":"bypassPermissions""#,
            r#""permission_mode":"dontAsk""#
        ]
    );
}

#[test]
fn unchanged_prompt_files_are_not_added_again() {
    let (home, provider) = with_scripted_model(Home::new());
    home.write("NOTES.md", "The kettle is in the hut.");
    home.write(
        "agent.yaml",
        format!("{SHELL}    add_prompt_files: [NOTES.md]\n"),
    );
    // The model repeats what it is told: only what the user's messages say counts.
    let reported = || {
        let body: Value = serde_json::from_str(&asked_last(&provider)).unwrap();
        let messages = body["messages"].as_array().unwrap().clone();
        let users = messages.iter().filter(|message| message["role"] == "user");
        users
            .filter(|message| message.to_string().contains("The kettle"))
            .count()
    };
    let name = session(&home.ask(&provider, &["agent.yaml"], "one").ok());
    assert_eq!(reported(), 1);
    let again = ["agent.yaml", "--session", &name];
    home.ask(&provider, &again, "two").ok();
    assert_eq!(reported(), 1, "{}", asked_last(&provider));
    home.write("NOTES.md", "The kettle is in the shed.");
    home.ask(&provider, &again, "three").ok();
    assert_eq!(reported(), 2, "{}", asked_last(&provider));
}
