//! A conversation that is summarized.

use super::{asked_last, with_scripted_model};
use crate::bodies;
use crate::provider::{Provider, SCRIPTED_MODEL, SHELL};
use crate::support::Home;
use crate::terminal::Terminal;

#[test]
fn compacted_conversation_continues_from_the_summary() {
    const SCRIPT: &str = r#"
rules:
  - {user: '(and now|later)', steps: [{text: 'I go on: {{1}}'}]}
  - {user: 'continued from a summary', steps: [{text: They spoke of whales.}]}
otherwise: {text: 'I was told: {{user}}'}
"#;
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPT).accepting_anything());
    home.write("agent.yaml", SHELL);
    let mut command = home.command(&["chat", "agent.yaml", "--hooks", "hooks.yaml"]);
    home.write(
        "hooks.yaml",
        "
hooks:
  pre_compact: [{type: command, command: 'echo pre_compact >> told'}]
  before_compaction: [{type: command, command: 'echo before >> told'}]
  after_compaction: [{type: command, command: 'echo after >> told'}]
",
    );
    provider.known_to(&mut command);
    let mut terminal = Terminal::start(&mut command);
    for word in ["blue", "sperm", "minke"] {
        terminal
            .prompt()
            .say(word)
            .see(&format!("I was told: {word}"));
    }
    terminal
        .prompt()
        .say("/compact")
        .see("was summarized")
        .prompt()
        .say("and now")
        .see("I go on: and now");
    let text = terminal.prompt().leave();
    assert!(!text.contains("error:"), "{text}");
    let received = provider.received();
    assert_eq!(received.len(), 5, "{text}");
    // The summary is asked for behind the conversation as it was sent, and a new one begins with it.
    let (before, after) = received.split_at(4);
    bodies::check(before);
    bodies::check(after);
    let body = asked_last(&provider);
    assert!(
        body.contains("They spoke of whales.") && body.contains("and now"),
        "{body}"
    );
    assert!(
        !body.contains("sperm"),
        "what was summarized is not sent: {body}"
    );
    let reported = std::fs::read_to_string(home.join("told")).unwrap();
    assert_eq!(reported, "pre_compact\nbefore\nafter\n");
    let listed = home.run(&["sessions", "ls", "--json"]).ok().json();
    let name = listed[0]["id"].as_str().unwrap();
    let shown = home.run(&["sessions", "show", name]).ok();
    assert!(
        shown.stdout.contains("They spoke of whales.") && shown.stdout.contains("and now"),
        "{shown}"
    );
    // It goes on from there in another process, too.
    let next = home.ask(&provider, &["agent.yaml", "--session", name], "later");
    assert_eq!(next.ok().stdout, "I go on: later\n");
    assert!(asked_last(&provider).contains("They spoke of whales."));
}

#[test]
fn an_empty_conversation_is_reported_as_not_summarizable() {
    let (home, provider) = with_scripted_model(Home::new());
    let mut command = home.command(&["chat", "agent.yaml"]);
    provider.known_to(&mut command);
    let mut terminal = Terminal::start(&mut command);
    terminal
        .prompt()
        .say("/compact")
        .see("the conversation is empty; nothing can be summarized")
        .prompt();
    terminal.say("hello").see("I was told: hello");
    terminal.prompt().leave();
    assert_eq!(provider.received().len(), 1);
}

#[test]
fn hook_can_block_or_supply_a_summary() {
    let home = Home::new();
    home.write("agent.yaml", SHELL);
    // A conversation after compaction starts a new prefix.
    let provider = Provider::scripted(SCRIPTED_MODEL).accepting_anything();
    for (hook, seen, is_summarized) in [
        (
            "echo 'keep it' >&2; exit 2",
            "a hook does not want it: keep",
            false,
        ),
        (
            "echo '{\"hook_specific_output\": {\"summary\": \"By a script.\"}}'",
            "was summarized",
            true,
        ),
    ] {
        home.write(
            "hooks.json",
            serde_json::json!({"hooks": {"before_compaction": [{"type": "command", "command": hook}]}})
                .to_string(),
        );
        let before = provider.received().len();
        let mut command = home.command(&["chat", "agent.yaml", "--hooks", "hooks.json"]);
        provider.known_to(&mut command);
        let mut terminal = Terminal::start(&mut command);
        terminal.prompt().say("blue").see("I was told: blue");
        terminal.prompt().say("/compact").see(seen);
        terminal
            .prompt()
            .say("more")
            .see("I was told: ")
            .prompt()
            .leave();
        assert_eq!(
            provider.received().len(),
            before + 2,
            "no model was asked for one"
        );
        let body = asked_last(&provider);
        assert_eq!(body.contains("By a script."), is_summarized, "{body}");
        assert_eq!(body.contains("blue"), !is_summarized, "{body}");
    }
}

#[test]
fn hooks_receive_start_and_end_reasons_of_a_session() {
    let home = Home::new();
    home.write("agent.yaml", SHELL);
    let provider = Provider::scripted(SCRIPTED_MODEL).accepting_anything();
    let flags = [
        "--hook-session-start",
        r#"how=$(sed 's/.*"source" *: *"\([a-z]*\)".*/\1/'); echo "$how" >> told; echo 'It is noon.'"#,
        "--hook-session-end",
        "echo end >> told",
    ];
    let start = |arguments: &[&str]| {
        let mut command = home.command(&[&["chat", "agent.yaml"], &flags[..], arguments].concat());
        provider.known_to(&mut command);
        Terminal::start(&mut command)
    };
    let reported = || std::fs::read_to_string(home.join("told")).unwrap_or_default();
    let mut terminal = start(&[]);
    terminal.prompt().say("one").see("I was told: one");
    assert!(
        asked_last(&provider).contains("It is noon."),
        "{}",
        asked_last(&provider)
    );
    terminal.prompt().say("/compact").see("was summarized");
    terminal.prompt().say("/new").see("session ");
    terminal.prompt().say("two").see("I was told: two");
    let text = terminal.prompt().leave();
    let words: Vec<String> = reported().split_whitespace().map(str::to_owned).collect();
    assert_eq!(
        words,
        ["startup", "compact", "end", "clear", "end"],
        "{text}"
    );
    let session = text
        .lines()
        .find_map(|line| line.strip_prefix("to continue: "))
        .and_then(|line| line.split(' ').next_back())
        .unwrap();
    let mut terminal = start(&["--session", session]);
    terminal.prompt().say("three").see("I was told: three");
    terminal.prompt().leave();
    assert!(reported().contains("end\nresume\nend\n"), "{}", reported());
}
