//! `max_iterations`: a turn makes so many model calls and no more.

use cachalot_hooks::{Event, Input, Output};

use crate::seam::{Agent, Fixture};

fn call(iteration: u32) -> Input {
    Input {
        event: Event::BeforeLlmCall,
        iteration,
        ..Input::default()
    }
}

#[tokio::test]
async fn call_beyond_the_limit_is_blocked_with_a_reason() {
    let fixture = Fixture::new();
    for iteration in 0..=3 {
        let output = fixture
            .run("max_iterations", &["3"], &call(iteration))
            .await;
        assert_eq!(output.unwrap(), Output::default(), "{iteration}");
    }
    for iteration in [4, 5, u32::MAX] {
        let output = fixture
            .run("max_iterations", &["3"], &call(iteration))
            .await;
        let reason = output.unwrap().block.unwrap();
        assert!(reason.contains("has made 3 model calls"), "{reason}");
    }
}

#[tokio::test]
async fn iteration_count_is_not_kept_between_turns() {
    let fixture = Fixture::new();
    let blocked = fixture
        .run("max_iterations", &["1"], &call(2))
        .await
        .unwrap();
    assert!(blocked.block.unwrap().contains("1 model call,"));
    let next = fixture
        .run("max_iterations", &["1"], &call(1))
        .await
        .unwrap();
    assert_eq!(next, Output::default());
}

#[test]
fn invalid_limit_is_refused() {
    let fixture = Fixture::new();
    for (arguments, expected) in [
        (&[][..], "how many model calls"),
        (&["0"], "from 1 to 4294967295, but is given `0`"),
        (&["-1"], "is given `-1`"),
        (&["many"], "is given `many`"),
        (&["4294967296"], "is given `4294967296`"),
        (&["2.5"], "is given `2.5`"),
        (&["3", "4"], "is given `4`, too"),
    ] {
        let refusal = fixture.refusal("max_iterations", arguments);
        assert!(refusal.contains(expected), "{refusal}");
        assert!(refusal.contains("; "), "no remedy: {refusal}");
    }
}

#[test]
fn max_iterations_is_never_injected() {
    let fixture = Fixture::new();
    let agent = Agent::of("root", &["openai/gpt-4o"], "max_iterations: 3");
    assert_eq!(fixture.injected("max_iterations", &agent), []);
}
