//! The question before a message that makes the provider read an expired prefix anew.
#![cfg(unix)]

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{Clock as _, ManualClock, SecretSet, SystemClock};
use cachalot_prompt::Sessions;
use cachalot_store::sqlite::{SqliteOptions, SqliteStore};

use crate::provider::{Provider, SCRIPTED_MODEL};
use crate::support::Home;
use crate::terminal::{ESCAPE, Terminal};

/// A home with an agent whose guard asks above a cent. Its system text costs $0.026 more to write than to read.
fn with_guard() -> Home {
    let home = Home::new();
    let instruction = "Be brief. ".repeat(3_000);
    home.write(
        "agent.yaml",
        format!(
            "agents:\n  root:\n    model: anthropic/claude-sonnet-4-5\n    instruction: {instruction}\n    prefix: {{guard: {{above: $0.01}}}}\n"
        ),
    );
    home
}

fn chat(home: &Home, provider: &Provider, arguments: &[&str], terminal: &str) -> Terminal {
    let mut command = home.command(&[&["chat", "agent.yaml"], arguments].concat());
    provider.known_to(&mut command);
    command.env("ANTHROPIC_API_KEY", "x").env("TERM", terminal);
    Terminal::start(&mut command)
}

/// Holds a conversation with one message, which ended three hours ago. Returns the name of its session.
fn earlier_session(home: &Home, provider: &Provider) -> String {
    let mut terminal = chat(home, provider, &[], "xterm-256color");
    terminal.prompt().say("one").see("I was told: one");
    terminal.prompt().leave();
    let listed = home.run(&["sessions", "ls", "--json"]).ok().json();
    let session = listed[0]["id"].as_str().unwrap().to_owned();
    let age = i64::try_from(Duration::from_hours(3).as_millis()).unwrap();
    let clock = Arc::new(ManualClock::at(SystemClock.now() - age));
    let store = SqliteStore::open(&home.database(), SqliteOptions::new(clock.clone())).unwrap();
    let sessions = Sessions::new(Arc::new(store), clock, Arc::new(SecretSet::empty()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut opened = sessions.open(&session).await.unwrap().unwrap();
        opened.save().await.unwrap();
    });
    session
}

#[test]
fn message_after_hours_is_sent_only_if_the_user_agrees() {
    let (home, provider) = (with_guard(), Provider::scripted(SCRIPTED_MODEL));
    let session = earlier_session(&home, &provider);
    let mut terminal = chat(&home, &provider, &["--resume", &session], "xterm-256color");
    terminal.prompt().say("two");
    terminal
        .see("idle for 3 h, and the provider keeps its prefix for 5 min")
        .see("tokens anew, for $0.03 more than from its cache")
        .see("instead: /compact")
        .see("send it?  [y] yes  [n] no")
        .answer("n")
        .see("not sent");
    let shown = home.run(&["sessions", "show", &session]).ok().stdout;
    assert!(!shown.contains("two"), "{shown}");
    assert_eq!(provider.received().len(), 1);
    // The message is in the input line again.
    terminal.see("> two").press("\r").see("send it?");
    terminal.press(ESCAPE).see("not sent");
    assert_eq!(provider.received().len(), 1);
    terminal
        .see("> two")
        .press("\r")
        .see("send it?")
        .answer("y");
    terminal.see("  sent").see("I was told: two");
    // The prefix is cached again.
    terminal.prompt().say("three").see("I was told: three");
    let text = terminal.prompt().leave();
    assert_eq!(text.matches("idle for").count(), 3, "{text}");
    assert_eq!(provider.received().len(), 3);
}

#[test]
fn summary_is_not_asked_about_and_pipes_are_not_asked() {
    let home = with_guard();
    let provider = Provider::scripted(SCRIPTED_MODEL).accepting_anything();
    let session = earlier_session(&home, &provider);
    let mut terminal = chat(&home, &provider, &["--resume", &session], "dumb");
    terminal.see("\n> ").say("two");
    terminal
        .see("send it? [y]es, [n]o: ")
        .say("")
        .see("not sent");
    terminal.see("\n> ").say("/compact");
    terminal
        .see("idle for 3 h")
        .see("; the summary makes it read about ")
        .see("\n> ");
    assert_eq!(provider.received().len(), 2);
    terminal.leave();
    let session = earlier_session(&home, &provider);
    let arguments = ["agent.yaml", "--session", &session];
    let ran = home.ask_with(&provider, &arguments, b"two", |command| {
        command.env("ANTHROPIC_API_KEY", "x");
    });
    let ran = ran.ok();
    assert!(ran.stdout.contains("I was told: two"), "{ran}");
    assert!(!ran.stderr.contains("idle for"), "{ran}");
}
