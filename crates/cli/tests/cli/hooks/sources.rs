//! Sources of the hooks that `hooks try` runs.

use serde_json::Value;

use super::{LS, RM, project};
use crate::support::{Home, Server};

#[test]
fn example_dialects_deny_in_their_projects() {
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
        let reported = ran.json();
        assert_eq!(reported["decision"], "deny", "{dialect}: {ran}");
        assert_eq!(reported["reason"], reason, "{dialect}: {ran}");
        let faults: Vec<&Value> = reported["handlers"]
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

/// Settings that were moved, and settings of an administrator.
#[test]
fn dialect_is_detected_by_content_unless_named() {
    for (dialect, from) in [
        ("claude", ".claude/settings.json"),
        ("codex", ".codex/hooks.json"),
        ("gemini", ".gemini/settings.json"),
    ] {
        let home = project(dialect);
        std::fs::rename(home.join(from), home.join("managed-settings.json")).unwrap();
        let hooks = ["--hooks", "managed-settings.json"];
        let named = [&hooks[..], &["--dialect", dialect]].concat();
        for arguments in [&hooks[..], &named] {
            let ran = home.try_hooks("pre_tool_use", arguments, RM).ok();
            assert!(ran.stdout.contains("pre_tool_use: deny: "), "{ran}");
        }
        let wrong = [&hooks[..], &["--dialect", "docker-agent"]].concat();
        let ran = home.try_hooks("pre_tool_use", &wrong, RM).fails(2);
        assert!(ran.stderr.contains("there is no event"), "{ran}");
    }
    let ran = Home::new()
        .try_hooks("stop", &["--dialect", "cloud"], "{}")
        .fails(2);
    assert!(ran.stderr.contains("there is no dialect"), "{ran}");
}

#[test]
fn hooks_try_runs_the_hooks_of_an_agent() {
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
            .starts_with("pre_tool_use: deny: nobody does that\n"),
        "{ran}"
    );
    let helper = ["--file", "team.yaml", "--agent", "helper"];
    let ran = home.try_hooks("pre_tool_use", &helper, RM).ok();
    assert!(ran.stdout.contains("no hook is configured"), "{ran}");
    let ran = home.try_hooks("stop", &helper, "{}").ok();
    assert!(ran.stdout.contains("\ntheirs  "), "{ran}");
    // The input may name the agent.
    let named = r#"{"agent_name": "helper"}"#;
    let ran = home.try_hooks("stop", &["--file", "team.yaml"], named).ok();
    assert!(ran.stdout.contains("\ntheirs  "), "{ran}");
    let wrong = ["--file", "team.yaml", "--agent", "helpr"];
    let ran = home.try_hooks("stop", &wrong, "{}").fails(2);
    assert!(ran.stderr.contains("did you mean `helper`?"), "{ran}");
    home.try_hooks("stop", &["--agent", "helper"], "{}")
        .fails(2);
}

#[test]
fn hooks_try_posts_to_http_hooks() {
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
            .starts_with("pre_tool_use: deny: the server says no\n"),
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
fn hooks_try_reads_cached_answers_and_stores_nothing() {
    let home = Home::new();
    let agent = "agents: {root: {model: openai/gpt-4o, cache: {enabled: true";
    home.write("team.yaml", format!("{agent}}}}}}}\n"));
    home.write("flat.yaml", format!("{agent}, path: answers.json}}}}}}\n"));
    home.write("answers.json", r#"{"how deep?": "2000 metres."}"#);
    let files = home.files();
    let asked = r#"{"prompt": "How deep?"}"#;
    let ran = home
        .try_hooks("pre_user_turn", &["--file", "team.yaml"], asked)
        .ok();
    assert!(ran.stdout.contains("\ncache_response  "), "{ran}");
    assert!(
        ran.stdout.starts_with("pre_user_turn: goes ahead\n")
            && ran.stdout.ends_with("no output\n"),
        "the model would answer: {ran}"
    );
    let answered = r#"{"stop_response": "Deep."}"#;
    let ran = home
        .try_hooks("stop", &["--file", "team.yaml"], answered)
        .ok();
    assert!(ran.stdout.starts_with("stop: goes ahead\n"), "{ran}");
    let ran = home
        .try_hooks("pre_user_turn", &["--file", "flat.yaml"], asked)
        .ok();
    assert!(
        ran.stdout.contains("synthetic_response: 2000 metres.\n"),
        "{ran}"
    );
    assert_eq!(home.files(), files);
}
