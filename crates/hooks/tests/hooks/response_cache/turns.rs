//! Turns beside each other, and turns that end otherwise than with an answer.

use cachalot_cache::Answered;
use cachalot_hooks::Event;

use super::ON;
use crate::answering::{Turn, WORTH, world};

#[tokio::test]
async fn two_turns_with_the_same_question_at_the_same_time_both_run() {
    let world = world(ON);
    let one = world.numbered(Turn::saying("?"));
    let other = world.numbered(Turn::saying("?").in_session("t"));
    for turn in [&one, &other] {
        assert_eq!(world.begin(turn).await.synthetic, None);
    }
    world.stop(&one, "first").await;
    world.stop(&other, "second").await;
    for turn in [&one, &other] {
        world.end(turn).await;
    }
    let rows = world.rows().await;
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.answered == Answered::Miss));
    assert!(rows.iter().all(|row| row.paid == WORTH));
    let kept = world.ask(Turn::saying("?"), "").await.replayed().content;
    assert!(["first", "second"].contains(&kept.as_str()));
}

#[tokio::test]
async fn a_turn_that_ends_without_an_answer_leaves_nothing_behind() {
    let world = world(ON);
    for event in [Event::TurnEnd, Event::SessionEnd] {
        let turn = world.numbered(Turn::saying("?"));
        world.begin(&turn).await;
        world.hear(&turn.input(event)).await;
        // Whatever comes after it belongs to no turn.
        world.stop(&turn, "late").await;
        let row = world.row().await;
        assert_eq!(
            row.not_stored.as_deref(),
            Some("the work was abandoned"),
            "{event}"
        );
    }
    assert!(world.entries().await.is_empty());
}

#[tokio::test]
async fn the_end_of_another_session_or_turn_ends_nothing() {
    let world = world(ON);
    let turn = world.numbered(Turn::saying("?"));
    world.begin(&turn).await;
    let other = Turn::saying("?").in_session("t");
    world.hear(&other.input(Event::SessionEnd)).await;
    world.end(&world.numbered(Turn::saying("?"))).await;
    world.stop(&turn, "so").await;
    assert_eq!(world.entries().await.len(), 1);
}

#[tokio::test]
async fn an_answer_after_which_the_turn_went_on_is_taken_back() {
    for section in [ON, "{enabled: true, path: answers.json}"] {
        let world = world(section);
        let turn = world.numbered(Turn::saying("q"));
        world.begin(&turn).await;
        world.stop(&turn, "half an answer").await;
        let again = turn
            .clone()
            .answered(|answer| answer.stop_hook_active = true);
        world.stop(&again, "the whole answer").await;
        world.end(&turn).await;
        assert!(
            !world.ask(Turn::saying("q"), "").await.is_replay(),
            "{section}"
        );
    }
}

#[tokio::test]
async fn what_the_user_says_during_a_turn_keeps_its_answer_out() {
    let world = world(ON);
    let turn = world.numbered(Turn::saying("one"));
    world.begin(&turn).await;
    let more = turn
        .clone()
        .prompted(|prompt| prompt.text = "and two".to_owned());
    world.stop(&more, "both").await;
    let why = world.row().await.not_stored.unwrap();
    assert!(why.contains("said more"), "{why}");
}
