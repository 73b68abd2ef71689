//! A memory that fails, hangs or is not there changes no result.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cachalot_core::ManualClock;
use serde_json::{Value, json};

use crate::acts::Act;
use crate::troubled::{Asked, Trouble, Troubled};
use crate::world::{START, Setup, World, is_hit, text};

fn call() -> Value {
    json!({"action": "test.act", "args": {"x": 1}, "cleanup_probability": 1})
}

/// A run over a memory in trouble.
fn in_trouble(
    fate: impl Fn(Asked) -> Trouble + Send + Sync + 'static,
) -> (World, Act, Arc<Troubled>) {
    let act = Act::new().answers(|_, given| Ok(json!({"given": given})));
    let store = Troubled::by(Arc::new(ManualClock::at(START)), fate);
    let world = Setup::default()
        .store(store.clone())
        .settings(json!({"cache": {"store_timeout_ms": 100}}))
        .with(act.clone())
        .start();
    (world, act, store)
}

#[tokio::test]
async fn a_memory_that_fails_at_everything_changes_no_result() {
    let (world, act, store) = in_trouble(|_| Trouble::Fails);
    for runs in 1..=3 {
        let response = world.wrap(call()).await;
        assert_eq!(response["success"], true);
        assert_eq!(response["result"], json!({"given": {"x": 1}}));
        assert!(!is_hit(&response));
        assert_eq!(response["_cache_stored"], false);
        assert!(
            text(&response, "_cache_reason").starts_with("memory fault: "),
            "{response}"
        );
        assert_eq!(act.runs(), runs);
    }
    assert!(store.asked() > 0);
    let warnings = world.warnings.lock().unwrap();
    assert_eq!(
        warnings.len(),
        1,
        "one warning, not one per call: {warnings:?}"
    );
}

#[tokio::test]
async fn a_memory_that_fails_at_anything_changes_no_result() {
    for trouble in [Trouble::Fails, Trouble::Hangs] {
        for failing in Asked::ALL {
            let (world, act, _) = in_trouble(move |asked| {
                if asked == failing {
                    trouble
                } else {
                    Trouble::None
                }
            });
            for _ in 0..2 {
                let response = world.wrap(call()).await;
                assert_eq!(
                    response["result"],
                    json!({"given": {"x": 1}}),
                    "{failing:?}"
                );
                assert_eq!(response["success"], true);
            }
            assert!((1..=2).contains(&act.runs()), "{failing:?}");
        }
    }
}

#[tokio::test]
async fn a_memory_that_hangs_costs_the_time_of_a_lookup_and_of_a_store_at_most() {
    let (world, _, _) = in_trouble(|_| Trouble::Hangs);
    for _ in 0..2 {
        let began = Instant::now();
        let response = world.wrap(call()).await;
        let took = began.elapsed();
        assert_eq!(response["result"], json!({"given": {"x": 1}}));
        assert!(took >= Duration::from_millis(200), "{took:?}");
        assert!(took < Duration::from_millis(550), "{took:?}");
    }
}

#[tokio::test]
async fn however_the_memory_hangs_a_call_waits_for_it_only_once() {
    for hanging in Asked::ALL {
        let (world, _, _) = in_trouble(move |asked| {
            if asked == hanging {
                Trouble::Hangs
            } else {
                Trouble::None
            }
        });
        let began = Instant::now();
        world.wrap(call()).await;
        let took = began.elapsed();
        assert!(took < Duration::from_millis(550), "{hanging:?}: {took:?}");
    }
}

#[tokio::test]
async fn the_settings_limit_waiting() {
    let store = Troubled::by(Arc::new(ManualClock::at(START)), |_| Trouble::Hangs);
    let settings = json!({"cache": {"patience_ms": 30, "store_timeout_ms": 30}});
    let setup = Setup::default()
        .store(store)
        .settings(settings)
        .with(Act::new());
    let world = setup.start();
    let began = Instant::now();
    world.wrap(call()).await;
    assert!(
        began.elapsed() < Duration::from_millis(150),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn failing_actions_fail_as_ever_while_the_memory_is_in_trouble() {
    for trouble in [Trouble::Fails, Trouble::Hangs] {
        let act = Act::new().fails(cachalot_workflow::Failure::new("boom", "it broke"));
        let store = Troubled::by(Arc::new(ManualClock::at(START)), move |_| trouble);
        let world = Setup::default().store(store).with(act).start();
        let failure = world.fails("cache.wrap", call()).await;
        assert_eq!(
            (failure.kind, failure.message.as_str()),
            ("boom", "it broke")
        );
    }
}

#[tokio::test]
async fn a_memory_that_recovers_is_used_again() {
    let (world, act, store) = in_trouble(|_| Trouble::Fails);
    world.wrap(call()).await;
    store.falls_from_now_on(|_| Trouble::None);
    assert_eq!(world.wrap(call()).await["_cache_stored"], true);
    assert!(is_hit(&world.wrap(call()).await));
    assert_eq!(act.runs(), 2);
}

#[tokio::test]
async fn a_failing_store_is_reported_and_the_result_returned() {
    let (world, _, _) = in_trouble(|asked| {
        if asked == Asked::Put {
            Trouble::Fails
        } else {
            Trouble::None
        }
    });
    let response = world.wrap(call()).await;
    assert_eq!(response["result"], json!({"given": {"x": 1}}));
    assert_eq!(
        text(&response, "_cache_reason"),
        "memory fault: no Put today"
    );
}

#[tokio::test]
async fn without_a_store_every_call_runs_with_a_reason() {
    let act = Act::new();
    let world = Setup::default().no_memory().with(act.clone()).start();
    for run in 1..=2 {
        let response = world.wrap(call()).await;
        assert_eq!(response["result"]["run"], run);
        assert_eq!(response["_cache_stored"], false);
        assert_eq!(text(&response, "_cache_reason"), "no memory");
    }
}

#[tokio::test]
async fn get_and_invalidate_report_store_failures() {
    let (world, _, _) = in_trouble(|_| Trouble::Fails);
    for (action, with) in [
        ("cache.get", json!({"key": "k"})),
        ("cache.invalidate", json!({"key": "k"})),
        ("cache.invalidate", json!({"pattern": "*x*"})),
    ] {
        let failure = world.fails(action, with).await;
        assert_eq!(
            (failure.kind, failure.retryable),
            ("ltm_error", true),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn a_ledger_that_cannot_be_written_changes_no_result() {
    let world = World::with(Act::new());
    std::fs::create_dir(world.home().join("memory.db.ledger")).unwrap();
    let response = world.wrap(call()).await;
    assert_eq!(response["_cache_stored"], true);
    assert!(is_hit(&world.wrap(call()).await));
    world.runtime.cache.close().await;
    assert!(
        world
            .warnings
            .lock()
            .unwrap()
            .iter()
            .any(|warning| warning.contains("ledger"))
    );
}
