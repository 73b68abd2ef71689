//! Whatever is interrupted, killed or fails, at whatever await: the next turn is accepted.

use std::pin::pin;
use std::sync::Arc;

use cachalot_agent::{CancellationToken, ErrorKind, Stop};
use cachalot_simulator::ScriptedReply;
use serde_json::json;

use crate::fixture::{Fixture, Wire};
use crate::slow_store::{Fault, SlowStore, after_polls, at_most};
use crate::turns::CODER;

fn replies() -> Vec<ScriptedReply> {
    let look = ScriptedReply::call("read_file", json!({"path": "a"}))
        .and_call("write_file", json!({"path": "b", "content": "x"}));
    vec![
        ScriptedReply {
            text: Some("I look into it.".to_owned()),
            ..look
        },
        ScriptedReply::text("Done, and said in more than a single piece of text."),
        ScriptedReply::text("yes"),
    ]
}

async fn fixture(wire: Wire) -> (Fixture, Arc<SlowStore>) {
    let mut fixture = Fixture::new(wire, CODER, replies()).await;
    fixture.write("a", "A");
    let memory = Arc::new(SlowStore::new());
    fixture.store_in(Arc::clone(&memory) as _);
    (fixture, memory)
}

const STRIDE: usize = 2;

#[tokio::test]
async fn session_is_valid_after_a_cancel_at_any_poll() {
    for wire in [Wire::Chat, Wire::Thinking] {
        let mut interrupted = 0;
        for polls in (0..).step_by(STRIDE) {
            let (fixture, _) = fixture(wire).await;
            let mut chat = fixture.chat().await;
            let cancel = CancellationToken::default();
            let turn = chat.turn("go", &cancel);
            let report = after_polls(pin!(turn), polls, || cancel.cancel())
                .await
                .unwrap();
            fixture.turn(&mut chat, "and now?").await;
            fixture.turn(&mut chat, "and then?").await;
            fixture.check();
            if report.stop == Stop::End {
                break;
            }
            assert_eq!(report.stop, Stop::Interrupted);
            interrupted += 1;
        }
        assert!(interrupted > 10, "{interrupted}");
    }
}

/// By whoever drops the future; and once more after the process is gone.
#[tokio::test]
async fn session_is_valid_after_a_drop_at_any_poll() {
    for wire in [Wire::Responses, Wire::Thinking] {
        let mut dropped = 0;
        for polls in (0..).step_by(STRIDE) {
            let (fixture, _) = fixture(wire).await;
            let mut chat = fixture.chat().await;
            let session = chat.session().to_owned();
            let cancel = CancellationToken::default();
            let report = at_most(pin!(chat.turn("go", &cancel)), polls).await;
            if polls % 2 == 0 {
                drop(chat);
                chat = fixture.resume(&session).await.unwrap();
            }
            fixture.turn(&mut chat, "and now?").await;
            fixture.turn(&mut chat, "and then?").await;
            fixture.check();
            if report.is_some() {
                break;
            }
            dropped += 1;
        }
        assert!(dropped > 10, "{dropped}");
    }
}

#[tokio::test]
async fn session_is_valid_after_a_store_failure_at_any_call() {
    for fault in [Fault::Refused, Fault::Unheard] {
        // Once; and so often that trying again is of no use.
        for many in [1, 1_000] {
            let mut failed = 0;
            for first in 0.. {
                let (fixture, memory) = fixture(Wire::Messages).await;
                let mut chat = fixture.chat().await;
                memory.fail(first, many, fault);
                let ended = chat.turn("go", &CancellationToken::default()).await;
                let was_hit = memory.recover();
                if let Err(error) = &ended {
                    assert_eq!(error.kind, ErrorKind::Session, "{error}");
                    assert!(error.message.contains("fails"), "{error}");
                    failed += 1;
                }
                assert!(was_hit || ended.is_ok());
                fixture.turn(&mut chat, "and now?").await;
                fixture.turn(&mut chat, "and then?").await;
                assert!(
                    fixture.reported.warnings().is_empty(),
                    "{:?}",
                    fixture.reported.warnings()
                );
                fixture.check();
                if !was_hit {
                    break;
                }
            }
            // Each message is one call.
            assert!(many == 1 || failed >= 4, "{fault:?} {many}: {failed}");
        }
    }
}
