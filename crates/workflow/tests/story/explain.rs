//! Explanations of calls in the ledger.

use std::time::Duration;

use cachalot_cache::{CallStatus, Difference};
use serde_json::{Value, json};

use crate::fixture::{Fixture, text};
use crate::test_actions::TestAction;

fn call(x: Value, y: Value) -> Value {
    json!({"action": "test.act", "args": {"x": x, "y": y}})
}

#[tokio::test]
async fn changed_argument_is_explained_with_both_values() {
    let fixture = Fixture::with(TestAction::new());
    fixture
        .wrap(call(json!({"temperature": 0.5, "n": 1}), json!("same")))
        .await;
    fixture
        .wrap(call(json!({"temperature": 0.7, "n": 1}), json!("same")))
        .await;
    let explanation = fixture.why().await;
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
async fn nearest_earlier_call_is_compared() {
    let fixture = Fixture::with(TestAction::new());
    fixture.wrap(call(json!([1, 2, 3]), json!("a"))).await;
    fixture.wrap(call(json!([9, 9, 9]), json!("b"))).await;
    fixture.wrap(call(json!([1, 2, 4]), json!("a"))).await;
    let explanation = fixture.why().await;
    let pointers: Vec<&str> = explanation
        .differences
        .iter()
        .map(|difference| difference.pointer.as_str())
        .collect();
    assert_eq!(pointers, ["/args/x/2"]);
}

#[tokio::test]
async fn changed_key_file_and_version_are_explained() {
    let fixture = Fixture::with(TestAction::new());
    let key = |key: &str| json!({"action": "test.act", "args": {}, "key": key});
    fixture.wrap(key("one")).await;
    fixture.wrap(key("two")).await;
    let [difference] = fixture.why().await.differences.try_into().unwrap();
    assert_eq!(difference.pointer, "/key");
    assert_eq!(difference.new, Some(json!("two")));

    let file = fixture.file("f", "one");
    let content = json!({
        "action": "test.act", "args": {"file": file, "x": 1}, "key_strategy": "file_content",
    });
    fixture.wrap(content.clone()).await;
    fixture.file("f", "two");
    fixture.wrap(content).await;
    let [difference] = fixture.why().await.differences.try_into().unwrap();
    assert_eq!(difference.pointer, "/content");

    let version = |version: u32| json!({"action": "test.act", "args": {"x": "versioned"}, "version": version});
    fixture.wrap(version(1)).await;
    fixture.wrap(version(2)).await;
    let [difference] = fixture.why().await.differences.try_into().unwrap();
    assert_eq!(
        (difference.pointer.as_str(), difference.new),
        ("/version", Some(json!(2)))
    );
}

#[tokio::test]
async fn an_expired_entry_is_explained_by_the_earlier_call_under_its_key() {
    let fixture = Fixture::with(TestAction::new());
    let with = json!({"action": "test.act", "args": {}, "key": "k", "ttl_seconds": 5});
    fixture.wrap(with.clone()).await;
    fixture.after(Duration::from_secs(5));
    fixture.wrap(with).await;
    let explanation = fixture.why().await;
    assert_eq!(explanation.call.reason.as_deref(), Some("expired"));
    assert!(explanation.same.is_some());
    assert_eq!(explanation.differences, []);
}

#[tokio::test]
async fn every_call_is_a_row_with_its_outcome() {
    let test_action = TestAction::new().answers(|run, _| match run {
        4 => Err(cachalot_workflow::Failure::new("boom", "it broke")),
        run => Ok(json!(run)),
    });
    let fixture = Fixture::with(test_action);
    let with = json!({"action": "test.act", "args": {}, "key": "k"});
    let and = |name: &str, value: Value| {
        let mut with = with.clone();
        with[name] = value;
        with
    };
    fixture.wrap(with.clone()).await;
    fixture.wrap(with.clone()).await;
    fixture.wrap(and("cache_enabled", json!(false))).await;
    fixture.wrap(and("skip_cache", json!(true))).await;
    fixture.fails("cache.wrap", and("version", json!(2))).await;
    let ledger = fixture.runtime.cache.ledger();
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
async fn calls_are_found_by_handle() {
    let fixture = Fixture::with(TestAction::new());
    let response = fixture.wrap(call(json!(1), json!(2))).await;
    fixture.wrap(call(json!(3), json!(4))).await;
    let ledger = fixture.runtime.cache.ledger();
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
async fn call_without_a_key_is_explained_by_its_reason() {
    let fixture = Fixture::with(TestAction::new());
    let with = json!({
        "action": "test.act", "args": {"file": "absent"}, "key_strategy": "file_content",
    });
    fixture.wrap(with).await;
    let explanation = fixture.why().await;
    assert_eq!(explanation.call.answered, CallStatus::Bypass);
    let reason = explanation.call.reason.unwrap();
    assert!(reason.contains("absent is not there"), "{reason}");
    assert_eq!(
        explanation.call.input.unwrap()["args"],
        json!({"file": "absent"})
    );
}
