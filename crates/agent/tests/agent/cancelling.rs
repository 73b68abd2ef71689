//! Interrupting a turn wherever it may be, and going on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_agent::{CancellationToken, ContextSource, Stop};
use cachalot_simulator::{Fault, ScriptedReply};
use cachalot_tools::{Arguments, Operation, OperationMetadata, ToolContext, ToolOutput};
use serde_json::json;

use crate::bodies::{Turn, turns};
use crate::told::Note;
use crate::turns::{CODER, TALKER};
use crate::world::{WIRES, Wire, World};

/// A tool that never ends, and notices when it is dropped.
pub(crate) struct Forever {
    metadata: OperationMetadata,
    dropped: Arc<AtomicBool>,
}

struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Forever {
    pub(crate) fn new(name: &str) -> Self {
        let parameters = json!({"type": "object", "properties": {}});
        let mut metadata = OperationMetadata::with_side_effects(
            name.to_owned(),
            "Never ends.".to_owned(),
            parameters,
        );
        metadata.read_only = true;
        Self {
            metadata,
            dropped: Arc::default(),
        }
    }

    pub(crate) fn was_dropped(&self) -> bool {
        self.dropped.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Operation for Forever {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    async fn run(&self, _: Arguments, _: &ToolContext) -> ToolOutput {
        let _dropped = Dropped(Arc::clone(&self.dropped));
        std::future::pending().await
    }
}

fn results(world: &World) -> Vec<String> {
    let turns = turns(&world.last_body());
    let results = turns.into_iter().rev().find_map(|turn| match turn {
        Turn::Results(results) => Some(results),
        _ => None,
    });
    results.unwrap().into_iter().map(|(_, text)| text).collect()
}

#[tokio::test]
async fn in_the_middle_of_an_answer() {
    for wire in WIRES {
        let long = "This is an answer of many words that comes slowly, one piece after the other, until somebody has heard enough of it and says so.";
        let replies = vec![
            ScriptedReply::text(long)
                .with_fault(Fault::slow(Duration::ZERO, Duration::from_millis(20))),
            ScriptedReply::text("yes"),
        ];
        let world = World::new(wire, TALKER, replies).await;
        let mut chat = world.chat().await;
        let cancel = CancellationToken::default();
        world
            .told
            .cancel_when(&cancel, |note| matches!(note, Note::Text(..)));
        let report = chat.turn("tell me", &cancel).await.unwrap();
        assert_eq!(report.stop, Stop::Interrupted);
        assert!(
            !report.text.is_empty() && long.starts_with(&report.text),
            "{}",
            report.text
        );
        assert!(report.text.len() < long.len());
        assert!(cancel.is_cancelled());
        world
            .until("the provider notices", |world| {
                world.simulator.received()[0].disconnected
            })
            .await;

        // What the user has seen is in the conversation.
        assert_eq!(world.turn(&mut chat, "enough").await.text, "yes");
        let turns = turns(&world.last_body());
        let Turn::Model { text, .. } = &turns[1] else {
            panic!("{turns:?}");
        };
        assert!(text.starts_with(report.text.trim_end()), "{text}");
        assert!(text.ends_with("(the answer broke off here)"), "{text}");
        world.check();
    }
}

#[tokio::test]
async fn before_anything_has_come() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::text("late")
                .with_fault(Fault::slow(Duration::from_secs(600), Duration::ZERO)),
            ScriptedReply::text("yes"),
        ];
        let world = World::new(wire, TALKER, replies).await;
        let mut chat = world.chat().await;
        let cancel = CancellationToken::default();
        let waiting = async {
            world
                .until("a request", |world| world.simulator.received().len() == 1)
                .await;
            cancel.cancel();
        };
        let (report, ()) = tokio::join!(chat.turn("tell me", &cancel), waiting);
        assert_eq!(report.unwrap().stop, Stop::Interrupted);
        world
            .until("the provider notices", |world| {
                world.simulator.received()[0].disconnected
            })
            .await;
        assert_eq!(world.turn(&mut chat, "again").await.text, "yes");
        let turns = turns(&world.last_body());
        assert!(matches!(&turns[1], Turn::Model { text, .. } if text.contains("no answer")));
        world.check();
    }
}

#[tokio::test]
async fn in_a_tool_with_one_done_and_one_to_come() {
    for wire in WIRES {
        let calls = ScriptedReply::call("write_file", json!({"path": "a", "content": "done"}))
            .and_call("forever", json!({}))
            .and_call("write_file", json!({"path": "b", "content": "never"}));
        let mut world = World::new(wire, CODER, vec![calls, ScriptedReply::text("yes")]).await;
        let forever = Arc::new(Forever::new("forever"));
        world.tools = vec![Arc::clone(&forever) as _];
        let mut chat = world.chat().await;
        let cancel = CancellationToken::default();
        let began = |note: &Note| *note == Note::Began("forever".to_owned());
        world.told.cancel_when(&cancel, began);
        let report = chat.turn("go", &cancel).await.unwrap();
        assert_eq!((report.stop, report.sum.tool_calls), (Stop::Interrupted, 1));
        assert!(forever.was_dropped());
        assert_eq!(world.read("a"), "done");
        assert!(!world.root.path().join("b").exists());

        assert_eq!(world.turn(&mut chat, "what happened?").await.text, "yes");
        let results = results(&world);
        assert!(
            results[0].contains('a') && !results[0].contains("interrupted"),
            "{results:?}"
        );
        assert!(
            results[1].contains("Whether it had an effect is not known"),
            "{results:?}"
        );
        assert!(results[2].contains("was not made"), "{results:?}");
        world.check();
    }
}

#[tokio::test]
async fn while_approval_is_pending() {
    for wire in WIRES {
        let calls = ScriptedReply::call("list_dir", json!({}))
            .and_call("apply_patch", json!({"patch": "x"}));
        let world = World::new(wire, CODER, vec![calls, ScriptedReply::text("yes")]).await;
        let mut chat = world.chat().await;
        let cancel = CancellationToken::default();
        world.answers.cancel_instead(&cancel);
        let report = chat.turn("go", &cancel).await.unwrap();
        assert_eq!((report.stop, report.sum.tool_calls), (Stop::Interrupted, 0));
        assert_eq!(world.answers.asked().len(), 1);
        assert_eq!(world.turn(&mut chat, "hello").await.text, "yes");
        for result in results(&world) {
            assert!(result.contains("was not made"), "{result}");
        }
        world.check();
    }
}

#[tokio::test]
async fn before_it_begins() {
    let world = World::new(Wire::Chat, TALKER, vec![ScriptedReply::text("yes")]).await;
    let mut chat = world.chat().await;
    let cancel = CancellationToken::default();
    cancel.cancel();
    let report = chat.turn("hello", &cancel).await.unwrap();
    assert_eq!(report.stop, Stop::Interrupted);
    assert_eq!(
        report.stop.notice().unwrap(),
        "interrupted; the session is kept"
    );
    assert_eq!(world.simulator.received().len(), 0);
    assert_eq!(world.turn(&mut chat, "hello").await.text, "yes");
    world.check();
}

#[tokio::test]
async fn while_its_context_is_gathered() {
    struct Never;

    #[async_trait]
    impl ContextSource for Never {
        async fn paragraph(
            &self,
            _: &cachalot_agent::AgentDefinition,
            message: &str,
        ) -> Option<String> {
            if message == "hang" {
                std::future::pending::<()>().await;
            }
            None
        }
    }

    let mut world = World::new(Wire::Chat, TALKER, vec![ScriptedReply::text("yes")]).await;
    world.sources = vec![Arc::new(Never)];
    let mut chat = world.chat().await;
    let cancel = CancellationToken::default();
    let soon = async {
        tokio::task::yield_now().await;
        cancel.cancel();
    };
    let (report, ()) = tokio::join!(chat.turn("hang", &cancel), soon);
    assert_eq!(report.unwrap().stop, Stop::Interrupted);
    assert_eq!(world.turn(&mut chat, "hello").await.text, "yes");
    world.check();
}

/// Whoever drops the future of a turn cancels it, too.
#[tokio::test]
async fn by_dropping_the_turn() {
    for wire in WIRES {
        let calls = ScriptedReply::call("write_file", json!({"path": "a", "content": "x"}))
            .and_call("forever", json!({}));
        let mut world = World::new(wire, CODER, vec![calls, ScriptedReply::text("yes")]).await;
        let forever = Arc::new(Forever::new("forever"));
        world.tools = vec![Arc::clone(&forever) as _];
        let mut chat = world.chat().await;
        let never = CancellationToken::default();
        tokio::select! {
            _ = chat.turn("go", &never) => panic!("it never ends"),
            () = world.until("the tool", |world| {
                world.told.notes().contains(&Note::Began("forever".to_owned()))
            }) => {}
        }
        assert!(forever.was_dropped());
        let report = world.turn(&mut chat, "hello").await;
        assert_eq!((report.text.as_str(), report.sum.model_calls), ("yes", 1));
        // What the dropped turn used is in the sum of all.
        assert_eq!(chat.close().await.model_calls, 2);
        world.check();
    }
}

/// At every moment that can be told apart: whatever is told, told of next, and so on.
#[tokio::test]
async fn wherever_it_is_the_next_request_is_accepted() {
    for wire in WIRES {
        let replies = || {
            vec![
                ScriptedReply {
                    text: Some("I look into it.".to_owned()),
                    ..ScriptedReply::call("read_file", json!({"path": "a"}))
                        .and_call("list_dir", json!({}))
                        .with_reasoning("Let me see.")
                },
                ScriptedReply::call("write_file", json!({"path": "b", "content": "x"})),
                ScriptedReply::text("Done, and said in more than a single piece of text."),
                ScriptedReply::text("yes"),
            ]
        };
        let mut moment = 0;
        loop {
            let world = World::new(wire, CODER, replies()).await;
            world.write("a", "A");
            let mut chat = world.chat().await;
            let cancel = CancellationToken::default();
            let left = std::sync::atomic::AtomicUsize::new(moment);
            world.told.cancel_when(&cancel, move |_| {
                left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                    left.checked_sub(1)
                })
                .is_err()
            });
            let report = chat.turn("go", &cancel).await.unwrap();
            world.told.react(|_| {});
            world.turn(&mut chat, "and now?").await;
            world.turn(&mut chat, "and then?").await;
            world.check();
            if report.stop == Stop::End {
                break;
            }
            moment += 1;
        }
        assert!(moment > 10, "{moment}");
    }
}
