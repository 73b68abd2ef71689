//! Several engines over one memory: what one has erased or replaced, no other serves any more.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cachalot_cache::{CacheMode, CacheStatus, EntryFilter, Policy, RunPolicy};
use cachalot_store::{PageRequest, Store, space};

use crate::test_engine::{EngineBuilder, Question, TestEngine, clock, in_mode, in_process, sqlite};

fn pairs(home: &Path) -> Vec<(TestEngine, TestEngine, Arc<dyn Store>)> {
    let clock = clock();
    let shared = in_process(&clock);
    let file = home.join("cachalot.db");
    let of = |one: Arc<dyn Store>, other: Arc<dyn Store>| {
        (
            EngineBuilder::over(one.clone(), &clock).make(),
            EngineBuilder::over(other, &clock).make(),
            one,
        )
    };
    vec![
        of(shared.clone(), shared),
        of(sqlite(&file, &clock), sqlite(&file, &clock)),
    ]
}

/// Asks until the answer comes from the front.
async fn warm(there: &TestEngine, question: &Question, text: &str) {
    for _ in 0..3 {
        let reported = there.ask(question, &Policy::default(), "").await;
        assert_eq!(
            (&reported.status, reported.text()),
            (&CacheStatus::Hit, text)
        );
    }
}

#[tokio::test]
async fn entry_replaced_by_another_engine_is_seen_at_once() {
    let home = tempfile::tempdir().unwrap();
    for (here, there, _) in pairs(home.path()) {
        let question = Question::number(1);
        here.ask(&question, &Policy::default(), "0").await;
        for round in 1..20 {
            warm(&there, &question, &(round - 1).to_string()).await;
            let reported = here
                .ask(&question, &in_mode(CacheMode::Refresh), &round.to_string())
                .await;
            assert!(reported.settled.stored.is_ok());
            warm(&there, &question, &round.to_string()).await;
        }
    }
}

#[tokio::test]
async fn entry_erased_by_another_engine_is_not_served() {
    let home = tempfile::tempdir().unwrap();
    for (here, there, memory) in pairs(home.path()) {
        for round in 0..10 {
            let question = Question::number(round);
            here.ask(&question, &Policy::default(), "old").await;
            warm(&there, &question, "old").await;
            match round % 3 {
                0 => {
                    here.cache
                        .erase(&EntryFilter::default(), false)
                        .await
                        .unwrap();
                }
                1 => {
                    let which = EntryFilter {
                        key: Some(question.key()),
                        ..EntryFilter::default()
                    };
                    here.cache.erase(&which, false).await.unwrap();
                }
                _ => {
                    let filter = cachalot_store::RecordFilter::default();
                    memory
                        .erase(space::CACHE, &filter, PageRequest::keys(100))
                        .settle()
                        .await
                        .unwrap();
                }
            }
            assert_eq!(
                there.ask(&question, &Policy::default(), "new").await.text(),
                "new"
            );
        }
    }
}

#[tokio::test]
async fn entry_swept_or_evicted_by_another_engine_is_not_served() {
    let home = tempfile::tempdir().unwrap();
    for (here, there, _) in pairs(home.path()) {
        let question = Question::number(1);
        let brief = Policy {
            run: RunPolicy {
                ttl: Some(std::time::Duration::from_secs(1)),
                ..RunPolicy::default()
            },
            ..Policy::default()
        };
        here.ask(&question, &brief, "old").await;
        warm(&there, &question, "old").await;
        here.after(std::time::Duration::from_secs(2));
        assert_eq!(here.cache.sweep(None).await.unwrap(), 1);
        here.clock.set(crate::test_engine::START);
        assert_eq!(
            there.ask(&question, &Policy::default(), "new").await.text(),
            "new"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_no_call_gets_a_value_older_than_one_stored_before() {
    let home = tempfile::tempdir().unwrap();
    for (here, there, _) in pairs(home.path()) {
        let stored = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let question = Question::number(1);
        here.ask(&question, &Policy::default(), "0").await;
        let readers: Vec<_> = (0..4)
            .map(|n| {
                let reader = if n == 0 { here.clone() } else { there.clone() };
                let (question, stored, stop) =
                    (question.clone(), Arc::clone(&stored), Arc::clone(&stop));
                tokio::spawn(async move {
                    let mut asked = 0_u64;
                    while !stop.load(Ordering::SeqCst) {
                        let least = stored.load(Ordering::SeqCst);
                        let reported = reader
                            .ask(&question, &in_mode(CacheMode::ReadOnly), "none")
                            .await;
                        assert_eq!(reported.status, CacheStatus::Hit);
                        let got: u64 = reported.text().parse().unwrap();
                        assert!(got >= least, "{got} after {least}");
                        asked += 1;
                        if asked.is_multiple_of(16) {
                            tokio::task::yield_now().await;
                        }
                    }
                    asked
                })
            })
            .collect();
        for version in 1..=300_u64 {
            let reported = here
                .ask(
                    &question,
                    &in_mode(CacheMode::Refresh),
                    &version.to_string(),
                )
                .await;
            assert!(reported.settled.stored.is_ok(), "{reported:?}");
            stored.store(version, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
        stop.store(true, Ordering::SeqCst);
        for reader in readers {
            assert!(reader.await.unwrap() > 0);
        }
    }
}
