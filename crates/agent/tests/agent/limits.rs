//! Turns that do not come to an end by themselves.

use cachalot_agent::Stop;
use cachalot_simulator::ScriptedReply;
use serde_json::json;

use crate::turns::CODER;
use crate::world::{WIRES, Wire, World};

fn look(number: usize) -> ScriptedReply {
    ScriptedReply {
        text: Some(format!("Look {number}.")),
        ..ScriptedReply::call("list_dir", json!({"path": "."}))
    }
}

fn read(number: usize) -> ScriptedReply {
    ScriptedReply::call("read_file", json!({"path": format!("{number}")}))
}

#[tokio::test]
async fn a_turn_has_so_many_model_calls_and_the_next_goes_on() {
    for wire in WIRES {
        let file = CODER.replace("toolsets:", "max_iterations: 3\n    toolsets:");
        let mut replies: Vec<ScriptedReply> = (0..3).map(read).collect();
        replies.push(ScriptedReply::text("I go on."));
        let world = World::new(wire, &file, replies).await;
        let mut chat = world.chat().await;
        let report = world.turn(&mut chat, "go").await;
        assert_eq!(report.stop, Stop::Iterations(3));
        assert_eq!((report.sum.model_calls, report.sum.tool_calls), (3, 3));
        let notice = report.stop.notice().unwrap();
        assert_eq!(
            notice,
            "stopped after 3 model calls (max_iterations); send a message to continue"
        );
        assert_eq!(world.turn(&mut chat, "go on").await.text, "I go on.");
        world.check();
    }
}

#[tokio::test]
async fn no_limit_is_none() {
    let file = CODER.replace("toolsets:", "max_iterations: 0\n    toolsets:");
    let mut replies: Vec<ScriptedReply> = (0..60).map(read).collect();
    replies.push(ScriptedReply::text("done"));
    let world = World::new(Wire::Chat, &file, replies).await;
    let mut chat = world.chat().await;
    let report = world.turn(&mut chat, "go").await;
    assert_eq!((report.stop, report.sum.model_calls), (Stop::End, 61));
    world.check();
}

#[tokio::test]
async fn the_same_calls_again_and_again_end_the_turn() {
    for wire in WIRES {
        let mut replies = vec![read(1)];
        replies.extend((0..5).map(look));
        replies.push(ScriptedReply::text("I stop."));
        let world = World::new(wire, CODER, replies).await;
        let mut chat = world.chat().await;
        let report = world.turn(&mut chat, "go").await;
        assert_eq!(report.stop, Stop::Repetition(5));
        assert_eq!(report.text, "Look 4.");
        // The fifth is not made, and has a result all the same.
        let ended = world.told.ended();
        let made = ended.iter().filter(|ended| !ended.is_error).count();
        assert_eq!((ended.len(), made), (6, 4));
        assert!(ended[5].text.contains("5 times in a row"), "{:?}", ended[5]);
        assert_eq!(world.turn(&mut chat, "stop it").await.text, "I stop.");
        world.check();
    }
}

#[tokio::test]
async fn other_calls_in_between_are_no_repetition() {
    let replies = (0..12)
        .map(|at| if at % 4 == 3 { read(at) } else { look(at) })
        .chain([ScriptedReply::text("done")]);
    let world = World::new(Wire::Chat, CODER, replies.collect()).await;
    let mut chat = world.chat().await;
    let report = world.turn(&mut chat, "go").await;
    assert_eq!((report.stop, report.sum.model_calls), (Stop::End, 13));
    world.check();
}

#[tokio::test]
async fn repetition_can_be_allowed() {
    let file = CODER.replace("toolsets:", "max_consecutive_tool_calls: 0\n    toolsets:");
    let replies = (0..20).map(look).chain([ScriptedReply::text("done")]);
    let world = World::new(Wire::Chat, &file, replies.collect()).await;
    let mut chat = world.chat().await;
    assert_eq!(world.turn(&mut chat, "go").await.stop, Stop::End);
    world.check();
}
