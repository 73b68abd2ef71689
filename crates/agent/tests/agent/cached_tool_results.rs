//! Results that are served again, as a turn sees them.

use cachalot_agent::CancellationToken;
use cachalot_simulator::ScriptedReply;
use cachalot_tools::CallOutcome;
use serde_json::json;

use crate::bodies::{Turn, turns};
use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire};
use crate::turns::CODER;

fn read() -> ScriptedReply {
    ScriptedReply::call("read_file", json!({"path": "a.md"}))
}

fn edit(from: &str, to: &str) -> ScriptedReply {
    let arguments = json!({"path": "a.md", "old_text": from, "new_text": to});
    ScriptedReply::call("edit_file", arguments)
}

fn how(fixture: &Fixture) -> Vec<String> {
    let reported = |ended: crate::event_recorder::EndedCall| match ended.how {
        CallOutcome::Ran(Some(why)) => format!("ran: {why}"),
        how => how.to_string(),
    };
    fixture.reported.ended().into_iter().map(reported).collect()
}

fn newest_result(fixture: &Fixture) -> String {
    match turns(&fixture.last_body()).pop() {
        Some(Turn::Results(mut results)) => results.pop().unwrap().1,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn cached_file_read_is_served_until_the_file_is_edited() {
    for wire in WIRES {
        let file = format!("{CODER}tools: {{cacheToolResults: true}}\n");
        let replies = vec![
            read(),
            read(),
            edit("one", "two"),
            read(),
            ScriptedReply::text("done"),
        ];
        let fixture = Fixture::new(wire, &file, replies).await;
        fixture.write("a.md", "one\n");
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "go").await;
        let how = how(&fixture);
        assert_eq!(how[1], "hit", "{how:?}");
        assert!(
            how[0].starts_with("ran") && how[2].starts_with("ran"),
            "{how:?}"
        );
        assert!(how[3].starts_with("ran: ") && how[3] != how[0], "{how:?}");
        assert_eq!((report.sum.tool_calls, report.sum.saved.calls), (4, 1));
        let ended = fixture.reported.ended();
        assert_eq!(ended[0].text, ended[1].text);
        assert!(ended[3].text.contains("two") && !ended[3].text.contains("one"));
        assert!(newest_result(&fixture).contains("two"));
        fixture.check();
    }
}

#[tokio::test]
async fn external_change_and_new_session_invalidate_cached_reads() {
    let file = format!("{CODER}tools: {{cacheToolResults: true}}\n");
    let replies = vec![
        read(),
        ScriptedReply::text("1"),
        read(),
        ScriptedReply::text("2"),
        read(),
        ScriptedReply::text("3"),
        read(),
        ScriptedReply::text("4"),
    ];
    let fixture = Fixture::new(Wire::Messages, &file, replies).await;
    fixture.write("a.md", "one\n");
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "a").await;
    fixture.turn(&mut chat, "b").await;
    fixture.write("a.md", "another text\n");
    fixture.turn(&mut chat, "c").await;
    chat.start_new_session().await.unwrap();
    fixture.turn(&mut chat, "d").await;
    let how = how(&fixture);
    assert_eq!(how[1], "hit");
    assert!(
        how[2].starts_with("ran: ") && how[3].starts_with("ran"),
        "{how:?}"
    );
    assert!(fixture.reported.ended()[2].text.contains("another text"));
    fixture.check();
}

/// A short note stands for a result only where the result itself can be read above it.
#[tokio::test]
async fn a_marker_never_refers_to_a_result_that_was_interrupted() {
    for wire in WIRES {
        let file =
            format!("{CODER}tools: {{cacheToolResults: true, cacheToolResultsDelivery: marker}}\n");
        let both = read().and_call("forever", json!({}));
        let replies = vec![
            both,
            read(),
            ScriptedReply::text("1"),
            read(),
            ScriptedReply::text("2"),
        ];
        let mut fixture = Fixture::new(wire, &file, replies).await;
        fixture.tools = vec![std::sync::Arc::new(crate::cancelling::HangingTool::new(
            "forever",
        ))];
        fixture.write(
            "a.md",
            &"a line that is long enough to be worth a note\n".repeat(20),
        );
        let mut chat = fixture.chat().await;
        let cancel = CancellationToken::default();
        fixture
            .reported
            .cancel_when(&cancel, |note| matches!(note, Note::EndedCall(_)));
        chat.turn("go", &cancel).await.unwrap();
        fixture.reported.react(|_| {});
        // The result that came before the interruption is in the conversation.
        fixture.turn(&mut chat, "again").await;
        fixture.turn(&mut chat, "and again").await;
        let ended = fixture.reported.ended();
        let is_note = |text: &str| text.contains("\"status\":\"unchanged\"");
        for (at, ended) in ended.iter().enumerate() {
            if !is_note(&ended.text) {
                continue;
            }
            let note: serde_json::Value = serde_json::from_str(&ended.text).unwrap();
            let id = note["since_call"].as_str().unwrap();
            let all = turns(&fixture.last_body());
            let result = all.iter().find_map(|turn| match turn {
                Turn::Results(results) => results.iter().find(|(known, _)| known == id),
                _ => None,
            });
            let (_, text) = result.expect("the result that the note names");
            assert!(text.contains("long enough"), "note {at} names {text}");
        }
        assert!(ended.iter().any(|ended| is_note(&ended.text)), "{ended:?}");
        fixture.check();
    }
}
