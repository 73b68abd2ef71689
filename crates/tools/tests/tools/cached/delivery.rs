//! In full, or as a short note that the conversation holds it already.

use cachalot_tools::cached::{RepeatDelivery, ToolCacheSettings};
use cachalot_tools::{CallOutcome, ToolCallResult, ToolOutput};
use serde_json::{Value, json};

use super::world::{Counting, Making, World, on, text};

const LONG: usize = 4_000;

fn marking() -> ToolCacheSettings {
    ToolCacheSettings {
        delivery: RepeatDelivery::Marker,
        ..on()
    }
}

fn long(name: &str) -> Counting {
    Counting::reader(name).doing(|arguments, _, _| {
        let a = arguments.get("a").map(Value::to_string).unwrap_or_default();
        ToolOutput::text(format!("{a} {}", "x".repeat(LONG)))
    })
}

fn marked() -> World {
    let unknown = Counting::unknown("shell");
    Making::with(marking()).of(&[&long("look"), &long("other"), &unknown])
}

/// Asks in a request that holds these results.
async fn ask(world: &World, held: &[&str], arguments: Value) -> ToolCallResult {
    world
        .calls_in("main", held, &[("look", arguments)])
        .await
        .remove(0)
}

fn note(answer: &ToolCallResult) -> Option<Value> {
    serde_json::from_str(&text(answer)).ok()
}

#[tokio::test]
async fn in_full_unless_asked_for_otherwise() {
    let world = Making::with(on()).of(&[&long("look")]);
    let first = ask(&world, &[], json!({})).await;
    let second = ask(&world, &["call-0"], json!({})).await;
    assert_eq!(first.output, second.output);
}

#[tokio::test]
async fn a_note_where_the_result_can_still_be_read() {
    let world = marked();
    ask(&world, &[], json!({})).await;
    let answer = ask(&world, &["call-0"], json!({})).await;
    assert_eq!(answer.outcome, CallOutcome::Hit);
    assert!(!answer.output.is_error);
    let note = note(&answer).unwrap();
    assert_eq!(
        (&note["status"], &note["tool"], &note["since_call"]),
        (&json!("unchanged"), &json!("look"), &json!("call-0"))
    );
    let message = note["message"].as_str().unwrap();
    assert!(
        message.contains("call-0") && message.contains("force"),
        "{message}"
    );
    let counters = &world.tools.counters("main")["look"];
    let saved = LONG as u64 + 1 - text(&answer).len() as u64;
    assert_eq!(
        (counters.bytes_saved, counters.tokens_saved),
        (saved, saved / 4)
    );
}

#[tokio::test]
async fn never_twice_in_a_row() {
    let world = marked();
    let (mut notes, mut held) = (Vec::new(), Vec::new());
    for call in 0..6 {
        let held_now: Vec<&str> = held.iter().map(String::as_str).collect();
        let answer = ask(&world, &held_now, json!({})).await;
        notes.push(note(&answer).map(|note| note["since_call"].as_str().unwrap().to_owned()));
        held.push(format!("call-{call}"));
    }
    let expected = [
        None,
        Some("call-0"),
        None,
        Some("call-2"),
        None,
        Some("call-4"),
    ];
    assert_eq!(notes, expected.map(|id| id.map(str::to_owned)));
}

#[tokio::test]
async fn in_full_where_the_result_cannot_be_read_any_more() {
    let world = marked();
    ask(&world, &[], json!({})).await;
    for held in [&[][..], &["call-7"]] {
        assert!(note(&ask(&world, held, json!({})).await).is_none());
    }
    let other = world
        .calls_in("fork", &["call-0"], &[("look", json!({}))])
        .await;
    assert!(
        note(&other[0]).is_none(),
        "another session was given nothing"
    );
}

#[tokio::test]
async fn a_note_is_no_result_that_another_note_can_stand_for() {
    let world = marked();
    ask(&world, &[], json!({})).await;
    assert!(note(&ask(&world, &["call-0"], json!({})).await).is_some());
    // The full result has gone, only the note is still there.
    assert!(note(&ask(&world, &["call-1"], json!({})).await).is_none());
}

#[tokio::test]
async fn in_full_where_it_is_another_result() {
    let world = marked();
    ask(&world, &[], json!({"a": 1})).await;
    for (tool, arguments) in [("look", json!({"a": 2})), ("other", json!({"a": 1}))] {
        let answers = world
            .calls_in("main", &["call-0"], &[(tool, arguments)])
            .await;
        assert!(note(&answers[0]).is_none());
    }
    world.call("shell", json!({})).await;
    let changing = Counting::reader("look")
        .doing(|_, _, run| ToolOutput::text(format!("{run} {}", "x".repeat(LONG))));
    let world = Making::with(marking()).of(&[&changing, &Counting::unknown("shell")]);
    ask(&world, &[], json!({})).await;
    world.call("shell", json!({})).await;
    assert!(note(&ask(&world, &["call-0"], json!({})).await).is_none());
}

#[tokio::test]
async fn a_note_also_where_it_ran_again_and_nothing_was_different() {
    let world = marked();
    ask(&world, &[], json!({})).await;
    world.call("shell", json!({})).await;
    let answer = ask(&world, &["call-0", "call-1"], json!({})).await;
    assert!(matches!(answer.outcome, CallOutcome::Ran(Some(_))));
    assert_eq!(note(&answer).unwrap()["since_call"], "call-0");
}

#[tokio::test]
async fn a_forced_call_gets_its_result_in_full() {
    let world = marked();
    ask(&world, &[], json!({})).await;
    for _ in 0..2 {
        let forced = ask(&world, &["call-0"], json!({"force": true})).await;
        assert!(matches!(forced.outcome, CallOutcome::Ran(_)) && note(&forced).is_none());
    }
    let answer = ask(&world, &["call-0", "call-1", "call-2"], json!({})).await;
    assert_eq!(note(&answer).unwrap()["since_call"], "call-2");
}

#[tokio::test]
async fn what_is_short_is_given_as_it_is() {
    let tool = Counting::reader("look").doing(|_, _, _| ToolOutput::text("short"));
    let world = Making::with(marking()).of(&[&tool]);
    ask(&world, &[], json!({})).await;
    assert_eq!(text(&ask(&world, &["call-0"], json!({})).await), "short");
}

#[tokio::test]
async fn an_id_that_a_provider_uses_again_names_the_later_result() {
    use cachalot_tools::{ToolCall, Toolbox as _};
    let world = marked();
    let with_id = async |id: &str, name: &str, held: &[&str]| {
        let call = ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: "{}".into(),
        };
        let batch = world.batch("main", held);
        world
            .tools
            .run(vec![world.tools.prepare(call)], &batch)
            .await
            .remove(0)
    };
    with_id("call_0", "look", &[]).await;
    with_id("call_0", "shell", &["call_0"]).await;
    with_id("x", "look", &[]).await;
    let answer = with_id("y", "look", &["call_0"]).await;
    assert!(
        note(&answer).is_none(),
        "`call_0` is the shell's result now"
    );
}

#[tokio::test]
async fn in_one_batch_everybody_gets_it_in_full() {
    let world = marked();
    let batch = vec![("look", json!({})); 3];
    let answers = world.calls(&batch).await;
    assert!(answers.iter().all(|answer| note(answer).is_none()));
}
