//! Results that are stored, and results that are not.

use serde_json::{Value, json};

use crate::fixture::{Fixture, Setup, is_hit, text};
use crate::test_actions::TestAction;

/// A run whose only action gives `value`.
fn giving(value: &Value) -> (Fixture, TestAction) {
    let test_action = TestAction::new().gives(value.clone());
    (Fixture::with(test_action.clone()), test_action)
}

fn call() -> Value {
    json!({"action": "test.act", "args": {}, "key": "k"})
}

#[tokio::test]
async fn null_scalars_and_lists_are_stored_exactly() {
    for value in [
        json!(null),
        json!(false),
        json!(0),
        json!(-1),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(0.1),
        json!(1.0),
        json!(-0.0),
        json!(5e-324),
        json!(f64::MAX),
        json!(1e16),
        json!(""),
        json!("\u{0}\u{1f}\"\\\u{2028}😀"),
        json!([]),
        json!([null, [1, [2.0]]]),
        json!({}),
        json!({"z": 1, "a": {"y": null, "b": []}, "": "empty"}),
    ] {
        let (fixture, test_action) = giving(&value);
        let miss = fixture.wrap(call()).await;
        let front = fixture.wrap(call()).await;
        let store = Setup::in_home_of(&fixture)
            .with(test_action.clone())
            .start()
            .wrap(call())
            .await;
        assert_eq!(test_action.runs(), 1, "{value}");
        for response in [&miss, &front, &store] {
            assert_eq!(response["success"], true, "{value}");
            assert_eq!(response["result"], value);
            assert_eq!(
                response["result"].to_string(),
                value.to_string(),
                "to the letter"
            );
        }
        assert!(is_hit(&front) && is_hit(&store));
    }
}

#[tokio::test]
async fn results_without_success_are_not_stored() {
    for unsuccessful in [
        json!(false),
        json!(0),
        json!(0.0),
        json!(""),
        json!(null),
        json!([]),
        json!({}),
    ] {
        let value = json!({"success": unsuccessful, "data": 1});
        let (fixture, test_action) = giving(&value);
        for runs in [1, 2] {
            let response = fixture.wrap(call()).await;
            assert_eq!(response["success"], false, "{value}");
            assert_eq!(response["result"], value);
            assert_eq!(response["_cache_stored"], false);
            assert_eq!(test_action.runs(), runs);
        }
        assert!(fixture.entries().await.is_empty());
    }
}

#[tokio::test]
async fn every_truthy_success_is_stored() {
    for successful in [
        json!(true),
        json!(1),
        json!("yes"),
        json!("false"),
        json!([0]),
    ] {
        let (fixture, test_action) = giving(&json!({"success": successful, "error": "a warning"}));
        assert_eq!(fixture.wrap(call()).await["success"], true, "{successful}");
        assert!(is_hit(&fixture.wrap(call()).await));
        assert_eq!(test_action.runs(), 1);
    }
}

#[tokio::test]
async fn an_error_without_a_success_field_is_not_stored() {
    for error in [
        json!("quota exceeded"),
        json!({"code": 5}),
        json!(false),
        json!(""),
    ] {
        let (fixture, test_action) = giving(&json!({"error": error, "data": 1}));
        let response = fixture.wrap(call()).await;
        assert_eq!(response["_cache_stored"], false, "{error}");
        assert_eq!(
            text(&response, "_cache_reason"),
            "the result carries an error"
        );
        assert!(!is_hit(&fixture.wrap(call()).await));
        assert_eq!(test_action.runs(), 2);
    }
    let (fixture, _) = giving(&json!({"error": null, "data": 1}));
    fixture.wrap(call()).await;
    assert!(is_hit(&fixture.wrap(call()).await), "null is no error");
}

#[tokio::test]
async fn failed_action_stores_nothing_and_runs_again() {
    let test_action = TestAction::new().answers(|run, _| match run {
        1 | 2 => Err(cachalot_workflow::Failure::transient("http_error", "503")),
        run => Ok(json!(run)),
    });
    let fixture = Fixture::with(test_action.clone());
    for _ in 0..2 {
        fixture.fails("cache.wrap", call()).await;
        assert!(fixture.entries().await.is_empty());
    }
    assert_eq!(fixture.wrap(call()).await["result"], 3);
    assert!(is_hit(&fixture.wrap(call()).await));
}

#[tokio::test]
async fn too_deep_result_is_returned_and_not_stored() {
    let mut deep = json!("bottom");
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let (fixture, test_action) = giving(&deep);
    for runs in [1, 2] {
        let response = fixture.wrap(call()).await;
        assert_eq!(response["result"], deep);
        assert_eq!(
            response["_cache_stored"], false,
            "{}",
            response["_cache_reason"]
        );
        assert!(text(&response, "_cache_reason").contains("deep"));
        assert_eq!(test_action.runs(), runs);
    }
}

#[tokio::test]
async fn too_large_result_is_returned_and_not_stored() {
    let test_action = TestAction::new().answers(|_, _| Ok(json!("x".repeat(65 << 20))));
    let fixture = Fixture::with(test_action.clone());
    let response = fixture.wrap(call()).await;
    assert_eq!(text(&response, "result").len(), 65 << 20);
    assert_eq!(response["_cache_stored"], false);
    assert!(
        text(&response, "_cache_reason").starts_with("too large"),
        "{}",
        response["_cache_reason"]
    );
    assert!(fixture.entries().await.is_empty());
}

#[tokio::test]
async fn a_result_of_several_megabytes_is_stored() {
    let value = json!({"text": "é".repeat(2 << 20), "list": (0..10_000).collect::<Vec<_>>()});
    let (fixture, test_action) = giving(&value);
    fixture.wrap(call()).await;
    let again = Setup::in_home_of(&fixture)
        .without_front()
        .with(test_action.clone())
        .start();
    let hit = again.wrap(call()).await;
    assert!(is_hit(&hit));
    assert!(hit["result"] == value);
}

#[tokio::test]
async fn every_caller_gets_its_own_copy() {
    let (fixture, _) = giving(&json!({"list": [1]}));
    fixture.wrap(call()).await;
    let mut mine = fixture.wrap(call()).await;
    mine["result"]["list"].as_array_mut().unwrap().clear();
    assert_eq!(fixture.wrap(call()).await["result"], json!({"list": [1]}));
}

/// An entry whose answer is no JSON any more.
#[tokio::test]
async fn a_damaged_entry_is_a_miss_and_is_replaced() {
    let (fixture, test_action) = giving(&json!({"data": "sound"}));
    fixture.wrap(call()).await;
    let store = fixture.runtime.store.clone().unwrap();
    let mut record = fixture.entries().await.remove(0);
    let mut value = record.value.to_vec();
    let length = value.len();
    value[length - 5..].fill(b'?');
    record.value = value.into();
    store
        .put("cache", record, None, &[])
        .settle()
        .await
        .unwrap();
    let healed = fixture.wrap(call()).await;
    assert_eq!(healed["result"], json!({"data": "sound"}), "{healed}");
    assert!(!is_hit(&healed));
    assert_eq!(healed["_cache_stored"], true, "{healed}");
    assert!(is_hit(&fixture.wrap(call()).await));
    assert_eq!(test_action.runs(), 2);
}
