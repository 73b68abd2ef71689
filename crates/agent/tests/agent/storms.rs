//! Whatever is interrupted, killed or fails, at whatever await: the next turn is accepted.

use std::pin::pin;
use std::sync::Arc;

use cachalot_agent::{CancellationToken, ErrorKind, Stop};
use cachalot_simulator::ScriptedReply;
use serde_json::json;

use crate::slow_memory::{Fault, SlowMemory, after_polls, at_most};
use crate::turns::CODER;
use crate::world::{Wire, World};

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

async fn world(wire: Wire) -> (World, Arc<SlowMemory>) {
    let mut world = World::new(wire, CODER, replies()).await;
    world.write("a", "A");
    let memory = Arc::new(SlowMemory::new());
    world.remember_in(Arc::clone(&memory) as _);
    (world, memory)
}

const STRIDE: usize = 2;

#[tokio::test]
async fn cancelled_at_any_poll() {
    for wire in [Wire::Chat, Wire::Thinking] {
        let mut interrupted = 0;
        for polls in (0..).step_by(STRIDE) {
            let (world, _) = world(wire).await;
            let mut chat = world.chat().await;
            let cancel = CancellationToken::default();
            let turn = chat.turn("go", &cancel);
            let report = after_polls(pin!(turn), polls, || cancel.cancel())
                .await
                .unwrap();
            world.turn(&mut chat, "and now?").await;
            world.turn(&mut chat, "and then?").await;
            world.check();
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
async fn dropped_at_any_poll() {
    for wire in [Wire::Responses, Wire::Thinking] {
        let mut dropped = 0;
        for polls in (0..).step_by(STRIDE) {
            let (world, _) = world(wire).await;
            let mut chat = world.chat().await;
            let session = chat.session().to_owned();
            let cancel = CancellationToken::default();
            let report = at_most(pin!(chat.turn("go", &cancel)), polls).await;
            if polls % 2 == 0 {
                drop(chat);
                chat = world.resume(&session).await.unwrap();
            }
            world.turn(&mut chat, "and now?").await;
            world.turn(&mut chat, "and then?").await;
            world.check();
            if report.is_some() {
                break;
            }
            dropped += 1;
        }
        assert!(dropped > 10, "{dropped}");
    }
}

#[tokio::test]
async fn a_memory_that_fails_at_any_call() {
    for fault in [Fault::Refused, Fault::Unheard] {
        // Once; and so often that trying again is of no use.
        for many in [1, 1_000] {
            let mut failed = 0;
            for first in 0.. {
                let (world, memory) = world(Wire::Messages).await;
                let mut chat = world.chat().await;
                memory.fail(first, many, fault);
                let ended = chat.turn("go", &CancellationToken::default()).await;
                let was_hit = memory.recover();
                if let Err(error) = &ended {
                    assert_eq!(error.kind, ErrorKind::Session, "{error}");
                    assert!(error.message.contains("fails"), "{error}");
                    failed += 1;
                }
                assert!(was_hit || ended.is_ok());
                world.turn(&mut chat, "and now?").await;
                world.turn(&mut chat, "and then?").await;
                assert!(
                    world.told.warnings().is_empty(),
                    "{:?}",
                    world.told.warnings()
                );
                world.check();
                if !was_hit {
                    break;
                }
            }
            // Each message is one call.
            assert!(many == 1 || failed >= 4, "{fault:?} {many}: {failed}");
        }
    }
}
