//! Taking back the end of a conversation.

use cachalot_agent::{CancellationToken, ErrorKind};
use cachalot_hooks::Event;
use cachalot_simulator::{Fault, ScriptedReply};
use serde_json::json;

use crate::bodies::{Turn, turns};
use crate::turns::{CODER, TALKER};
use crate::world::{WIRES, Wire, World};

fn refused() -> ScriptedReply {
    ScriptedReply::default().with_fault(Fault::status(400).times(1))
}

/// What is said in the newest request.
fn said(world: &World) -> Vec<String> {
    let turns = turns(&world.last_body());
    let texts = turns.into_iter().map(|turn| match turn {
        Turn::User(text) | Turn::Model { text, .. } => text,
        Turn::Results(results) => format!("{} results", results.len()),
    });
    texts.collect()
}

#[tokio::test]
async fn a_session_that_its_provider_refuses_goes_on_without_its_end() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::text("one"),
            ScriptedReply::call("read_file", json!({"path": "a"})),
            refused(),
            refused(),
            ScriptedReply::text("two"),
            ScriptedReply::text("three"),
        ];
        let mut world = World::new(wire, CODER, replies).await.in_file();
        world.write("a", "A");
        let mut chat = world.chat().await;
        let session = chat.session().to_owned();
        world.turn(&mut chat, "first").await;
        // What the provider does not take is part of what is sent from now on.
        for text in ["read a", "hello?"] {
            let error = chat
                .turn(text, &CancellationToken::default())
                .await
                .unwrap_err();
            assert_eq!(error.kind, ErrorKind::Model);
        }
        assert!(said(&world).contains(&"1 results".to_owned()));
        let retracted = chat.retract().await.unwrap().unwrap();
        assert_eq!((retracted.text.as_str(), retracted.others), ("hello?", 0));
        chat.close().await;

        world.restart();
        let mut chat = world.resume(&session).await.unwrap();
        let retracted = chat.retract().await.unwrap().unwrap();
        assert_eq!(retracted.text, "read a");
        assert!(retracted.others >= 2, "{retracted:?}");
        chat.close().await;

        world.restart();
        let mut chat = world.resume(&session).await.unwrap();
        assert_eq!(world.turn(&mut chat, "again").await.text, "two");
        assert_eq!(said(&world), ["first", "one", "again"]);
        assert_eq!(world.turn(&mut chat, "more").await.text, "three");
        assert_eq!(said(&world), ["first", "one", "again", "two", "more"]);
        let kept = world.session(&session).await;
        assert_eq!(
            (kept.head.title.as_deref(), kept.messages),
            (Some("first"), 6)
        );
        assert_eq!(world.told.warnings(), [] as [String; 0]);
        world.check_between(&[4]);
    }
}

#[tokio::test]
async fn everything_can_be_taken_back() {
    for wire in WIRES {
        let replies = ["one", "two", "three"].map(ScriptedReply::text);
        let world = World::new(wire, TALKER, replies.into()).await;
        let mut chat = world.chat().await;
        assert_eq!(chat.retract().await.unwrap(), None);
        world.turn(&mut chat, "first").await;
        world.turn(&mut chat, "second").await;
        for text in ["second", "first"] {
            let retracted = chat.retract().await.unwrap().unwrap();
            assert_eq!((retracted.text.as_str(), retracted.others), (text, 1));
        }
        assert_eq!(chat.retract().await.unwrap(), None);
        world.turn(&mut chat, "other").await;
        assert_eq!(said(&world), ["other"]);
        let kept = world.session(chat.session()).await;
        assert_eq!(kept.head.title.as_deref(), Some("other"));
        world.check_between(&[2]);
    }
}

#[tokio::test]
async fn a_result_that_was_taken_back_is_given_in_full_again() {
    let read = || ScriptedReply::call("read_file", json!({"path": "a"}));
    let cached = format!("{CODER}tools: {{cacheToolResults: true}}\n");
    let replies = vec![
        read(),
        ScriptedReply::text("one"),
        read(),
        ScriptedReply::text("two"),
    ];
    let world = World::new(Wire::Chat, &cached, replies).await;
    world.write("a", &"A long line.\n".repeat(100));
    let mut chat = world.chat().await;
    world.turn(&mut chat, "read a").await;
    chat.retract().await.unwrap().unwrap();
    world.turn(&mut chat, "read it").await;
    let turns = turns(&world.last_body());
    let Some(Turn::Results(results)) = turns.last() else {
        panic!("{turns:?}");
    };
    assert!(results[0].1.contains("A long line."), "{results:?}");
    world.check_between(&[2]);
}

#[tokio::test]
async fn a_summary_stays_when_the_message_behind_it_is_taken_back() {
    let replies = ["one", "the summary", "two", "three"].map(ScriptedReply::text);
    let world = World::new(Wire::Chat, TALKER, replies.into()).await;
    let mut chat = world.chat().await;
    world.turn(&mut chat, "first").await;
    assert!(chat.compact(&CancellationToken::default()).await.unwrap());
    world.turn(&mut chat, "second").await;
    assert!(said(&world)[0].contains("the summary"));
    let retracted = chat.retract().await.unwrap().unwrap();
    assert_eq!((retracted.text.as_str(), retracted.others), ("second", 1));
    world.turn(&mut chat, "third").await;
    let said = said(&world);
    assert!(
        said[0].contains("the summary") && said[0].ends_with("third"),
        "{said:?}"
    );
    world.check_between(&[2, 3]);
}

#[tokio::test]
async fn hooks_see_what_is_left() {
    let replies = ["one", "two"].map(ScriptedReply::text);
    let world = World::new(Wire::Chat, TALKER, replies.into()).await;
    world.ear.listen([Event::BeforeLlmCall]);
    let mut chat = world.chat().await;
    world.turn(&mut chat, "first").await;
    chat.retract().await.unwrap().unwrap();
    world.turn(&mut chat, "second").await;
    let heard = world.ear.heard_of(Event::BeforeLlmCall);
    let last = heard.last().unwrap();
    assert_eq!((last.messages.len(), last.unsent), (1, 1));
    world.check_between(&[1]);
}
