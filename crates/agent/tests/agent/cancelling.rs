//! Interrupting a turn wherever it may be, and going on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_agent::{CancellationToken, ContextSource, Stop};
use cachalot_core::ManualClock;
use cachalot_hooks::Event;
use cachalot_simulator::{Fault, ScriptedReply};
use cachalot_tools::{
    Arguments, Operation, OperationMetadata, OutputSource, ToolContext, ToolOutput,
};
use serde_json::json;

use crate::bodies::{Turn, turns};
use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire};
use crate::turns::{CODER, TALKER};

/// A tool that never ends, and notices when it is dropped.
pub(crate) struct HangingTool {
    metadata: OperationMetadata,
    dropped: Arc<AtomicBool>,
    /// A clock that the tool advances by an hour when it starts.
    clock: Option<Arc<ManualClock>>,
}

struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl HangingTool {
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
            clock: None,
        }
    }

    pub(crate) fn advancing(name: &str, clock: &Arc<ManualClock>) -> Self {
        Self {
            clock: Some(Arc::clone(clock)),
            ..Self::new(name)
        }
    }

    pub(crate) fn was_dropped(&self) -> bool {
        self.dropped.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Operation for HangingTool {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    async fn run(&self, _: Arguments, _: &ToolContext) -> ToolOutput {
        let _dropped = Dropped(Arc::clone(&self.dropped));
        if let Some(clock) = &self.clock {
            clock.advance(Duration::from_hours(1));
        }
        std::future::pending().await
    }
}

fn results(fixture: &Fixture) -> Vec<String> {
    let turns = turns(&fixture.last_body());
    let results = turns.into_iter().rev().find_map(|turn| match turn {
        Turn::Results(results) => Some(results),
        _ => None,
    });
    results.unwrap().into_iter().map(|(_, text)| text).collect()
}

#[tokio::test]
async fn cancel_during_an_answer_keeps_the_partial_text() {
    for wire in WIRES {
        let long = "This is an answer of many words that comes slowly, one piece after the other, until somebody has heard enough of it and says so.";
        let replies = vec![
            ScriptedReply::text(long)
                .with_fault(Fault::slow(Duration::ZERO, Duration::from_millis(20))),
            ScriptedReply::text("yes"),
        ];
        let fixture = Fixture::new(wire, TALKER, replies).await;
        let mut chat = fixture.chat().await;
        let cancel = CancellationToken::default();
        fixture
            .reported
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
        fixture
            .until("the provider notices", |fixture| {
                fixture.simulator.received()[0].disconnected
            })
            .await;

        // What the user has seen is in the conversation.
        assert_eq!(fixture.turn(&mut chat, "enough").await.text, "yes");
        let turns = turns(&fixture.last_body());
        let Turn::Model { text, .. } = &turns[1] else {
            panic!("{turns:?}");
        };
        assert!(text.starts_with(report.text.trim_end()), "{text}");
        assert!(text.ends_with("(the answer broke off here)"), "{text}");
        fixture.check();
    }
}

#[tokio::test]
async fn cancel_before_the_response_closes_the_connection() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::text("late")
                .with_fault(Fault::slow(Duration::from_secs(600), Duration::ZERO)),
            ScriptedReply::text("yes"),
        ];
        let fixture = Fixture::new(wire, TALKER, replies).await;
        let mut chat = fixture.chat().await;
        let cancel = CancellationToken::default();
        let waiting = async {
            fixture
                .until("a request", |fixture| {
                    fixture.simulator.received().len() == 1
                })
                .await;
            cancel.cancel();
        };
        let (report, ()) = tokio::join!(chat.turn("tell me", &cancel), waiting);
        assert_eq!(report.unwrap().stop, Stop::Interrupted);
        fixture
            .until("the provider notices", |fixture| {
                fixture.simulator.received()[0].disconnected
            })
            .await;
        assert_eq!(fixture.turn(&mut chat, "again").await.text, "yes");
        let turns = turns(&fixture.last_body());
        assert!(matches!(&turns[1], Turn::Model { text, .. } if text.contains("no answer")));
        fixture.check();
    }
}

#[tokio::test]
async fn cancel_during_a_tool_batch_gives_every_call_a_result() {
    for wire in WIRES {
        let calls = ScriptedReply::call("write_file", json!({"path": "a", "content": "done"}))
            .and_call("forever", json!({}))
            .and_call("write_file", json!({"path": "b", "content": "never"}));
        let mut fixture = Fixture::new(wire, CODER, vec![calls, ScriptedReply::text("yes")]).await;
        let forever = Arc::new(HangingTool::new("forever"));
        fixture.tools = vec![Arc::clone(&forever) as _];
        let mut chat = fixture.chat().await;
        let cancel = CancellationToken::default();
        let began = |note: &Note| *note == Note::Began("forever".to_owned());
        fixture.reported.cancel_when(&cancel, began);
        let report = chat.turn("go", &cancel).await.unwrap();
        assert_eq!((report.stop, report.sum.tool_calls), (Stop::Interrupted, 1));
        assert!(forever.was_dropped());
        assert_eq!(fixture.read("a"), "done");
        assert!(!fixture.root.path().join("b").exists());

        assert_eq!(fixture.turn(&mut chat, "what happened?").await.text, "yes");
        let results = results(&fixture);
        assert!(
            results[0].contains('a') && !results[0].contains("interrupted"),
            "{results:?}"
        );
        assert!(
            results[1].contains("Whether it had an effect is not known"),
            "{results:?}"
        );
        assert!(results[2].contains("was not made"), "{results:?}");
        fixture.check();
    }
}

/// A tool that publishes some output, cancels the turn, and never ends.
struct WritingTool {
    metadata: OperationMetadata,
    cancel: CancellationToken,
}

struct Written;

impl OutputSource for Written {
    fn text(&self) -> String {
        "line 1\nline 2\n".to_owned()
    }

    fn end(&self, _: usize) -> String {
        self.text()
    }
}

#[async_trait]
impl Operation for WritingTool {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    async fn run(&self, _: Arguments, context: &ToolContext) -> ToolOutput {
        context.output.publish(Arc::new(Written));
        self.cancel.cancel();
        std::future::pending().await
    }
}

/// Interrupts a call after its tool has written something. Returns the result that the model receives.
async fn interrupted_result(wire: Wire, is_transformed: bool) -> String {
    let replies = vec![
        ScriptedReply::call("write", json!({})),
        ScriptedReply::text("yes"),
    ];
    let mut fixture = Fixture::new(wire, CODER, replies).await;
    if is_transformed {
        fixture.hook_recorder.listen([Event::ToolResponseTransform]);
    }
    let cancel = CancellationToken::default();
    fixture.tools = vec![Arc::new(WritingTool {
        metadata: HangingTool::new("write").metadata,
        cancel: cancel.clone(),
    })];
    let mut chat = fixture.chat().await;
    let report = chat.turn("go", &cancel).await.unwrap();
    assert_eq!(report.stop, Stop::Interrupted);
    fixture.turn(&mut chat, "what happened?").await;
    let results = results(&fixture);
    fixture.check();
    results.concat()
}

#[tokio::test]
async fn the_model_receives_the_output_of_an_interrupted_call() {
    const INTERRUPTED: &str = "The call was interrupted. Whether it had an effect is not known; look before you repeat it.";
    for wire in WIRES {
        let result = interrupted_result(wire, false).await;
        let expected = format!("{INTERRUPTED} Its output before that:\nline 1\nline 2");
        assert!(result.ends_with(&expected), "{result}");
        // Hooks that transform results have not seen it.
        let result = interrupted_result(wire, true).await;
        assert!(result.ends_with(INTERRUPTED), "{result}");
    }
}

#[tokio::test]
async fn cancel_during_an_approval_makes_no_call() {
    for wire in WIRES {
        let calls = ScriptedReply::call("list_dir", json!({}))
            .and_call("apply_patch", json!({"patch": "x"}));
        let fixture = Fixture::new(wire, CODER, vec![calls, ScriptedReply::text("yes")]).await;
        let mut chat = fixture.chat().await;
        let cancel = CancellationToken::default();
        fixture.answers.cancel_instead(&cancel);
        let report = chat.turn("go", &cancel).await.unwrap();
        assert_eq!((report.stop, report.sum.tool_calls), (Stop::Interrupted, 0));
        assert_eq!(fixture.answers.asked().len(), 1);
        assert_eq!(fixture.turn(&mut chat, "hello").await.text, "yes");
        for result in results(&fixture) {
            assert!(result.contains("was not made"), "{result}");
        }
        fixture.check();
    }
}

#[tokio::test]
async fn cancelled_token_ends_the_turn_before_the_request() {
    let fixture = Fixture::new(Wire::Chat, TALKER, vec![ScriptedReply::text("yes")]).await;
    let mut chat = fixture.chat().await;
    let cancel = CancellationToken::default();
    cancel.cancel();
    let report = chat.turn("hello", &cancel).await.unwrap();
    assert_eq!(report.stop, Stop::Interrupted);
    assert_eq!(
        report.stop.notice().unwrap(),
        "interrupted; the session is kept"
    );
    assert_eq!(fixture.simulator.received().len(), 0);
    assert_eq!(fixture.turn(&mut chat, "hello").await.text, "yes");
    fixture.check();
}

#[tokio::test]
async fn cancel_during_context_sources_ends_the_turn() {
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

    let mut fixture = Fixture::new(Wire::Chat, TALKER, vec![ScriptedReply::text("yes")]).await;
    fixture.sources = vec![Arc::new(Never)];
    let mut chat = fixture.chat().await;
    let cancel = CancellationToken::default();
    let soon = async {
        tokio::task::yield_now().await;
        cancel.cancel();
    };
    let (report, ()) = tokio::join!(chat.turn("hang", &cancel), soon);
    assert_eq!(report.unwrap().stop, Stop::Interrupted);
    assert_eq!(fixture.turn(&mut chat, "hello").await.text, "yes");
    fixture.check();
}

/// Dropping the future of a turn cancels it.
#[tokio::test]
async fn dropping_the_turn_cancels_it() {
    for wire in WIRES {
        let calls = ScriptedReply::call("write_file", json!({"path": "a", "content": "x"}))
            .and_call("forever", json!({}));
        let mut fixture = Fixture::new(wire, CODER, vec![calls, ScriptedReply::text("yes")]).await;
        let forever = Arc::new(HangingTool::new("forever"));
        fixture.tools = vec![Arc::clone(&forever) as _];
        let mut chat = fixture.chat().await;
        let never = CancellationToken::default();
        tokio::select! {
            _ = chat.turn("go", &never) => panic!("it never ends"),
            () = fixture.until("the tool", |fixture| {
                fixture.reported.notes().contains(&Note::Began("forever".to_owned()))
            }) => {}
        }
        assert!(forever.was_dropped());
        let report = fixture.turn(&mut chat, "hello").await;
        assert_eq!((report.text.as_str(), report.sum.model_calls), ("yes", 1));
        // What the dropped turn used is in the sum of all.
        assert_eq!(chat.close().await.model_calls, 2);
        fixture.check();
    }
}

/// At every moment that can be told apart: whatever is told, told of next, and so on.
#[tokio::test]
async fn next_request_is_valid_after_a_cancel_at_any_event() {
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
            let fixture = Fixture::new(wire, CODER, replies()).await;
            fixture.write("a", "A");
            let mut chat = fixture.chat().await;
            let cancel = CancellationToken::default();
            let left = std::sync::atomic::AtomicUsize::new(moment);
            fixture.reported.cancel_when(&cancel, move |_| {
                left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                    left.checked_sub(1)
                })
                .is_err()
            });
            let report = chat.turn("go", &cancel).await.unwrap();
            fixture.reported.react(|_| {});
            fixture.turn(&mut chat, "and now?").await;
            fixture.turn(&mut chat, "and then?").await;
            fixture.check();
            if report.stop == Stop::End {
                break;
            }
            moment += 1;
        }
        assert!(moment > 10, "{moment}");
    }
}
