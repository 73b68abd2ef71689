//! Many callers at once.

use std::sync::Arc;
use std::time::Duration;

use cachalot_workflow::Failure;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::acts::Act;
use crate::world::{Setup, World, is_hit, text};

/// What `callers` get who all ask the same at the same moment.
async fn at_once(world: &Arc<World>, callers: usize, with: &Value) -> Vec<Result<Value, Failure>> {
    let start = Arc::new(Barrier::new(callers));
    let mut asking = JoinSet::new();
    for _ in 0..callers {
        let (world, with, start) = (Arc::clone(world), with.clone(), Arc::clone(&start));
        asking.spawn(async move {
            start.wait().await;
            world.call("cache.wrap", with).await
        });
    }
    asking.join_all().await
}

fn call() -> Value {
    json!({"action": "test.act", "args": {"x": 1}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_callers_of_one_key_run_the_action_once() {
    let act = Act::new().takes(Duration::from_millis(100));
    let world = Arc::new(World::with(act.clone()));
    let answers = at_once(&world, 16, &call()).await;
    assert_eq!(act.runs(), 1);
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
    let reported = world.events.answered();
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
async fn a_follower_gets_the_leaders_result_and_not_an_entry() {
    let act = Act::new().takes(Duration::from_millis(100));
    let world = Arc::new(World::with(act));
    for answer in at_once(&world, 4, &call()).await {
        let answer = answer.unwrap();
        assert!(!is_hit(&answer));
        assert_eq!(answer.get("_cache_created_at"), None);
        assert!(answer["_cache_expires_at"].is_string());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn different_calls_do_not_wait_for_each_other() {
    let act = Act::new().takes(Duration::from_millis(200));
    let world = Arc::new(World::with(act.clone()));
    let began = std::time::Instant::now();
    let mut asking = JoinSet::new();
    for number in 0..16 {
        let world = Arc::clone(&world);
        asking.spawn(async move { world.wrapped("test.act", json!({"x": number})).await });
    }
    asking.join_all().await;
    assert_eq!(act.runs(), 16);
    assert!(
        began.elapsed() < Duration::from_millis(1_600),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_follower_of_a_failing_run_gets_its_failure() {
    let failure = Failure::transient("http_error", "the server said 503");
    let act = Act::new().takes(Duration::from_millis(100)).fails(failure);
    let world = Arc::new(World::with(act.clone()));
    for answer in at_once(&world, 16, &call()).await {
        let failure = answer.unwrap_err();
        assert_eq!((failure.kind, failure.retryable), ("http_error", true));
        assert_eq!(failure.message, "the server said 503");
    }
    assert_eq!(act.runs(), 1);
    let mut returning = call();
    returning["on_error"] = json!("return");
    for answer in at_once(&world, 4, &returning).await {
        assert_eq!(text(&answer.unwrap(), "error"), "the server said 503");
    }
    assert_eq!(act.runs(), 2, "later callers try again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_follower_of_a_dropped_run_becomes_leader() {
    let act = Act::new().takes(Duration::from_millis(150));
    let world = Arc::new(World::with(act.clone()));
    let leading = tokio::spawn({
        let world = Arc::clone(&world);
        async move { world.wrap(call()).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let following = tokio::spawn({
        let world = Arc::clone(&world);
        async move { world.wrap(call()).await }
    });
    tokio::time::sleep(Duration::from_millis(30)).await;
    leading.abort();
    let answer = following.await.unwrap();
    assert_eq!(answer["result"]["run"], 2);
    assert_eq!(answer["_cache_stored"], true, "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_after_an_invalidation_does_not_join_an_earlier_run() {
    let act = Act::new().takes(Duration::from_millis(200));
    let world = Arc::new(World::with(act.clone()));
    for with in [
        json!({"pattern": "*"}),
        json!({"tags": "t"}),
        json!({"metadata_filter": {"_cache_action": "test.act"}}),
    ] {
        let runs = act.runs();
        let mut tagged = call();
        tagged["tags"] = json!(["t"]);
        let before = tokio::spawn({
            let (world, with) = (Arc::clone(&world), tagged.clone());
            async move { world.wrap(with).await }
        });
        tokio::time::sleep(Duration::from_millis(60)).await;
        world.invalidate(with.clone()).await;
        let after = world.wrap(tagged.clone()).await;
        let before = before.await.unwrap();
        assert_eq!(act.runs(), runs + 2, "{with}");
        assert_eq!(after["result"]["run"], runs + 2);
        assert_eq!(before["_cache_stored"], false, "{before}");
        assert_eq!(text(&before, "_cache_reason"), "invalidated while it ran");
        assert_eq!(after["_cache_stored"], true, "{after}");
        let kept = world.wrap(tagged).await;
        assert_eq!(
            (is_hit(&kept), &kept["result"]["run"]),
            (true, &json!(runs + 2))
        );
        world.invalidate(json!({"pattern": "*"})).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_unsuccessful_result_is_shared_with_followers_only() {
    let act = Act::new()
        .takes(Duration::from_millis(100))
        .gives(json!({"success": false, "data": 1}));
    let world = Arc::new(World::with(act.clone()));
    for answer in at_once(&world, 8, &call()).await {
        let answer = answer.unwrap();
        assert_eq!(
            (&answer["success"], &answer["_cache_stored"]),
            (&json!(false), &json!(false))
        );
    }
    assert_eq!(act.runs(), 1);
    world.wrap(call()).await;
    assert_eq!(act.runs(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_engines_on_one_file_run_the_action_once() {
    let act = Act::new().takes(Duration::from_millis(200));
    let one = World::with(act.clone());
    let two = Setup::in_home_of(&one).with(act.clone()).start();
    let (here, there) = tokio::join!(one.wrap(call()), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        two.wrap(call()).await
    });
    assert_eq!(act.runs(), 1);
    assert_eq!(here["result"], there["result"]);
    assert!(!is_hit(&here));
    assert_eq!(there["_cache_stored"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn disabled_calls_do_not_join() {
    let act = Act::new().takes(Duration::from_millis(50));
    let world = Arc::new(World::with(act.clone()));
    let mut with = call();
    with["cache_enabled"] = json!(false);
    at_once(&world, 4, &with).await;
    assert_eq!(act.runs(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_result_that_cannot_be_decoded_does_not_fail_followers() {
    let mut deep = json!("bottom");
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let act = Act::new()
        .takes(Duration::from_millis(100))
        .gives(deep.clone());
    let world = Arc::new(World::with(act));
    for answer in at_once(&world, 4, &call()).await {
        assert_eq!(answer.unwrap()["result"], deep);
    }
}
