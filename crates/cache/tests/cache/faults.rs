//! A memory that fails, hangs or is slow costs a little time, and changes no result.

use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{CacheMode, CacheStatus, EntryFilter, Policy, Reason, SingleFlight};

use crate::doubles::{Double, Fate, Op};
use crate::setting::{
    Making, Question, Setting, clock, domains, in_domains, in_mode, in_process, product, tagged,
    testers,
};

const OPS: [Op; 11] = [
    Op::Get,
    Op::Enter,
    Op::Put,
    Op::Reserve,
    Op::Renew,
    Op::Release,
    Op::Find,
    Op::Erase,
    Op::Raise,
    Op::Touch,
    Op::Usage,
];

fn over(reservations: bool) -> (Setting, Arc<Double>) {
    let clock = clock();
    let double = Double::over(in_process(&clock));
    let double = Arc::new(if reservations {
        double
    } else {
        double.without_reservations()
    });
    (Making::over(double.clone(), &clock).make(), double)
}

/// Asks what the world is; whatever the cache does, the answer must be what it is now. Returns how
/// long the call took, with its store.
async fn right(here: &Setting, number: usize, policy: &Policy, world: &str) -> Duration {
    let began = tokio::time::Instant::now();
    let told = here.ask(&Question::number(number), policy, world).await;
    assert_eq!(told.text(), world, "{:?}", told.status);
    began.elapsed()
}

/// A day in the life of an engine; everything it says must be right.
async fn a_day(here: &Setting) -> Duration {
    let mut longest = Duration::ZERO;
    let policies = [
        Policy::default(),
        in_mode(CacheMode::Refresh),
        in_mode(CacheMode::ReadOnly),
        in_mode(CacheMode::Off),
        tagged(&["t"]),
        Policy {
            join: SingleFlight::Off,
            ..Policy::default()
        },
        Policy {
            join: SingleFlight::AllProcesses {
                wait: Duration::ZERO,
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
async fn a_memory_that_fails_changes_no_result() {
    for reservations in [true, false] {
        for failing in OPS.iter().map(Some).chain([None]) {
            let (here, double) = over(reservations);
            double.now(move |op| {
                if failing.is_none_or(|failing| *failing == op) {
                    Fate::Fail
                } else {
                    Fate::Pass
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
async fn a_memory_that_hangs_costs_a_call_no_more_than_its_time() {
    for reservations in [true, false] {
        for hanging in OPS.iter().map(Some).chain([None]) {
            let (here, double) = over(reservations);
            double.now(move |op| {
                if hanging.is_none_or(|hanging| *hanging == op) {
                    Fate::Hang
                } else {
                    Fate::Pass
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
async fn looking_up_and_storing_have_a_time_each() {
    let (here, double) = over(true);
    // The lookup waits a quarter of a second and is given up; the store, made of a reservation and a
    // store then, has five seconds for both.
    for (slow, waited) in [(20, 40), (240, 480), (400, 1_050), (2_400, 5_050)] {
        double.now(move |_| Fate::Slow(Duration::from_millis(slow)));
        let began = tokio::time::Instant::now();
        let told = here
            .ask(&Question::number(slow as usize), &Policy::default(), "x")
            .await;
        assert!(
            began.elapsed() <= Duration::from_millis(waited + 5),
            "{slow}: {:?}",
            began.elapsed()
        );
        assert!(told.settled.stored.is_ok(), "{slow}: {told:?}");
        assert_eq!(told.text(), "x");
    }
    double.now(|_| Fate::Slow(Duration::from_millis(3_000)));
    let told = here
        .ask(&Question::number(1), &Policy::default(), "x")
        .await;
    assert!(
        matches!(told.settled.stored, Err(Reason::StoreFault(_))),
        "{told:?}"
    );
    let patient = Policy {
        lookup_timeout: Duration::from_secs(10),
        ..Policy::default()
    };
    // Its reservation is given back by and by.
    tokio::time::sleep(Duration::from_secs(5)).await;
    double.now(|_| Fate::Pass);
    here.ask(&Question::number(2), &patient, "x").await;
    double.now(|_| Fate::Slow(Duration::from_millis(2_600)));
    let told = here.ask(&Question::number(1), &patient, "x").await;
    assert!(told.settled.stored.is_ok());
    assert_eq!(
        here.ask(&Question::number(1), &patient, "").await.status,
        CacheStatus::Hit
    );
}

#[tokio::test(start_paused = true)]
async fn an_impatient_call_does_not_wait_at_all() {
    let (here, double) = over(true);
    here.ask(&Question::number(1), &Policy::default(), "x")
        .await;
    double.now(|_| Fate::Hang);
    let policy = Policy {
        lookup_timeout: Duration::ZERO,
        store_timeout: Duration::ZERO,
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
async fn sixteen_callers_of_a_hanging_memory_wait_at_the_same_time() {
    let (here, double) = over(true);
    double.now(|_| Fate::Hang);
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
async fn a_fault_is_the_reason_that_is_given() {
    let (here, double) = over(true);
    let fails = |failing| {
        move |op| {
            if op == failing {
                Fate::Fail
            } else {
                Fate::Pass
            }
        }
    };
    double.now(fails(Op::Enter));
    let told = here
        .ask(&Question::number(1), &Policy::default(), "x")
        .await;
    assert_eq!(
        told.status,
        CacheStatus::Miss(Reason::StoreFault("no Enter today".into()))
    );
    assert_eq!(
        told.settled.stored,
        Err(Reason::StoreFault("no Enter today".into()))
    );
    double.now(fails(Op::Put));
    let told = here
        .ask(&Question::number(2), &Policy::default(), "x")
        .await;
    assert_eq!(
        told.settled.stored,
        Err(Reason::StoreFault("no Put today".into()))
    );
    let miss = here.frozen(&Question::number(4)).await.unwrap_err();
    assert_eq!(miss.reason, Reason::Absent);
    double.now(|_| Fate::Fail);
    let miss = here.frozen(&Question::number(4)).await.unwrap_err();
    assert_eq!(miss.reason, Reason::StoreFault("no Get today".into()));
}

#[tokio::test]
async fn a_memory_that_comes_back_is_used_again_and_one_warning_was_enough() {
    let (here, double) = over(true);
    for round in 0..50 {
        double.now(move |_| {
            if round % 2 == 0 {
                Fate::Fail
            } else {
                Fate::Pass
            }
        });
        let told = here
            .ask(&Question::number(round), &Policy::default(), "x")
            .await;
        assert_eq!(told.settled.stored.is_ok(), round % 2 == 1, "{told:?}");
    }
    let warned = here.warned();
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains("no Enter today"), "{warned:?}");
}

#[tokio::test]
async fn a_store_that_fails_each_time_is_warned_of_once() {
    let (here, double) = over(true);
    double.now(|op| {
        if op == Op::Put {
            Fate::Fail
        } else {
            Fate::Pass
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
    let (here, double) = over(true);
    double.now(|_| Fate::Fail);
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
async fn an_erase_that_the_memory_did_not_hear_of_revokes_the_runs_of_this_process_all_the_same() {
    let (here, double) = over(true);
    let ticket = here.lead(&Question::number(1), &tagged(&["t"])).await;
    double.now(|op| {
        if op == Op::Erase {
            Fate::Fail
        } else {
            Fate::Pass
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
async fn an_entry_in_the_front_is_served_while_the_memory_is_down() {
    let (here, double) = over(true);
    here.ask(&Question::number(1), &Policy::default(), "x")
        .await;
    here.ask(&Question::number(1), &Policy::default(), "").await;
    double.now(|_| Fate::Fail);
    let told = here.ask(&Question::number(1), &Policy::default(), "").await;
    assert_eq!((&told.status, told.text()), (&CacheStatus::Hit, "x"));
}

#[tokio::test(start_paused = true)]
async fn closing_an_engine_does_not_wait_for_a_memory_that_hangs() {
    let (here, double) = over(true);
    here.ask(&Question::number(1), &Policy::default(), "x")
        .await;
    here.after(Duration::from_secs(100));
    here.ask(&Question::number(1), &Policy::default(), "").await;
    double.now(|_| Fate::Hang);
    let began = tokio::time::Instant::now();
    here.cache.close().await;
    assert!(
        began.elapsed() <= Duration::from_millis(260),
        "{:?}",
        began.elapsed()
    );
}
