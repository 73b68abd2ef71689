//! What the ledger tells of calls.

use std::time::Duration;

use cachalot_cache::{CallStatus, Difference};
use serde_json::{Value, json};

use crate::acts::Act;
use crate::world::{World, text};

fn call(x: Value, y: Value) -> Value {
    json!({"action": "test.act", "args": {"x": x, "y": y}})
}

#[tokio::test]
async fn one_changed_argument_is_named_with_its_old_and_new_value() {
    let world = World::with(Act::new());
    world
        .wrap(call(json!({"temperature": 0.5, "n": 1}), json!("same")))
        .await;
    world
        .wrap(call(json!({"temperature": 0.7, "n": 1}), json!("same")))
        .await;
    let explanation = world.why().await;
    assert_eq!(
        explanation.differences,
        [Difference {
            pointer: "/args/x/temperature".to_owned(),
            old: Some(json!(0.5)),
            new: Some(json!(0.7)),
        }]
    );
    assert_eq!(explanation.call.reason.as_deref(), Some("not in the cache"));
    assert_eq!(explanation.call.name, "test.act");
    assert!(!explanation.hidden_difference);
    assert_eq!(explanation.same, None);
}

#[tokio::test]
async fn of_several_earlier_calls_the_nearest_is_compared() {
    let world = World::with(Act::new());
    world.wrap(call(json!([1, 2, 3]), json!("a"))).await;
    world.wrap(call(json!([9, 9, 9]), json!("b"))).await;
    world.wrap(call(json!([1, 2, 4]), json!("a"))).await;
    let explanation = world.why().await;
    let pointers: Vec<&str> = explanation
        .differences
        .iter()
        .map(|difference| difference.pointer.as_str())
        .collect();
    assert_eq!(pointers, ["/args/x/2"]);
}

#[tokio::test]
async fn a_changed_key_a_changed_file_and_a_changed_version_are_named() {
    let world = World::with(Act::new());
    let key = |key: &str| json!({"action": "test.act", "args": {}, "key": key});
    world.wrap(key("one")).await;
    world.wrap(key("two")).await;
    let [difference] = world.why().await.differences.try_into().unwrap();
    assert_eq!(difference.pointer, "/key");
    assert_eq!(difference.new, Some(json!("two")));

    let file = world.file("f", "one");
    let content = json!({
        "action": "test.act", "args": {"file": file, "x": 1}, "key_strategy": "file_content",
    });
    world.wrap(content.clone()).await;
    world.file("f", "two");
    world.wrap(content).await;
    let [difference] = world.why().await.differences.try_into().unwrap();
    assert_eq!(difference.pointer, "/content");

    let version = |version: u32| json!({"action": "test.act", "args": {"x": "versioned"}, "version": version});
    world.wrap(version(1)).await;
    world.wrap(version(2)).await;
    let [difference] = world.why().await.differences.try_into().unwrap();
    assert_eq!(
        (difference.pointer.as_str(), difference.new),
        ("/version", Some(json!(2)))
    );
}

#[tokio::test]
async fn an_expired_entry_is_explained_by_the_earlier_call_under_its_key() {
    let world = World::with(Act::new());
    let with = json!({"action": "test.act", "args": {}, "key": "k", "ttl_seconds": 5});
    world.wrap(with.clone()).await;
    world.after(Duration::from_secs(5));
    world.wrap(with).await;
    let explanation = world.why().await;
    assert_eq!(explanation.call.reason.as_deref(), Some("expired"));
    assert!(explanation.same.is_some());
    assert_eq!(explanation.differences, []);
}

#[tokio::test]
async fn every_call_is_a_row_with_its_outcome() {
    let act = Act::new().answers(|run, _| match run {
        4 => Err(cachalot_workflow::Failure::new("boom", "it broke")),
        run => Ok(json!(run)),
    });
    let world = World::with(act);
    let with = json!({"action": "test.act", "args": {}, "key": "k"});
    let and = |name: &str, value: Value| {
        let mut with = with.clone();
        with[name] = value;
        with
    };
    world.wrap(with.clone()).await;
    world.wrap(with.clone()).await;
    world.wrap(and("cache_enabled", json!(false))).await;
    world.wrap(and("skip_cache", json!(true))).await;
    world.fails("cache.wrap", and("version", json!(2))).await;
    let ledger = world.runtime.cache.ledger();
    ledger.flush().await;
    let mut rows = ledger.recent(10).unwrap();
    rows.sort_by_key(|row| row.id);
    let answered: Vec<(CallStatus, Option<&str>)> = rows
        .iter()
        .map(|row| (row.answered, row.reason.as_deref()))
        .collect();
    for expected in [
        (CallStatus::Miss, Some("not in the cache")),
        (CallStatus::Hit, None),
        (CallStatus::Bypass, Some("caching is off")),
        (CallStatus::Miss, Some("a fresh answer was asked for")),
    ] {
        assert!(answered.contains(&expected), "{expected:?} in {answered:?}");
    }
    let failed = rows
        .iter()
        .find(|row| row.failure.is_some())
        .expect("the failure");
    assert_eq!(failed.failure.as_deref(), Some("it broke"));
    assert_eq!(failed.not_stored.as_deref(), Some("the work failed"));
    let totals = ledger.totals().unwrap();
    let [(kind, name, sums)] = totals.as_slice() else {
        panic!("{totals:?}")
    };
    assert_eq!((kind.as_str(), name.as_str()), ("action", "test.act"));
    assert_eq!(
        (sums.hits, sums.misses, sums.bypasses, sums.failures),
        (1, 3, 1, 1)
    );
}

#[tokio::test]
async fn a_handle_finds_its_calls() {
    let world = World::with(Act::new());
    let response = world.wrap(call(json!(1), json!(2))).await;
    world.wrap(call(json!(3), json!(4))).await;
    let ledger = world.runtime.cache.ledger();
    ledger.flush().await;
    let handle = text(&response, "_cache_key");
    let explanation = ledger.explain(Some(handle)).unwrap().expect("the call");
    assert_eq!(explanation.call.handle.as_deref(), Some(handle));
    assert_eq!(
        explanation.call.input.unwrap()["args"],
        json!({"x": 1, "y": 2})
    );
}

#[tokio::test]
async fn a_call_that_had_no_key_is_explained_by_its_reason() {
    let world = World::with(Act::new());
    let with = json!({
        "action": "test.act", "args": {"file": "absent"}, "key_strategy": "file_content",
    });
    world.wrap(with).await;
    let explanation = world.why().await;
    assert_eq!(explanation.call.answered, CallStatus::Bypass);
    let reason = explanation.call.reason.unwrap();
    assert!(reason.contains("absent is not there"), "{reason}");
    assert_eq!(
        explanation.call.input.unwrap()["args"],
        json!({"file": "absent"})
    );
}
