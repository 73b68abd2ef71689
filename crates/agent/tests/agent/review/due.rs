//! When a review is due, and what is told of one that fails.

use std::time::Duration;

use cachalot_agent::CancellationToken;
use cachalot_core::Spend;
use cachalot_hooks::{Event, Output, Synthetic};
use cachalot_simulator::{ScriptedReply, ScriptedUsage};

use super::{hanging, review_fixture, shell, store, text, wait_for_review};
use crate::fixture::{WIRES, Wire};
use crate::hook_recorder::HookReply;

fn nothing() -> ScriptedReply {
    text("Nothing to keep.")
}

#[tokio::test]
async fn failed_turn_does_not_count_and_delays_the_review() {
    for wire in WIRES {
        let replies = vec![
            text("one"),
            ScriptedReply::error(400),
            text("two"),
            nothing(),
            text("three"),
        ];
        let review_fixture =
            review_fixture(wire, &wait_for_review("every_turns: 2"), replies).await;
        let mut chat = review_fixture.fixture.chat().await;
        review_fixture.fixture.turn(&mut chat, "1").await;
        chat.turn("2", &CancellationToken::default())
            .await
            .unwrap_err();
        assert!(!chat.is_reviewing());
        review_fixture.fixture.turn(&mut chat, "3").await;
        assert_eq!(review_fixture.review(&mut chat).await.result(), "none");
        review_fixture.fixture.turn(&mut chat, "4").await;
        assert!(!chat.is_reviewing(), "one turn was completed since");
        review_fixture.fixture.check_between(&[2, 4]);
    }
}

#[tokio::test]
async fn failed_turn_does_not_count_in_a_resumed_session() {
    let replies = vec![
        text("one"),
        ScriptedReply::error(400),
        text("two"),
        nothing(),
    ];
    let mut review_fixture =
        review_fixture(Wire::Messages, &wait_for_review("every_turns: 2"), replies).await;
    review_fixture.fixture = review_fixture.fixture.in_file();
    let mut chat = review_fixture.fixture.chat().await;
    review_fixture.fixture.turn(&mut chat, "1").await;
    chat.turn("2", &CancellationToken::default())
        .await
        .unwrap_err();
    let session = chat.session().to_owned();
    chat.close().await;
    review_fixture.fixture.restart();
    let mut chat = review_fixture.fixture.resume(&session).await.unwrap();
    review_fixture.fixture.turn(&mut chat, "3").await;
    assert_eq!(review_fixture.review(&mut chat).await.result(), "none");
    review_fixture.fixture.check_between(&[2, 3]);
}

#[tokio::test]
async fn turn_that_begins_with_compaction_counts() {
    let full = ScriptedUsage {
        input: Some(120_000),
        output: Some(10),
        ..ScriptedUsage::default()
    };
    let replies = vec![
        text("one").with_usage(full),
        text("What was said."),
        text("two"),
        nothing(),
    ];
    let file = wait_for_review("every_turns: 2")
        .replace("    review:", "    compaction_threshold: 0.9\n    review:");
    let review_fixture = review_fixture(Wire::Chat, &file, replies).await;
    let mut chat = review_fixture.fixture.chat().await;
    review_fixture.fixture.turn(&mut chat, "1").await;
    review_fixture.fixture.turn(&mut chat, "2").await;
    let notes = review_fixture.fixture.reported.notes();
    let is_summary = |note: &crate::event_recorder::Note| {
        matches!(note, crate::event_recorder::Note::Compacted(..))
    };
    assert!(notes.iter().any(is_summary), "{notes:?}");
    assert_eq!(review_fixture.review(&mut chat).await.result(), "none");
    review_fixture.fixture.check_from(2);
}

#[tokio::test]
async fn synthetic_turn_does_not_count() {
    let replies = vec![text("one"), text("two"), nothing()];
    let review_fixture =
        review_fixture(Wire::Chat, &wait_for_review("every_turns: 2"), replies).await;
    let known = Output {
        synthetic: Some(Synthetic {
            content: "A whale.".to_owned(),
            provenance: None,
            metadata: std::collections::BTreeMap::new(),
            saved: Spend::default(),
        }),
        ..Output::default()
    };
    review_fixture
        .fixture
        .hook_recorder
        .on(Event::UserPromptSubmit, move |input| {
            let is_known = input.last_user_message.as_deref() == Some("What is it?");
            is_known.then(|| HookReply::This(known.clone()))
        });
    let mut chat = review_fixture.fixture.chat().await;
    review_fixture.fixture.turn(&mut chat, "1").await;
    let report = review_fixture.fixture.turn(&mut chat, "What is it?").await;
    assert!(report.synthetic.is_some() && !chat.is_reviewing());
    // Nor in a chat that goes on.
    let mut chat = review_fixture.fixture.resume(chat.session()).await.unwrap();
    review_fixture.fixture.turn(&mut chat, "2").await;
    assert_eq!(review_fixture.review(&mut chat).await.result(), "none");
    review_fixture.fixture.check();
}

#[tokio::test]
async fn a_failed_review_reports_actions_and_usage() {
    for wire in WIRES {
        let replies = vec![text("2 km."), shell(), store(), ScriptedReply::error(400)];
        let review_fixture = review_fixture(
            wire,
            &wait_for_review("every_turns: 1, tools: [memory]"),
            replies,
        )
        .await;
        let mut chat = review_fixture.fixture.chat().await;
        review_fixture.fixture.turn(&mut chat, "How deep?").await;
        let review = review_fixture.review(&mut chat).await;
        assert!(review.failure.is_some() && review.result() == "error");
        assert_eq!((review.sum.model_calls, review.memories), (2, 1));
        assert!(review.sum.usage.total_input() > 0);
        assert!(review.first.is_some() && review.parent.is_some());
        assert_eq!(review.denied, ["shell"]);
        let session = review_fixture.fixture.session(&review.session).await;
        assert_eq!(session.head.parent.as_deref(), Some(chat.session()));
        review_fixture.fixture.check();
    }
}

#[tokio::test]
async fn a_warning_hook_does_not_delay_the_answer() {
    let replies = vec![text("2 km."), hanging(), text("Welcome.")];
    let review_fixture = review_fixture(
        Wire::Chat,
        &wait_for_review("every_turns: 1, tools: [memory]"),
        replies,
    )
    .await;
    review_fixture
        .fixture
        .hook_recorder
        .on(Event::Notification, |_| Some(HookReply::Nothing));
    let mut chat = review_fixture.fixture.chat().await;
    review_fixture.fixture.turn(&mut chat, "How deep?").await;
    let request = |fixture: &crate::fixture::Fixture| fixture.bodies().len() == 2;
    review_fixture
        .fixture
        .until("the review's request", request)
        .await;
    let cancel = CancellationToken::default();
    let turn = chat.turn("Thanks.", &cancel);
    let turn = tokio::time::timeout(Duration::from_secs(5), turn).await;
    assert_eq!(turn.expect("an answer").unwrap().text, "Welcome.");
    assert_eq!(review_fixture.fixture.reported.warnings().len(), 1);
    let recorded = |fixture: &crate::fixture::Fixture| {
        !fixture
            .hook_recorder
            .recorded_of(Event::Notification)
            .is_empty()
    };
    review_fixture
        .fixture
        .until("the hook hears of it", recorded)
        .await;
    chat.close().await;
    review_fixture.fixture.check_from(2);
}
