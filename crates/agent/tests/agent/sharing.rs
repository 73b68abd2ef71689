//! One session in two processes.

use std::sync::Arc;

use cachalot_agent::{CancellationToken, Chat, Dependencies, ErrorKind};
use cachalot_prompt::Sessions;
use cachalot_simulator::{Fault, ScriptedReply};
use serde_json::json;

use crate::bodies::turns;
use crate::cancelling::Forever;
use crate::told::Note;
use crate::turns::{CODER, TALKER};
use crate::world::{WIRES, Wire, World};

async fn elsewhere(world: &World, session: &str) -> (Chat, Dependencies) {
    let house = world.house_over(world.elsewhere());
    let chat = Chat::resume(house.clone(), world.team(), session)
        .await
        .unwrap();
    (chat, house)
}

#[tokio::test]
async fn turns_in_turns_go_on_from_each_other() {
    for wire in WIRES {
        let replies = ["one", "two", "three", "four"].map(ScriptedReply::text);
        let world = World::new(wire, TALKER, replies.to_vec()).await.in_file();
        let mut here = world.chat().await;
        world.turn(&mut here, "a").await;
        let (mut there, _) = elsewhere(&world, here.session()).await;
        assert_eq!(world.turn(&mut there, "b").await.text, "two");
        // Somebody else has gone on: so does this one, and tells it.
        assert_eq!(world.told.warnings(), [] as [String; 0]);
        assert_eq!(world.turn(&mut here, "c").await.text, "three");
        let warnings = world.told.warnings();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("continued elsewhere"), "{warnings:?}");
        assert_eq!(world.turn(&mut there, "d").await.text, "four");
        assert_eq!(turns(&world.last_body()).len(), 7);
        world.check();
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
        let mut world = World::new(wire, CODER, replies).await.in_file();
        let open = Arc::new(tokio::sync::Semaphore::new(0));
        world.tools = vec![Arc::new(Gated(Arc::clone(&open), Forever::new("wait")))];
        let mut here = world.chat().await;
        world.turn(&mut here, "a").await;
        let (mut there, _) = elsewhere(&world, here.session()).await;
        let never = CancellationToken::default();
        let meanwhile = async {
            let waits =
                |world: &World| world.told.notes().contains(&Note::Began("wait".to_owned()));
            world.until("the tool", waits).await;
            let report = world.turn(&mut there, "c").await;
            open.add_permits(1);
            report
        };
        let (here_ended, there_ended) = tokio::join!(here.turn("b", &never), meanwhile);
        assert_eq!(there_ended.text, "two");
        let error = here_ended.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict);
        assert!(error.message.contains("continued elsewhere"), "{error}");
        assert_eq!(world.turn(&mut here, "d").await.text, "three");
        world.check();
    }
}

/// Ends when the gate opens.
struct Gated(Arc<tokio::sync::Semaphore>, Forever);

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
    let world = World::new(Wire::Chat, TALKER, replies.to_vec())
        .await
        .in_file();
    let mut here = world.chat().await;
    world.turn(&mut here, "a").await;
    let sessions: Sessions = world.house_over(world.elsewhere()).sessions;
    assert!(sessions.remove(here.session()).await.unwrap());
    for _ in 0..2 {
        let error = here
            .turn("b", &CancellationToken::default())
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Session);
        assert!(error.message.contains("was removed"), "{error}");
    }
    assert_eq!(world.simulator.received().len(), 1);
    here.start_new_session().await.unwrap();
    assert_eq!(world.turn(&mut here, "c").await.text, "two");
    world.check();
}

#[tokio::test]
async fn a_failure_here_and_a_turn_there_do_not_disturb_each_other() {
    let replies = vec![
        ScriptedReply::default().with_fault(Fault::status(400)),
        ScriptedReply::text("two"),
        ScriptedReply::text("three"),
    ];
    let world = World::new(Wire::Messages, TALKER, replies).await.in_file();
    let mut here = world.chat().await;
    here.turn("a", &CancellationToken::default())
        .await
        .unwrap_err();
    let (mut there, _) = elsewhere(&world, here.session()).await;
    assert_eq!(world.turn(&mut there, "b").await.text, "two");
    assert_eq!(world.turn(&mut here, "c").await.text, "three");
    assert_eq!(turns(&world.last_body()).len(), 5);
    world.check();
}
