//! Turns that do not come to an end by themselves.

use cachalot_agent::Stop;
use cachalot_simulator::ScriptedReply;
use serde_json::json;

use crate::fixture::{Fixture, WIRES, Wire};
use crate::turns::CODER;

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
async fn max_iterations_ends_the_turn_and_the_next_continues() {
    for wire in WIRES {
        let file = CODER.replace("toolsets:", "max_iterations: 3\n    toolsets:");
        let mut replies: Vec<ScriptedReply> = (0..3).map(read).collect();
        replies.push(ScriptedReply::text("I go on."));
        let fixture = Fixture::new(wire, &file, replies).await;
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "go").await;
        assert_eq!(report.stop, Stop::Iterations(3));
        assert_eq!((report.sum.model_calls, report.sum.tool_calls), (3, 3));
        let notice = report.stop.notice().unwrap();
        assert_eq!(
            notice,
            "stopped after 3 model calls (max_iterations); send a message to continue"
        );
        assert_eq!(fixture.turn(&mut chat, "go on").await.text, "I go on.");
        fixture.check();
    }
}

#[tokio::test]
async fn max_iterations_zero_is_unlimited() {
    let file = CODER.replace("toolsets:", "max_iterations: 0\n    toolsets:");
    let mut replies: Vec<ScriptedReply> = (0..60).map(read).collect();
    replies.push(ScriptedReply::text("done"));
    let fixture = Fixture::new(Wire::Chat, &file, replies).await;
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "go").await;
    assert_eq!((report.stop, report.sum.model_calls), (Stop::End, 61));
    fixture.check();
}

#[tokio::test]
async fn repeated_identical_calls_end_the_turn() {
    for wire in WIRES {
        let mut replies = vec![read(1)];
        replies.extend((0..5).map(look));
        replies.push(ScriptedReply::text("I stop."));
        let fixture = Fixture::new(wire, CODER, replies).await;
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "go").await;
        assert_eq!(report.stop, Stop::Repetition(5));
        assert_eq!(report.text, "Look 4.");
        // The fifth is not made, and has a result all the same.
        let ended = fixture.reported.ended();
        let made = ended.iter().filter(|ended| !ended.is_error).count();
        assert_eq!((ended.len(), made), (6, 4));
        assert!(ended[5].text.contains("5 times in a row"), "{:?}", ended[5]);
        assert_eq!(fixture.turn(&mut chat, "stop it").await.text, "I stop.");
        fixture.check();
    }
}

#[tokio::test]
async fn alternating_calls_are_not_a_repetition() {
    let replies = (0..12)
        .map(|at| if at % 4 == 3 { read(at) } else { look(at) })
        .chain([ScriptedReply::text("done")]);
    let fixture = Fixture::new(Wire::Chat, CODER, replies.collect()).await;
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "go").await;
    assert_eq!((report.stop, report.sum.model_calls), (Stop::End, 13));
    fixture.check();
}

#[tokio::test]
async fn repetition_limit_can_be_disabled() {
    let file = CODER.replace("toolsets:", "max_consecutive_tool_calls: 0\n    toolsets:");
    let replies = (0..20).map(look).chain([ScriptedReply::text("done")]);
    let fixture = Fixture::new(Wire::Chat, &file, replies.collect()).await;
    let mut chat = fixture.chat().await;
    assert_eq!(fixture.turn(&mut chat, "go").await.stop, Stop::End);
    fixture.check();
}
