//! In full, or as a short note that the conversation holds it already.

use cachalot_tools::cached::{RepeatDelivery, ToolCacheSettings};
use cachalot_tools::{CallOutcome, ToolCallResult, ToolOutput};
use serde_json::{Value, json};

use super::cache_fixture::{CacheFixture, CacheFixtureBuilder, CountingTool, on, text};

const LONG: usize = 4_000;

fn marking() -> ToolCacheSettings {
    ToolCacheSettings {
        delivery: RepeatDelivery::Marker,
        ..on()
    }
}

fn long(name: &str) -> CountingTool {
    CountingTool::reader(name).doing(|arguments, _, _| {
        let a = arguments.get("a").map(Value::to_string).unwrap_or_default();
        ToolOutput::text(format!("{a} {}", "x".repeat(LONG)))
    })
}

fn marked() -> CacheFixture {
    let unknown = CountingTool::unknown("shell");
    CacheFixtureBuilder::with(marking()).of(&[&long("look"), &long("other"), &unknown])
}

/// Asks in a request that holds these results.
async fn ask(cache_fixture: &CacheFixture, held: &[&str], arguments: Value) -> ToolCallResult {
    cache_fixture
        .calls_in("main", held, &[("look", arguments)])
        .await
        .remove(0)
}

fn note(answer: &ToolCallResult) -> Option<Value> {
    serde_json::from_str(&text(answer)).ok()
}

#[tokio::test]
async fn result_is_delivered_in_full_by_default() {
    let cache_fixture = CacheFixtureBuilder::with(on()).of(&[&long("look")]);
    let first = ask(&cache_fixture, &[], json!({})).await;
    let second = ask(&cache_fixture, &["call-0"], json!({})).await;
    assert_eq!(first.output, second.output);
}

#[tokio::test]
async fn repeated_result_is_a_note_while_the_first_is_readable() {
    let cache_fixture = marked();
    ask(&cache_fixture, &[], json!({})).await;
    let answer = ask(&cache_fixture, &["call-0"], json!({})).await;
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
    let counters = &cache_fixture.tools.counters("main")["look"];
    let saved = LONG as u64 + 1 - text(&answer).len() as u64;
    assert_eq!(
        (counters.bytes_saved, counters.tokens_saved),
        (saved, saved / 4)
    );
}

#[tokio::test]
async fn notes_are_never_delivered_twice_in_a_row() {
    let cache_fixture = marked();
    let (mut notes, mut held) = (Vec::new(), Vec::new());
    for call in 0..6 {
        let held_now: Vec<&str> = held.iter().map(String::as_str).collect();
        let answer = ask(&cache_fixture, &held_now, json!({})).await;
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
async fn result_is_delivered_in_full_when_the_first_is_not_readable() {
    let cache_fixture = marked();
    ask(&cache_fixture, &[], json!({})).await;
    for held in [&[][..], &["call-7"]] {
        assert!(note(&ask(&cache_fixture, held, json!({})).await).is_none());
    }
    let other = cache_fixture
        .calls_in("fork", &["call-0"], &[("look", json!({}))])
        .await;
    assert!(
        note(&other[0]).is_none(),
        "another session was given nothing"
    );
}

#[tokio::test]
async fn note_does_not_refer_to_another_note() {
    let cache_fixture = marked();
    ask(&cache_fixture, &[], json!({})).await;
    assert!(note(&ask(&cache_fixture, &["call-0"], json!({})).await).is_some());
    // The full result has gone, only the note is still there.
    assert!(note(&ask(&cache_fixture, &["call-1"], json!({})).await).is_none());
}

#[tokio::test]
async fn changed_result_is_delivered_in_full() {
    let cache_fixture = marked();
    ask(&cache_fixture, &[], json!({"a": 1})).await;
    for (tool, arguments) in [("look", json!({"a": 2})), ("other", json!({"a": 1}))] {
        let answers = cache_fixture
            .calls_in("main", &["call-0"], &[(tool, arguments)])
            .await;
        assert!(note(&answers[0]).is_none());
    }
    cache_fixture.call("shell", json!({})).await;
    let changing = CountingTool::reader("look")
        .doing(|_, _, run| ToolOutput::text(format!("{run} {}", "x".repeat(LONG))));
    let cache_fixture =
        CacheFixtureBuilder::with(marking()).of(&[&changing, &CountingTool::unknown("shell")]);
    ask(&cache_fixture, &[], json!({})).await;
    cache_fixture.call("shell", json!({})).await;
    assert!(note(&ask(&cache_fixture, &["call-0"], json!({})).await).is_none());
}

#[tokio::test]
async fn unchanged_result_of_a_new_run_is_a_note() {
    let cache_fixture = marked();
    ask(&cache_fixture, &[], json!({})).await;
    cache_fixture.call("shell", json!({})).await;
    let answer = ask(&cache_fixture, &["call-0", "call-1"], json!({})).await;
    assert!(matches!(answer.outcome, CallOutcome::Ran(Some(_))));
    assert_eq!(note(&answer).unwrap()["since_call"], "call-0");
}

#[tokio::test]
async fn forced_call_is_delivered_in_full() {
    let cache_fixture = marked();
    ask(&cache_fixture, &[], json!({})).await;
    for _ in 0..2 {
        let forced = ask(&cache_fixture, &["call-0"], json!({"force": true})).await;
        assert!(matches!(forced.outcome, CallOutcome::Ran(_)) && note(&forced).is_none());
    }
    let answer = ask(&cache_fixture, &["call-0", "call-1", "call-2"], json!({})).await;
    assert_eq!(note(&answer).unwrap()["since_call"], "call-2");
}

#[tokio::test]
async fn short_result_is_delivered_in_full() {
    let tool = CountingTool::reader("look").doing(|_, _, _| ToolOutput::text("short"));
    let cache_fixture = CacheFixtureBuilder::with(marking()).of(&[&tool]);
    ask(&cache_fixture, &[], json!({})).await;
    assert_eq!(
        text(&ask(&cache_fixture, &["call-0"], json!({})).await),
        "short"
    );
}

#[tokio::test]
async fn reused_call_id_refers_to_the_later_result() {
    use cachalot_tools::{ToolCall, Toolbox as _};
    let cache_fixture = marked();
    let with_id = async |id: &str, name: &str, held: &[&str]| {
        let call = ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: "{}".into(),
        };
        let batch = cache_fixture.batch("main", held);
        cache_fixture
            .tools
            .run(vec![cache_fixture.tools.prepare(call)], &batch)
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
async fn repeated_calls_of_one_batch_are_delivered_in_full() {
    let cache_fixture = marked();
    let batch = vec![("look", json!({})); 3];
    let answers = cache_fixture.calls(&batch).await;
    assert!(answers.iter().all(|answer| note(answer).is_none()));
}
