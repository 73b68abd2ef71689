//! The story's acceptance criteria by number. AC-12 (clouds) and AC-23 are in `skipped.rs`.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::ManualClock;
use serde_json::json;

use crate::faulty_store::{FaultyStore, StoreFault};
use crate::fixture::{Fixture, START, START_TEXT, Setup, is_hit, text};
use crate::test_actions::TestAction;

fn call() -> serde_json::Value {
    json!({"action": "test.act", "args": {"x": 1}})
}

#[tokio::test]
async fn ac_1_wrap_looks_up_before_and_stores_after() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    assert!(fixture.entries().await.is_empty());
    fixture.wrap(call()).await;
    assert_eq!((test_action.runs(), fixture.entries().await.len()), (1, 1));
    fixture.wrap(call()).await;
    assert_eq!((test_action.runs(), fixture.entries().await.len()), (1, 1));
}

#[tokio::test]
async fn ac_2_keys_by_sha256_args_custom_and_file_content() {
    let fixture = Fixture::with(TestAction::new());
    let file = fixture.file("f", "content");
    let mut handles = Vec::new();
    for (strategy, prefix) in [
        (json!({}), "cache:tester:test.act:"),
        (json!({"key_strategy": "args"}), "cache:tester:test.act:"),
        (
            json!({"key_strategy": "sha256", "key_source": "x"}),
            "cache:tester:test.act:",
        ),
        (
            json!({"key_strategy": "file_content"}),
            "cache:tester:test.act:",
        ),
        (
            json!({"key_strategy": "custom", "key": "mine:1"}),
            "cache:tester:mine:1",
        ),
    ] {
        let mut with = json!({"action": "test.act", "args": {"x": 1, "file": file}});
        with.as_object_mut()
            .unwrap()
            .extend(strategy.as_object().unwrap().clone());
        let response = fixture.wrap(with).await;
        assert!(
            text(&response, "_cache_key").starts_with(prefix),
            "{response}"
        );
        handles.push(is_hit(&response));
    }
    assert_eq!(
        handles,
        [false, true, false, false, false],
        "args is the default"
    );
}

#[tokio::test]
async fn ac_3_lookup_precedes_the_action() {
    let test_action =
        TestAction::new().fails(cachalot_workflow::Failure::new("boom", "must not run"));
    let fixture = Fixture::with(TestAction::new());
    fixture.wrap(call()).await;
    let cached = Setup::in_home_of(&fixture)
        .with(test_action.clone())
        .start();
    assert!(is_hit(&cached.wrap(call()).await));
    assert_eq!(test_action.runs(), 0);
}

#[tokio::test]
async fn ac_4_a_hit_returns_the_cached_result() {
    let fixture = Fixture::with(TestAction::new());
    let first = fixture.wrap(call()).await;
    let second = fixture.wrap(call()).await;
    assert_eq!(second["result"], first["result"]);
    assert_eq!(second["_cache_hit"], true);
}

#[tokio::test]
async fn ac_5_a_miss_and_an_expired_entry_run_the_action() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let mut with = call();
    with["ttl_seconds"] = json!(1);
    assert!(!is_hit(&fixture.wrap(with.clone()).await));
    fixture.after(Duration::from_secs(1));
    assert!(!is_hit(&fixture.wrap(with).await));
    assert_eq!(test_action.runs(), 2);
}

#[tokio::test]
async fn ac_6_a_result_is_stored_with_its_expiry() {
    let fixture = Fixture::with(TestAction::new());
    fixture.wrap(call()).await;
    let entry = fixture.entries().await.remove(0);
    assert_eq!(entry.expires, Some(START + 60 * 86_400_000));
}

#[tokio::test]
async fn ac_7_default_ttl_is_sixty_days() {
    let fixture = Fixture::with(TestAction::new());
    for (ttl, expires) in [
        (json!({}), "2027-01-20T02:42:00.123Z"),
        (json!({"ttl_days": 1}), "2026-11-22T02:42:00.123Z"),
        (
            json!({"ttl_days": 1, "ttl_seconds": 1}),
            "2026-11-21T02:42:01.123Z",
        ),
    ] {
        let mut with = json!({"action": "test.act", "args": {}, "skip_cache": true});
        with.as_object_mut()
            .unwrap()
            .extend(ttl.as_object().unwrap().clone());
        assert_eq!(
            text(&fixture.wrap(with).await, "_cache_expires_at"),
            expires
        );
    }
}

#[tokio::test]
async fn ac_8_skip_cache_forces_a_fresh_run() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let mut with = call();
    with["skip_cache"] = json!(true);
    for runs in 1..=3 {
        assert!(!is_hit(&fixture.wrap(with.clone()).await));
        assert_eq!(test_action.runs(), runs);
    }
}

#[tokio::test]
async fn ac_9_cache_enabled_false_neither_reads_nor_stores() {
    let store = FaultyStore::by(Arc::new(ManualClock::at(START)), |_| StoreFault::None);
    let fixture = Setup::default()
        .store(store.clone())
        .with(TestAction::new())
        .start();
    let mut with = call();
    with["cache_enabled"] = json!(false);
    with["cleanup_probability"] = json!(1);
    fixture.wrap(with).await;
    assert_eq!(store.asked(), 0, "the memory is not even asked");
}

#[tokio::test]
async fn ac_10_invalidate_by_key_and_by_pattern() {
    let fixture = Fixture::with(TestAction::new());
    for key in ["a", "b:1", "b:2"] {
        fixture
            .wrap(json!({"action": "test.act", "args": {}, "key": key}))
            .await;
    }
    assert_eq!(
        fixture.invalidate(json!({"key": "a"})).await["deleted_count"],
        1
    );
    assert_eq!(
        fixture.invalidate(json!({"pattern": "b:*"})).await["deleted_count"],
        2
    );
}

#[tokio::test]
async fn ac_11_get_runs_nothing() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let handle = fixture.wrap(call()).await["_cache_key"].clone();
    let got = fixture.ok("cache.get", json!({"key": handle})).await;
    assert_eq!((&got["found"], test_action.runs()), (&json!(true), 1));
}

#[tokio::test]
async fn ac_12_storage_hash_of_local_files() {
    let fixture = Fixture::with(TestAction::new());
    let file = fixture.file("f", "");
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    for path in [file.clone(), format!("file://{file}"), "f".to_owned()] {
        assert_eq!(
            text(
                &fixture.ok("storage.hash", json!({"path": path})).await,
                "hash"
            ),
            empty
        );
    }
}

// AC-13, the sha256 filter: `hashing::sha256_filter_hashes_text_as_is_and_data_in_canonical_form`.

#[tokio::test]
async fn ac_14_miss_cleans_up_with_a_probability() {
    for (luck, left) in [(0.04, 1), (0.06, 2)] {
        let fixture = Setup::default()
            .random(crate::fixture::FixedRandom(luck))
            .with(TestAction::new())
            .start();
        let short =
            json!({"action": "test.act", "args": {}, "ttl_seconds": 1, "cleanup_probability": 0});
        fixture.wrap(short).await;
        fixture.after(Duration::from_secs(1));
        fixture.wrap(call()).await;
        assert_eq!(fixture.entries().await.len(), left);
    }
}

#[tokio::test]
async fn ac_15_and_16_cleanup_erases_expired_entries_up_to_its_limit() {
    let fixture = Fixture::with(TestAction::new());
    for x in 0..8 {
        let with = json!({"action": "test.act", "args": {"y": x}, "ttl_seconds": 1});
        fixture.wrap(with).await;
    }
    fixture.after(Duration::from_secs(1));
    let mut with = call();
    with["cleanup_probability"] = json!(1);
    with["cleanup_limit"] = json!(3);
    fixture.wrap(with).await;
    assert_eq!(fixture.entries().await.len(), 8 - 3 + 1);
}

#[tokio::test]
async fn ac_17_failing_store_fails_no_action() {
    for trouble in [StoreFault::Fails, StoreFault::Hangs] {
        let store = FaultyStore::by(Arc::new(ManualClock::at(START)), move |_| trouble);
        let fixture = Setup::default()
            .store(store)
            .with(TestAction::new())
            .start();
        let response = fixture.wrap(call()).await;
        assert_eq!(
            (&response["success"], is_hit(&response)),
            (&json!(true), false)
        );
    }
}

#[tokio::test]
async fn ac_18_failed_hash_runs_the_action_uncached() {
    let fixture = Fixture::with(TestAction::new());
    let with =
        json!({"action": "test.act", "args": {"file": "absent"}, "key_strategy": "file_content"});
    let response = fixture.wrap(with).await;
    assert_eq!(
        (&response["success"], &response["_cache_stored"]),
        (&json!(true), &json!(false))
    );
    assert!(fixture.entries().await.is_empty());
}

#[tokio::test]
async fn ac_19_entries_have_the_five_fields() {
    let fixture = Fixture::with(TestAction::new());
    let response = fixture.wrap(call()).await;
    let metadata = &fixture.get(text(&response, "_cache_key")).await["metadata"];
    assert_eq!(metadata["_cache_type"], "action_result");
    assert_eq!(metadata["_cache_action"], "test.act");
    assert_eq!(metadata["_cache_key"], response["_cache_key"]);
    assert_eq!(metadata["_cache_created_at"], START_TEXT);
    assert_eq!(metadata["_cache_expires_at"], response["_cache_expires_at"]);
}

#[tokio::test]
async fn ac_20_responses_contain_hit_key_and_creation_time() {
    let fixture = Fixture::with(TestAction::new());
    let miss = fixture.wrap(call()).await;
    let hit = fixture.wrap(call()).await;
    assert_eq!((is_hit(&miss), is_hit(&hit)), (false, true));
    assert_eq!(miss["_cache_key"], hit["_cache_key"]);
    assert_eq!(miss.get("_cache_created_at"), None);
    assert_eq!(hit["_cache_created_at"], START_TEXT);
}

#[tokio::test]
async fn ac_21_cache_is_a_space_of_the_same_store() {
    let fixture = Fixture::with(TestAction::new());
    fixture.wrap(call()).await;
    fixture
        .ok("ltm.store", json!({"key": "note", "value": 1}))
        .await;
    assert_eq!(fixture.entries().await.len(), 1);
    assert_eq!(fixture.records("user").await.len(), 1);
    assert_eq!(fixture.ok("ltm.search", json!({})).await["count"], 1);
}

#[test]
fn ac_22_every_action_has_both_names() {
    let registry = cachalot_workflow::actions::builtin();
    for (name, other) in [
        ("cache.wrap", "actions.cache_wrap"),
        ("cache.get", "actions.cache_get"),
        ("cache.invalidate", "actions.cache_invalidate"),
        ("storage.hash", "actions.storage_hash"),
    ] {
        let (one, same) = (registry.get(name).unwrap(), registry.get(other).unwrap());
        assert!(Arc::ptr_eq(one, same), "{name}");
        assert_eq!(one.metadata().name, name);
    }
}
