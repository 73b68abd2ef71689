//! Cleanup of expired entries by misses.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::ManualClock;
use cachalot_store::in_process::InProcessStore;
use serde_json::{Value, json};

use crate::fixture::{FixedRandom, Fixture, START, SeededRandom, Setup, is_hit};
use crate::test_actions::TestAction;

/// A call that does not clean up, the `number`th of its kind.
fn numbered(number: usize, ttl_seconds: u32) -> Value {
    json!({
        "action": "test.act", "args": {"x": number}, "ttl_seconds": ttl_seconds,
        "cleanup_probability": 0,
    })
}

async fn fill(fixture: &Fixture, numbers: std::ops::Range<usize>, ttl_seconds: u32) {
    for number in numbers {
        assert!(!is_hit(&fixture.wrap(numbered(number, ttl_seconds)).await));
    }
}

/// A miss that cleans up for certain.
async fn miss(fixture: &Fixture, number: usize, further: Value) -> Value {
    let mut with = json!({
        "action": "test.act", "args": {"y": number}, "cleanup_probability": 1, "ttl_days": 1,
    });
    with.as_object_mut()
        .unwrap()
        .extend(further.as_object().unwrap().clone());
    let response = fixture.wrap(with).await;
    assert!(!is_hit(&response));
    response
}

async fn expired(fixture: &Fixture) -> usize {
    let now = cachalot_core::Clock::now(fixture.clock.as_ref());
    let entries = fixture.entries().await;
    entries
        .iter()
        .filter(|entry| entry.expires.is_some_and(|at| at <= now))
        .count()
}

#[tokio::test]
async fn cleanup_erases_five_expired_entries_by_default() {
    let fixture = Fixture::with(TestAction::new());
    fill(&fixture, 0..20, 10).await;
    fixture.after(Duration::from_secs(10));
    miss(&fixture, 0, json!({})).await;
    assert_eq!(expired(&fixture).await, 15);
    miss(&fixture, 1, json!({"cleanup_limit": 3})).await;
    assert_eq!(expired(&fixture).await, 12);
    miss(&fixture, 2, json!({"cleanup_limit": 0})).await;
    assert_eq!(expired(&fixture).await, 12);
    miss(&fixture, 3, json!({"cleanup_limit": "1000"})).await;
    assert_eq!(expired(&fixture).await, 0);
}

#[tokio::test]
async fn cleanup_erases_only_expired_entries() {
    let fixture = Fixture::with(TestAction::new());
    fill(&fixture, 0..3, 10).await;
    fill(&fixture, 3..6, 1_000).await;
    fixture
        .ok("ltm.store", json!({"key": "precious", "value": 1}))
        .await;
    fixture.after(Duration::from_secs(10));
    miss(&fixture, 0, json!({"cleanup_limit": 1_000})).await;
    assert_eq!(fixture.entries().await.len(), 3 + 1);
    for number in 3..6 {
        assert!(is_hit(&fixture.wrap(numbered(number, 1_000)).await));
    }
    assert_eq!(
        fixture.ok("ltm.retrieve", json!({"key": "precious"})).await["found"],
        true
    );
}

#[tokio::test]
async fn expired_entries_behind_newer_ones_are_erased() {
    let fixture = Fixture::with(TestAction::new());
    fill(&fixture, 0..50, 10).await;
    fixture.after(Duration::from_secs(10));
    fill(&fixture, 50..190, 1_000_000).await;
    for number in 0..140 {
        let key = format!("note {number}");
        fixture
            .ok("ltm.store", json!({"key": key, "value": number}))
            .await;
    }
    for number in 0..10 {
        miss(&fixture, number, json!({})).await;
    }
    assert_eq!(expired(&fixture).await, 0, "ten sweeps of five are fifty");
    assert_eq!(fixture.entries().await.len(), 140 + 10);
}

#[tokio::test]
async fn hits_disabled_calls_and_failures_do_not_clean_up() {
    let test_action = TestAction::new().answers(|_, given| match given.get("model") {
        Some(_) => Err(cachalot_workflow::Failure::new("boom", "boom")),
        None => Ok(json!(1)),
    });
    let fixture = Fixture::with(test_action);
    miss(&fixture, 0, json!({})).await;
    fill(&fixture, 0..3, 10).await;
    fixture.after(Duration::from_secs(10));
    let always = |args: Value, enabled: bool| {
        json!({
            "action": "test.act", "args": args, "cleanup_probability": 1,
            "cache_enabled": enabled, "ttl_days": 1,
        })
    };
    assert!(is_hit(&fixture.wrap(always(json!({"y": 0}), true)).await));
    fixture.wrap(always(json!({"y": 1}), false)).await;
    fixture
        .fails("cache.wrap", always(json!({"model": 1}), true))
        .await;
    assert_eq!(expired(&fixture).await, 3);
}

/// A run whose memory is quick, with `random`.
fn quick(random: impl cachalot_workflow::action::runtime::Random + 'static) -> Fixture {
    let clock = Arc::new(ManualClock::at(START));
    let store = Arc::new(InProcessStore::new(clock.clone()));
    Setup::default()
        .store(store)
        .clock(clock)
        .random(random)
        .with(TestAction::new())
        .start()
}

#[tokio::test]
async fn probability_zero_never_cleans_up_and_one_always_does() {
    for (luck, probability, left) in [(0.0, 0.0, 100), (0.999_999, 1.0, 0)] {
        let fixture = Setup::default()
            .random(FixedRandom(luck))
            .with(TestAction::new())
            .start();
        fill(&fixture, 0..100, 10).await;
        fixture.after(Duration::from_secs(10));
        for number in 0..100 {
            let with = json!({"cleanup_probability": probability, "cleanup_limit": 1});
            miss(&fixture, number, with).await;
        }
        assert_eq!(expired(&fixture).await, left, "{probability}");
    }
}

#[tokio::test]
async fn default_cleanup_probability_holds_statistically() {
    const MISSES: usize = 2_000;
    let fixture = quick(SeededRandom::new(7));
    // Entries that expire as soon as they are there: each sweep erases one of them.
    fill(&fixture, 0..300, 1).await;
    let store = fixture.runtime.store.clone().unwrap();
    for entry in fixture.entries().await {
        let record = cachalot_store::Record {
            expires: Some(0),
            ..entry
        };
        store
            .put("cache", record, None, &[])
            .settle()
            .await
            .unwrap();
    }
    for number in 0..MISSES {
        let with = json!({"action": "test.act", "args": {"y": number}, "cleanup_limit": 1});
        assert!(!is_hit(&fixture.wrap(with).await));
    }
    let swept = 300 - (fixture.entries().await.len() - MISSES);
    // 100 expected, with a standard deviation of 9.7.
    assert!(
        (60..=140).contains(&swept),
        "{swept} sweeps in {MISSES} misses"
    );
}

#[tokio::test]
async fn default_cleanup_probability_is_one_in_twenty() {
    for (luck, cleans) in [(0.049, true), (0.05, false)] {
        let fixture = quick(FixedRandom(luck));
        fill(&fixture, 0..1, 1).await;
        let store = fixture.runtime.store.clone().unwrap();
        let entry = fixture.entries().await.remove(0);
        let record = cachalot_store::Record {
            expires: Some(0),
            ..entry
        };
        store
            .put("cache", record, None, &[])
            .settle()
            .await
            .unwrap();
        fixture
            .wrap(json!({"action": "test.act", "args": {"y": 1}}))
            .await;
        assert_eq!(
            fixture.entries().await.len(),
            if cleans { 1 } else { 2 },
            "{luck}"
        );
    }
}
