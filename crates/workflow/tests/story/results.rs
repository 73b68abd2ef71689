//! What comes back from the cache, and what is never put there.

use serde_json::{Value, json};

use crate::acts::Act;
use crate::world::{Setup, World, is_hit, text};

/// A run whose only action gives `value`.
fn giving(value: &Value) -> (World, Act) {
    let act = Act::new().gives(value.clone());
    (World::with(act.clone()), act)
}

fn call() -> Value {
    json!({"action": "test.act", "args": {}, "key": "k"})
}

#[tokio::test]
async fn nothing_scalars_and_lists_are_results_like_any_other() {
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
        let (world, act) = giving(&value);
        let miss = world.wrap(call()).await;
        let front = world.wrap(call()).await;
        let store = Setup::in_home_of(&world)
            .with(act.clone())
            .start()
            .wrap(call())
            .await;
        assert_eq!(act.runs(), 1, "{value}");
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
        let (world, act) = giving(&value);
        for runs in [1, 2] {
            let response = world.wrap(call()).await;
            assert_eq!(response["success"], false, "{value}");
            assert_eq!(response["result"], value);
            assert_eq!(response["_cache_stored"], false);
            assert_eq!(act.runs(), runs);
        }
        assert!(world.entries().await.is_empty());
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
        let (world, act) = giving(&json!({"success": successful, "error": "a warning"}));
        assert_eq!(world.wrap(call()).await["success"], true, "{successful}");
        assert!(is_hit(&world.wrap(call()).await));
        assert_eq!(act.runs(), 1);
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
        let (world, act) = giving(&json!({"error": error, "data": 1}));
        let response = world.wrap(call()).await;
        assert_eq!(response["_cache_stored"], false, "{error}");
        assert_eq!(
            text(&response, "_cache_reason"),
            "the result carries an error"
        );
        assert!(!is_hit(&world.wrap(call()).await));
        assert_eq!(act.runs(), 2);
    }
    let (world, _) = giving(&json!({"error": null, "data": 1}));
    world.wrap(call()).await;
    assert!(is_hit(&world.wrap(call()).await), "null is no error");
}

#[tokio::test]
async fn a_failed_action_leaves_nothing_behind_and_runs_again() {
    let act = Act::new().answers(|run, _| match run {
        1 | 2 => Err(cachalot_workflow::Failure::transient("http_error", "503")),
        run => Ok(json!(run)),
    });
    let world = World::with(act.clone());
    for _ in 0..2 {
        world.fails("cache.wrap", call()).await;
        assert!(world.entries().await.is_empty());
    }
    assert_eq!(world.wrap(call()).await["result"], 3);
    assert!(is_hit(&world.wrap(call()).await));
}

#[tokio::test]
async fn a_result_too_deep_to_be_read_back_is_not_stored_and_still_returned() {
    let mut deep = json!("bottom");
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let (world, act) = giving(&deep);
    for runs in [1, 2] {
        let response = world.wrap(call()).await;
        assert_eq!(response["result"], deep);
        assert_eq!(
            response["_cache_stored"], false,
            "{}",
            response["_cache_reason"]
        );
        assert!(text(&response, "_cache_reason").contains("deep"));
        assert_eq!(act.runs(), runs);
    }
}

#[tokio::test]
async fn a_result_too_large_to_keep_is_not_stored_and_still_returned() {
    let act = Act::new().answers(|_, _| Ok(json!("x".repeat(65 << 20))));
    let world = World::with(act.clone());
    let response = world.wrap(call()).await;
    assert_eq!(text(&response, "result").len(), 65 << 20);
    assert_eq!(response["_cache_stored"], false);
    assert!(
        text(&response, "_cache_reason").starts_with("too large"),
        "{}",
        response["_cache_reason"]
    );
    assert!(world.entries().await.is_empty());
}

#[tokio::test]
async fn a_result_of_several_megabytes_is_stored() {
    let value = json!({"text": "é".repeat(2 << 20), "list": (0..10_000).collect::<Vec<_>>()});
    let (world, act) = giving(&value);
    world.wrap(call()).await;
    let again = Setup::in_home_of(&world)
        .without_front()
        .with(act.clone())
        .start();
    let hit = again.wrap(call()).await;
    assert!(is_hit(&hit));
    assert!(hit["result"] == value);
}

#[tokio::test]
async fn one_callers_copy_is_not_anothers() {
    let (world, _) = giving(&json!({"list": [1]}));
    world.wrap(call()).await;
    let mut mine = world.wrap(call()).await;
    mine["result"]["list"].as_array_mut().unwrap().clear();
    assert_eq!(world.wrap(call()).await["result"], json!({"list": [1]}));
}

/// An entry whose answer is no JSON any more.
#[tokio::test]
async fn a_damaged_entry_is_a_miss_and_is_replaced() {
    let (world, act) = giving(&json!({"data": "sound"}));
    world.wrap(call()).await;
    let store = world.runtime.store.clone().unwrap();
    let mut record = world.entries().await.remove(0);
    let mut value = record.value.to_vec();
    let length = value.len();
    value[length - 5..].fill(b'?');
    record.value = value.into();
    store
        .put("cache", record, None, &[])
        .settle()
        .await
        .unwrap();
    let healed = world.wrap(call()).await;
    assert_eq!(healed["result"], json!({"data": "sound"}), "{healed}");
    assert!(!is_hit(&healed));
    assert_eq!(healed["_cache_stored"], true, "{healed}");
    assert!(is_hit(&world.wrap(call()).await));
    assert_eq!(act.runs(), 2);
}
