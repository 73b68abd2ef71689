//! Answers that are given again in a conversation.

use super::{Fixture, PLAIN, agent};
use crate::terminal::Terminal;

fn chat(fixture: &Fixture, arguments: &[&str]) -> Terminal {
    let mut command = fixture
        .home
        .command(&[&["chat", "agent.yaml"], arguments].concat());
    fixture.provider.known_to(&mut command);
    command.env("USER", "ada");
    Terminal::start(&mut command)
}

#[test]
fn fresh_command_requests_a_new_answer() {
    let fixture = Fixture::of(PLAIN, &agent(", match: question"));
    let mut terminal = chat(&fixture, &[]);
    terminal.prompt().say("one").see("I was told: one\n");
    terminal
        .prompt()
        .say("one")
        .see("I was told: one\n")
        .see("answered before, ")
        .see("0 tokens in, 0 out · $0.00 · saved 1 ");
    assert_eq!(fixture.requests(), 1);
    terminal
        .prompt()
        .say("/fresh one")
        .see("I was told: one\n")
        .see("tokens in");
    assert_eq!(fixture.requests(), 2);
    terminal
        .prompt()
        .say("/fresh")
        .see("the next message gets a new answer")
        .prompt()
        .say("one")
        .see("I was told: one\n")
        .see("tokens in");
    assert_eq!(fixture.requests(), 3);
    // It holds for that message alone.
    terminal.prompt().say("one").see("answered before, ");
    let text = terminal.prompt().leave();
    assert_eq!(fixture.requests(), 3, "{text}");
    assert_eq!(fixture.entries().len(), 1);
    assert_eq!(text.matches("answered before").count(), 2, "{text}");
}

#[test]
fn repeated_conversation_is_replayed_turn_by_turn() {
    let fixture = Fixture::of(PLAIN, &agent(""));
    for run in 1..=2 {
        let mut terminal = chat(&fixture, &[]);
        for question in ["of whales", "how deep?", "and then?"] {
            terminal
                .prompt()
                .say(question)
                .see(&format!("I was told: {question}\n"))
                .see("tokens in");
        }
        let text = terminal.prompt().leave();
        assert_eq!(fixture.requests(), 3, "{run}: {text}");
        assert_eq!(
            text.matches("answered before").count(),
            3 * (run - 1),
            "{text}"
        );
    }
}

#[test]
fn process_store_replays_within_the_process() {
    let fixture = Fixture::of(PLAIN, &agent(", store: process, match: question"));
    let mut terminal = chat(&fixture, &[]);
    terminal.prompt().say("one").see("I was told: one\n");
    terminal.prompt().say("one").see("answered before, ");
    terminal.prompt().say("/new").see("session ");
    terminal.prompt().say("one").see("answered before, ");
    terminal.prompt().leave();
    assert_eq!(fixture.requests(), 1);
}

#[test]
fn an_answer_does_not_depend_on_the_markers_of_its_request() {
    let agent = agent("").replace("openai/gpt-4o", "anthropic/claude-sonnet-4-5");
    let long = "Answer briefly. ".repeat(400);
    let fixture = Fixture::of(PLAIN, &agent.replace("Answer.", &long));
    let key = |command: &mut std::process::Command| {
        command.env("ANTHROPIC_API_KEY", "x");
    };
    // Through a pipe, nothing later reads what is marked.
    fixture.ask_with(&[], "one", key).ok();
    let mut command = fixture.home.command(&["chat", "agent.yaml"]);
    fixture.provider.known_to(&mut command);
    command.env("USER", "ada").env("ANTHROPIC_API_KEY", "x");
    let mut terminal = Terminal::start(&mut command);
    terminal.prompt().say("one").see("answered before, ");
    terminal.prompt().say("two").see("I was told: two\n");
    terminal.prompt().leave();
    let marked = fixture.provider.received();
    let marked = marked.iter().map(|request| {
        let body = request.json().to_string();
        body.matches("cache_control").count()
    });
    // Then system text, what was said before, and everything.
    assert_eq!(marked.collect::<Vec<_>>(), [0, 3]);
}
