//! Identical calls at the same time run once.

use std::sync::Arc;

use cachalot_core::Effects;
use cachalot_tools::{CallOutcome, ToolOutput};
use futures_util::FutureExt as _;
use serde_json::json;
use tokio::sync::Semaphore;

use super::world::{Counting, text, world};

#[tokio::test]
async fn of_identical_calls_in_a_batch_one_runs() {
    let tool = Counting::reader("look").doing(|_, _, run| ToolOutput::text(format!("run {run}")));
    let world = world(&[&tool]);
    let gate = Arc::new(Semaphore::new(0));
    let slow = tool.clone().gated(&gate);
    drop(world);
    let world = super::world::world(&[&slow]);
    let batch = vec![("look", json!({"a": 1})); 5];
    let mut running = Box::pin(world.calls(&batch));
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
    let counters = &world.tools.counters("main")["look"];
    assert_eq!(
        (counters.misses, counters.coalesced, counters.hits),
        (1, 4, 0)
    );
    assert_eq!(counters.bytes_served, 4 * 5);
    assert!(answers[1].saved.calls == 1 && answers[0].saved.calls == 0);
}

#[tokio::test]
async fn everybody_gets_a_copy_of_their_own() {
    let world = world(&[&Counting::reader("look")]);
    let batch = vec![("look", json!({})); 3];
    let mut answers = world.calls(&batch).await;
    answers[0].output.content.clear();
    answers[1]
        .output
        .content
        .push(cachalot_model::Block::text("scribbled"));
    let again = world.call("look", json!({})).await;
    assert_eq!(again.outcome, CallOutcome::Hit);
    assert_eq!(
        (text(&again).as_str(), text(&answers[2]).as_str()),
        ("run 0", "run 0")
    );
}

#[tokio::test]
async fn a_failure_is_not_shared() {
    let gate = Arc::new(Semaphore::new(0));
    let tool = Counting::reader("look")
        .gated(&gate)
        .doing(|_, _, run| ToolOutput::error(format!("failure {run}")));
    let world = world(&[&tool]);
    let batch = vec![("look", json!({})); 3];
    let mut running = Box::pin(world.calls(&batch));
    while tool.runs() == 0 {
        assert!((&mut running).now_or_never().is_none());
    }
    assert_eq!(tool.runs(), 1, "the others wait");
    gate.add_permits(9);
    let mut texts: Vec<String> = running.await.iter().map(text).collect();
    texts.sort();
    assert_eq!(texts, ["failure 0", "failure 1", "failure 2"]);
    assert_eq!(text(&world.call("look", json!({})).await), "failure 3");
}

#[tokio::test]
async fn an_outdated_result_is_not_shared() {
    let gate = Arc::new(Semaphore::new(0));
    let tool = Counting::reader("look")
        .touching(|_| super::world::reads_unknown())
        .gated(&gate)
        .doing(|_, context, run| {
            // It looked before it noted, and something came in between.
            match run {
                0 => context
                    .witness
                    .mark_incomplete("it changed while it was read"),
                _ => super::world::note(context, "a"),
            }
            ToolOutput::text(format!("run {run}"))
        });
    let world = world(&[&tool]);
    let batch = vec![("look", json!({})); 3];
    let mut running = Box::pin(world.calls(&batch));
    while tool.runs() == 0 {
        assert!((&mut running).now_or_never().is_none());
    }
    gate.add_permits(9);
    let texts: Vec<String> = running.await.iter().map(text).collect();
    assert_eq!(texts[0], "run 0");
    assert!(texts[1..].iter().all(|text| text != "run 0"), "{texts:?}");
}

#[tokio::test]
async fn a_follower_of_a_canceled_call_runs() {
    let gate = Arc::new(Semaphore::new(0));
    let tool = Counting::reader("look").gated(&gate);
    let world = Arc::new(world(&[&tool]));
    let ask = || {
        let world = Arc::clone(&world);
        tokio::spawn(async move { world.call("look", json!({})).await })
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
async fn what_does_not_last_is_not_waited_for() {
    let tool = Counting::named("now");
    let world = world(&[&tool]);
    let answers = world.calls(&vec![("now", json!({})); 3]).await;
    assert_eq!(tool.runs(), 3);
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer.outcome, CallOutcome::Ran(_)))
    );
}

#[tokio::test]
async fn results_come_in_call_order_and_writers_run_alone() {
    let reader = Counting::reader("look");
    let writer = Counting::named("write")
        .writing()
        .touching(|_| Effects::UNKNOWN);
    let world = world(&[&reader, &writer]);
    let answers = world
        .calls(&[
            ("look", json!({"a": 1})),
            ("look", json!({"a": 2})),
            ("write", json!({})),
            ("nothing", json!({})),
            ("look", json!({"a": 1})),
        ])
        .await;
    let told: Vec<(String, &str)> = answers
        .iter()
        .map(|answer| (text(answer), answer.call.name.as_str()))
        .collect();
    assert_eq!(told[0], ("run 0".into(), "look"));
    assert_eq!(told[1], ("run 1".into(), "look"));
    assert_eq!(told[2], ("run 0".into(), "write"));
    assert_eq!(answers[3].outcome, CallOutcome::Refused);
    assert!(told[3].0.contains("no tool `nothing`"), "{}", told[3].0);
    assert_eq!(
        told[4],
        ("run 2".into(), "look"),
        "what was written may have changed it"
    );
}
