//! Lifetimes of entries.

use std::time::Duration;

use cachalot_core::clock::iso8601;
use serde_json::{Value, json};

use crate::fixture::{Fixture, START, is_hit, text};
use crate::test_actions::TestAction;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

fn with_ttl(ttl: &Value) -> Value {
    let mut with = json!({"action": "test.act", "args": {}, "key": "k", "skip_cache": true});
    with.as_object_mut()
        .unwrap()
        .extend(ttl.as_object().unwrap().clone());
    with
}

#[tokio::test]
async fn ttl_arguments_set_the_expiry() {
    let fixture = Fixture::with(TestAction::new());
    for (ttl, lives) in [
        (json!({}), 60 * DAY),
        (json!({"ttl_days": null}), 60 * DAY),
        (json!({"ttl": null}), 60 * DAY),
        (json!({"ttl": "1h"}), HOUR),
        (json!({"ttl": "1h30m"}), HOUR + HOUR / 2),
        (json!({"ttl": "7d", "ttl_seconds": 1}), 7 * DAY),
        (json!({"ttl": 90}), 90_000),
        (json!({"ttl": "90"}), 90_000),
        (json!({"ttl_days": 7}), 7 * DAY),
        (json!({"ttl_days": 0.5}), 12 * HOUR),
        (json!({"ttl_hours": 2, "ttl_days": 7}), 2 * HOUR),
        (json!({"ttl_hours": 0.5}), HOUR / 2),
        (
            json!({"ttl_seconds": 30, "ttl_hours": 2, "ttl_days": 7}),
            30_000,
        ),
        (json!({"ttl_seconds": 30, "ttl_days": 7}), 30_000),
        (json!({"ttl_seconds": "60"}), 60_000),
        (json!({"ttl_seconds": 0.25}), 250),
        (json!({"ttl_seconds": 1e-9}), 1),
        (json!({"ttl_days": 36_500}), 36_500 * DAY),
    ] {
        let response = fixture.wrap(with_ttl(&ttl)).await;
        assert_eq!(
            text(&response, "_cache_expires_at"),
            iso8601(START + lives),
            "{ttl}"
        );
        assert_eq!(response["_cache_stored"], true);
    }
}

#[tokio::test]
async fn huge_ttl_never_expires() {
    let fixture = Fixture::with(TestAction::new());
    for ttl in [
        json!({"ttl_days": 10_000_000}),
        json!({"ttl_days": 1e300}),
        json!({"ttl_seconds": u64::MAX}),
    ] {
        let response = fixture.wrap(with_ttl(&ttl)).await;
        assert_eq!(response["_cache_stored"], true, "{ttl}");
        assert_eq!(
            text(&response, "_cache_expires_at"),
            "9999-12-31T23:59:59.999Z"
        );
        fixture.after(Duration::from_secs(100 * 365 * 86_400));
        let hit = fixture
            .wrap(json!({"action": "test.act", "args": {}, "key": "k"}))
            .await;
        assert!(is_hit(&hit), "{ttl}");
    }
}

#[tokio::test]
async fn non_positive_ttl_is_refused() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    for name in ["ttl", "ttl_days", "ttl_hours", "ttl_seconds"] {
        for wrong in [
            json!(0),
            json!(-1),
            json!(-0.5),
            json!("0"),
            json!("soon"),
            json!(""),
            json!([1]),
        ] {
            let failure = fixture
                .fails("cache.wrap", with_ttl(&json!({ name: wrong })))
                .await;
            assert_eq!(failure.kind, "validation_error", "{name}: {wrong}");
            assert!(failure.message.contains(name), "{failure}");
        }
    }
    assert_eq!(test_action.runs(), 0);
}

#[tokio::test]
async fn entry_is_served_until_the_last_millisecond_of_its_ttl() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let call = json!({"action": "test.act", "args": {}, "key": "k", "ttl_seconds": 10});
    fixture.wrap(call.clone()).await;
    fixture.after(Duration::from_millis(9_999));
    assert!(is_hit(&fixture.wrap(call.clone()).await));
    fixture.after(Duration::from_millis(1));
    let expired = fixture.wrap(call.clone()).await;
    assert!(!is_hit(&expired));
    assert_eq!(text(&expired, "_cache_reason"), "expired");
    assert_eq!(test_action.runs(), 2);
    assert!(is_hit(&fixture.wrap(call).await));
}

#[tokio::test]
async fn expired_entry_with_an_equal_fresh_result_is_renewed() {
    let test_action = TestAction::new().gives(json!({"data": "always the same"}));
    let fixture = Fixture::with(test_action.clone());
    let call = json!({"action": "test.act", "args": {}, "key": "k", "ttl_seconds": 10});
    for runs in 1..=3 {
        let miss = fixture.wrap(call.clone()).await;
        assert!(!is_hit(&miss));
        assert_eq!(miss["_cache_stored"], true);
        assert!(is_hit(&fixture.wrap(call.clone()).await));
        assert_eq!(test_action.runs(), runs);
        fixture.after(Duration::from_secs(10));
    }
    assert_eq!(fixture.entries().await.len(), 1);
}

#[tokio::test]
async fn ttl_is_not_part_of_the_key() {
    let fixture = Fixture::with(TestAction::new());
    let call = |seconds: u32| json!({"action": "test.act", "args": {}, "key": "k", "ttl_seconds": seconds});
    fixture.wrap(call(10)).await;
    assert!(is_hit(&fixture.wrap(call(1_000)).await));
    fixture.after(Duration::from_secs(10));
    assert!(
        !is_hit(&fixture.wrap(call(1_000)).await),
        "it was stored for ten seconds"
    );
    fixture.after(Duration::from_secs(10));
    assert!(
        is_hit(&fixture.wrap(call(10)).await),
        "and now for a thousand"
    );
}

#[tokio::test]
async fn entries_from_the_near_future_are_served_after_a_clock_step_back() {
    let fixture = Fixture::with(TestAction::new());
    let call = json!({"action": "test.act", "args": {}, "key": "k", "ttl_seconds": 10});
    fixture.wrap(call.clone()).await;
    fixture.clock.set(START - 240_000);
    assert!(is_hit(&fixture.wrap(call.clone()).await));
    // Too far from what the entry says: its time cannot be trusted.
    fixture.clock.set(START - 1_000_000);
    assert!(!is_hit(&fixture.wrap(call).await));
}
