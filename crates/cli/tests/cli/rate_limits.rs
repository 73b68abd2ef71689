//! Rate limits of providers: what the user sees while one is waited for, and how the wait ends. No test waits.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::provider::Provider;
use crate::support::Home;

/// A provider that limits the rate of every request, and asks to wait for this time.
fn limited(retry_after: &str) -> Provider {
    Provider::scripted(&format!(
        "otherwise: {{text: never, fault: {{status: 429, retry_after: {retry_after}}}}}"
    ))
}

fn home(settings: &str) -> Home {
    let home = Home::new();
    home.write(
        "workflow.yaml",
        format!(
            "models: {{m: {{provider: openai, model: gpt-4o{settings}}}}}\nnodes:\n  - name: ask\n    uses: llm.call\n    with: {{model: m, prompt: hello}}\n"
        ),
    );
    home.write(
        "agent.yaml",
        format!(
            "models: {{m: {{provider: openai, model: gpt-4o{settings}}}}}\nagents: {{root: {{model: m}}}}\n"
        ),
    );
    home
}

const COMMANDS: [&[&str]; 2] = [&["run", "workflow.yaml"], &["chat", "agent.yaml", "hello"]];

fn command(home: &Home, provider: &Provider, arguments: &[&str]) -> Command {
    let mut command = home.command(arguments);
    provider.known_to(&mut command);
    command.env("OPENAI_API_KEY", "sk-x");
    command
}

#[test]
fn wait_is_shown_and_ends_with_ctrl_c() {
    let (home, provider) = (home(""), limited("250s"));
    for arguments in COMMANDS {
        let mut child = command(&home, &provider, arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let shown = lines.find(|line| line.as_ref().unwrap().contains("rate limit"));
        assert_eq!(
            shown.unwrap().unwrap(),
            "warning: openai/gpt-4o: rate limit (429); asking again in 4 min, waiting at most 5 min in all (`rate_limit_wait`); Ctrl-C ends it",
            "{arguments:?}"
        );
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    }
    // Each command has asked once.
    assert_eq!(provider.received().len(), COMMANDS.len());
}

#[test]
fn longer_wait_than_permitted_is_an_error_at_once() {
    for (settings, retry_after, limit) in [
        ("", "1h", "longer than `rate_limit_wait` (5m)"),
        (
            ", rate_limit_wait: 10s",
            "11s",
            "longer than `rate_limit_wait` (10s)",
        ),
    ] {
        let (home, provider) = (home(settings), limited(retry_after));
        for arguments in COMMANDS {
            let ran: crate::support::CommandOutput = command(&home, &provider, arguments)
                .output()
                .unwrap()
                .into();
            let ran = ran.fails(1);
            assert!(ran.unwrapped().contains(limit), "{ran}");
            assert!(!ran.stderr.contains("asking again"), "{ran}");
        }
        assert_eq!(provider.received().len(), COMMANDS.len());
    }
}
