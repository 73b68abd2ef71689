//! Hooks that fail, hang, deny and say odd things.

use std::time::{Duration, Instant};

use super::{ask, with_scripted_model};
use crate::hooks::words;
use crate::provider::session;
use crate::support::Home;

#[test]
fn problems_of_a_named_file_are_reported_before_the_first_turn() {
    let (home, provider) = with_scripted_model(Home::new());
    home.write("bad.json", r#"{"hooks": {"PreToolUse": [}}"#);
    for (file, expected) in [("bad.json", "bad.json:1:"), ("nope.yml", "nope.yml")] {
        let ran = ask(&home, &provider, file, "hello").fails(2);
        assert!(words(&ran.stderr).contains(expected), "{expected}: {ran}");
        assert_eq!(ran.stdout, "");
    }
    assert_eq!(provider.received().len(), 0);
}

#[test]
fn hanging_hook_is_killed_and_named() {
    let (home, provider) = with_scripted_model(Home::new());
    // This dialect counts milliseconds.
    home.write(
        ".gemini/settings.json",
        r#"{"hooks": {"BeforeModel": [{"hooks": [
            {"name": "the slow one", "type": "command", "command": "exec sleep 300", "timeout": 200}
        ]}]}}"#,
    );
    let begun = Instant::now();
    let ran = ask(&home, &provider, ".gemini/settings.json", "hello").ok();
    assert!(begun.elapsed() < Duration::from_secs(120), "{ran}");
    assert_eq!(ran.stdout, "I was told: hello\n");
    assert!(
        ran.stderr.contains("warning: ")
            && ran.stderr.contains("the slow one")
            && ran.stderr.contains("200ms"),
        "{ran}"
    );
}

#[test]
fn failing_hook_denies_at_a_fail_closed_event() {
    let (home, provider) = with_scripted_model(Home::new());
    for (hook, expected) in [
        ("command: ./not_there.sh", "not_there.sh"),
        ("command: 'sleep 30', timeout: 1", "1s"),
    ] {
        home.write(
            "hooks.yaml",
            format!(
                "hooks:\n  pre_tool_use:\n    - hooks: [{{name: the guard, type: command, {hook}}}]\n"
            ),
        );
        let ran = ask(&home, &provider, "hooks.yaml", "run touch made").ok();
        assert!(!home.join("made").exists(), "{ran}");
        let all = words(&ran.to_string());
        assert!(
            all.contains("the guard") && all.contains(expected),
            "{expected}: {ran}"
        );
    }
}

#[test]
fn denied_prompt_is_not_sent() {
    let (home, provider) = with_scripted_model(Home::new());
    home.write(
        "hooks.yaml",
        "hooks:\n  user_prompt_submit: [{type: command, command: 'echo not today >&2; exit 2'}]\n",
    );
    let ran = ask(&home, &provider, "hooks.yaml", "hello").fails(1);
    assert_eq!(provider.received().len(), 0);
    assert!(ran.stderr.contains("not today"), "{ran}");
    assert_eq!(ran.stdout, "");
}

#[test]
fn hook_output_in_a_chat_has_no_control_characters() {
    let (home, provider) = with_scripted_model(Home::new());
    home.write(
        "hooks.yaml",
        r#"
hooks:
  pre_tool_use:
    - hooks: [{type: command, command: 'printf "no\033[2J\007" >&2; exit 2'}]
  pre_user_turn:
    - {name: "n\e[31m", type: command, command: "printf '{\"system_message\": \"\\u001b[31mred\\u0007\"}'"}
"#,
    );
    let ran = ask(&home, &provider, "hooks.yaml", "run touch made").ok();
    assert!(!home.join("made").exists(), "{ran}");
    assert!(ran.stderr.contains("red"), "{ran}");
    assert!(
        !ran.stderr.contains('\u{1b}') && !ran.stderr.contains('\u{7}'),
        "{:?}",
        ran.stderr
    );
    let shown = home.run(&["sessions", "show", &session(&ran)]).ok();
    assert!(
        !shown.stdout.contains('\u{1b}') && !shown.stdout.contains('\u{7}'),
        "{shown}"
    );
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_hook_that_hangs() {
    use crate::support::CommandOutput;
    use rustix::process::{Pid, Signal, kill_process, test_kill_process};
    use std::io::Write as _;
    use std::process::Stdio;
    let (home, provider) = with_scripted_model(Home::new());
    let hook = "echo $$ > pid.new; mv pid.new pid; exec sleep 1000";
    for event in ["--hook-pre-tool-use", "--hook-stop", "--hook-session-start"] {
        let _ = std::fs::remove_file(home.join("pid"));
        let mut command = home.command(&["chat", "agent.yaml", "--yes", event, hook]);
        provider.known_to(&mut command);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"run true").unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !home.join("pid").exists() {
            assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(5));
        }
        let begun = Instant::now();
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let ran: CommandOutput = child.wait_with_output().unwrap().into();
        assert!(begun.elapsed() < Duration::from_secs(60), "{event}: {ran}");
        let ran = ran.fails(130);
        assert!(ran.stderr.contains("interrupted"), "{event}: {ran}");
        assert_eq!(ran.stdout, "", "{event}");
        if event == "--hook-stop" {
            let reported = "hooks of `stop` were cut off";
            assert!(ran.stderr.contains(reported), "{ran}");
            // The answer is whole, and in the session.
            let shown = home.run(&["sessions", "show", &session(&ran)]).ok();
            assert!(shown.stdout.contains("It said: "), "{shown}");
        }
        let text = std::fs::read_to_string(home.join("pid")).unwrap();
        let sleeping = Pid::from_raw(text.trim().parse().unwrap()).unwrap();
        while test_kill_process(sleeping).is_ok() {
            assert!(Instant::now() < deadline, "{event}: the hook still runs");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_hook_that_hangs_between_turns() {
    use crate::terminal::{CTRL_C, Terminal};
    let (home, provider) = with_scripted_model(Home::new());
    let slow = "echo begun >> told; exec sleep 1000";
    let mut command = home.command(&[
        "chat",
        "agent.yaml",
        "--hook-on-user-input",
        slow,
        "--hook-session-end",
        slow,
    ]);
    provider.known_to(&mut command);
    let begun = Instant::now();
    let mut terminal = Terminal::start(&mut command);
    let hooks_begun = |count: usize| {
        let reported = || std::fs::read_to_string(home.join("told")).unwrap_or_default();
        while reported().lines().count() < count {
            assert!(begun.elapsed() < Duration::from_secs(180));
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    hooks_begun(1);
    terminal.press(CTRL_C).prompt();
    terminal.say("hello").see("I was told: hello");
    hooks_begun(2);
    terminal.press(CTRL_C).prompt().say("/quit");
    hooks_begun(3);
    terminal.press(CTRL_C).see("to continue: ");
    assert_eq!(terminal.ended(), Some(0), "{}", terminal.text());
    assert!(begun.elapsed() < Duration::from_secs(180));
}

#[cfg(unix)]
#[test]
fn hook_output_on_a_terminal_has_no_control_characters() {
    use crate::terminal::Terminal;
    let (home, provider) = with_scripted_model(Home::new());
    home.write(
        "hooks.yaml",
        r#"
hooks:
  user_prompt_submit:
    - {type: command, command: 'if grep -q bad; then printf "no\033[2Jno" >&2; exit 2; fi'}
  pre_user_turn:
    - type: command
      command: |
        if grep -q ping; then
          printf '{"hook_specific_output": {"synthetic_response": {"content": "po\\u001b[2Jng", "provenance": "a\\u001b[2Jb"}}, "system_message": "x\\u001b[2Jy"}'
        fi
"#,
    );
    let mut command = home.command(&["chat", "agent.yaml", "--hooks", "hooks.yaml"]);
    provider.known_to(&mut command);
    let mut terminal = Terminal::start(&mut command);
    terminal.prompt().say("bad").see("no␛[2Jno");
    terminal.prompt().say("ping").see("po␛[2Jng").see("a␛[2Jb");
    let text = terminal.prompt().leave();
    assert!(text.contains("x␛[2Jy"), "{text}");
    assert!(!terminal.raw().contains("\u{1b}[2J"), "{text}");
    let ran = ask(&home, &provider, "hooks.yaml", "bad").fails(1);
    assert!(ran.stderr.contains("no␛[2Jno"), "{ran}");
}
