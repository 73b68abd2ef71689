//! The requested cache lifetime: `prefix: {ttl: …}`, and human-paced turns.

use std::sync::Arc;
use std::time::Duration;

use cachalot_agent::Chat;
use cachalot_core::ManualClock;
use cachalot_simulator::ScriptedReply;
use serde_json::{Value, json};

use crate::event_recorder::Note;
use crate::fixture::{Fixture, Wire};

fn file(prefix: &str) -> String {
    format!(
        "agents:\n  root:\n    model: test\n    instruction: {}\n{prefix}",
        "Be brief. ".repeat(500)
    )
}

/// The times that the markers of a body ask for, in their order.
fn times(body: &Value) -> Vec<String> {
    let text = body.to_string();
    let markers = text.split(r#""cache_control":"#).skip(1);
    let hour = |marker: &str| marker.starts_with(r#"{"type":"ephemeral","ttl":"1h"}"#);
    markers
        .map(|marker| if hour(marker) { "1h" } else { "5m" }.to_owned())
        .collect()
}

/// The markers of the first requests of two turns; ten minutes lie between them if the user is slow.
async fn of_two_turns(prefix: &str, human_paced: bool) -> [Vec<String>; 2] {
    let replies = ["One.", "Two."].map(ScriptedReply::text);
    let fixture = Fixture::new(Wire::Messages, &file(prefix), replies.into()).await;
    let mut dependencies = fixture.dependencies();
    dependencies.human_paced = human_paced;
    let clock = Arc::new(ManualClock::at(fixture.clock.now()));
    dependencies.clock = clock.clone();
    let mut chat = Chat::begin(dependencies, fixture.team(), None)
        .await
        .unwrap();
    fixture.turn(&mut chat, "First.").await;
    clock.advance(Duration::from_secs(600));
    fixture.turn(&mut chat, "Second.").await;
    let bodies = fixture.bodies();
    fixture.check();
    [times(&bodies[0]), times(&bodies[1])]
}

#[tokio::test]
async fn one_hour_ttl_is_used_for_human_paced_turns_or_when_configured() {
    let cases = [
        ("", false, "5m 5m", "5m 5m 5m"),
        ("", true, "5m 5m", "1h 1h 5m"),
        ("    prefix: {ttl: auto}\n", true, "5m 5m", "1h 1h 5m"),
        ("    prefix: {ttl: 5m}\n", true, "5m 5m", "5m 5m 5m"),
        ("    prefix: {ttl: 1h}\n", false, "1h 1h", "1h 1h 1h"),
        // Anthropic keeps nothing for twelve hours.
        ("    prefix: {ttl: 12h}\n", true, "5m 5m", "5m 5m 5m"),
    ];
    for (prefix, human_paced, first, second) in cases {
        let found = of_two_turns(prefix, human_paced).await;
        let found = found.map(|times| times.join(" "));
        assert_eq!(found, [first, second], "{prefix:?} {human_paced}");
    }
}

#[tokio::test]
async fn sub_agent_requests_keep_the_five_minute_ttl() {
    let call = ScriptedReply::call(
        "transfer_task",
        json!({"agent": "helper", "task": "Count."}),
    );
    let replies = vec![
        call,
        ScriptedReply::text("Three."),
        ScriptedReply::text("There are three."),
    ];
    let long = "Count well. ".repeat(500);
    let file = format!(
        "{}    sub_agents: [helper]\n  helper: {{model: test, instruction: {long}}}\n",
        file("")
    );
    let fixture = Fixture::new(Wire::Messages, &file, replies).await;
    let mut dependencies = fixture.dependencies();
    dependencies.human_paced = true;
    let mut chat = Chat::begin(dependencies, fixture.team(), None)
        .await
        .unwrap();
    fixture.turn(&mut chat, "How many?").await;
    let bodies = fixture.bodies();
    assert!(times(&bodies[1]).iter().all(|time| time == "5m"));
    fixture.check();
}

#[tokio::test]
async fn single_turn_without_tools_sets_no_markers() {
    for (tools, single_turn, marked) in [
        ("", true, false),
        ("", false, true),
        ("    toolsets: [{type: filesystem}]\n", true, true),
    ] {
        let fixture = Fixture::new(
            Wire::Messages,
            &file(tools),
            vec![ScriptedReply::text("One.")],
        )
        .await;
        let mut dependencies = fixture.dependencies();
        dependencies.single_turn = single_turn;
        let mut chat = Chat::begin(dependencies, fixture.team(), None)
            .await
            .unwrap();
        fixture.turn(&mut chat, "First.").await;
        let bodies = fixture.bodies();
        assert_eq!(
            !times(&bodies[0]).is_empty(),
            marked,
            "{tools:?} {single_turn}"
        );
        fixture.check();
    }
}

/// One request each; what they asked to be kept.
async fn of_single_turns(fixture: &mut Fixture, seconds_between: &[u64]) -> Vec<usize> {
    let clock = Arc::new(ManualClock::at(fixture.clock.now()));
    fixture.clock = clock.clone();
    for seconds in seconds_between {
        clock.advance(Duration::from_secs(*seconds));
        let mut dependencies = fixture.dependencies();
        dependencies.single_turn = true;
        let mut chat = Chat::begin(dependencies, fixture.team(), None)
            .await
            .unwrap();
        fixture.turn(&mut chat, "First.").await;
    }
    let bodies = fixture.bodies();
    bodies.iter().map(|body| times(body).len()).collect()
}

#[tokio::test]
async fn single_turns_in_a_row_share_tools_and_system_text() {
    let replies = vec![ScriptedReply::text("One."); 4];
    let mut fixture = Fixture::new(Wire::Messages, &file(""), replies)
        .await
        .in_file();
    // The second one is evidence of a third, and the fourth comes too late to read anything.
    let marked = of_single_turns(&mut fixture, &[0, 60, 60, 600]).await;
    assert_eq!(marked, [0, 1, 1, 0]);
    fixture.check();
}

#[tokio::test]
async fn second_request_of_a_single_turn_chat_sets_markers() {
    let replies = ["One.", "Two."].map(ScriptedReply::text);
    let fixture = Fixture::new(Wire::Messages, &file(""), replies.into()).await;
    let mut dependencies = fixture.dependencies();
    dependencies.single_turn = true;
    let mut chat = Chat::begin(dependencies, fixture.team(), None)
        .await
        .unwrap();
    fixture.turn(&mut chat, "First.").await;
    let turn = fixture.turn(&mut chat, "Second.").await;
    let bodies = fixture.bodies();
    assert_eq!(times(&bodies[0]), [] as [&str; 0]);
    assert!(!times(&bodies[1]).is_empty());
    assert_eq!(turn.breaks, [], "it had nothing to read");
    fixture.check();
}

#[tokio::test]
async fn unmarked_single_turn_is_no_break_when_its_session_continues() {
    let replies = ["One.", "Two."].map(ScriptedReply::text);
    let fixture = Fixture::new(Wire::Messages, &file(""), replies.into())
        .await
        .in_file();
    let mut dependencies = fixture.dependencies();
    dependencies.single_turn = true;
    let mut chat = Chat::begin(dependencies, fixture.team(), None)
        .await
        .unwrap();
    fixture.turn(&mut chat, "First.").await;
    let mut again = fixture.resume(chat.session()).await.unwrap();
    let turn = fixture.turn(&mut again, "Second.").await;
    assert_eq!(turn.breaks, []);
    assert!(!times(&fixture.bodies()[1]).is_empty());
    fixture.check();
}

#[tokio::test]
async fn a_prefix_break_is_reported_once() {
    let replies = ["One.", "Two."].map(ScriptedReply::text);
    let file = "agents:\n  root: {model: test, instruction: Be brief.}\n";
    let fixture = Fixture::new(Wire::Messages, file, replies.into()).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "First.").await;
    fixture.turn(&mut chat, "Second.").await;
    let notes = fixture.reported.notes();
    let reported: Vec<&String> = notes
        .iter()
        .filter_map(|note| match note {
            Note::Noted(text) => Some(text),
            _ => None,
        })
        .collect();
    let [reported] = reported[..] else {
        panic!("{reported:?}");
    };
    assert!(
        reported.contains("too short") && reported.contains("1024"),
        "{reported}"
    );
    assert!(fixture.bodies().iter().all(|body| times(body).is_empty()));
    fixture.check();
}
