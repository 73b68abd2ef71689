//! `cache.get`: looking without running.

use std::time::Duration;

use bytes::Bytes;
use cachalot_store::{Label, Record};
use serde_json::{Value, json};

use crate::acts::Act;
use crate::world::{START_TEXT, Setup, World, text};

fn call(further: Value) -> Value {
    let mut with = json!({"action": "test.act", "args": {}, "key": "k"});
    with.as_object_mut()
        .unwrap()
        .extend(further.as_object().unwrap().clone());
    with
}

#[tokio::test]
async fn an_existing_entry_is_shown_without_a_run() {
    let act = Act::new();
    let world = World::with(act.clone());
    world.wrap(call(json!({}))).await;
    assert_eq!(
        world.ok("cache.get", json!({"key": "k"})).await,
        json!({
            "success": true,
            "found": true,
            "value": {"run": 1, "given": {}},
            "expired": false,
        })
    );
    assert_eq!(act.runs(), 1);
}

#[tokio::test]
async fn a_missing_entry_is_not_found() {
    let world = World::with(Act::new());
    for key in ["k", "cache:", "cache:tester:", "*", "cache:tester:*"] {
        assert_eq!(
            world.ok("cache.get", json!({"key": key})).await,
            json!({"success": true, "found": false, "value": null, "expired": false}),
            "{key}"
        );
    }
}

#[tokio::test]
async fn the_metadata_are_the_storys_five_fields_and_scope_and_tags() {
    let world = World::with(Act::new());
    world
        .wrap(call(json!({"ttl_hours": 1, "tags": ["b", "a"]})))
        .await;
    assert_eq!(
        world.get("k").await["metadata"],
        json!({
            "_cache_type": "action_result",
            "_cache_action": "test.act",
            "_cache_key": "cache:tester:k",
            "_cache_created_at": START_TEXT,
            "_cache_expires_at": "2026-11-21T03:42:00.123Z",
            "_cache_scope": "agent:tester",
            "_cache_tags": ["b", "a"],
        })
    );
    let unasked = world
        .ok("cache.get", json!({"key": "k", "include_metadata": false}))
        .await;
    assert_eq!(unasked.get("metadata"), None);
}

#[tokio::test]
async fn an_expired_entry_is_shown_as_expired() {
    let world = World::with(Act::new());
    world.wrap(call(json!({"ttl_seconds": 10}))).await;
    world.after(Duration::from_secs(10));
    let got = world.ok("cache.get", json!({"key": "k"})).await;
    assert_eq!(
        (&got["found"], &got["expired"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(got["value"]["run"], 1);
}

#[tokio::test]
async fn a_key_is_needed() {
    let world = World::with(Act::new());
    for arguments in [
        json!({}),
        json!({"key": null}),
        json!({"key": ""}),
        json!({"key": " "}),
    ] {
        let failure = world.fails("cache.get", arguments.clone()).await;
        assert_eq!(failure.kind, "validation_error", "{arguments}");
    }
    let failure = world.fails("cache.get", json!({"kye": "k"})).await;
    assert!(failure.message.contains("did you mean `key`"), "{failure}");
}

#[tokio::test]
async fn a_number_is_taken_as_its_text() {
    let world = World::with(Act::new());
    world
        .wrap(json!({"action": "test.act", "args": {}, "key": 7}))
        .await;
    assert_eq!(
        world.ok("cache.get", json!({"key": 7})).await["found"],
        true
    );
}

#[tokio::test]
async fn without_a_store_it_fails() {
    let world = Setup::default().no_memory().with(Act::new()).start();
    let failure = world.fails("cache.get", json!({"key": "k"})).await;
    assert_eq!(failure.kind, "configuration_error");
    let failure = world.fails("cache.invalidate", json!({"key": "k"})).await;
    assert_eq!(
        failure.kind, "configuration_error",
        "nothing was invalidated"
    );
}

#[tokio::test]
async fn a_foreign_record_under_the_handle_is_no_entry_and_no_fault() {
    let world = World::with(Act::new());
    let store = world.runtime.store.clone().unwrap();
    for value in ["", "null", "{\"result\": 1}"] {
        let record = Record {
            key: "cache:tester:k".to_owned(),
            value: Bytes::from_static(value.as_bytes()),
            labels: vec![Label::new("handle", "cache:tester:k")],
            expires: None,
            revision: 0,
            updated: 0,
        };
        store
            .put("cache", record, None, &[])
            .settle()
            .await
            .unwrap();
        assert_eq!(
            world.ok("cache.get", json!({"key": "k"})).await["found"],
            false,
            "{value}"
        );
        assert_eq!(
            world.invalidate(json!({"key": "k"})).await["deleted_count"],
            1
        );
    }
}

#[tokio::test]
async fn a_foreign_record_of_user_memory_is_never_shown() {
    let world = World::with(Act::new());
    world
        .ok(
            "ltm.store",
            json!({"key": "cache:tester:k", "value": "mine"}),
        )
        .await;
    assert_eq!(
        world.ok("cache.get", json!({"key": "k"})).await["found"],
        false
    );
    world.invalidate(json!({"pattern": "*"})).await;
    let kept = world
        .ok("ltm.retrieve", json!({"key": "cache:tester:k"}))
        .await;
    assert_eq!(text(&kept, "value"), "mine");
}

#[tokio::test]
async fn looking_is_no_call_and_no_use() {
    let world = World::with(Act::new());
    world.wrap(call(json!({}))).await;
    world.get("k").await;
    let ledger = world.runtime.cache.ledger();
    ledger.flush().await;
    assert_eq!(ledger.recent(10).unwrap().len(), 1);
    assert_eq!(world.events.answered().len(), 1);
}
