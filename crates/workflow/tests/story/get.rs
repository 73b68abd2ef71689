//! `cache.get`: looking without running.

use std::time::Duration;

use bytes::Bytes;
use cachalot_store::{Label, Record};
use serde_json::{Value, json};

use crate::fixture::{Fixture, START_TEXT, Setup, text};
use crate::test_actions::TestAction;

fn call(further: Value) -> Value {
    let mut with = json!({"action": "test.act", "args": {}, "key": "k"});
    with.as_object_mut()
        .unwrap()
        .extend(further.as_object().unwrap().clone());
    with
}

#[tokio::test]
async fn get_returns_an_entry_without_running() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    fixture.wrap(call(json!({}))).await;
    assert_eq!(
        fixture.ok("cache.get", json!({"key": "k"})).await,
        json!({
            "success": true,
            "found": true,
            "value": {"run": 1, "given": {}},
            "expired": false,
        })
    );
    assert_eq!(test_action.runs(), 1);
}

#[tokio::test]
async fn get_of_a_missing_entry_is_not_found() {
    let fixture = Fixture::with(TestAction::new());
    for key in ["k", "cache:", "cache:tester:", "*", "cache:tester:*"] {
        assert_eq!(
            fixture.ok("cache.get", json!({"key": key})).await,
            json!({"success": true, "found": false, "value": null, "expired": false}),
            "{key}"
        );
    }
}

#[tokio::test]
async fn get_metadata_has_the_five_fields_scope_and_tags() {
    let fixture = Fixture::with(TestAction::new());
    fixture
        .wrap(call(json!({"ttl_hours": 1, "tags": ["b", "a"]})))
        .await;
    assert_eq!(
        fixture.get("k").await["metadata"],
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
    let unasked = fixture
        .ok("cache.get", json!({"key": "k", "include_metadata": false}))
        .await;
    assert_eq!(unasked.get("metadata"), None);
}

#[tokio::test]
async fn get_marks_an_expired_entry() {
    let fixture = Fixture::with(TestAction::new());
    fixture.wrap(call(json!({"ttl_seconds": 10}))).await;
    fixture.after(Duration::from_secs(10));
    let got = fixture.ok("cache.get", json!({"key": "k"})).await;
    assert_eq!(
        (&got["found"], &got["expired"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(got["value"]["run"], 1);
}

#[tokio::test]
async fn get_requires_a_key() {
    let fixture = Fixture::with(TestAction::new());
    for arguments in [
        json!({}),
        json!({"key": null}),
        json!({"key": ""}),
        json!({"key": " "}),
    ] {
        let failure = fixture.fails("cache.get", arguments.clone()).await;
        assert_eq!(failure.kind, "validation_error", "{arguments}");
    }
    let failure = fixture.fails("cache.get", json!({"kye": "k"})).await;
    assert!(failure.message.contains("did you mean `key`"), "{failure}");
}

#[tokio::test]
async fn get_accepts_a_number_as_key() {
    let fixture = Fixture::with(TestAction::new());
    fixture
        .wrap(json!({"action": "test.act", "args": {}, "key": 7}))
        .await;
    assert_eq!(
        fixture.ok("cache.get", json!({"key": 7})).await["found"],
        true
    );
}

#[tokio::test]
async fn get_without_a_store_fails() {
    let fixture = Setup::default()
        .without_store()
        .with(TestAction::new())
        .start();
    let failure = fixture.fails("cache.get", json!({"key": "k"})).await;
    assert_eq!(failure.kind, "configuration_error");
    let failure = fixture.fails("cache.invalidate", json!({"key": "k"})).await;
    assert_eq!(
        failure.kind, "configuration_error",
        "nothing was invalidated"
    );
}

#[tokio::test]
async fn foreign_record_under_the_handle_is_not_found() {
    let fixture = Fixture::with(TestAction::new());
    let store = fixture.runtime.store.clone().unwrap();
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
            fixture.ok("cache.get", json!({"key": "k"})).await["found"],
            false,
            "{value}"
        );
        assert_eq!(
            fixture.invalidate(json!({"key": "k"})).await["deleted_count"],
            1
        );
    }
}

#[tokio::test]
async fn record_of_user_memory_is_never_returned() {
    let fixture = Fixture::with(TestAction::new());
    fixture
        .ok(
            "ltm.store",
            json!({"key": "cache:tester:k", "value": "mine"}),
        )
        .await;
    assert_eq!(
        fixture.ok("cache.get", json!({"key": "k"})).await["found"],
        false
    );
    fixture.invalidate(json!({"pattern": "*"})).await;
    let kept = fixture
        .ok("ltm.retrieve", json!({"key": "cache:tester:k"}))
        .await;
    assert_eq!(text(&kept, "value"), "mine");
}

#[tokio::test]
async fn get_is_not_recorded_as_a_call_or_use() {
    let fixture = Fixture::with(TestAction::new());
    fixture.wrap(call(json!({}))).await;
    fixture.get("k").await;
    let ledger = fixture.runtime.cache.ledger();
    ledger.flush().await;
    assert_eq!(ledger.recent(10).unwrap().len(), 1);
    assert_eq!(fixture.events.answered().len(), 1);
}
