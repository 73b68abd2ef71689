//! Faults of the provider, and the errors that users see.

use std::time::Duration;

use cachalot_agent::{CancellationToken, Chat, Error, ErrorKind, Stop};
use cachalot_model::ErrorKind as ModelErrorKind;
use cachalot_simulator::{Fault, FaultKind, Script, ScriptedReply};
use serde_json::json;

use crate::bodies::{Turn, turns};
use crate::fixture::{Fixture, WIRES, Wire};
use crate::turns::{CODER, TALKER};

const LONG: &str = "This is an answer that is long enough to come in many pieces, of which the first can be seen before the rest goes wrong. So it goes on, and says the same again in other words, and once more, and has still not come to its end, although nobody listens any longer. It has been told that it should be long, and so it is, and so it stays, until it has been said often enough that it is, and the last of its many pieces has come to whoever reads it.";

async fn fails(chat: &mut Chat, said: &str) -> Error {
    let error = chat
        .turn(said, &CancellationToken::default())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Model, "{error}");
    error
}

fn kind(error: &Error) -> ModelErrorKind {
    error.model.as_ref().unwrap().kind
}

#[tokio::test]
async fn transient_errors_are_retried_silently() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::text("yes").with_fault(
                Fault::status(429)
                    .retry_after(Duration::from_secs(7))
                    .times(1),
            ),
            ScriptedReply::text("yes").with_fault(Fault::status(503).times(2)),
        ];
        let fixture = Fixture::new(wire, TALKER, replies).await;
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "hello").await;
        assert_eq!((report.text.as_str(), report.sum.model_calls), ("yes", 1));
        assert_eq!(fixture.pauses.waited(), [Duration::from_secs(7)]);
        assert_eq!(fixture.turn(&mut chat, "hello").await.text, "yes");
        assert_eq!(fixture.pauses.waited().len(), 3);
        assert_eq!(fixture.reported.shown(), "yesyes");
        fixture.check();
    }
}

#[tokio::test]
async fn transient_errors_are_reported_and_the_chat_continues() {
    for wire in WIRES {
        // A rate limit is waited for as long as `rate_limit_wait` permits.
        for (status, expected, tries) in [
            (429, ModelErrorKind::Limited, 16),
            (500, ModelErrorKind::Unavailable, 3),
            (529, ModelErrorKind::Unavailable, 3),
        ] {
            let replies = vec![
                ScriptedReply::default().with_fault(Fault::status(status).times(tries)),
                ScriptedReply::text("yes"),
            ];
            let fixture = Fixture::new(wire, TALKER, replies).await;
            let mut chat = fixture.chat().await;
            let error = fails(&mut chat, "hello").await;
            assert_eq!(kind(&error), expected);
            assert!(
                error.message.contains(&format!("status {status}")),
                "{error}"
            );
            let tried = format!("tried {tries} times");
            assert!(error.message.contains(&tried), "{error}");
            let provider = if wire.is_anthropic() {
                "anthropic: "
            } else {
                "openai: "
            };
            assert!(error.message.starts_with(provider), "{error}");
            assert_eq!(fixture.turn(&mut chat, "again").await.text, "yes");
            // What was said is not lost.
            let turns = turns(&fixture.last_body());
            assert!(matches!(&turns[0], Turn::User(text) if text == "hello"));
            assert_eq!(turns.len(), 3);
            fixture.check();
        }
    }
}

#[tokio::test]
async fn retry_after_beyond_the_limit_is_an_error() {
    let replies = vec![
        ScriptedReply::default()
            .with_fault(Fault::status(429).retry_after(Duration::from_secs(3_600))),
        ScriptedReply::text("yes"),
    ];
    let fixture = Fixture::new(Wire::Messages, TALKER, replies).await;
    let mut chat = fixture.chat().await;
    let error = fails(&mut chat, "hello").await;
    let asked = error.model.as_ref().unwrap().retry_after;
    assert_eq!(asked, Some(Duration::from_secs(3_600)));
    assert_eq!(fixture.simulator.received().len(), 1);
    assert_eq!(fixture.turn(&mut chat, "again").await.text, "yes");
    fixture.check();
}

#[tokio::test]
async fn unauthorized_error_names_the_key_variable() {
    let script = Script::answers(["yes"]).with_required_key("sk-another");
    let fixture = Fixture::scripted(Wire::Chat, TALKER, script).await;
    let mut chat = fixture.chat().await;
    let error = chat
        .turn("hello", &CancellationToken::default())
        .await
        .unwrap_err();
    assert_eq!(kind(&error), ModelErrorKind::Unauthorized);
    assert!(error.message.contains("TEST_KEY"), "{error}");
    assert!(!error.message.contains("sk-test"), "{error}");
    fixture.check();
}

#[tokio::test]
async fn slow_answers_are_accepted() {
    for wire in WIRES {
        let slow = Fault::slow(Duration::from_millis(100), Duration::from_millis(5));
        let fixture = Fixture::new(
            wire,
            TALKER,
            vec![ScriptedReply::text(LONG).with_fault(slow)],
        )
        .await;
        let mut chat = fixture.chat().await;
        assert_eq!(fixture.turn(&mut chat, "hello").await.text, LONG);
        fixture.check();
    }
}

#[tokio::test]
async fn a_truncated_answer_is_reported_and_kept() {
    for wire in WIRES {
        let faults: [(Fault, &[ModelErrorKind]); 3] = [
            (Fault::cut(12), &[ModelErrorKind::CutOff]),
            (
                Fault::malformed(),
                &[ModelErrorKind::Malformed, ModelErrorKind::CutOff],
            ),
            (
                FaultKind::ErrorEvent { after_events: 12 }.into(),
                &[ModelErrorKind::Unavailable],
            ),
        ];
        for (fault, expected) in faults {
            let replies = vec![
                ScriptedReply::text(LONG).with_fault(fault.clone()),
                ScriptedReply::text("yes"),
            ];
            let fixture = Fixture::new(wire, TALKER, replies).await;
            let mut chat = fixture.chat().await;
            let error = fails(&mut chat, "hello").await;
            assert!(expected.contains(&kind(&error)), "{fault:?}: {error:?}");
            // Nothing that was begun is asked for again.
            assert_eq!(fixture.simulator.received().len(), 1, "{fault:?}");
            let shown = fixture.reported.shown();
            assert!(
                !shown.is_empty() && LONG.starts_with(&shown),
                "{fault:?}: {shown}"
            );
            assert_eq!(fixture.turn(&mut chat, "again").await.text, "yes");
            let turns = turns(&fixture.last_body());
            let Turn::Model { text, .. } = &turns[1] else {
                panic!("{turns:?}");
            };
            assert!(text.starts_with(shown.trim_end()), "{fault:?}: {text}");
            fixture.check();
        }
    }
}

#[tokio::test]
async fn calls_of_a_truncated_answer_are_not_made() {
    for wire in WIRES {
        let call = json!({"path": "a", "content": LONG});
        let replies = vec![
            ScriptedReply::call("write_file", call).with_fault(Fault::cut(5)),
            ScriptedReply::text("yes"),
        ];
        let fixture = Fixture::new(wire, CODER, replies).await;
        let mut chat = fixture.chat().await;
        let error = fails(&mut chat, "write").await;
        assert_eq!(kind(&error), ModelErrorKind::CutOff);
        assert!(!fixture.root.path().join("a").exists());
        assert_eq!(fixture.turn(&mut chat, "again").await.text, "yes");
        fixture.check();
    }
}

#[tokio::test]
async fn failure_during_a_turn_keeps_completed_tool_calls() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::call("write_file", json!({"path": "a", "content": "x"})),
            ScriptedReply::default().with_fault(Fault::status(500).times(3)),
            ScriptedReply::text("I had written it."),
        ];
        let fixture = Fixture::new(wire, CODER, replies).await;
        let mut chat = fixture.chat().await;
        fails(&mut chat, "write").await;
        assert_eq!(fixture.read("a"), "x");
        let report = fixture.turn(&mut chat, "well?").await;
        assert_eq!(report.text, "I had written it.");
        assert_eq!(report.stop, Stop::End);
        assert_eq!((report.sum.model_calls, chat.total().model_calls), (1, 2));
        assert_eq!(chat.total().tool_calls, 1);
        let turns = turns(&fixture.last_body());
        assert!(matches!(&turns[2], Turn::Results(results) if !results[0].1.contains("Error")));
        fixture.check();
    }
}

#[tokio::test]
async fn a_refused_connection_is_reported() {
    let mut fixture = Fixture::new(Wire::Chat, TALKER, vec![ScriptedReply::text("yes")]).await;
    fixture.rewrite(
        "agents: {root: {model: none/m}}\nproviders: {none: {base_url: 'http://127.0.0.1:1/v1'}}",
    );
    let mut chat = fixture.chat().await;
    let error = fails(&mut chat, "hello").await;
    assert_eq!(kind(&error), ModelErrorKind::Unreachable);
    assert!(error.message.contains("127.0.0.1:1"), "{error}");
    fixture.check();
}

#[tokio::test]
async fn too_long_conversation_error_proposes_a_remedy() {
    let replies = vec![
        ScriptedReply::default().with_fault(Fault::status(413)),
        ScriptedReply::text("yes"),
    ];
    let fixture = Fixture::new(Wire::Messages, TALKER, replies).await;
    let mut chat = fixture.chat().await;
    let error = fails(&mut chat, "far too much").await;
    assert_eq!(kind(&error), ModelErrorKind::TooLong);
    assert!(error.message.contains("nothing stands before"), "{error}");
    assert!(error.message.contains("of the 200000 that"), "{error}");
    assert!(error.message.contains("begin a new session"), "{error}");
    chat.start_new_session().await.unwrap();
    assert_eq!(fixture.turn(&mut chat, "less").await.text, "yes");
    fixture.check();
}
