//! One session in two processes.

use std::sync::Arc;

use cachalot_agent::{CancellationToken, Chat, Dependencies, ErrorKind};
use cachalot_prompt::Sessions;
use cachalot_simulator::{Fault, ScriptedReply};
use serde_json::json;

use crate::bodies::turns;
use crate::cancelling::HangingTool;
use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire};
use crate::turns::{CODER, TALKER};

async fn elsewhere(fixture: &Fixture, session: &str) -> (Chat, Dependencies) {
    let dependencies = fixture.dependencies_over(fixture.elsewhere());
    let chat = Chat::resume(dependencies.clone(), fixture.team(), session)
        .await
        .unwrap();
    (chat, dependencies)
}

#[tokio::test]
async fn alternating_processes_continue_one_session() {
    for wire in WIRES {
        let replies = ["one", "two", "three", "four"].map(ScriptedReply::text);
        let fixture = Fixture::new(wire, TALKER, replies.to_vec()).await.in_file();
        let mut here = fixture.chat().await;
        fixture.turn(&mut here, "a").await;
        let (mut there, _) = elsewhere(&fixture, here.session()).await;
        assert_eq!(fixture.turn(&mut there, "b").await.text, "two");
        // Another process continued the session: this one continues after it, and warns.
        assert_eq!(fixture.reported.warnings(), [] as [String; 0]);
        assert_eq!(fixture.turn(&mut here, "c").await.text, "three");
        let warnings = fixture.reported.warnings();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("continued elsewhere"), "{warnings:?}");
        assert_eq!(fixture.turn(&mut there, "d").await.text, "four");
        assert_eq!(turns(&fixture.last_body()).len(), 7);
        fixture.check();
    }
}

#[tokio::test]
async fn a_concurrent_turn_ends_with_a_conflict_and_can_continue() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::text("one"),
            ScriptedReply::call("wait", json!({})),
            ScriptedReply::text("two"),
            ScriptedReply::text("three"),
        ];
        let mut fixture = Fixture::new(wire, CODER, replies).await.in_file();
        let open = Arc::new(tokio::sync::Semaphore::new(0));
        fixture.tools = vec![Arc::new(Gated(Arc::clone(&open), HangingTool::new("wait")))];
        let mut here = fixture.chat().await;
        fixture.turn(&mut here, "a").await;
        let (mut there, _) = elsewhere(&fixture, here.session()).await;
        let never = CancellationToken::default();
        let meanwhile = async {
            let waits = |fixture: &Fixture| {
                fixture
                    .reported
                    .notes()
                    .contains(&Note::Began("wait".to_owned()))
            };
            fixture.until("the tool", waits).await;
            let report = fixture.turn(&mut there, "c").await;
            open.add_permits(1);
            report
        };
        let (here_ended, there_ended) = tokio::join!(here.turn("b", &never), meanwhile);
        assert_eq!(there_ended.text, "two");
        let error = here_ended.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict);
        assert!(error.message.contains("continued elsewhere"), "{error}");
        assert_eq!(fixture.turn(&mut here, "d").await.text, "three");
        fixture.check();
    }
}

/// Ends when the gate opens.
struct Gated(Arc<tokio::sync::Semaphore>, HangingTool);

#[async_trait::async_trait]
impl cachalot_operation::Operation for Gated {
    type Context = cachalot_tools::ToolContext;
    type Output = cachalot_tools::ToolOutput;

    fn metadata(&self) -> &cachalot_tools::OperationMetadata {
        self.1.metadata()
    }

    async fn run(
        &self,
        _: cachalot_tools::Arguments,
        _: &cachalot_tools::ToolContext,
    ) -> cachalot_tools::ToolOutput {
        let _permit = self.0.acquire().await.unwrap();
        cachalot_tools::ToolOutput::text("waited")
    }
}

#[tokio::test]
async fn a_removed_session_is_reported_and_a_new_one_can_begin() {
    let replies = ["one", "two"].map(ScriptedReply::text);
    let fixture = Fixture::new(Wire::Chat, TALKER, replies.to_vec())
        .await
        .in_file();
    let mut here = fixture.chat().await;
    fixture.turn(&mut here, "a").await;
    let sessions: Sessions = fixture.dependencies_over(fixture.elsewhere()).sessions;
    assert!(sessions.remove(here.session()).await.unwrap());
    for _ in 0..2 {
        let error = here
            .turn("b", &CancellationToken::default())
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Session);
        assert!(error.message.contains("was removed"), "{error}");
    }
    assert_eq!(fixture.simulator.received().len(), 1);
    here.start_new_session().await.unwrap();
    assert_eq!(fixture.turn(&mut here, "c").await.text, "two");
    fixture.check();
}

#[tokio::test]
async fn failed_turn_does_not_affect_a_turn_of_another_process() {
    let replies = vec![
        ScriptedReply::default().with_fault(Fault::status(400)),
        ScriptedReply::text("two"),
        ScriptedReply::text("three"),
    ];
    let fixture = Fixture::new(Wire::Messages, TALKER, replies)
        .await
        .in_file();
    let mut here = fixture.chat().await;
    here.turn("a", &CancellationToken::default())
        .await
        .unwrap_err();
    let (mut there, _) = elsewhere(&fixture, here.session()).await;
    assert_eq!(fixture.turn(&mut there, "b").await.text, "two");
    assert_eq!(fixture.turn(&mut here, "c").await.text, "three");
    assert_eq!(turns(&fixture.last_body()).len(), 5);
    fixture.check();
}
