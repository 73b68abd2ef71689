//! Going on with a session in another process.

use std::sync::Arc;

use cachalot_agent::{CancellationToken, Chat, ErrorKind, Stop};
use cachalot_simulator::ScriptedReply;
use serde_json::json;

use crate::bodies::{Turn, turns};
use crate::cancelling::Forever;
use crate::told::Note;
use crate::turns::{CODER, TALKER};
use crate::world::{WIRES, Wire, World};

fn refused(chat: Result<Chat, cachalot_agent::Error>) -> cachalot_agent::Error {
    match chat {
        Ok(_) => panic!("it was resumed"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn the_first_request_extends_the_last_one_byte_for_byte() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::call("read_file", json!({"path": "a"})).with_reasoning("I look."),
            ScriptedReply::text("one").with_reasoning("I know."),
            ScriptedReply::call("list_dir", json!({})),
            ScriptedReply::text("two"),
            ScriptedReply::text("three"),
        ];
        let mut world = World::new(wire, CODER, replies).await.in_file();
        world.write("a", "ä \"quoted\" \u{1F40B}\n");
        let mut chat = world.chat().await;
        world.turn(&mut chat, "first \u{2028} \"message\"").await;
        let session = chat.session().to_owned();
        for text in ["two", "three"] {
            chat.close().await;
            world.restart();
            chat = world.resume(&session).await.unwrap();
            assert_eq!(chat.session(), session);
            assert_eq!(world.turn(&mut chat, "and then?").await.text, text);
        }
        let kept = world.session(&session).await;
        assert_eq!((kept.totals.answers, kept.messages), (5, 10));
        assert_eq!(world.told.warnings(), [] as [String; 0]);
        // One session, as the bodies' check sees it: nothing began anew.
        assert_eq!(turns(&world.last_body()).len(), 9);
        world.check();
    }
}

#[tokio::test]
async fn a_turn_that_was_interrupted_in_one_process_is_mended_in_the_next() {
    for wire in WIRES {
        let calls = ScriptedReply::call("list_dir", json!({})).and_call("forever", json!({}));
        let mut world = World::new(wire, CODER, vec![calls, ScriptedReply::text("yes")])
            .await
            .in_file();
        world.tools = vec![Arc::new(Forever::new("forever"))];
        let mut chat = world.chat().await;
        let session = chat.session().to_owned();
        let never = CancellationToken::default();
        tokio::select! {
            _ = chat.turn("go", &never) => panic!("it never ends"),
            () = world.until("the tool", |world| {
                world.told.notes().contains(&Note::Began("forever".to_owned()))
            }) => {}
        }
        // The process dies.
        drop(chat);
        world.restart();
        let mut chat = world.resume(&session).await.unwrap();
        assert_eq!(world.turn(&mut chat, "hello").await.text, "yes");
        let turns = turns(&world.last_body());
        let Turn::Results(results) = &turns[2] else {
            panic!("{turns:?}");
        };
        assert_eq!(results.len(), 2);
        assert!(
            results.iter().all(|(_, text)| text.contains("interrupted")),
            "{results:?}"
        );
        world.check();
    }
}

#[tokio::test]
async fn the_beginning_of_a_name_is_enough() {
    let mut world = World::new(Wire::Chat, TALKER, vec![ScriptedReply::text("yes")])
        .await
        .in_file();
    let mut chat = world.chat().await;
    world.turn(&mut chat, "hello").await;
    world.restart();
    let mut chat = world.resume("sess").await.unwrap();
    assert_eq!(chat.session(), "session-0");
    world.turn(&mut chat, "hello").await;
    let error = refused(world.resume("other").await);
    assert_eq!(error.kind, ErrorKind::Session);
    assert!(
        error.message.contains("there is no session `other`"),
        "{error}"
    );
    world.check();
}

#[tokio::test]
async fn changed_tools_and_instructions_are_reported_and_ignored() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::text("one"),
            ScriptedReply::call("read_file", json!({"path": "a"})),
            ScriptedReply::text("two"),
        ];
        let mut world = World::new(wire, CODER, replies).await.in_file();
        let mut chat = world.chat().await;
        world.turn(&mut chat, "hello").await;
        let session = chat.session().to_owned();
        world.restart();
        world.rewrite(
            "agents: {root: {model: test, instruction: Something else., toolsets: [{type: shell}]}}",
        );
        let mut chat = world.resume(&session).await.unwrap();
        let warnings = world.told.warnings();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("`read_file` is gone"), "{warnings:?}");
        assert!(warnings[0].contains("`shell` is new"), "{warnings:?}");
        assert!(warnings[1].contains("instruction"), "{warnings:?}");
        // The model calls what it knows, and is told that it is not there any more.
        world.turn(&mut chat, "read it").await;
        let ended = world.told.ended();
        assert!(
            ended[0].text.contains("there is no tool `read_file`"),
            "{ended:?}"
        );
        world.check();
    }
}

#[tokio::test]
async fn a_changed_directory_and_parameter_are_reported() {
    let mut world = World::new(Wire::Chat, TALKER, vec![ScriptedReply::text("yes")])
        .await
        .in_file();
    let mut chat = world.chat().await;
    world.turn(&mut chat, "hello").await;
    let session = chat.session().to_owned();
    let before = world.root.path().display().to_string();
    world.restart();
    world.root = tempfile::tempdir().unwrap();
    world.model_keys = ", reasoning_effort: low".to_owned();
    world.resume(&session).await.unwrap();
    let warnings = world.told.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].starts_with(&format!("the session was held in {before}")),
        "{warnings:?}"
    );
    assert!(warnings[1].contains("`reasoning`"), "{warnings:?}");
    world.check();
}

#[tokio::test]
async fn another_model_continues_the_whole_conversation() {
    for from in WIRES {
        for to in WIRES {
            if from == to || from.is_anthropic() && to.is_anthropic() {
                continue;
            }
            let replies = vec![
                ScriptedReply::call("read_file", json!({"path": "a"})).with_reasoning("I look."),
                ScriptedReply::text("one"),
                ScriptedReply::call("list_dir", json!({})).with_reasoning("I list."),
                ScriptedReply::text("two"),
                ScriptedReply::text("three"),
            ];
            let mut world = World::new(from, CODER, replies).await.in_file();
            world.write("a", "A");
            let mut chat = world.chat().await;
            world.turn(&mut chat, "hello").await;
            let session = chat.session().to_owned();
            world.restart();
            world.wire = to;
            let mut chat = world.resume(&session).await.unwrap();
            let warnings = world.told.warnings();
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(
                warnings[0].contains("the whole conversation is sent again"),
                "{warnings:?}"
            );
            world.turn(&mut chat, "go on").await;
            world.restart();
            let mut chat = world.resume(&session).await.unwrap();
            assert_eq!(world.turn(&mut chat, "and?").await.text, "three");
            assert_eq!(turns(&world.last_body()).len(), 9, "{from:?} to {to:?}");
            let head = world.session(&session).await.head;
            assert_eq!(head.provider == "anthropic", to.is_anthropic());
            world.check();
        }
    }
}

#[tokio::test]
async fn a_model_that_needs_tools_is_not_given_a_conversation_with_calls_and_none() {
    let replies = vec![
        ScriptedReply::call("list_dir", json!({})),
        ScriptedReply::text("one"),
        ScriptedReply::text("two"),
    ];
    let mut world = World::new(Wire::Chat, CODER, replies).await.in_file();
    let mut chat = world.chat().await;
    world.turn(&mut chat, "hello").await;
    let session = chat.session().to_owned();
    world.restart();
    world.wire = Wire::Messages;
    world.rewrite(TALKER);
    let error = refused(world.resume(&session).await);
    assert_eq!(error.kind, ErrorKind::Session);
    assert!(error.message.contains("Give the agent tools"), "{error}");
    // Nothing was changed: with the tools, it goes on.
    world.rewrite(CODER);
    let mut chat = world.resume(&session).await.unwrap();
    assert_eq!(world.turn(&mut chat, "go on").await.text, "two");
    world.check();
}

#[tokio::test]
async fn an_agent_that_is_not_in_the_file_any_more_is_named() {
    let mut world = World::new(Wire::Chat, TALKER, vec![ScriptedReply::text("yes")])
        .await
        .in_file();
    let mut chat = world.chat().await;
    world.turn(&mut chat, "hello").await;
    let session = chat.session().to_owned();
    world.restart();
    world.rewrite("agents: {roof: {model: test}}");
    let error = refused(world.resume(&session).await);
    assert_eq!(error.kind, ErrorKind::Definition);
    assert_eq!(
        error.message,
        "the session `session-0` was held with `root`: there is no agent `root` in the file; did you mean `roof`?"
    );
    world.check();
}

#[tokio::test]
async fn a_new_session_begins_anew_and_the_old_one_is_kept() {
    let replies = ["one", "two", "three"].map(ScriptedReply::text);
    let mut world = World::new(Wire::Messages, TALKER, replies.to_vec())
        .await
        .in_file();
    let mut chat = world.chat().await;
    world.turn(&mut chat, "hello").await;
    chat.start_new_session().await.unwrap();
    assert_eq!(chat.session(), "session-1");
    world.turn(&mut chat, "hello again").await;
    assert_eq!(turns(&world.last_body()).len(), 1);
    assert_eq!(chat.total().model_calls, 2);
    world.restart();
    let mut chat = world.resume("session-0").await.unwrap();
    let report = world.turn(&mut chat, "still there?").await;
    assert_eq!((report.text.as_str(), report.stop), ("three", Stop::End));
    assert_eq!(turns(&world.last_body()).len(), 3);
    world.check();
}
