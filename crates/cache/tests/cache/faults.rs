//! A memory that fails, hangs or is slow costs a little time, and changes no result.

use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{
    CacheMode, CacheStatus, EntryFilter, Policy, Reason, RunPolicy, SingleFlight,
};

use crate::faulty_store::{FaultyStore, StoreBehavior};
use crate::test_engine::{
    EngineBuilder, Question, TestEngine, clock, domains, in_domains, in_mode, in_process, product,
    tagged, testers,
};
use cachalot_store::intercepted::StoreOperation;

fn over(reservations: bool) -> (TestEngine, Arc<FaultyStore>) {
    let clock = clock();
    let faulty_store = FaultyStore::over(in_process(&clock));
    let faulty_store = Arc::new(if reservations {
        faulty_store
    } else {
        faulty_store.without_reservations()
    });
    (
        EngineBuilder::over(faulty_store.clone(), &clock).make(),
        faulty_store,
    )
}

/// Asks what the world is; whatever the cache does, the answer must be what it is now. Returns how
/// long the call took, with its store.
async fn right(here: &TestEngine, number: usize, policy: &Policy, world: &str) -> Duration {
    let began = tokio::time::Instant::now();
    let reported = here.ask(&Question::number(number), policy, world).await;
    assert_eq!(reported.text(), world, "{:?}", reported.status);
    began.elapsed()
}

/// A day in the life of an engine; everything it says must be right.
async fn a_day(here: &TestEngine) -> Duration {
    let mut longest = Duration::ZERO;
    let policies = [
        Policy::default(),
        in_mode(CacheMode::Refresh),
        in_mode(CacheMode::ReadOnly),
        in_mode(CacheMode::Off),
        tagged(&["t"]),
        Policy {
            run: RunPolicy {
                join: SingleFlight::Off,
                ..RunPolicy::default()
            },
            ..Policy::default()
        },
        Policy {
            run: RunPolicy {
                join: SingleFlight::AllProcesses {
                    wait: Duration::ZERO,
                },
                ..RunPolicy::default()
            },
            ..Policy::default()
        },
    ];
    for (number, policy) in policies.iter().enumerate() {
        for _ in 0..2 {
            longest = longest.max(right(here, number, policy, "constant").await);
        }
    }
    let policy = in_domains(&["d"]);
    for version in 0..4 {
        let world = format!("version {version}");
        for _ in 0..2 {
            longest = longest.max(right(here, 100, &policy, &world).await);
        }
        let write_guard = here.cache.write_guard(&domains(&["d"])).await;
        let _ = write_guard.finish().await;
    }
    let ticket = here.lead(&Question::number(200), &Policy::default()).await;
    drop(ticket);
    longest = longest.max(right(here, 200, &Policy::default(), "again").await);
    let ticket = here.lead(&Question::number(201), &Policy::default()).await;
    ticket
        .fail(cachalot_cache::Failure::new(std::io::Error::other("no")))
        .await;
    longest.max(right(here, 201, &Policy::default(), "again").await)
}

#[tokio::test(start_paused = true)]
async fn failing_store_changes_no_result() {
    for reservations in [true, false] {
        for failing in StoreOperation::ALL.iter().map(Some).chain([None]) {
            let (here, faulty_store) = over(reservations);
            faulty_store.now(move |op| {
                if failing.is_none_or(|failing| *failing == op) {
                    StoreBehavior::Fail
                } else {
                    StoreBehavior::Pass
                }
            });
            let longest = a_day(&here).await;
            assert!(
                longest < Duration::from_millis(50),
                "{failing:?}: {longest:?}"
            );
            assert!(here.warned().len() <= 1, "{failing:?}: {:?}", here.warned());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_store_delays_a_call_by_its_timeout_at_most() {
    for reservations in [true, false] {
        for hanging in StoreOperation::ALL.iter().map(Some).chain([None]) {
            let (here, faulty_store) = over(reservations);
            faulty_store.now(move |op| {
                if hanging.is_none_or(|hanging| *hanging == op) {
                    StoreBehavior::Hang
                } else {
                    StoreBehavior::Pass
                }
            });
            // Looking up a quarter of a second, storing five; not all of it again once it is known to hang.
            let longest = a_day(&here).await;
            assert!(
                longest <= Duration::from_millis(5_510),
                "{hanging:?}, {reservations}: {longest:?}"
            );
            let longest = right(&here, 300, &Policy::default(), "x").await;
            assert!(
                longest <= Duration::from_millis(760),
                "{hanging:?}, {reservations}: {longest:?}"
            );
            assert!(here.warned().len() <= 1, "{hanging:?}: {:?}", here.warned());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lookup_and_store_have_separate_timeouts() {
    let (here, faulty_store) = over(true);
    // The lookup waits a quarter of a second and is given up; the store, made of a reservation and a
    // store then, has five seconds for both.
    for (slow, waited) in [(20, 40), (240, 480), (400, 1_050), (2_400, 5_050)] {
        faulty_store.now(move |_| StoreBehavior::Slow(Duration::from_millis(slow)));
        let began = tokio::time::Instant::now();
        let reported = here
            .ask(&Question::number(slow as usize), &Policy::default(), "x")
            .await;
        assert!(
            began.elapsed() <= Duration::from_millis(waited + 5),
            "{slow}: {:?}",
            began.elapsed()
        );
        assert!(reported.settled.stored.is_ok(), "{slow}: {reported:?}");
        assert_eq!(reported.text(), "x");
    }
    faulty_store.now(|_| StoreBehavior::Slow(Duration::from_millis(3_000)));
    let reported = here
        .ask(&Question::number(1), &Policy::default(), "x")
        .await;
    assert!(
        matches!(reported.settled.stored, Err(Reason::StoreUnavailable(_))),
        "{reported:?}"
    );
    let patient = Policy {
        run: RunPolicy {
            lookup_timeout: Some(Duration::from_secs(10)),
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    // Its reservation is given back by and by.
    tokio::time::sleep(Duration::from_secs(5)).await;
    faulty_store.now(|_| StoreBehavior::Pass);
    // It is asked in the background, and used again; the reservation of the call that was given up lapses.
    tokio::time::sleep(Duration::from_secs(3)).await;
    here.after(Duration::from_secs(120));
    here.ask(&Question::number(2), &patient, "x").await;
    faulty_store.now(|_| StoreBehavior::Slow(Duration::from_millis(2_600)));
    let reported = here.ask(&Question::number(1), &patient, "x").await;
    assert!(reported.settled.stored.is_ok(), "{reported:?}");
    assert_eq!(
        here.ask(&Question::number(1), &patient, "").await.status,
        CacheStatus::Hit
    );
}

#[tokio::test(start_paused = true)]
async fn call_with_zero_timeout_does_not_wait_for_the_store() {
    let (here, faulty_store) = over(true);
    here.ask(&Question::number(1), &Policy::default(), "x")
        .await;
    faulty_store.now(|_| StoreBehavior::Hang);
    let policy = Policy {
        run: RunPolicy {
            lookup_timeout: Some(Duration::ZERO),
            store_timeout: Some(Duration::ZERO),
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    let began = tokio::time::Instant::now();
    assert_eq!(
        here.ask(&Question::number(2), &policy, "y").await.text(),
        "y"
    );
    assert!(began.elapsed() < Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn callers_wait_for_a_hanging_store_concurrently() {
    let (here, faulty_store) = over(true);
    faulty_store.now(|_| StoreBehavior::Hang);
    let began = tokio::time::Instant::now();
    let asking: Vec<_> = (0..16)
        .map(|number| {
            let here = here.clone();
            tokio::spawn(async move {
                here.ask(&Question::number(number % 2), &Policy::default(), "x")
                    .await
            })
        })
        .collect();
    for one in asking {
        assert_eq!(one.await.unwrap().text(), "x");
    }
    assert!(
        began.elapsed() <= Duration::from_millis(5_510),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn store_fault_is_the_reason_of_miss_and_not_stored() {
    let (here, faulty_store) = over(true);
    let fails = |failing| {
        move |op| {
            if op == failing {
                StoreBehavior::Fail
            } else {
                StoreBehavior::Pass
            }
        }
    };
    faulty_store.now(fails(StoreOperation::GetOrReserve));
    let reported = here
        .ask(&Question::number(1), &Policy::default(), "x")
        .await;
    assert_eq!(
        reported.status,
        CacheStatus::Miss(Reason::StoreUnavailable("no GetOrReserve today".into()))
    );
    assert_eq!(
        reported.settled.stored,
        Err(Reason::StoreUnavailable("no GetOrReserve today".into()))
    );
    faulty_store.now(fails(StoreOperation::Put));
    let reported = here
        .ask(&Question::number(2), &Policy::default(), "x")
        .await;
    assert_eq!(
        reported.settled.stored,
        Err(Reason::StoreUnavailable("no Put today".into()))
    );
    let miss = here.frozen(&Question::number(4)).await.unwrap_err();
    assert_eq!(miss.reason, Reason::Absent);
    faulty_store.now(|_| StoreBehavior::Fail);
    let miss = here.frozen(&Question::number(4)).await.unwrap_err();
    assert_eq!(miss.reason, Reason::StoreUnavailable("no Get today".into()));
}

#[tokio::test]
async fn recovered_store_is_used_again_with_one_warning() {
    let (here, faulty_store) = over(true);
    for round in 0..50 {
        faulty_store.now(move |_| {
            if round % 2 == 0 {
                StoreBehavior::Fail
            } else {
                StoreBehavior::Pass
            }
        });
        let reported = here
            .ask(&Question::number(round), &Policy::default(), "x")
            .await;
        assert_eq!(
            reported.settled.stored.is_ok(),
            round % 2 == 1,
            "{reported:?}"
        );
    }
    let warned = here.warned();
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains("no GetOrReserve today"), "{warned:?}");
}

#[tokio::test]
async fn persistently_failing_store_warns_once() {
    let (here, faulty_store) = over(true);
    faulty_store.now(|op| {
        if op == StoreOperation::Put {
            StoreBehavior::Fail
        } else {
            StoreBehavior::Pass
        }
    });
    for number in 0..20 {
        here.ask(&Question::number(number), &Policy::default(), "x")
            .await;
    }
    assert_eq!(here.warned().len(), 1, "{:?}", here.warned());
}

#[tokio::test]
async fn direct_store_requests_return_its_fault() {
    let (here, faulty_store) = over(true);
    faulty_store.now(|_| StoreBehavior::Fail);
    assert!(
        here.cache
            .erase(&EntryFilter::default(), false)
            .await
            .is_err()
    );
    assert!(
        here.cache
            .erase(&EntryFilter::default(), true)
            .await
            .is_err()
    );
    assert!(here.cache.peek(&Question::number(1).key()).await.is_err());
    assert!(
        here.cache
            .newest(&EntryFilter::default(), &testers())
            .await
            .is_err()
    );
    assert!(
        here.cache
            .each(&EntryFilter::default(), |_| {})
            .await
            .is_err()
    );
    assert!(here.cache.sweep(None).await.is_err());
    assert!(here.cache.usage().await.is_err());
    assert!(here.cache.export(&mut Vec::new(), None).await.is_err());
}

#[tokio::test]
async fn failed_erase_revokes_the_runs_of_this_process() {
    let (here, faulty_store) = over(true);
    let ticket = here.lead(&Question::number(1), &tagged(&["t"])).await;
    faulty_store.now(|op| {
        if op == StoreOperation::Erase {
            StoreBehavior::Fail
        } else {
            StoreBehavior::Pass
        }
    });
    let which = EntryFilter {
        name: Some("file.read".into()),
        ..EntryFilter::default()
    };
    assert!(here.cache.erase(&which, false).await.is_err());
    assert_eq!(
        ticket.finish(product("x")).await.stored,
        Err(Reason::Revoked)
    );
}

#[tokio::test]
async fn front_serves_hits_while_the_store_is_down() {
    let (here, faulty_store) = over(true);
    here.ask(&Question::number(1), &Policy::default(), "x")
        .await;
    here.ask(&Question::number(1), &Policy::default(), "").await;
    faulty_store.now(|_| StoreBehavior::Fail);
    let reported = here.ask(&Question::number(1), &Policy::default(), "").await;
    assert_eq!(
        (&reported.status, reported.text()),
        (&CacheStatus::Hit, "x")
    );
}

#[tokio::test(start_paused = true)]
async fn close_does_not_wait_for_a_hanging_store() {
    let (here, faulty_store) = over(true);
    here.ask(&Question::number(1), &Policy::default(), "x")
        .await;
    here.after(Duration::from_secs(100));
    here.ask(&Question::number(1), &Policy::default(), "").await;
    faulty_store.now(|_| StoreBehavior::Hang);
    let began = tokio::time::Instant::now();
    here.cache.close().await;
    assert!(
        began.elapsed() <= Duration::from_millis(260),
        "{:?}",
        began.elapsed()
    );
}

/// A store on a server: it answers later, and has no stamps.
fn on_server(answer: StoreBehavior) -> (TestEngine, Arc<FaultyStore>) {
    let clock = clock();
    let faulty_store = Arc::new(FaultyStore::over(in_process(&clock)).without_stamps());
    faulty_store.now(move |_| answer);
    (
        EngineBuilder::over(faulty_store.clone(), &clock).make(),
        faulty_store,
    )
}

/// The answer of a server nearby.
const ANSWER: StoreBehavior = StoreBehavior::Slow(Duration::from_millis(1));

#[tokio::test(start_paused = true)]
async fn store_is_used_again_soon_after_an_outage_of_any_length() {
    for fault in [StoreBehavior::Unreachable, StoreBehavior::Hang] {
        for minutes in [1, 60] {
            let (here, faulty_store) = on_server(ANSWER);
            let known = Question::number(1);
            here.ask(&known, &Policy::default(), "x").await;
            faulty_store.now(move |_| fault);
            for _ in 0..minutes * 6 {
                tokio::time::sleep(Duration::from_secs(10)).await;
                right(&here, 1, &Policy::default(), "x").await;
            }
            let asked = faulty_store.count(StoreOperation::GetOrReserve);
            assert!(asked < 20, "{fault:?}: every call asks the store: {asked}");
            faulty_store.now(|_| ANSWER);
            let began = tokio::time::Instant::now();
            let hit = |status: &CacheStatus| *status == CacheStatus::Hit;
            while !hit(&here.ask(&known, &Policy::default(), "x").await.status) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let took = began.elapsed();
            assert!(took <= Duration::from_secs(3), "{fault:?}: {took:?}");
        }
    }
}

/// A server that answers, but later than calls wait, is not asked by each of them.
#[tokio::test(start_paused = true)]
async fn store_that_is_too_slow_counts_as_unavailable() {
    let (here, faulty_store) = on_server(StoreBehavior::Slow(Duration::from_millis(900)));
    let mut waited = 0;
    for number in 0..30 {
        let took = right(&here, 1, &in_mode(CacheMode::ReadOnly), "x").await;
        waited += usize::from(took > Duration::from_millis(200));
        assert!(number < 3 || waited <= 4, "{number}: {waited}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    faulty_store.now(|_| ANSWER);
    tokio::time::sleep(Duration::from_secs(2)).await;
    right(&here, 1, &Policy::default(), "x").await;
    right(&here, 1, &Policy::default(), "x").await;
    let hit = here.ask(&Question::number(1), &Policy::default(), "").await;
    assert_eq!(hit.status, CacheStatus::Hit);
}

/// Writes that wait for a lock do not keep known answers from being found.
#[tokio::test(start_paused = true)]
async fn timeouts_of_writes_do_not_stop_reads() {
    let (here, faulty_store) = on_server(ANSWER);
    let known = Question::number(1);
    here.ask(&known, &Policy::default(), "x").await;
    faulty_store.now(|operation| match operation {
        StoreOperation::Put | StoreOperation::Touch => StoreBehavior::Hang,
        _ => ANSWER,
    });
    let mut waited = 0;
    for number in 2..40 {
        let took = right(&here, number, &Policy::default(), "y").await;
        waited += usize::from(took > Duration::from_millis(100));
        let hit = here.ask(&known, &Policy::default(), "").await;
        assert_eq!(hit.status, CacheStatus::Hit);
    }
    assert!(waited <= 4, "every run waits for its write: {waited}");
    faulty_store.now(|_| ANSWER);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let stored = here
        .ask(&Question::number(1_000), &Policy::default(), "y")
        .await;
    assert!(stored.settled.stored.is_ok());
}
