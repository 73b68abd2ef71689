//! A memory that fails, hangs or is not there changes no result.

use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::CacheBounds;
use cachalot_core::ManualClock;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::faulty_store::{FaultyStore, StoreFault};
use crate::fixture::{Fixture, START, Setup, is_hit, text};
use crate::test_actions::TestAction;
use cachalot_store::intercepted::StoreOperation;

fn call() -> Value {
    json!({"action": "test.act", "args": {"x": 1}, "cleanup_probability": 1})
}

/// A run over a memory in trouble.
fn with_faulty_store(
    fate: impl Fn(StoreOperation) -> StoreFault + Send + Sync + 'static,
) -> (Fixture, TestAction, Arc<FaultyStore>) {
    let test_action = TestAction::new().answers(|_, given| Ok(json!({"given": given})));
    let store = FaultyStore::by(Arc::new(ManualClock::at(START)), fate);
    let fixture = Setup::default()
        .store(store.clone())
        .bounds(CacheBounds {
            store_timeout: Duration::from_millis(100),
            ..CacheBounds::default()
        })
        .with(test_action.clone())
        .start();
    (fixture, test_action, store)
}

#[tokio::test]
async fn failing_store_changes_no_result() {
    let (fixture, test_action, store) = with_faulty_store(|_| StoreFault::Fails);
    for runs in 1..=3 {
        let response = fixture.wrap(call()).await;
        assert_eq!(response["success"], true);
        assert_eq!(response["result"], json!({"given": {"x": 1}}));
        assert!(!is_hit(&response));
        assert_eq!(response["_cache_stored"], false);
        assert!(
            text(&response, "_cache_reason").starts_with("store fault: "),
            "{response}"
        );
        assert_eq!(test_action.runs(), runs);
    }
    assert!(store.asked() > 0);
    let warnings = fixture.warnings.lock().unwrap();
    assert_eq!(
        warnings.len(),
        1,
        "one warning, not one per call: {warnings:?}"
    );
}

#[tokio::test]
async fn store_that_fails_at_one_operation_changes_no_result() {
    for trouble in [StoreFault::Fails, StoreFault::Hangs] {
        for failing in StoreOperation::ALL {
            let (fixture, test_action, _) = with_faulty_store(move |asked| {
                if asked == failing {
                    trouble
                } else {
                    StoreFault::None
                }
            });
            for _ in 0..2 {
                let response = fixture.wrap(call()).await;
                assert_eq!(
                    response["result"],
                    json!({"given": {"x": 1}}),
                    "{failing:?}"
                );
                assert_eq!(response["success"], true);
            }
            assert!((1..=2).contains(&test_action.runs()), "{failing:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_store_delays_a_call_by_its_timeouts_at_most() {
    let (fixture, _, _) = with_faulty_store(|_| StoreFault::Hangs);
    for _ in 0..2 {
        let began = Instant::now();
        let response = fixture.wrap(call()).await;
        let took = began.elapsed();
        assert_eq!(response["result"], json!({"given": {"x": 1}}));
        assert!(took >= Duration::from_millis(200), "{took:?}");
        assert!(took < Duration::from_millis(550), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn store_that_hangs_at_one_operation_delays_a_call_once() {
    for hanging in StoreOperation::ALL {
        let (fixture, _, _) = with_faulty_store(move |asked| {
            if asked == hanging {
                StoreFault::Hangs
            } else {
                StoreFault::None
            }
        });
        let began = Instant::now();
        fixture.wrap(call()).await;
        let took = began.elapsed();
        assert!(took < Duration::from_millis(550), "{hanging:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn store_timeouts_are_configurable() {
    let store = FaultyStore::by(Arc::new(ManualClock::at(START)), |_| StoreFault::Hangs);
    let bounds = CacheBounds {
        lookup_timeout: Duration::from_millis(30),
        store_timeout: Duration::from_millis(30),
        ..CacheBounds::default()
    };
    let setup = Setup::default()
        .store(store)
        .bounds(bounds)
        .with(TestAction::new());
    let fixture = setup.start();
    let began = Instant::now();
    fixture.wrap(call()).await;
    assert!(
        began.elapsed() < Duration::from_millis(150),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn failing_action_fails_unchanged_with_a_failing_store() {
    for trouble in [StoreFault::Fails, StoreFault::Hangs] {
        let test_action =
            TestAction::new().fails(cachalot_workflow::Failure::new("boom", "it broke"));
        let store = FaultyStore::by(Arc::new(ManualClock::at(START)), move |_| trouble);
        let fixture = Setup::default().store(store).with(test_action).start();
        let failure = fixture.fails("cache.wrap", call()).await;
        assert_eq!(
            (failure.kind, failure.message.as_str()),
            ("boom", "it broke")
        );
    }
}

#[tokio::test]
async fn recovered_store_is_used_again() {
    let (fixture, test_action, store) = with_faulty_store(|_| StoreFault::Fails);
    fixture.wrap(call()).await;
    store.falls_from_now_on(|_| StoreFault::None);
    assert_eq!(fixture.wrap(call()).await["_cache_stored"], true);
    assert!(is_hit(&fixture.wrap(call()).await));
    assert_eq!(test_action.runs(), 2);
}

#[tokio::test]
async fn a_failing_store_is_reported_and_the_result_returned() {
    let (fixture, _, _) = with_faulty_store(|asked| {
        if asked == StoreOperation::Put {
            StoreFault::Fails
        } else {
            StoreFault::None
        }
    });
    let response = fixture.wrap(call()).await;
    assert_eq!(response["result"], json!({"given": {"x": 1}}));
    assert_eq!(
        text(&response, "_cache_reason"),
        "store fault: no Put today"
    );
}

#[tokio::test]
async fn uncached_call_without_a_store_has_a_reason() {
    let test_action = TestAction::new();
    let fixture = Setup::default()
        .without_store()
        .with(test_action.clone())
        .start();
    for run in 1..=2 {
        let response = fixture.wrap(call()).await;
        assert_eq!(response["result"]["run"], run);
        assert_eq!(response["_cache_stored"], false);
        assert_eq!(text(&response, "_cache_reason"), "no memory");
    }
}

#[tokio::test]
async fn get_and_invalidate_report_store_failures() {
    let (fixture, _, _) = with_faulty_store(|_| StoreFault::Fails);
    for (action, with) in [
        ("cache.get", json!({"key": "k"})),
        ("cache.invalidate", json!({"key": "k"})),
        ("cache.invalidate", json!({"pattern": "*x*"})),
    ] {
        let failure = fixture.fails(action, with).await;
        assert_eq!(
            (failure.kind, failure.retryable),
            ("ltm_error", true),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn a_ledger_that_cannot_be_written_changes_no_result() {
    let fixture = Fixture::with(TestAction::new());
    std::fs::create_dir(fixture.home().join("memory.db.ledger")).unwrap();
    let response = fixture.wrap(call()).await;
    assert_eq!(response["_cache_stored"], true);
    assert!(is_hit(&fixture.wrap(call()).await));
    fixture.runtime.cache.close().await;
    assert!(
        fixture
            .warnings
            .lock()
            .unwrap()
            .iter()
            .any(|warning| warning.contains("ledger"))
    );
}
