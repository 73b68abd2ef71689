//! When a review is due, and what is told of one that fails.

use std::time::Duration;

use cachalot_agent::CancellationToken;
use cachalot_core::Spend;
use cachalot_hooks::{Event, Output, Synthetic};
use cachalot_simulator::{ScriptedReply, ScriptedUsage};

use super::{desk, hanging, shell, store, text, wait_for_review};
use crate::ear::Says;
use crate::world::{WIRES, Wire};

fn nothing() -> ScriptedReply {
    text("Nothing to keep.")
}

#[tokio::test]
async fn a_turn_that_does_not_end_counts_for_nothing_and_the_review_comes_with_the_next() {
    for wire in WIRES {
        let replies = vec![
            text("one"),
            ScriptedReply::error(400),
            text("two"),
            nothing(),
            text("three"),
        ];
        let desk = desk(wire, &wait_for_review("every_turns: 2"), replies).await;
        let mut chat = desk.world.chat().await;
        desk.world.turn(&mut chat, "1").await;
        chat.turn("2", &CancellationToken::default())
            .await
            .unwrap_err();
        assert!(!chat.is_reviewing());
        desk.world.turn(&mut chat, "3").await;
        assert_eq!(desk.review(&mut chat).await.result(), "none");
        desk.world.turn(&mut chat, "4").await;
        assert!(!chat.is_reviewing(), "one turn was completed since");
        desk.world.check_between(&[2, 4]);
    }
}

#[tokio::test]
async fn so_it_is_in_another_process() {
    let replies = vec![
        text("one"),
        ScriptedReply::error(400),
        text("two"),
        nothing(),
    ];
    let mut desk = desk(Wire::Messages, &wait_for_review("every_turns: 2"), replies).await;
    desk.world = desk.world.in_file();
    let mut chat = desk.world.chat().await;
    desk.world.turn(&mut chat, "1").await;
    chat.turn("2", &CancellationToken::default())
        .await
        .unwrap_err();
    let session = chat.session().to_owned();
    chat.close().await;
    desk.world.restart();
    let mut chat = desk.world.resume(&session).await.unwrap();
    desk.world.turn(&mut chat, "3").await;
    assert_eq!(desk.review(&mut chat).await.result(), "none");
    desk.world.check_between(&[2, 3]);
}

#[tokio::test]
async fn a_turn_that_begins_with_a_summary_counts() {
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
    let desk = desk(Wire::Chat, &file, replies).await;
    let mut chat = desk.world.chat().await;
    desk.world.turn(&mut chat, "1").await;
    desk.world.turn(&mut chat, "2").await;
    let notes = desk.world.told.notes();
    let is_summary = |note: &crate::told::Note| matches!(note, crate::told::Note::Compacted(..));
    assert!(notes.iter().any(is_summary), "{notes:?}");
    assert_eq!(desk.review(&mut chat).await.result(), "none");
    desk.world.check_from(2);
}

#[tokio::test]
async fn a_turn_that_a_hook_answers_is_none_to_look_back_over() {
    let replies = vec![text("one"), text("two"), nothing()];
    let desk = desk(Wire::Chat, &wait_for_review("every_turns: 2"), replies).await;
    let known = Output {
        synthetic: Some(Synthetic {
            content: "A whale.".to_owned(),
            provenance: None,
            metadata: std::collections::BTreeMap::new(),
            saved: Spend::default(),
        }),
        ..Output::default()
    };
    desk.world.ear.on(Event::UserPromptSubmit, move |input| {
        let is_known = input.last_user_message.as_deref() == Some("What is it?");
        is_known.then(|| Says::This(known.clone()))
    });
    let mut chat = desk.world.chat().await;
    desk.world.turn(&mut chat, "1").await;
    let report = desk.world.turn(&mut chat, "What is it?").await;
    assert!(report.synthetic.is_some() && !chat.is_reviewing());
    // Nor in a chat that goes on.
    let mut chat = desk.world.resume(chat.session()).await.unwrap();
    desk.world.turn(&mut chat, "2").await;
    assert_eq!(desk.review(&mut chat).await.result(), "none");
    desk.world.check();
}

#[tokio::test]
async fn a_failed_review_reports_actions_and_usage() {
    for wire in WIRES {
        let replies = vec![text("2 km."), shell(), store(), ScriptedReply::error(400)];
        let desk = desk(
            wire,
            &wait_for_review("every_turns: 1, tools: [memory]"),
            replies,
        )
        .await;
        let mut chat = desk.world.chat().await;
        desk.world.turn(&mut chat, "How deep?").await;
        let review = desk.review(&mut chat).await;
        assert!(review.failure.is_some() && review.result() == "error");
        assert_eq!((review.sum.model_calls, review.memories), (2, 1));
        assert!(review.sum.usage.total_input() > 0);
        assert!(review.first.is_some() && review.parent.is_some());
        assert_eq!(review.denied, ["shell"]);
        let session = desk.world.session(&review.session).await;
        assert_eq!(session.head.parent.as_deref(), Some(chat.session()));
        desk.world.check();
    }
}

#[tokio::test]
async fn a_warning_hook_does_not_delay_the_answer() {
    let replies = vec![text("2 km."), hanging(), text("Welcome.")];
    let desk = desk(
        Wire::Chat,
        &wait_for_review("every_turns: 1, tools: [memory]"),
        replies,
    )
    .await;
    desk.world
        .ear
        .on(Event::Notification, |_| Some(Says::Nothing));
    let mut chat = desk.world.chat().await;
    desk.world.turn(&mut chat, "How deep?").await;
    let request = |world: &crate::world::World| world.bodies().len() == 2;
    desk.world.until("the review's request", request).await;
    let cancel = CancellationToken::default();
    let turn = chat.turn("Thanks.", &cancel);
    let turn = tokio::time::timeout(Duration::from_secs(5), turn).await;
    assert_eq!(turn.expect("an answer").unwrap().text, "Welcome.");
    assert_eq!(desk.world.told.warnings().len(), 1);
    let heard = |world: &crate::world::World| !world.ear.heard_of(Event::Notification).is_empty();
    desk.world.until("the hook hears of it", heard).await;
    chat.close().await;
    desk.world.check_from(2);
}
