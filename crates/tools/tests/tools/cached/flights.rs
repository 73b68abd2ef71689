//! Identical calls at the same time run once.

use std::sync::Arc;

use cachalot_core::Effects;
use cachalot_tools::{CallOutcome, ToolOutput};
use futures_util::FutureExt as _;
use serde_json::json;
use tokio::sync::Semaphore;

use super::cache_fixture::{CountingTool, cache_fixture, text};

#[tokio::test]
async fn identical_calls_of_a_batch_run_once() {
    let tool =
        CountingTool::reader("look").doing(|_, _, run| ToolOutput::text(format!("run {run}")));
    let cache_fixture = cache_fixture(&[&tool]);
    let gate = Arc::new(Semaphore::new(0));
    let slow = tool.clone().gated(&gate);
    drop(cache_fixture);
    let cache_fixture = super::cache_fixture::cache_fixture(&[&slow]);
    let batch = vec![("look", json!({"a": 1})); 5];
    let mut running = Box::pin(cache_fixture.calls(&batch));
    while slow.runs() == 0 {
        assert!((&mut running).now_or_never().is_none());
    }
    gate.add_permits(5);
    let answers = running.await;
    let outcome: Vec<&CallOutcome> = answers.iter().map(|answer| &answer.outcome).collect();
    assert!(
        matches!(outcome[0], CallOutcome::Ran(Some(_))),
        "{outcome:?}"
    );
    assert!(
        outcome[1..]
            .iter()
            .all(|outcome| **outcome == CallOutcome::Coalesced),
        "{outcome:?}"
    );
    assert!(answers.iter().all(|answer| text(answer) == "run 0"));
    assert_eq!(slow.runs(), 1);
    let ids: Vec<&str> = answers
        .iter()
        .map(|answer| answer.call.id.as_str())
        .collect();
    assert_eq!(ids, ["call-0", "call-1", "call-2", "call-3", "call-4"]);
    let counters = &cache_fixture.tools.counters("main")["look"];
    assert_eq!(
        (counters.misses, counters.coalesced, counters.hits),
        (1, 4, 0)
    );
    assert_eq!(counters.bytes_served, 4 * 5);
    assert!(answers[1].saved.calls == 1 && answers[0].saved.calls == 0);
}

#[tokio::test]
async fn every_caller_gets_its_own_copy() {
    let cache_fixture = cache_fixture(&[&CountingTool::reader("look")]);
    let batch = vec![("look", json!({})); 3];
    let mut answers = cache_fixture.calls(&batch).await;
    answers[0].output.content.clear();
    answers[1]
        .output
        .content
        .push(cachalot_model::Block::text("scribbled"));
    let again = cache_fixture.call("look", json!({})).await;
    assert_eq!(again.outcome, CallOutcome::Hit);
    assert_eq!(
        (text(&again).as_str(), text(&answers[2]).as_str()),
        ("run 0", "run 0")
    );
}

#[tokio::test]
async fn a_failure_is_not_shared() {
    let gate = Arc::new(Semaphore::new(0));
    let tool = CountingTool::reader("look")
        .gated(&gate)
        .doing(|_, _, run| ToolOutput::error(format!("failure {run}")));
    let cache_fixture = cache_fixture(&[&tool]);
    let batch = vec![("look", json!({})); 3];
    let mut running = Box::pin(cache_fixture.calls(&batch));
    while tool.runs() == 0 {
        assert!((&mut running).now_or_never().is_none());
    }
    assert_eq!(tool.runs(), 1, "the others wait");
    gate.add_permits(9);
    let mut texts: Vec<String> = running.await.iter().map(text).collect();
    texts.sort();
    assert_eq!(texts, ["failure 0", "failure 1", "failure 2"]);
    assert_eq!(
        text(&cache_fixture.call("look", json!({})).await),
        "failure 3"
    );
}

#[tokio::test]
async fn an_outdated_result_is_not_shared() {
    let gate = Arc::new(Semaphore::new(0));
    let tool = CountingTool::reader("look")
        .touching(|_| super::cache_fixture::reads_unknown())
        .gated(&gate)
        .doing(|_, context, run| {
            // It looked before it noted, and something came in between.
            match run {
                0 => context
                    .witness
                    .mark_incomplete("it changed while it was read"),
                _ => super::cache_fixture::note(context, "a"),
            }
            ToolOutput::text(format!("run {run}"))
        });
    let cache_fixture = cache_fixture(&[&tool]);
    let batch = vec![("look", json!({})); 3];
    let mut running = Box::pin(cache_fixture.calls(&batch));
    while tool.runs() == 0 {
        assert!((&mut running).now_or_never().is_none());
    }
    gate.add_permits(9);
    let texts: Vec<String> = running.await.iter().map(text).collect();
    assert_eq!(texts[0], "run 0");
    assert!(texts[1..].iter().all(|text| text != "run 0"), "{texts:?}");
}

#[tokio::test]
async fn follower_of_a_cancelled_call_runs() {
    let gate = Arc::new(Semaphore::new(0));
    let tool = CountingTool::reader("look").gated(&gate);
    let cache_fixture = Arc::new(cache_fixture(&[&tool]));
    let ask = || {
        let cache_fixture = Arc::clone(&cache_fixture);
        tokio::spawn(async move { cache_fixture.call("look", json!({})).await })
    };
    let first = ask();
    while tool.runs() == 0 {
        tokio::task::yield_now().await;
    }
    let second = ask();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(tool.runs(), 1, "the second waits");
    first.abort();
    gate.add_permits(1);
    assert_eq!(text(&second.await.unwrap()), "run 1");
}

#[tokio::test]
async fn calls_without_a_reusable_result_are_not_coalesced() {
    let tool = CountingTool::named("now");
    let cache_fixture = cache_fixture(&[&tool]);
    let answers = cache_fixture.calls(&vec![("now", json!({})); 3]).await;
    assert_eq!(tool.runs(), 3);
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer.outcome, CallOutcome::Ran(_)))
    );
}

#[tokio::test]
async fn results_come_in_call_order_and_writers_run_alone() {
    let reader = CountingTool::reader("look");
    let writer = CountingTool::named("write")
        .writing()
        .touching(|_| Effects::UNKNOWN);
    let cache_fixture = cache_fixture(&[&reader, &writer]);
    let answers = cache_fixture
        .calls(&[
            ("look", json!({"a": 1})),
            ("look", json!({"a": 2})),
            ("write", json!({})),
            ("nothing", json!({})),
            ("look", json!({"a": 1})),
        ])
        .await;
    let reported: Vec<(String, &str)> = answers
        .iter()
        .map(|answer| (text(answer), answer.call.name.as_str()))
        .collect();
    assert_eq!(reported[0], ("run 0".into(), "look"));
    assert_eq!(reported[1], ("run 1".into(), "look"));
    assert_eq!(reported[2], ("run 0".into(), "write"));
    assert_eq!(answers[3].outcome, CallOutcome::Refused);
    assert!(
        reported[3].0.contains("no tool `nothing`"),
        "{}",
        reported[3].0
    );
    assert_eq!(
        reported[4],
        ("run 2".into(), "look"),
        "what was written may have changed it"
    );
}
