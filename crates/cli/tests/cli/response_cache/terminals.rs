//! Answers that are given again in a conversation.

use super::{PLAIN, World, agent};
use crate::terminal::Terminal;

fn chat(world: &World, arguments: &[&str]) -> Terminal {
    let mut command = world
        .home
        .command(&[&["chat", "agent.yaml"], arguments].concat());
    world.provider.known_to(&mut command);
    command.env("USER", "ada");
    Terminal::start(&mut command)
}

#[test]
fn a_new_answer_is_wanted_with_fresh() {
    let world = World::of(PLAIN, &agent(", match: question"));
    let mut terminal = chat(&world, &[]);
    terminal.prompt().say("one").see("I was told: one\n");
    terminal
        .prompt()
        .say("one")
        .see("I was told: one\n")
        .see("answered before, ")
        .see("0 tokens in, 0 out · $0 · saved 1 ");
    assert_eq!(world.requests(), 1);
    terminal
        .prompt()
        .say("/fresh one")
        .see("I was told: one\n")
        .see("tokens in");
    assert_eq!(world.requests(), 2);
    terminal
        .prompt()
        .say("/fresh")
        .see("the next message gets a new answer")
        .prompt()
        .say("one")
        .see("I was told: one\n")
        .see("tokens in");
    assert_eq!(world.requests(), 3);
    // It holds for that message alone.
    terminal.prompt().say("one").see("answered before, ");
    let text = terminal.prompt().leave();
    assert_eq!(world.requests(), 3, "{text}");
    assert_eq!(world.entries().len(), 1);
    assert_eq!(text.matches("answered before").count(), 2, "{text}");
}

#[test]
fn a_conversation_that_was_held_before_is_answered_again_turn_by_turn() {
    let world = World::of(PLAIN, &agent(""));
    for run in 1..=2 {
        let mut terminal = chat(&world, &[]);
        for question in ["of whales", "how deep?", "and then?"] {
            terminal
                .prompt()
                .say(question)
                .see(&format!("I was told: {question}\n"))
                .see("tokens in");
        }
        let text = terminal.prompt().leave();
        assert_eq!(world.requests(), 3, "{run}: {text}");
        assert_eq!(
            text.matches("answered before").count(),
            3 * (run - 1),
            "{text}"
        );
    }
}

#[test]
fn what_is_kept_in_a_process_is_given_again_in_it() {
    let world = World::of(PLAIN, &agent(", store: process, match: question"));
    let mut terminal = chat(&world, &[]);
    terminal.prompt().say("one").see("I was told: one\n");
    terminal.prompt().say("one").see("answered before, ");
    terminal.prompt().say("/new").see("session ");
    terminal.prompt().say("one").see("answered before, ");
    terminal.prompt().leave();
    assert_eq!(world.requests(), 1);
}

#[test]
fn an_answer_does_not_depend_on_the_markers_of_its_request() {
    let agent = agent("").replace("openai/gpt-4o", "anthropic/claude-sonnet-4-5");
    let long = "Answer briefly. ".repeat(400);
    let world = World::of(PLAIN, &agent.replace("Answer.", &long));
    let key = |command: &mut std::process::Command| {
        command.env("ANTHROPIC_API_KEY", "x");
    };
    // Through a pipe, nothing later reads what is marked.
    world.ask_with(&[], "one", key).ok();
    let mut command = world.home.command(&["chat", "agent.yaml"]);
    world.provider.known_to(&mut command);
    command.env("USER", "ada").env("ANTHROPIC_API_KEY", "x");
    let mut terminal = Terminal::start(&mut command);
    terminal.prompt().say("one").see("answered before, ");
    terminal.prompt().say("two").see("I was told: two\n");
    terminal.prompt().leave();
    let marked = world.provider.received();
    let marked = marked.iter().map(|request| {
        let body = request.json().to_string();
        body.matches("cache_control").count()
    });
    // Then system text, what was said before, and everything.
    assert_eq!(marked.collect::<Vec<_>>(), [0, 3]);
}
