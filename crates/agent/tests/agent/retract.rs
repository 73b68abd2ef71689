//! Taking back the end of a conversation.

use cachalot_agent::{CancellationToken, ErrorKind};
use cachalot_hooks::Event;
use cachalot_simulator::{Fault, ScriptedReply};
use serde_json::json;

use crate::bodies::{Turn, turns};
use crate::fixture::{Fixture, WIRES, Wire};
use crate::turns::{CODER, TALKER};

fn refused() -> ScriptedReply {
    ScriptedReply::default().with_fault(Fault::status(400).times(1))
}

/// The texts of the newest request.
fn said(fixture: &Fixture) -> Vec<String> {
    let turns = turns(&fixture.last_body());
    let texts = turns.into_iter().map(|turn| match turn {
        Turn::User(text) | Turn::Model { text, .. } => text,
        Turn::Results(results) => format!("{} results", results.len()),
    });
    texts.collect()
}

#[tokio::test]
async fn retract_lets_a_refused_session_continue() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::text("one"),
            ScriptedReply::call("read_file", json!({"path": "a"})),
            refused(),
            refused(),
            ScriptedReply::text("two"),
            ScriptedReply::text("three"),
        ];
        let mut fixture = Fixture::new(wire, CODER, replies).await.in_file();
        fixture.write("a", "A");
        let mut chat = fixture.chat().await;
        let session = chat.session().to_owned();
        fixture.turn(&mut chat, "first").await;
        // What the provider does not take is part of what is sent from now on.
        for text in ["read a", "hello?"] {
            let error = chat
                .turn(text, &CancellationToken::default())
                .await
                .unwrap_err();
            assert_eq!(error.kind, ErrorKind::Model);
        }
        assert!(said(&fixture).contains(&"1 results".to_owned()));
        let retracted = chat.retract().await.unwrap().unwrap();
        assert_eq!((retracted.text.as_str(), retracted.others), ("hello?", 0));
        chat.close().await;

        fixture.restart();
        let mut chat = fixture.resume(&session).await.unwrap();
        let retracted = chat.retract().await.unwrap().unwrap();
        assert_eq!(retracted.text, "read a");
        assert!(retracted.others >= 2, "{retracted:?}");
        chat.close().await;

        fixture.restart();
        let mut chat = fixture.resume(&session).await.unwrap();
        assert_eq!(fixture.turn(&mut chat, "again").await.text, "two");
        assert_eq!(said(&fixture), ["first", "one", "again"]);
        assert_eq!(fixture.turn(&mut chat, "more").await.text, "three");
        assert_eq!(said(&fixture), ["first", "one", "again", "two", "more"]);
        let kept = fixture.session(&session).await;
        assert_eq!(
            (kept.head.title.as_deref(), kept.messages),
            (Some("first"), 6)
        );
        assert_eq!(fixture.reported.warnings(), [] as [String; 0]);
        fixture.check_between(&[4]);
    }
}

#[tokio::test]
async fn retract_can_remove_every_message() {
    for wire in WIRES {
        let replies = ["one", "two", "three"].map(ScriptedReply::text);
        let fixture = Fixture::new(wire, TALKER, replies.into()).await;
        let mut chat = fixture.chat().await;
        assert_eq!(chat.retract().await.unwrap(), None);
        fixture.turn(&mut chat, "first").await;
        fixture.turn(&mut chat, "second").await;
        for text in ["second", "first"] {
            let retracted = chat.retract().await.unwrap().unwrap();
            assert_eq!((retracted.text.as_str(), retracted.others), (text, 1));
        }
        assert_eq!(chat.retract().await.unwrap(), None);
        fixture.turn(&mut chat, "other").await;
        assert_eq!(said(&fixture), ["other"]);
        let kept = fixture.session(chat.session()).await;
        assert_eq!(kept.head.title.as_deref(), Some("other"));
        fixture.check_between(&[2]);
    }
}

#[tokio::test]
async fn retracted_result_is_sent_in_full_again() {
    let read = || ScriptedReply::call("read_file", json!({"path": "a"}));
    let cached = format!("{CODER}tools: {{cacheToolResults: true}}\n");
    let replies = vec![
        read(),
        ScriptedReply::text("one"),
        read(),
        ScriptedReply::text("two"),
    ];
    let fixture = Fixture::new(Wire::Chat, &cached, replies).await;
    fixture.write("a", &"A long line.\n".repeat(100));
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "read a").await;
    chat.retract().await.unwrap().unwrap();
    fixture.turn(&mut chat, "read it").await;
    let turns = turns(&fixture.last_body());
    let Some(Turn::Results(results)) = turns.last() else {
        panic!("{turns:?}");
    };
    assert!(results[0].1.contains("A long line."), "{results:?}");
    fixture.check_between(&[2]);
}

#[tokio::test]
async fn retract_keeps_the_summary_before_the_message() {
    let replies = ["one", "the summary", "two", "three"].map(ScriptedReply::text);
    let fixture = Fixture::new(Wire::Chat, TALKER, replies.into()).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "first").await;
    assert!(chat.compact(&CancellationToken::default()).await.unwrap());
    fixture.turn(&mut chat, "second").await;
    assert!(said(&fixture)[0].contains("the summary"));
    let retracted = chat.retract().await.unwrap().unwrap();
    assert_eq!((retracted.text.as_str(), retracted.others), ("second", 1));
    fixture.turn(&mut chat, "third").await;
    let said = said(&fixture);
    assert!(
        said[0].contains("the summary") && said[0].ends_with("third"),
        "{said:?}"
    );
    fixture.check_between(&[2, 3]);
}

#[tokio::test]
async fn hooks_see_the_messages_after_retract() {
    let replies = ["one", "two"].map(ScriptedReply::text);
    let fixture = Fixture::new(Wire::Chat, TALKER, replies.into()).await;
    fixture.hook_recorder.listen([Event::BeforeLlmCall]);
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "first").await;
    chat.retract().await.unwrap().unwrap();
    fixture.turn(&mut chat, "second").await;
    let recorded = fixture.hook_recorder.recorded_of(Event::BeforeLlmCall);
    let last = recorded.last().unwrap();
    assert_eq!((last.messages.len(), last.unsent), (1, 1));
    fixture.check_between(&[1]);
}
