//! Turns beside each other, and turns that end otherwise than with an answer.

use cachalot_cache::{CacheMode, CallStatus};
use cachalot_hooks::{Builtin as _, Event};

use super::ON;
use crate::response_cache_fixture::{Turn, WORTH, fixture, fixture_builder};

#[tokio::test]
async fn concurrent_turns_with_one_question_both_run() {
    let fixture = fixture(ON);
    let one = fixture.numbered(Turn::saying("?"));
    let other = fixture.numbered(Turn::saying("?").in_session("t"));
    for turn in [&one, &other] {
        assert_eq!(fixture.begin(turn).await.synthetic, None);
    }
    fixture.stop(&one, "first").await;
    fixture.stop(&other, "second").await;
    for turn in [&one, &other] {
        fixture.end(turn).await;
    }
    let rows = fixture.rows().await;
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.answered == CallStatus::Miss));
    assert!(rows.iter().all(|row| row.paid == WORTH));
    let kept = fixture.ask(Turn::saying("?"), "").await.replayed().content;
    assert!(["first", "second"].contains(&kept.as_str()));
}

#[tokio::test]
async fn turn_without_an_answer_stores_nothing() {
    let fixture = fixture(ON);
    for event in [Event::TurnEnd, Event::SessionEnd] {
        let turn = fixture.numbered(Turn::saying("?"));
        fixture.begin(&turn).await;
        fixture.hear(&turn.input(event)).await;
        // Whatever comes after it belongs to no turn.
        fixture.stop(&turn, "late").await;
        let row = fixture.row().await;
        assert_eq!(
            row.not_stored.as_deref(),
            Some("the work was abandoned"),
            "{event}"
        );
    }
    assert!(fixture.entries().await.is_empty());
}

#[tokio::test]
async fn end_of_another_session_or_turn_is_ignored() {
    let fixture = fixture(ON);
    let turn = fixture.numbered(Turn::saying("?"));
    fixture.begin(&turn).await;
    let other = Turn::saying("?").in_session("t");
    fixture.hear(&other.input(Event::SessionEnd)).await;
    fixture.end(&fixture.numbered(Turn::saying("?"))).await;
    fixture.stop(&turn, "so").await;
    assert_eq!(fixture.entries().await.len(), 1);
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
async fn rejected_answer_is_not_stored() {
    for section in SECTIONS {
        let fixture = fixture(section);
        let turn = fixture.numbered(Turn::saying("q"));
        fixture.begin(&turn).await;
        fixture.stop(&rejected(&turn), "half an answer").await;
        assert!(fixture.entries().await.is_empty(), "{section}");
        let elsewhere = Turn::saying("q").in_session("t");
        assert!(!fixture.ask(elsewhere.clone(), "").await.is_replay());
        let again = turn
            .clone()
            .answered(|answer| answer.stop_hook_active = true);
        fixture.stop(&again, "the whole answer").await;
        fixture.end(&turn).await;
        assert!(!fixture.ask(elsewhere, "").await.is_replay(), "{section}");
    }
}

#[tokio::test]
async fn rejected_last_answer_is_recorded_in_the_ledger() {
    for section in [ON, "{enabled: true, path: answers.json}"] {
        let fixture = fixture(section);
        let turn = fixture.numbered(Turn::saying("q"));
        fixture.begin(&turn).await;
        fixture.stop(&rejected(&turn), "half an answer").await;
        fixture.end(&turn).await;
        let rows = fixture.rows().await;
        assert_eq!((rows.len(), rows[0].paid), (1, WORTH), "{section}");
        let said = (rows[0].not_stored.clone()).or(rows[0].reason.clone());
        let said = said.unwrap();
        assert!(said.contains("tests are missing"), "{section}: {said}");
    }
}

#[tokio::test]
async fn rejected_replay_is_erased() {
    for section in SECTIONS {
        let fixture = fixture(section);
        assert!(fixture.keeps(Turn::saying("q"), "half an answer").await);
        let turn = fixture.numbered(Turn::saying("q"));
        assert!(fixture.begin(&turn).await.synthetic.is_some());
        let replayed = rejected(&turn).answered(|answer| answer.synthetic = true);
        fixture.stop(&replayed, "half an answer").await;
        // The turn has not ended, and may never.
        let elsewhere = Turn::saying("q").in_session("t");
        assert!(!fixture.ask(elsewhere, "").await.is_replay(), "{section}");
    }
}

#[tokio::test]
async fn rejected_replay_of_a_read_only_run_names_the_erase_command() {
    let stored = fixture(ON);
    assert!(stored.keeps(Turn::saying("q"), "so").await);
    for mode in [CacheMode::ReadOnly, CacheMode::Frozen] {
        let fixture = fixture_builder(ON).beside(&stored).mode(mode).make();
        let turn = fixture.numbered(Turn::saying("q"));
        let replay = fixture.begin(&turn).await.synthetic.unwrap();
        let input = cachalot_hooks::Input {
            answer: Some(rejected(&turn).answer),
            ..turn.input(Event::Stop)
        };
        let fault = fixture.builtin.run(&[], &input).await.unwrap_err();
        let remedy = format!("`cachalot cache rm {}`", replay.metadata["key"]);
        assert!(fault.message.contains(&remedy), "{fault}");
        fixture.end(&turn).await;
    }
    assert_eq!(stored.entries().await.len(), 1);
}

#[tokio::test]
async fn second_message_in_a_turn_prevents_storing() {
    let fixture = fixture(ON);
    let turn = fixture.numbered(Turn::saying("one"));
    fixture.begin(&turn).await;
    let more = turn
        .clone()
        .prompted(|prompt| prompt.text = "and two".to_owned());
    fixture.stop(&more, "both").await;
    let why = fixture.row().await.not_stored.unwrap();
    assert!(why.contains("sent another message"), "{why}");
}
