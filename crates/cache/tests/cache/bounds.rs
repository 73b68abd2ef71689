//! Bounds of the cache, and eviction.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cachalot_cache::{
    BeginResult, CacheBounds, CacheStatus, DecodeError, Decoded, Policy, Quota, Reason, RunPolicy,
};
use cachalot_store::Store;

use crate::faulty_store::{FaultyStore, StoreBehavior};
use crate::test_engine::{
    EngineBuilder, Question, TestEngine, clock, eventually, in_process, sqlite,
};
use cachalot_store::intercepted::StoreOperation;

fn bounded(bounds: CacheBounds) -> TestEngine {
    let clock = clock();
    EngineBuilder::over(in_process(&clock), &clock)
        .bounds(bounds)
        .make()
}

async fn fill(here: &TestEngine, numbers: std::ops::Range<usize>, text: &str) {
    for number in numbers {
        here.after(Duration::from_secs(1));
        let reported = here
            .ask(&Question::number(number), &Policy::default(), text)
            .await;
        assert!(reported.settled.stored.is_ok(), "{reported:?}");
    }
}

async fn is_there(here: &TestEngine, number: usize) -> bool {
    here.cache
        .peek(&Question::number(number).key())
        .await
        .unwrap()
        .is_some()
}

#[tokio::test]
async fn the_entry_limit_evicts_the_oldest_first() {
    let here = bounded(CacheBounds {
        entries: 20,
        ..CacheBounds::default()
    });
    fill(&here, 0..100, "x").await;
    eventually(async || here.cache.usage().await.unwrap().records <= 20).await;
    let records = here.cache.usage().await.unwrap().records;
    assert!(records >= 15, "it keeps close to what it may: {records}");
    assert!(is_there(&here, 99).await && is_there(&here, 90).await);
    assert!(!is_there(&here, 0).await);
}

#[tokio::test]
async fn the_byte_limit_is_enforced() {
    let here = bounded(CacheBounds {
        bytes: 100_000,
        ..CacheBounds::default()
    });
    fill(&here, 0..50, &"x".repeat(9_000)).await;
    eventually(async || here.cache.usage().await.unwrap().bytes <= 100_000).await;
    let usage = here.cache.usage().await.unwrap();
    assert!(usage.bytes > 70_000, "{usage:?}");
    assert!(is_there(&here, 49).await);
}

#[tokio::test]
async fn entry_larger_than_the_whole_bound_is_not_stored() {
    let here = bounded(CacheBounds {
        bytes: 1_000,
        ..CacheBounds::default()
    });
    let reported = here
        .ask(&Question::number(1), &Policy::default(), &"x".repeat(1_001))
        .await;
    assert_eq!(
        reported.settled.stored,
        Err(Reason::TooLarge {
            bytes: 1_001,
            limit: 1_000
        })
    );
}

#[tokio::test]
async fn recently_used_entry_is_not_evicted() {
    for front_bytes in [0, 1 << 20] {
        let here = bounded(CacheBounds {
            entries: 20,
            front_bytes,
            ..CacheBounds::default()
        });
        fill(&here, 0..15, "x").await;
        for number in 15..200 {
            here.after(Duration::from_secs(61));
            assert_eq!(
                here.ask(&Question::number(3), &Policy::default(), "")
                    .await
                    .status,
                CacheStatus::Hit,
                "at {number}"
            );
            fill(&here, number..number + 1, "x").await;
            tokio::task::yield_now().await;
        }
        assert!(is_there(&here, 3).await);
        assert!(!is_there(&here, 4).await);
    }
}

#[tokio::test]
async fn hits_are_recorded_in_the_store() {
    let clock = clock();
    let memory = Arc::new(FaultyStore::over(in_process(&clock)));
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    fill(&here, 0..10, "x").await;
    let before = memory.count(StoreOperation::Touch);
    for _ in 0..200 {
        here.after(Duration::from_secs(61));
        for number in 0..10 {
            assert_eq!(
                here.ask(&Question::number(number), &Policy::default(), "")
                    .await
                    .status,
                CacheStatus::Hit
            );
        }
        tokio::task::yield_now().await;
    }
    let reported = memory.count(StoreOperation::Touch) - before;
    assert!((2..=50).contains(&reported), "in batches: {reported}");
}

#[tokio::test]
async fn close_records_uses() {
    let clock = clock();
    let memory = Arc::new(FaultyStore::over(in_process(&clock)));
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    fill(&here, 0..1, "x").await;
    here.after(Duration::from_secs(61));
    here.ask(&Question::number(0), &Policy::default(), "").await;
    here.cache.close().await;
    assert_eq!(memory.count(StoreOperation::Touch), 1);
}

#[tokio::test]
async fn front_of_any_size_serves_all_stored_entries() {
    for front_bytes in [0, 1, 3_000, 1 << 20] {
        let here = bounded(CacheBounds {
            front_bytes,
            ..CacheBounds::default()
        });
        for number in 0..50 {
            let text = number.to_string();
            here.ask(&Question::number(number), &Policy::default(), &text)
                .await;
        }
        for number in (0..50).rev().chain(0..50) {
            let reported = here
                .ask(&Question::number(number), &Policy::default(), "")
                .await;
            assert_eq!(
                (&reported.status, reported.text()),
                (&CacheStatus::Hit, number.to_string().as_str())
            );
        }
    }
}

#[tokio::test]
async fn front_hit_makes_no_store_call() {
    let clock = clock();
    let over = || FaultyStore::over(in_process(&clock));
    // Without stamps there is no front.
    for (faulty_store, calls) in [
        (over(), 0),
        (over().without_stamp_slots(), 0),
        (over().without_stamps(), 100),
    ] {
        let memory = Arc::new(faulty_store);
        let here = EngineBuilder::over(memory.clone(), &clock).make();
        fill(&here, 0..1, "x").await;
        here.ask(&Question::number(0), &Policy::default(), "").await;
        let before = memory.count(StoreOperation::GetOrReserve);
        for _ in 0..100 {
            let reported = here.ask(&Question::number(0), &Policy::default(), "").await;
            assert_eq!(reported.status, CacheStatus::Hit);
        }
        let after = memory.count(StoreOperation::GetOrReserve);
        assert_eq!(after, before + calls);
    }
}

/// A decoded form that says that it is large, and counts itself.
struct Heavy(u64);

static ALIVE: AtomicUsize = AtomicUsize::new(0);
static MADE: AtomicUsize = AtomicUsize::new(0);
/// For the tests that count.
static COUNTING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

impl Decoded for Heavy {
    fn weight(&self) -> u64 {
        self.0
    }
}

impl Drop for Heavy {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Weighs as much as its text says.
fn heavy(bytes: &[u8]) -> Result<Heavy, DecodeError> {
    ALIVE.fetch_add(1, Ordering::SeqCst);
    MADE.fetch_add(1, Ordering::SeqCst);
    let text = std::str::from_utf8(bytes).unwrap();
    Ok(Heavy(text.trim().parse().unwrap()))
}

async fn decode(here: &TestEngine, number: usize) {
    let question = Question::number(number);
    let call = question.call();
    match here.cache.begin(&call, &Policy::default()).await.unwrap() {
        BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
            drop(outcome.body.decoded(heavy).await.unwrap())
        }
        BeginResult::Run(_) => panic!("a miss"),
    }
}

#[tokio::test]
async fn front_bound_includes_decoded_values() {
    let _counting = COUNTING.lock().await;
    let here = bounded(CacheBounds {
        front_bytes: 1_000_000,
        ..CacheBounds::default()
    });
    fill(&here, 0..200, "50000").await;
    for number in 0..200 {
        decode(&here, number).await;
    }
    let alive = ALIVE.load(Ordering::SeqCst);
    assert!((10..20).contains(&alive), "{alive} of 50,000 bytes each");
    // Those that were kept answer without being decoded again.
    let made = MADE.load(Ordering::SeqCst);
    for _ in 0..10 {
        decode(&here, 199).await;
    }
    assert!(MADE.load(Ordering::SeqCst) <= made + 1);
    drop(here);
    assert_eq!(ALIVE.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn front_keeps_the_bytes_when_the_decoded_value_is_too_large() {
    let _counting = COUNTING.lock().await;
    let clock = clock();
    let memory = Arc::new(FaultyStore::over(in_process(&clock)));
    let here = EngineBuilder::over(memory.clone(), &clock)
        .bounds(CacheBounds {
            front_bytes: 1_000_000,
            ..CacheBounds::default()
        })
        .make();
    fill(&here, 0..1, "990000").await;
    decode(&here, 0).await;
    let (asked, made) = (
        memory.count(StoreOperation::GetOrReserve),
        MADE.load(Ordering::SeqCst),
    );
    for _ in 0..5 {
        decode(&here, 0).await;
    }
    assert_eq!(
        memory.count(StoreOperation::GetOrReserve),
        asked,
        "the bytes are there"
    );
    assert_eq!(MADE.load(Ordering::SeqCst), made + 5);
    assert_eq!(ALIVE.load(Ordering::SeqCst), 0, "its form is not");
}

fn exactly(
    bounds: CacheBounds,
    memory: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>,
) -> TestEngine {
    let clock = clock();
    let memory = memory(in_process(&clock));
    EngineBuilder::over(memory, &clock)
        .bounds(bounds)
        .make_exact()
}

/// Asks for a number, and says whether it was there.
async fn hits(here: &TestEngine, number: usize) -> bool {
    let question = Question::number(number);
    let reported = here.ask(&question, &Policy::default(), "x").await;
    reported.status == CacheStatus::Hit
}

#[tokio::test]
async fn exact_engine_evicts_the_least_recently_used_after_every_store() {
    let now: fn(Arc<dyn Store>) -> Arc<dyn Store> = |memory| memory;
    let later: fn(Arc<dyn Store>) -> Arc<dyn Store> = |memory| {
        let faulty_store = FaultyStore::over(memory);
        faulty_store.now(|op| match op {
            StoreOperation::Touch => StoreBehavior::Slow(Duration::ZERO),
            _ => StoreBehavior::Pass,
        });
        Arc::new(faulty_store)
    };
    for (memory, front_bytes, step) in [
        (now, 1 << 20, 0),
        (now, 0, 0),
        (now, 1 << 20, 3),
        (later, 1 << 20, 0),
        (later, 0, 7),
    ] {
        let bounds = CacheBounds {
            entries: 3,
            front_bytes,
            ..CacheBounds::default()
        };
        let here = exactly(bounds, memory);
        // The order of use, by a list: the last used at the end.
        let mut expected: Vec<usize> = Vec::new();
        let mut random = 7_u64;
        for _ in 0..400 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let number = (random >> 60) as usize % 6;
            here.after(Duration::from_millis(step * (random >> 40 & 1)));
            let place = expected.iter().position(|one| *one == number);
            assert_eq!(
                hits(&here, number).await,
                place.is_some(),
                "{expected:?} {number}"
            );
            if let Some(place) = place {
                expected.remove(place);
            } else if expected.len() == 3 {
                expected.remove(0);
            }
            expected.push(number);
            assert!(here.cache.usage().await.unwrap().records <= 3);
        }
    }
}

#[tokio::test]
async fn exact_engine_enforces_its_byte_bound() {
    let bounds = CacheBounds {
        bytes: 10_000,
        ..CacheBounds::default()
    };
    let here = exactly(bounds, |memory| memory);
    for number in 0..30 {
        fill(&here, number..number + 1, &"x".repeat(100 * (number % 20))).await;
        let usage = here.cache.usage().await.unwrap();
        assert!(usage.bytes <= 10_000, "{usage:?}");
    }
    assert!(is_there(&here, 29).await && is_there(&here, 28).await);
}

#[tokio::test]
async fn the_eviction_listener_receives_names() {
    for exact in [true, false] {
        let clock = clock();
        let making = EngineBuilder::over(in_process(&clock), &clock).bounds(CacheBounds {
            entries: 20,
            ..CacheBounds::default()
        });
        let here = if exact {
            making.make_exact()
        } else {
            making.make()
        };
        let gone: Arc<Mutex<Vec<String>>> = Arc::default();
        let reported = Arc::clone(&gone);
        here.cache
            .on_eviction(move |name| reported.lock().unwrap().push(name.to_owned()));
        for number in 0..50 {
            here.after(Duration::from_secs(1));
            let question = Question::number(number).named(&format!("name-{number}"));
            here.ask(&question, &Policy::default(), "x").await;
        }
        eventually(async || here.cache.usage().await.unwrap().records <= 20).await;
        let records = here.cache.usage().await.unwrap().records;
        let gone = gone.lock().unwrap().clone();
        assert_eq!(gone.len() as u64, 50 - records);
        assert_eq!((gone[0].as_str(), gone[1].as_str()), ("name-0", "name-1"));
    }
}

fn of_part(part: &str, entries: u64, bytes: u64) -> Policy {
    Policy {
        run: RunPolicy {
            quota: Some(Quota {
                name: part.to_owned(),
                entries,
                bytes,
            }),
            ..RunPolicy::default()
        },
        ..Policy::default()
    }
}

/// Which of the numbers are there.
async fn left(here: &TestEngine, numbers: std::ops::Range<usize>) -> Vec<usize> {
    let mut left = Vec::new();
    for number in numbers {
        if is_there(here, number).await {
            left.push(number);
        }
    }
    left
}

#[tokio::test]
async fn quota_enforces_its_own_bounds_without_evicting_others() {
    let clock = clock();
    let directory = tempfile::tempdir().unwrap();
    let file = sqlite(&directory.path().join("memory.db"), &clock);
    for memory in [in_process(&clock), file] {
        let here = EngineBuilder::over(memory, &clock).make();
        fill(&here, 0..10, "of nobody").await;
        for number in 10..20 {
            here.after(Duration::from_secs(100));
            let policy = of_part("other", u64::MAX, u64::MAX);
            here.ask(&Question::number(number), &policy, "of others")
                .await;
        }
        for number in 20..30 {
            here.after(Duration::from_secs(100));
            let policy = of_part("small", 3, u64::MAX);
            let reported = here.ask(&Question::number(number), &policy, "x").await;
            assert!(reported.settled.stored.is_ok());
            if number > 20 {
                // What is asked for again and again is not the one that goes.
                here.after(Duration::from_secs(100));
                let reported = here.ask(&Question::number(20), &policy, "x").await;
                assert_eq!(reported.status, CacheStatus::Hit);
            }
        }
        assert_eq!(left(&here, 20..30).await, [20, 28, 29]);
        assert_eq!(left(&here, 0..20).await.len(), 20);
        let policy = of_part("small", 100, 1_150);
        here.ask(&Question::number(30), &policy, &"x".repeat(900))
            .await;
        let left = left(&here, 20..31).await;
        assert!(left.contains(&30) && left.len() < 4, "{left:?}");
    }
}
