//! How long the provider is asked to keep what was sent: `prefix: {ttl: …}`, and who is waited for.

use cachalot_agent::Chat;
use cachalot_simulator::ScriptedReply;
use serde_json::{Value, json};

use crate::told::Note;
use crate::world::{Wire, World};

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

/// The markers of the first request of two turns.
async fn of_two_turns(prefix: &str, human_paced: bool) -> [Vec<String>; 2] {
    let replies = ["One.", "Two."].map(ScriptedReply::text);
    let world = World::new(Wire::Messages, &file(prefix), replies.into()).await;
    let mut house = world.house();
    house.human_paced = human_paced;
    let mut chat = Chat::begin(house, world.team(), None).await.unwrap();
    world.turn(&mut chat, "First.").await;
    world.turn(&mut chat, "Second.").await;
    let bodies = world.bodies();
    world.check();
    [times(&bodies[0]), times(&bodies[1])]
}

#[tokio::test]
async fn an_hour_is_asked_for_where_a_person_is_waited_for_or_the_file_says_so() {
    let cases = [
        ("", false, "5m 5m", "5m 5m 5m"),
        ("", true, "1h 5m", "1h 1h 5m"),
        ("    prefix: {ttl: auto}\n", true, "1h 5m", "1h 1h 5m"),
        ("    prefix: {ttl: 5m}\n", true, "5m 5m", "5m 5m 5m"),
        ("    prefix: {ttl: 1h}\n", false, "1h 1h", "1h 1h 1h"),
    ];
    for (prefix, human_paced, first, second) in cases {
        let found = of_two_turns(prefix, human_paced).await;
        let found = found.map(|times| times.join(" "));
        assert_eq!(found, [first, second], "{prefix:?} {human_paced}");
    }
}

#[tokio::test]
async fn agents_do_not_let_each_other_wait() {
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
    let world = World::new(Wire::Messages, &file, replies).await;
    let mut house = world.house();
    house.human_paced = true;
    let mut chat = Chat::begin(house, world.team(), None).await.unwrap();
    world.turn(&mut chat, "How many?").await;
    let bodies = world.bodies();
    assert_eq!(times(&bodies[0]).first().unwrap(), "1h");
    assert!(times(&bodies[1]).iter().all(|time| time == "5m"));
    world.check();
}

#[tokio::test]
async fn what_is_worth_knowing_is_told_once() {
    let replies = ["One.", "Two."].map(ScriptedReply::text);
    let file = "agents:\n  root: {model: test, instruction: Be brief.}\n";
    let world = World::new(Wire::Messages, file, replies.into()).await;
    let mut chat = world.chat().await;
    world.turn(&mut chat, "First.").await;
    world.turn(&mut chat, "Second.").await;
    let notes = world.told.notes();
    let told: Vec<&String> = notes
        .iter()
        .filter_map(|note| match note {
            Note::Noted(text) => Some(text),
            _ => None,
        })
        .collect();
    let [told] = told[..] else {
        panic!("{told:?}");
    };
    assert!(
        told.contains("too short") && told.contains("1024"),
        "{told}"
    );
    assert!(world.bodies().iter().all(|body| times(body).is_empty()));
    world.check();
}
