//! Turns beside each other, and turns that end otherwise than with an answer.

use cachalot_cache::{CacheMode, CallStatus};
use cachalot_hooks::{Builtin as _, Event};

use super::ON;
use crate::answering::{Turn, WORTH, making, world};

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
    assert!(rows.iter().all(|row| row.answered == CallStatus::Miss));
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

const SECTIONS: [&str; 3] = [
    ON,
    "{enabled: true, store: process}",
    "{enabled: true, path: answers.json}",
];

fn rejected(turn: &Turn) -> Turn {
    turn.clone()
        .answered(|answer| answer.rejected = Some("tests are missing".to_owned()))
}

/// Also if the process is killed behind the rejection: nothing was stored before it.
#[tokio::test]
async fn an_answer_that_a_hook_rejected_is_never_stored() {
    for section in SECTIONS {
        let world = world(section);
        let turn = world.numbered(Turn::saying("q"));
        world.begin(&turn).await;
        world.stop(&rejected(&turn), "half an answer").await;
        assert!(world.entries().await.is_empty(), "{section}");
        let elsewhere = Turn::saying("q").in_session("t");
        assert!(!world.ask(elsewhere.clone(), "").await.is_replay());
        let again = turn
            .clone()
            .answered(|answer| answer.stop_hook_active = true);
        world.stop(&again, "the whole answer").await;
        world.end(&turn).await;
        assert!(!world.ask(elsewhere, "").await.is_replay(), "{section}");
    }
}

#[tokio::test]
async fn a_turn_whose_last_answer_was_rejected_is_paid_for_in_the_ledger() {
    for section in [ON, "{enabled: true, path: answers.json}"] {
        let world = world(section);
        let turn = world.numbered(Turn::saying("q"));
        world.begin(&turn).await;
        world.stop(&rejected(&turn), "half an answer").await;
        world.end(&turn).await;
        let rows = world.rows().await;
        assert_eq!((rows.len(), rows[0].paid), (1, WORTH), "{section}");
        let said = (rows[0].not_stored.clone()).or(rows[0].reason.clone());
        let said = said.unwrap();
        assert!(said.contains("tests are missing"), "{section}: {said}");
    }
}

#[tokio::test]
async fn a_replay_that_a_hook_rejected_is_erased_at_once() {
    for section in SECTIONS {
        let world = world(section);
        assert!(world.keeps(Turn::saying("q"), "half an answer").await);
        let turn = world.numbered(Turn::saying("q"));
        assert!(world.begin(&turn).await.synthetic.is_some());
        let replayed = rejected(&turn).answered(|answer| answer.synthetic = true);
        world.stop(&replayed, "half an answer").await;
        // The turn has not ended, and may never.
        let elsewhere = Turn::saying("q").in_session("t");
        assert!(!world.ask(elsewhere, "").await.is_replay(), "{section}");
    }
}

#[tokio::test]
async fn a_run_that_only_reads_says_how_to_erase_a_replay_that_a_hook_rejected() {
    let stored = world(ON);
    assert!(stored.keeps(Turn::saying("q"), "so").await);
    for mode in [CacheMode::ReadOnly, CacheMode::Frozen] {
        let world = making(ON).beside(&stored).mode(mode).make();
        let turn = world.numbered(Turn::saying("q"));
        let replay = world.begin(&turn).await.synthetic.unwrap();
        let input = cachalot_hooks::Input {
            answer: Some(rejected(&turn).answer),
            ..turn.input(Event::Stop)
        };
        let fault = world.builtin.run(&[], &input).await.unwrap_err();
        let remedy = format!("`cachalot cache rm {}`", replay.metadata["key"]);
        assert!(fault.message.contains(&remedy), "{fault}");
        world.end(&turn).await;
    }
    assert_eq!(stored.entries().await.len(), 1);
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
    assert!(why.contains("sent another message"), "{why}");
}
