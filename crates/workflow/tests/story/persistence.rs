//! Entries after a run, and cassettes.

use std::io::BufReader;

use cachalot_cache::CacheMode;
use serde_json::{Value, json};

use crate::fixture::{Fixture, Setup, is_hit, text, without};
use crate::test_actions::TestAction;

fn calls(file: &str) -> [Value; 4] {
    [
        json!({"action": "test.act", "args": {"x": 1.5, "y": [null, u64::MAX]}}),
        json!({"action": "test.act", "args": {}, "key": "custom", "ttl_seconds": 5}),
        json!({"action": "test.act", "args": {"file": file}, "key_strategy": "file_content"}),
        json!({"action": "test.act", "args": {"x": 2}, "key_prefix": false, "depends_on": [file]}),
    ]
}

async fn answers(fixture: &Fixture, file: &str) -> Vec<Value> {
    let mut answers = Vec::new();
    for with in calls(file) {
        answers.push(fixture.wrap(with).await);
    }
    answers
}

#[tokio::test]
async fn entries_survive_the_run() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let file = fixture.file("f", "content");
    let first = answers(&fixture, &file).await;
    let again = fixture
        .end()
        .await
        .run("run-2")
        .with(test_action.clone())
        .start();
    let second = answers(&again, &file).await;
    assert_eq!(test_action.runs(), 4, "the second run paid nothing");
    for (miss, hit) in first.iter().zip(&second) {
        assert!(!is_hit(miss) && is_hit(hit));
        let reported = ["_cache_hit", "_cache_created_at", "_cache_reason"];
        assert_eq!(
            without(miss.clone(), &reported[..]),
            without(hit.clone(), &reported)
        );
    }
}

#[tokio::test]
async fn entry_reported_as_stored_is_durable() {
    let fixture = Fixture::with(TestAction::new());
    fixture.wrapped("test.act", json!({"x": 1})).await;
    // Nothing is closed: another process would see this file as it is now.
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixture.home()).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
    }
    let options = cachalot_store::sqlite::SqliteOptions::new(fixture.clock.clone());
    let path = copy.path().join("memory.db");
    let store = cachalot_store::sqlite::SqliteStore::open(&path, options).unwrap();
    let other = Setup::in_home_of(&fixture)
        .store(std::sync::Arc::new(store))
        .with(TestAction::new());
    assert!(is_hit(
        &other.start().wrapped("test.act", json!({"x": 1})).await
    ));
}

#[tokio::test]
async fn cassette_replays_in_an_empty_home() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let file = fixture.file("f", "content");
    answers(&fixture, &file).await;
    let warm = answers(&fixture, &file).await;
    let mut cassette = Vec::new();
    let exported = fixture
        .runtime
        .cache
        .export(&mut cassette, None)
        .await
        .unwrap();
    assert_eq!((exported.entries, exported.left_out), (4, 0));

    let stopped =
        TestAction::new().fails(cachalot_workflow::Failure::new("stopped", "it is stopped"));
    let elsewhere = Setup::default()
        .mode(CacheMode::Frozen)
        .with(stopped.clone())
        .start();
    let mut tape = BufReader::new(cassette.as_slice());
    assert_eq!(
        elsewhere
            .runtime
            .cache
            .import(&mut tape)
            .await
            .unwrap()
            .entries,
        4
    );
    // Long after everything has expired, and the file is a copy made later.
    elsewhere.after(std::time::Duration::from_secs(400 * 86_400));
    std::fs::write(&file, "content").unwrap();
    assert_eq!(answers(&elsewhere, &file).await, warm);
    assert_eq!(stopped.runs(), 0);

    let unknown = json!({"action": "test.act", "args": {"x": "never asked"}});
    let failure = elsewhere.fails("cache.wrap", unknown).await;
    assert_eq!(failure.kind, "frozen_miss");
    assert!(failure.message.contains("test.act"), "{failure}");
    std::fs::write(&file, "changed").unwrap();
    for with in &calls(&file)[2..] {
        let failure = elsewhere.fails("cache.wrap", with.clone()).await;
        assert_eq!(failure.kind, "frozen_miss");
    }
    assert_eq!(stopped.runs(), 0);
}

#[tokio::test]
async fn a_frozen_run_executes_only_calls_with_caching_disabled() {
    let test_action = TestAction::new();
    let fixture = Setup::default()
        .mode(CacheMode::Frozen)
        .with(test_action.clone())
        .start();
    let off = json!({"action": "test.act", "args": {}, "cache_enabled": false});
    assert_eq!(fixture.wrap(off).await["result"]["run"], 1);
    let skipping = json!({"action": "test.act", "args": {}, "skip_cache": true});
    assert_eq!(
        fixture.fails("cache.wrap", skipping).await.kind,
        "frozen_miss"
    );
    let unhashed = json!({
        "action": "test.act", "args": {"file": "absent"}, "key_strategy": "file_content",
    });
    assert_eq!(
        fixture.fails("cache.wrap", unhashed).await.kind,
        "frozen_miss"
    );
    let returning = json!({"action": "test.act", "args": {}, "on_error": "return"});
    assert_eq!(
        fixture.fails("cache.wrap", returning).await.kind,
        "frozen_miss"
    );
    assert_eq!(test_action.runs(), 1);
    assert!(fixture.entries().await.is_empty());
}

#[tokio::test]
async fn refresh_executes_and_stores_every_call_once() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let call = json!({"action": "test.act", "args": {}});
    fixture.wrap(call.clone()).await;
    let refreshing = Setup::in_home_of(&fixture)
        .mode(CacheMode::Refresh)
        .with(test_action.clone())
        .start();
    let fresh = refreshing.wrap(call.clone()).await;
    assert_eq!(
        (is_hit(&fresh), &fresh["_cache_stored"]),
        (false, &json!(true))
    );
    assert_eq!(fixture.wrap(call.clone()).await["result"]["run"], 2);
    let off = Setup::in_home_of(&fixture)
        .mode(CacheMode::Off)
        .with(test_action.clone())
        .start();
    let uncached = off.wrap(call.clone()).await;
    assert_eq!(uncached["_cache_key"], Value::Null);
    let reading = Setup::in_home_of(&fixture)
        .mode(CacheMode::ReadOnly)
        .with(test_action.clone())
        .start();
    assert!(is_hit(&reading.wrap(call).await));
    let other = reading
        .wrap(json!({"action": "test.act", "args": {"x": 1}}))
        .await;
    assert_eq!(text(&other, "_cache_reason"), "the cache is read-only");
    assert_eq!(other["_cache_stored"], false);
}

#[tokio::test]
async fn plan_reports_misses_and_makes_no_calls() {
    use cachalot_workflow::Planned;
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let plan = async |with: Value| {
        let wrap = fixture.runtime.actions.get("cache.wrap").unwrap();
        let Value::Object(with) = with else {
            unreachable!()
        };
        let with = wrap.metadata().check(with).unwrap();
        wrap.plan(with, &fixture.runtime).await.unwrap()
    };
    let call = json!({"action": "test.act", "args": {}, "key": "k"});
    let pays = |handle: Option<&str>, reason: &str| Planned::Miss {
        handle: handle.map(ToOwned::to_owned),
        reason: reason.to_owned(),
    };
    assert_eq!(
        plan(call.clone()).await,
        pays(Some("cache:tester:k"), "not in the cache")
    );
    assert_eq!(test_action.runs(), 0);
    let miss = fixture.wrap(call.clone()).await;
    let hit = fixture.wrap(call.clone()).await;
    let planned = plan(call.clone()).await;
    assert_eq!(
        planned,
        Planned::Hit {
            result: hit,
            handle: "cache:tester:k".to_owned()
        }
    );
    assert_eq!(text(&miss, "_cache_key"), "cache:tester:k");
    let mut off = call.clone();
    off["cache_enabled"] = json!(false);
    assert_eq!(plan(off).await, pays(None, "caching is off"));
    let mut skipping = call;
    skipping["skip_cache"] = json!(true);
    assert_eq!(
        plan(skipping).await,
        pays(Some("cache:tester:k"), "a fresh answer was asked for")
    );
    let unhashed = json!({
        "action": "test.act", "args": {"file": "absent"}, "key_strategy": "file_content",
    });
    let Planned::Miss {
        handle: None,
        reason,
    } = plan(unhashed).await
    else {
        panic!("a plan")
    };
    assert!(reason.starts_with("no key: "), "{reason}");
    assert_eq!(
        (test_action.runs(), fixture.events.answered().len()),
        (1, 2)
    );
}
