//! Many callers at once.

use std::sync::Arc;
use std::time::Duration;

use cachalot_workflow::Failure;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::fixture::{Fixture, Setup, is_hit, text};
use crate::test_actions::TestAction;

/// The responses to `callers` concurrent identical calls.
async fn at_once(
    fixture: &Arc<Fixture>,
    callers: usize,
    with: &Value,
) -> Vec<Result<Value, Failure>> {
    let start = Arc::new(Barrier::new(callers));
    let mut asking = JoinSet::new();
    for _ in 0..callers {
        let (fixture, with, start) = (Arc::clone(fixture), with.clone(), Arc::clone(&start));
        asking.spawn(async move {
            start.wait().await;
            fixture.call("cache.wrap", with).await
        });
    }
    asking.join_all().await
}

/// Waits until an action has begun `runs` times.
async fn begun(test_action: &TestAction, runs: usize) {
    while test_action.runs() < runs {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn call() -> Value {
    json!({"action": "test.act", "args": {"x": 1}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_callers_of_one_key_run_the_action_once() {
    let test_action = TestAction::new().takes(Duration::from_millis(500));
    let fixture = Arc::new(Fixture::with(test_action.clone()));
    let answers = at_once(&fixture, 16, &call()).await;
    assert_eq!(test_action.runs(), 1);
    let mut outcomes = Vec::new();
    for answer in answers {
        let answer = answer.unwrap();
        assert_eq!(answer["result"], json!({"run": 1, "given": {"x": 1}}));
        assert_eq!(answer["_cache_stored"], true, "{answer}");
        outcomes.push(answer["_cache_reason"].to_string());
    }
    let joined = "\"answered by a run that was already under way\"";
    assert_eq!(
        outcomes.iter().filter(|outcome| *outcome == joined).count(),
        15
    );
    let reported = fixture.events.answered();
    assert_eq!(
        reported
            .iter()
            .map(|memoized| memoized.paid.calls)
            .sum::<u64>(),
        1
    );
    assert_eq!(
        reported
            .iter()
            .map(|memoized| memoized.saved.calls)
            .sum::<u64>(),
        15
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn follower_gets_the_result_of_the_leader_and_not_a_hit() {
    let test_action = TestAction::new().takes(Duration::from_millis(500));
    let fixture = Arc::new(Fixture::with(test_action));
    for answer in at_once(&fixture, 4, &call()).await {
        let answer = answer.unwrap();
        assert!(!is_hit(&answer));
        assert_eq!(answer.get("_cache_created_at"), None);
        assert!(answer["_cache_expires_at"].is_string());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn different_calls_do_not_wait_for_each_other() {
    let test_action = TestAction::new().together(16);
    let fixture = Arc::new(Fixture::with(test_action.clone()));
    let mut asking = JoinSet::new();
    for number in 0..16 {
        let fixture = Arc::clone(&fixture);
        asking.spawn(async move { fixture.wrapped("test.act", json!({"x": number})).await });
    }
    asking.join_all().await;
    assert_eq!(test_action.runs(), 16);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_follower_of_a_failing_run_gets_its_failure() {
    let failure = Failure::transient("http_error", "the server said 503");
    let test_action = TestAction::new()
        .takes(Duration::from_millis(500))
        .fails(failure);
    let fixture = Arc::new(Fixture::with(test_action.clone()));
    for answer in at_once(&fixture, 16, &call()).await {
        let failure = answer.unwrap_err();
        assert_eq!((failure.kind, failure.retryable), ("http_error", true));
        assert_eq!(failure.message, "the server said 503");
    }
    assert_eq!(test_action.runs(), 1);
    let mut returning = call();
    returning["on_error"] = json!("return");
    for answer in at_once(&fixture, 4, &returning).await {
        assert_eq!(text(&answer.unwrap(), "error"), "the server said 503");
    }
    assert_eq!(test_action.runs(), 2, "later callers try again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_follower_of_a_dropped_run_becomes_leader() {
    let test_action = TestAction::new().takes(Duration::from_millis(1_000));
    let fixture = Arc::new(Fixture::with(test_action.clone()));
    let leading = tokio::spawn({
        let fixture = Arc::clone(&fixture);
        async move { fixture.wrap(call()).await }
    });
    begun(&test_action, 1).await;
    let following = tokio::spawn({
        let fixture = Arc::clone(&fixture);
        async move { fixture.wrap(call()).await }
    });
    tokio::time::sleep(Duration::from_millis(30)).await;
    leading.abort();
    let answer = following.await.unwrap();
    assert_eq!(answer["result"]["run"], 2);
    assert_eq!(answer["_cache_stored"], true, "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_after_an_invalidation_does_not_join_an_earlier_run() {
    let test_action = TestAction::new().takes(Duration::from_millis(1_000));
    let fixture = Arc::new(Fixture::with(test_action.clone()));
    for with in [
        json!({"pattern": "*"}),
        json!({"tags": "t"}),
        json!({"metadata_filter": {"_cache_action": "test.act"}}),
    ] {
        let runs = test_action.runs();
        let mut tagged = call();
        tagged["tags"] = json!(["t"]);
        let before = tokio::spawn({
            let (fixture, with) = (Arc::clone(&fixture), tagged.clone());
            async move { fixture.wrap(with).await }
        });
        begun(&test_action, runs + 1).await;
        fixture.invalidate(with.clone()).await;
        let after = fixture.wrap(tagged.clone()).await;
        let before = before.await.unwrap();
        assert_eq!(test_action.runs(), runs + 2, "{with}");
        assert_eq!(after["result"]["run"], runs + 2);
        assert_eq!(before["_cache_stored"], false, "{before}");
        assert_eq!(text(&before, "_cache_reason"), "invalidated while it ran");
        assert_eq!(after["_cache_stored"], true, "{after}");
        let kept = fixture.wrap(tagged).await;
        assert_eq!(
            (is_hit(&kept), &kept["result"]["run"]),
            (true, &json!(runs + 2))
        );
        fixture.invalidate(json!({"pattern": "*"})).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn unsuccessful_result_is_shared_with_followers_only() {
    let test_action = TestAction::new()
        .takes(Duration::from_millis(500))
        .gives(json!({"success": false, "data": 1}));
    let fixture = Arc::new(Fixture::with(test_action.clone()));
    for answer in at_once(&fixture, 8, &call()).await {
        let answer = answer.unwrap();
        assert_eq!(
            (&answer["success"], &answer["_cache_stored"]),
            (&json!(false), &json!(false))
        );
    }
    assert_eq!(test_action.runs(), 1);
    fixture.wrap(call()).await;
    assert_eq!(test_action.runs(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_engines_on_one_file_run_the_action_once() {
    let test_action = TestAction::new().takes(Duration::from_millis(1_000));
    let one = Fixture::with(test_action.clone());
    let two = Setup::in_home_of(&one).with(test_action.clone()).start();
    let (here, there) = tokio::join!(one.wrap(call()), async {
        begun(&test_action, 1).await;
        two.wrap(call()).await
    });
    assert_eq!(test_action.runs(), 1);
    assert_eq!(here["result"], there["result"]);
    assert!(!is_hit(&here));
    assert_eq!(there["_cache_stored"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn disabled_calls_do_not_join() {
    let test_action = TestAction::new().takes(Duration::from_millis(50));
    let fixture = Arc::new(Fixture::with(test_action.clone()));
    let mut with = call();
    with["cache_enabled"] = json!(false);
    at_once(&fixture, 4, &with).await;
    assert_eq!(test_action.runs(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn undecodable_result_does_not_fail_followers() {
    let mut deep = json!("bottom");
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let test_action = TestAction::new()
        .takes(Duration::from_millis(500))
        .gives(deep.clone());
    let fixture = Arc::new(Fixture::with(test_action));
    for answer in at_once(&fixture, 4, &call()).await {
        assert_eq!(answer.unwrap()["result"], deep);
    }
}
