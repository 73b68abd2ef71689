//! Going on with a session in another process.

use std::sync::Arc;

use cachalot_agent::{CancellationToken, Chat, ErrorKind, Stop};
use cachalot_simulator::ScriptedReply;
use serde_json::json;

use crate::bodies::{Turn, turns};
use crate::cancelling::HangingTool;
use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire};
use crate::turns::{CODER, TALKER};

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
        let mut fixture = Fixture::new(wire, CODER, replies).await.in_file();
        fixture.write("a", "ä \"quoted\" \u{1F40B}\n");
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "first \u{2028} \"message\"").await;
        let session = chat.session().to_owned();
        for text in ["two", "three"] {
            chat.close().await;
            fixture.restart();
            chat = fixture.resume(&session).await.unwrap();
            assert_eq!(chat.session(), session);
            assert_eq!(fixture.turn(&mut chat, "and then?").await.text, text);
        }
        let kept = fixture.session(&session).await;
        assert_eq!((kept.totals.answers, kept.messages), (5, 10));
        assert_eq!(fixture.reported.warnings(), [] as [String; 0]);
        // One session, as the bodies' check sees it: nothing began anew.
        assert_eq!(turns(&fixture.last_body()).len(), 9);
        fixture.check();
    }
}

#[tokio::test]
async fn interrupted_turn_is_repaired_by_the_next_process() {
    for wire in WIRES {
        let calls = ScriptedReply::call("list_dir", json!({})).and_call("forever", json!({}));
        let mut fixture = Fixture::new(wire, CODER, vec![calls, ScriptedReply::text("yes")])
            .await
            .in_file();
        fixture.tools = vec![Arc::new(HangingTool::new("forever"))];
        let mut chat = fixture.chat().await;
        let session = chat.session().to_owned();
        let never = CancellationToken::default();
        tokio::select! {
            _ = chat.turn("go", &never) => panic!("it never ends"),
            () = fixture.until("the tool", |fixture| {
                fixture.reported.notes().contains(&Note::Began("forever".to_owned()))
            }) => {}
        }
        // The process dies.
        drop(chat);
        fixture.restart();
        let mut chat = fixture.resume(&session).await.unwrap();
        assert_eq!(fixture.turn(&mut chat, "hello").await.text, "yes");
        let turns = turns(&fixture.last_body());
        let Turn::Results(results) = &turns[2] else {
            panic!("{turns:?}");
        };
        assert_eq!(results.len(), 2);
        assert!(
            results.iter().all(|(_, text)| text.contains("interrupted")),
            "{results:?}"
        );
        fixture.check();
    }
}

#[tokio::test]
async fn session_is_found_by_a_prefix_of_its_name() {
    let mut fixture = Fixture::new(Wire::Chat, TALKER, vec![ScriptedReply::text("yes")])
        .await
        .in_file();
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "hello").await;
    fixture.restart();
    let mut chat = fixture.resume("sess").await.unwrap();
    assert_eq!(chat.session(), "session-0");
    fixture.turn(&mut chat, "hello").await;
    let error = refused(fixture.resume("other").await);
    assert_eq!(error.kind, ErrorKind::Session);
    assert!(
        error.message.contains("there is no session `other`"),
        "{error}"
    );
    fixture.check();
}

#[tokio::test]
async fn changed_tools_and_instructions_are_reported_and_ignored() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::text("one"),
            ScriptedReply::call("read_file", json!({"path": "a"})),
            ScriptedReply::text("two"),
        ];
        let mut fixture = Fixture::new(wire, CODER, replies).await.in_file();
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "hello").await;
        let session = chat.session().to_owned();
        fixture.restart();
        fixture.rewrite(
            "agents: {root: {model: test, instruction: Something else., toolsets: [{type: shell}]}}",
        );
        let mut chat = fixture.resume(&session).await.unwrap();
        let warnings = fixture.reported.warnings();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("`read_file` is gone"), "{warnings:?}");
        assert!(warnings[0].contains("`shell` is new"), "{warnings:?}");
        assert!(warnings[1].contains("instruction"), "{warnings:?}");
        // The model calls what it knows, and is told that it is not there any more.
        fixture.turn(&mut chat, "read it").await;
        let ended = fixture.reported.ended();
        assert!(
            ended[0].text.contains("there is no tool `read_file`"),
            "{ended:?}"
        );
        fixture.check();
    }
}

#[tokio::test]
async fn a_changed_directory_and_parameter_are_reported() {
    let mut fixture = Fixture::new(Wire::Chat, TALKER, vec![ScriptedReply::text("yes")])
        .await
        .in_file();
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "hello").await;
    let session = chat.session().to_owned();
    let before = fixture.root.path().display().to_string();
    fixture.restart();
    fixture.root = tempfile::tempdir().unwrap();
    fixture.model_keys = ", reasoning_effort: low".to_owned();
    fixture.resume(&session).await.unwrap();
    let warnings = fixture.reported.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].starts_with(&format!("the session was held in {before}")),
        "{warnings:?}"
    );
    assert!(warnings[1].contains("`reasoning`"), "{warnings:?}");
    fixture.check();
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
            let mut fixture = Fixture::new(from, CODER, replies).await.in_file();
            fixture.write("a", "A");
            let mut chat = fixture.chat().await;
            fixture.turn(&mut chat, "hello").await;
            let session = chat.session().to_owned();
            fixture.restart();
            fixture.wire = to;
            let mut chat = fixture.resume(&session).await.unwrap();
            let warnings = fixture.reported.warnings();
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(
                warnings[0].contains("the whole conversation is sent again"),
                "{warnings:?}"
            );
            fixture.turn(&mut chat, "go on").await;
            fixture.restart();
            let mut chat = fixture.resume(&session).await.unwrap();
            assert_eq!(fixture.turn(&mut chat, "and?").await.text, "three");
            assert_eq!(turns(&fixture.last_body()).len(), 9, "{from:?} to {to:?}");
            let head = fixture.session(&session).await.head;
            assert_eq!(head.provider == "anthropic", to.is_anthropic());
            fixture.check();
        }
    }
}

#[tokio::test]
async fn resume_is_refused_if_the_model_needs_tools_for_earlier_calls() {
    let replies = vec![
        ScriptedReply::call("list_dir", json!({})),
        ScriptedReply::text("one"),
        ScriptedReply::text("two"),
    ];
    let mut fixture = Fixture::new(Wire::Chat, CODER, replies).await.in_file();
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "hello").await;
    let session = chat.session().to_owned();
    fixture.restart();
    fixture.wire = Wire::Messages;
    fixture.rewrite(TALKER);
    let error = refused(fixture.resume(&session).await);
    assert_eq!(error.kind, ErrorKind::Session);
    assert!(error.message.contains("Give the agent tools"), "{error}");
    // Nothing was changed: with the tools, it goes on.
    fixture.rewrite(CODER);
    let mut chat = fixture.resume(&session).await.unwrap();
    assert_eq!(fixture.turn(&mut chat, "go on").await.text, "two");
    fixture.check();
}

#[tokio::test]
async fn resume_error_names_the_missing_agent() {
    let mut fixture = Fixture::new(Wire::Chat, TALKER, vec![ScriptedReply::text("yes")])
        .await
        .in_file();
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "hello").await;
    let session = chat.session().to_owned();
    fixture.restart();
    fixture.rewrite("agents: {roof: {model: test}}");
    let error = refused(fixture.resume(&session).await);
    assert_eq!(error.kind, ErrorKind::Definition);
    assert_eq!(
        error.message,
        "the session `session-0` was held with `root`: there is no agent `root` in the file; did you mean `roof`?"
    );
    fixture.check();
}

#[tokio::test]
async fn new_session_starts_empty_and_keeps_the_old_one() {
    let replies = ["one", "two", "three"].map(ScriptedReply::text);
    let mut fixture = Fixture::new(Wire::Messages, TALKER, replies.to_vec())
        .await
        .in_file();
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "hello").await;
    chat.start_new_session().await.unwrap();
    assert_eq!(chat.session(), "session-1");
    fixture.turn(&mut chat, "hello again").await;
    assert_eq!(turns(&fixture.last_body()).len(), 1);
    assert_eq!(chat.total().model_calls, 2);
    fixture.restart();
    let mut chat = fixture.resume("session-0").await.unwrap();
    let report = fixture.turn(&mut chat, "still there?").await;
    assert_eq!((report.text.as_str(), report.stop), ("three", Stop::End));
    assert_eq!(turns(&fixture.last_body()).len(), 3);
    fixture.check();
}
