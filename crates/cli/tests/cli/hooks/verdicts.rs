//! Outputs of hooks and the verdict, as text and JSON.

use serde_json::{Value, json};

use super::{LS, RM, project, with_the_examples};
use crate::support::Home;

#[test]
fn the_example_denies_and_reports_each_handler() {
    let home = with_the_examples();
    let input = ["--input", "examples/hooks/rm.json"];
    let ran = home
        .run(&[&["hooks", "test", "pre_tool_use"][..], &input].concat())
        .ok();
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{ran}");
    let reason = "deny: rm -rf is for people; move it to a trash folder instead";
    assert!(
        lines[1].starts_with("no rm -rf  ") && lines[1].ends_with(reason),
        "{ran}"
    );
    assert_eq!(lines[0], format!("pre_tool_use: {reason}"));
    assert_eq!(ran.stderr, "");

    let reported = home
        .run(&[&["hooks", "test", "pre_tool_use", "--json"][..], &input].concat())
        .ok()
        .json();
    assert_eq!(reported["event"], "pre_tool_use");
    assert_eq!(reported["decision"], "deny");
    assert_eq!(reported["handlers"][0]["handler"], "no rm -rf");
    assert_eq!(reported["handlers"][0]["said"], reason);
    assert!(reported["handlers"][0]["fault"].is_null(), "{reported}");
    assert!(
        reported["handlers"][0]["ms"].as_f64().unwrap() > 0.0,
        "it is a process: {reported}"
    );
}

#[test]
fn a_call_without_a_denial_proceeds() {
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
    assert!(ran.stdout.contains("no output\n"), "{ran}");
    assert!(
        ran.stdout.starts_with("pre_tool_use: goes ahead\n"),
        "{ran}"
    );
}

#[test]
fn hooks_try_prints_a_row_per_handler_and_the_strictest_verdict() {
    let home = project("claude");
    let ran = home
        .try_hooks("pre_tool_use", &["--hooks", ".claude/settings.json"], RM)
        .ok();
    let rows: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(rows.len(), 3, "{ran}");
    assert!(rows[1].contains("guard.sh") && rows[1].contains("deny: rm -rf is not allowed here"));
    assert!(
        rows[2].contains("guard_json.sh") && rows[2].contains("deny: the rule of this project")
    );
    let pushed = RM.replace("rm -rf build", "git push origin");
    let reported = home
        .try_hooks(
            "pre_tool_use",
            &["--hooks", ".claude/settings.json"],
            &pushed,
        )
        .ok();
    assert!(
        reported
            .stdout
            .starts_with("pre_tool_use: ask: the rule of this project\n"),
        "{reported}"
    );
}

#[test]
fn hooks_try_prints_output_beside_the_decision() {
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
            .starts_with("stop: continues: run the tests before you stop\n"),
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
fn an_event_without_hooks_is_reported() {
    let home = with_the_examples();
    let ran = home
        .try_hooks("stop", &["--hooks", "examples/hooks/hooks.yml"], "{}")
        .ok();
    assert_eq!(ran.stdout, "stop: no hook is configured\n");
    // A matcher that fits another tool is no reader either.
    let other = RM.replace("shell", "read_file");
    let ran = home
        .try_hooks(
            "pre_tool_use",
            &["--hooks", "examples/hooks/hooks.yml"],
            &other,
        )
        .ok();
    assert_eq!(ran.stdout, "pre_tool_use: no hook is configured\n");
    let reported = home
        .try_hooks(
            "stop",
            &["--hooks", "examples/hooks/hooks.yml", "--json"],
            "{}",
        )
        .ok()
        .json();
    assert_eq!(
        (&reported["handlers"], &reported["decision"]),
        (&json!([]), &Value::Null)
    );
}

#[test]
fn hooks_try_output_has_no_control_characters() {
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
fn stop_hook_row_and_verdict_have_the_same_text() {
    let home = project("claude");
    let stop = r#"{"stop_response": "Done."}"#;
    let ran = home
        .try_hooks("stop", &["--hooks", ".claude/settings.json"], stop)
        .ok();
    let rows: Vec<&str> = ran.stdout.lines().collect();
    let reported = "continues: run the tests before you stop";
    assert!(rows[1].ends_with(&format!("  {reported}")), "{ran}");
    assert_eq!(rows[0], format!("stop: {reported}"), "{ran}");
    // Whose dialect cannot send an agent back blocks nothing, and its row does not say so.
    home.write(
        "hooks.yaml",
        "hooks: {stop: [{name: guard, type: command, command: 'echo not yet >&2; exit 2'}]}\n",
    );
    let ran = home
        .try_hooks("stop", &["--hooks", "hooks.yaml"], stop)
        .ok();
    let rows: Vec<&str> = ran.stdout.lines().collect();
    assert!(rows[1].ends_with("  wanted to block: not yet"), "{ran}");
    assert_eq!(rows[0], "stop: goes ahead", "{ran}");
}

#[test]
fn rewritten_messages_are_shown_as_sent_to_the_model() {
    let home = Home::new();
    home.write(
        "team.yaml",
        "agents: {root: {model: openai/gpt-4o, redact_secrets: true}}\n",
    );
    let input = r#"{"messages": [
        {"role": "user", "content": "the key is\nghp_0123456789abcdefghijklmnopqrstuvwxyzAB"},
        {"role": "assistant", "content": "I look.", "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "shell", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "nothing"}]}"#;
    let ran = home
        .try_hooks("before_llm_call", &["--file", "team.yaml"], input)
        .ok();
    let expected = "  updated_messages:
    user: the key is
      [secret]
    assistant: I look.
    assistant: [calls shell {}]
    user: [result of call_1] nothing
";
    assert!(ran.stdout.ends_with(expected), "{ran}");
    let reported = home
        .try_hooks("before_llm_call", &["--file", "team.yaml", "--json"], input)
        .ok()
        .json();
    assert_eq!(
        reported["said"]["updated_messages"][0],
        json!({"role": "user", "content": "the key is\n[secret]"}),
        "{reported}"
    );
}
