//! Costs and savings of calls, in the ledger and in the counters.

use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{self as cache, CacheMode, Ledger};
use cachalot_tools::cached::ToolCacheSettings;
use cachalot_tools::{CallOutcome, ToolOutput};
use serde_json::json;

use super::cache_fixture::{CacheFixtureBuilder, CountingTool, on, text};

#[tokio::test]
async fn every_call_is_in_the_ledger_with_its_outcome_and_reason() {
    let home = tempfile::tempdir().unwrap();
    let ledger = Ledger::at(
        &home.path().join("ledger.db"),
        "run-1",
        Arc::new(|line| panic!("{line}")),
    );
    let slow = CountingTool::reader("look").doing(|_, _, run| {
        std::thread::sleep(Duration::from_millis(3));
        ToolOutput::text(format!("run {run}"))
    });
    let fails = CountingTool::reader("fails").doing(|_, _, _| ToolOutput::error("no such thing"));
    let mut cache_fixture_builder = CacheFixtureBuilder::with(on());
    cache_fixture_builder.ledger = ledger.clone();
    let cache_fixture = cache_fixture_builder.of(&[
        &slow,
        &fails,
        &CountingTool::unknown("shell"),
        &CountingTool::named("now"),
    ]);
    let mut saved = Duration::ZERO;
    for (tool, arguments) in [
        ("look", json!({"a": 1})),
        ("look", json!({"a": 1})),
        ("fails", json!({})),
        ("shell", json!({})),
        ("now", json!({})),
        ("look", json!({"a": 1, "force": true})),
    ] {
        saved += cache_fixture.call(tool, arguments).await.saved.time;
    }
    assert!(saved >= Duration::from_millis(3), "{saved:?}");
    ledger.flush().await;
    let mut rows = ledger.recent(10).unwrap();
    rows.reverse();
    let reported: Vec<(&str, cache::CallStatus, Option<&str>, Option<&str>)> = rows
        .iter()
        .map(|row| {
            assert_eq!(
                (row.kind.as_str(), row.scope.as_str()),
                ("tool", "session:main")
            );
            (
                row.name.as_str(),
                row.answered,
                row.reason.as_deref(),
                row.failure.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        reported,
        [
            (
                "look",
                cache::CallStatus::Miss,
                Some("not in the cache"),
                None
            ),
            ("look", cache::CallStatus::Hit, None, None),
            (
                "fails",
                cache::CallStatus::Miss,
                Some("not in the cache"),
                Some("no such thing")
            ),
            (
                "shell",
                cache::CallStatus::Bypass,
                Some("it is not read-only"),
                None
            ),
            (
                "now",
                cache::CallStatus::Miss,
                Some("not in the cache"),
                None
            ),
            (
                "look",
                cache::CallStatus::Miss,
                Some("a fresh answer was asked for"),
                None
            ),
        ]
    );
    assert!(rows[0].paid.time >= Duration::from_millis(3));
    assert!(rows[1].saved.time >= Duration::from_millis(3));
    assert_eq!(
        rows[4].not_stored.as_deref(),
        Some("its results are not declared as reusable")
    );
    let input = rows[0].input.clone().unwrap();
    assert_eq!(input["arguments"], json!({"a": 1}));
}

#[tokio::test]
async fn counters_report_outcomes_of_calls() {
    let cache_fixture = CacheFixtureBuilder::with(ToolCacheSettings {
        max_size: 2,
        ..on()
    })
    .of(&[
        &CountingTool::file_reader("look"),
        &CountingTool::file_writer("write"),
        &CountingTool::unknown("shell"),
    ]);
    for name in ["a", "b", "c"] {
        cache_fixture.write(name, "text");
    }
    let look = async |path: &str| cache_fixture.call("look", json!({ "path": path })).await;
    look("a").await; // miss
    look("a").await; // hit
    look("b").await; // miss
    look("c").await; // miss, and a makes room
    cache_fixture
        .call("write", json!({"path": "c", "text": "other"}))
        .await;
    look("c").await; // invalidated
    cache_fixture.write("b", "from outside");
    look("b").await; // stale prevented
    look("absent").await; // fails
    cache_fixture
        .call("look", json!({"path": "b", "force": true}))
        .await;
    let all = cache_fixture.tools.counters("main");
    let counters = &all["look"];
    assert_eq!((counters.hits, counters.misses), (1, 6), "{counters:?}");
    assert_eq!((counters.invalidated, counters.stale_prevented), (1, 2));
    assert_eq!(counters.evicted, 1);
    assert_eq!(counters.not_kept["the work failed"], 1);
    assert_eq!(counters.bypassed["a fresh answer was asked for"], 1);
    assert_eq!(counters.bytes_served, 4);
    assert_eq!(all["write"].bypassed["it is not read-only"], 1);
    assert!(!all.contains_key("shell"));
    let shown = serde_json::to_value(counters).unwrap();
    assert_eq!(shown["stale_prevented"], 2);
}

#[tokio::test]
async fn command_line_overrides_the_settings() {
    for (mode, runs) in [
        (CacheMode::On, 1),
        (CacheMode::Off, 3),
        (CacheMode::Refresh, 3),
        (CacheMode::ReadOnly, 3),
    ] {
        let tool = CountingTool::reader("look");
        let mut cache_fixture_builder = CacheFixtureBuilder::with(on());
        cache_fixture_builder.mode = mode;
        let cache_fixture = cache_fixture_builder.of(&[&tool]);
        for _ in 0..3 {
            cache_fixture.call("look", json!({})).await;
        }
        assert_eq!(tool.runs(), runs, "{mode:?}");
    }
    let tool = CountingTool::reader("look");
    let mut cache_fixture_builder = CacheFixtureBuilder::with(on());
    cache_fixture_builder.mode = CacheMode::Frozen;
    let cache_fixture = cache_fixture_builder.of(&[&tool]);
    let answer = cache_fixture.call("look", json!({})).await;
    assert!(
        answer.output.is_error && text(&answer).contains("frozen"),
        "{}",
        text(&answer)
    );
    assert_eq!(
        (tool.runs(), matches!(answer.outcome, CallOutcome::Ran(_))),
        (0, true)
    );
}
