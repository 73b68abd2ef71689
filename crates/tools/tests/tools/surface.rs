//! The surface that the source of the feature describes: its fifteen tests, by name.

use std::time::Duration;

use cachalot_tools::CallOutcome;
use cachalot_tools::ToolOutput;
use cachalot_tools::Toolbox as _;
use cachalot_tools::cached::{CacheStats, ToolCacheSettings};
use serde_json::json;

use crate::cached::cache_fixture::{
    CacheFixture, CacheFixtureBuilder, CountingTool, cache_fixture, on, text,
};

fn stats(cache_fixture: &CacheFixture) -> CacheStats {
    cache_fixture.tools.cache_stats("main")
}

fn figures(hits: u64, misses: u64, hit_rate: f64) -> CacheStats {
    CacheStats {
        hits,
        misses,
        eligible: hits + misses,
        hit_rate,
    }
}

fn at_most(max_size: u64) -> ToolCacheSettings {
    ToolCacheSettings { max_size, ..on() }
}

#[tokio::test]
async fn disabled_by_default_always_calls_tool() {
    let tool = CountingTool::reader("look");
    let cache_fixture = CacheFixtureBuilder::with(ToolCacheSettings::default()).of(&[&tool]);
    let first = cache_fixture.call("look", json!({"a": 1})).await;
    let second = cache_fixture.call("look", json!({"a": 1})).await;
    assert_eq!(
        (text(&first), text(&second)),
        ("run 0".into(), "run 1".into())
    );
    assert_eq!(second.outcome, CallOutcome::Ran(None));
    assert_eq!(tool.runs(), 2);
}

#[tokio::test]
async fn cache_hit_returns_same_result_without_re_executing() {
    let tool = CountingTool::reader("look");
    let cache_fixture = cache_fixture(&[&tool]);
    let first = cache_fixture.call("look", json!({"a": 1})).await;
    let second = cache_fixture.call("look", json!({"a": 1})).await;
    assert_eq!(first.output, second.output);
    assert_eq!(second.outcome, CallOutcome::Hit);
    assert_eq!(tool.runs(), 1);
}

#[tokio::test]
async fn different_params_cached_separately() {
    let tool = CountingTool::reader("look");
    let cache_fixture = cache_fixture(&[&tool]);
    for (arguments, expected) in [(json!({"a": 1}), "run 0"), (json!({"a": 2}), "run 1")] {
        for _ in 0..2 {
            let answer = cache_fixture.call("look", arguments.clone()).await;
            assert_eq!(text(&answer), expected);
        }
    }
    assert_eq!(tool.runs(), 2);
}

#[tokio::test]
async fn params_order_irrelevant() {
    let tool = CountingTool::reader("look");
    let cache_fixture = cache_fixture(&[&tool]);
    let batch = cache_fixture.batch("main", &[]);
    for arguments in [r#"{"a": 1, "b": [2]}"#, r#"{"b":[2],"a":1}"#] {
        let call = cachalot_tools::ToolCall {
            id: "id".into(),
            name: "look".into(),
            arguments: arguments.into(),
        };
        let prepared = cache_fixture.tools.prepare(call);
        let answers = cache_fixture.tools.run(vec![prepared], &batch).await;
        assert_eq!(text(&answers[0]), "run 0");
    }
    assert_eq!(tool.runs(), 1);
}

#[tokio::test]
async fn mutable_tool_never_cached() {
    let tool = CountingTool::reader("change").writing();
    let cache_fixture = cache_fixture(&[&tool]);
    for run in 0..3 {
        let answer = cache_fixture.call("change", json!({})).await;
        assert_eq!(text(&answer), format!("run {run}"));
        assert_eq!(answer.outcome, CallOutcome::Ran(None));
    }
}

#[tokio::test]
async fn error_result_not_cached() {
    let tool = CountingTool::reader("look").doing(|_, _, run| match run {
        0 => ToolOutput::error("not yet"),
        // A deliberate deviation from the source: an error is a flag, not a text.
        _ => ToolOutput::text(format!("Error: run {run}")),
    });
    let cache_fixture = cache_fixture(&[&tool]);
    assert!(cache_fixture.call("look", json!({})).await.output.is_error);
    for _ in 0..2 {
        let answer = cache_fixture.call("look", json!({})).await;
        assert_eq!(
            (text(&answer).as_str(), answer.output.is_error),
            ("Error: run 1", false)
        );
    }
    assert_eq!(tool.runs(), 2);
}

#[tokio::test]
async fn lru_eviction_removes_oldest() {
    let tool = CountingTool::reader("look");
    let cache_fixture = CacheFixtureBuilder::with(at_most(2)).of(&[&tool]);
    for a in 0..3 {
        cache_fixture.call("look", json!({"a": a})).await;
    }
    assert_eq!(
        cache_fixture.call("look", json!({"a": 2})).await.outcome,
        CallOutcome::Hit
    );
    assert_eq!(
        cache_fixture.call("look", json!({"a": 1})).await.outcome,
        CallOutcome::Hit
    );
    assert_eq!(tool.runs(), 3);
    cache_fixture.call("look", json!({"a": 0})).await;
    assert_eq!(tool.runs(), 4, "the oldest one had to go");
}

#[tokio::test]
async fn lru_access_refreshes_order() {
    // Everything happens at the same moment of the clock, or each at its own.
    for step in [0, 1, 70_000] {
        let tool = CountingTool::reader("look");
        let cache_fixture = CacheFixtureBuilder::with(at_most(2)).of(&[&tool]);
        let call = async |a: u32| {
            cache_fixture.after(Duration::from_millis(step));
            cache_fixture.call("look", json!({"a": a})).await.outcome
        };
        for a in [0, 1] {
            call(a).await;
        }
        assert_eq!(call(0).await, CallOutcome::Hit);
        call(2).await;
        assert_eq!(call(0).await, CallOutcome::Hit, "it was used after 1");
        assert_eq!(tool.runs(), 3);
        call(1).await;
        assert_eq!(tool.runs(), 4, "1 had to go");
    }
}

#[tokio::test]
async fn clear_forces_re_execution() {
    let tool = CountingTool::reader("look");
    let cache_fixture = cache_fixture(&[&tool]);
    cache_fixture.call("look", json!({})).await;
    cache_fixture.tools.clear("main");
    assert_eq!(text(&cache_fixture.call("look", json!({})).await), "run 1");
    cache_fixture.tools.reset("main").await;
    assert_eq!(text(&cache_fixture.call("look", json!({})).await), "run 2");
}

#[tokio::test]
async fn cache_stats_initial_all_zeros() {
    let cache_fixture = cache_fixture(&[&CountingTool::reader("look")]);
    assert_eq!(stats(&cache_fixture), figures(0, 0, 0.0));
    let shown = serde_json::to_value(stats(&cache_fixture)).unwrap();
    assert_eq!(
        shown,
        json!({"hits": 0, "misses": 0, "eligible": 0, "hit_rate": 0.0})
    );
}

#[tokio::test]
async fn counts_hits_and_misses() {
    let cache_fixture = cache_fixture(&[&CountingTool::reader("look")]);
    for a in [1, 1, 2] {
        cache_fixture.call("look", json!({"a": a})).await;
    }
    let CacheStats {
        hits,
        misses,
        eligible,
        ..
    } = stats(&cache_fixture);
    assert_eq!((hits, misses, eligible), (1, 2, 3));
}

#[tokio::test]
async fn hit_rate() {
    let cache_fixture = cache_fixture(&[&CountingTool::reader("look")]);
    for _ in 0..3 {
        cache_fixture.call("look", json!({})).await;
    }
    assert_eq!(stats(&cache_fixture), figures(2, 1, 2.0 / 3.0));
}

#[tokio::test]
async fn not_incremented_when_disabled() {
    let cache_fixture = CacheFixtureBuilder::with(ToolCacheSettings::default())
        .of(&[&CountingTool::reader("look")]);
    for _ in 0..3 {
        cache_fixture.call("look", json!({})).await;
    }
    assert_eq!(stats(&cache_fixture), figures(0, 0, 0.0));
}

#[tokio::test]
async fn not_incremented_for_mutable_tools() {
    let cache_fixture = cache_fixture(&[&CountingTool::reader("change").writing()]);
    for _ in 0..3 {
        cache_fixture.call("change", json!({})).await;
    }
    assert_eq!(stats(&cache_fixture), figures(0, 0, 0.0));
}

#[tokio::test]
async fn clear_resets_counters() {
    let cache_fixture = cache_fixture(&[&CountingTool::reader("look")]);
    for a in (0..6).chain(std::iter::repeat_n(0, 14)) {
        cache_fixture.call("look", json!({"a": a})).await;
    }
    assert_eq!(stats(&cache_fixture), figures(14, 6, 0.7));
    cache_fixture.tools.clear("main");
    assert_eq!(cache_fixture.said(), ["Tool cache stats: 14/20 hits (70%)"]);
    assert_eq!(stats(&cache_fixture), figures(0, 0, 0.0));
    cache_fixture.tools.clear("main");
    assert_eq!(cache_fixture.said().len(), 1, "nothing to say of nothing");
}
