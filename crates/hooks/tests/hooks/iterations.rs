//! `max_iterations`: a turn makes so many model calls and no more.

use cachalot_hooks::{Event, Input, Output};

use crate::seam::{Agent, World};

fn call(iteration: u32) -> Input {
    Input {
        event: Event::BeforeLlmCall,
        iteration,
        ..Input::default()
    }
}

#[tokio::test]
async fn the_call_behind_the_last_is_blocked_with_a_reason() {
    let world = World::new();
    for iteration in 0..=3 {
        let output = world.run("max_iterations", &["3"], &call(iteration)).await;
        assert_eq!(output.unwrap(), Output::default(), "{iteration}");
    }
    for iteration in [4, 5, u32::MAX] {
        let output = world.run("max_iterations", &["3"], &call(iteration)).await;
        let reason = output.unwrap().block.unwrap();
        assert!(reason.contains("has made 3 model calls"), "{reason}");
    }
}

#[tokio::test]
async fn nothing_is_remembered_from_one_turn_to_the_next() {
    let world = World::new();
    let blocked = world.run("max_iterations", &["1"], &call(2)).await.unwrap();
    assert!(blocked.block.unwrap().contains("1 model call,"));
    let next = world.run("max_iterations", &["1"], &call(1)).await.unwrap();
    assert_eq!(next, Output::default());
}

#[test]
fn a_number_is_needed_that_makes_sense() {
    let world = World::new();
    for (arguments, expected) in [
        (&[][..], "how many model calls"),
        (&["0"], "from 1 to 4294967295, but is given `0`"),
        (&["-1"], "is given `-1`"),
        (&["many"], "is given `many`"),
        (&["4294967296"], "is given `4294967296`"),
        (&["2.5"], "is given `2.5`"),
        (&["3", "4"], "is given `4`, too"),
    ] {
        let refusal = world.refusal("max_iterations", arguments);
        assert!(refusal.contains(expected), "{refusal}");
        assert!(refusal.contains("; "), "no remedy: {refusal}");
    }
}

#[test]
fn it_is_never_injected() {
    let world = World::new();
    let agent = Agent::of("root", &["openai/gpt-4o"], "max_iterations: 3");
    assert_eq!(world.injected("max_iterations", &agent), []);
}
