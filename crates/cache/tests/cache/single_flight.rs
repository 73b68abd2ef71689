//! Concurrent identical calls run once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cachalot_cache::{
    BeginResult, CacheMode, CacheStatus, Failure, Policy, Reason, RunPolicy, SingleFlight,
};
use cachalot_store::{ReserveResult, Store, space};
use tokio::task::JoinHandle;

use crate::faulty_store::FaultyStore;
use crate::test_engine::{
    CallReport, EngineBuilder, Question, TestEngine, clock, fleet, in_mode, in_process, product,
    settle_down, sqlite, test_engine,
};
use cachalot_store::intercepted::StoreOperation;

/// Asks in a task of its own; a run takes a little.
fn asks(
    here: &TestEngine,
    question: &Question,
    policy: &Policy,
    text: &str,
) -> JoinHandle<CallReport> {
    let (here, question, policy) = (here.clone(), question.clone(), policy.clone());
    let product = product(text);
    tokio::spawn(async move {
        let work = |ticket: cachalot_cache::Ticket| async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            ticket.finish(product).await;
        };
        crate::test_engine::reported(here.through(&question, &policy, work).await).await
    })
}

async fn all(asking: Vec<JoinHandle<CallReport>>) -> Vec<CallReport> {
    let mut reported = Vec::new();
    for one in asking {
        reported.push(one.await.unwrap());
    }
    reported
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_tasks_on_one_key_run_once() {
    let here = test_engine();
    let question = Question::number(1);
    let reported = all((0..16)
        .map(|_| asks(&here, &question, &Policy::default(), "one"))
        .collect())
    .await;
    assert_eq!(here.runs(), 1);
    assert!(
        reported
            .iter()
            .all(|reported| reported.text() == "one" && reported.settled.stored.is_ok())
    );
    assert_eq!(
        reported
            .iter()
            .filter(|reported| matches!(reported.status, CacheStatus::Miss(_)))
            .count(),
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_tasks_run_once_despite_a_failing_or_slow_store() {
    use crate::faulty_store::StoreBehavior;
    for fate in [
        StoreBehavior::Fail,
        StoreBehavior::Slow(Duration::from_millis(3)),
    ] {
        let clock = clock();
        let here = EngineBuilder::over(
            Arc::new(FaultyStore::always(in_process(&clock), fate)),
            &clock,
        )
        .make();
        let reported = all((0..16)
            .map(|_| asks(&here, &Question::number(1), &Policy::default(), "x"))
            .collect())
        .await;
        assert_eq!(here.runs(), 1, "{fate:?}");
        assert!(reported.iter().all(|reported| reported.text() == "x"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_engines_on_one_store_run_once() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let shared = in_process(&clock);
    let file = home.path().join("cachalot.db");
    let pairs: [[Arc<dyn Store>; 2]; 2] = [
        [shared.clone(), shared],
        [sqlite(&file, &clock), sqlite(&file, &clock)],
    ];
    for [one, other] in pairs {
        let name = one.about().name;
        let here = EngineBuilder::over(one, &clock).make();
        let there = TestEngine {
            runs: Arc::clone(&here.runs),
            ..EngineBuilder::over(other, &clock).make()
        };
        for number in 0..5 {
            let question = Question::number(number);
            let asking = (0..16).map(|n| {
                asks(
                    if n % 2 == 0 { &here } else { &there },
                    &question,
                    &fleet(),
                    "once",
                )
            });
            let reported = all(asking.collect()).await;
            assert_eq!(here.runs(), number + 1, "{name}");
            assert!(
                reported
                    .iter()
                    .all(|reported| reported.text() == "once" && reported.settled.stored.is_ok()),
                "{reported:?}"
            );
            let paid: u64 = reported
                .iter()
                .map(|reported| reported.settled.paid.calls)
                .sum();
            assert_eq!(paid, 1, "{name}");
        }
        assert!(here.warned().is_empty() && there.warned().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_keys_do_not_wait_for_each_other() {
    let here = test_engine();
    let slow = here.lead(&Question::number(1), &Policy::default()).await;
    assert_eq!(
        here.ask(&Question::number(2), &Policy::default(), "quick")
            .await
            .text(),
        "quick"
    );
    drop(slow);
}

#[tokio::test]
async fn an_isolated_call_neither_joins_nor_is_joined() {
    let here = test_engine();
    let question = Question::number(1);
    let alone = Policy {
        run: RunPolicy {
            join: SingleFlight::Off,
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    let first = here.lead(&question, &alone).await;
    let second = here.lead(&question, &Policy::default()).await;
    let third = here.lead(&question, &alone).await;
    let reported = asks(&here, &question, &Policy::default(), "ran");
    settle_down().await;
    assert!(
        first.finish(product("first")).await.stored.is_ok(),
        "it began first, it is stored"
    );
    assert_eq!(
        second.finish(product("second")).await.stored,
        Err(Reason::BusyElsewhere)
    );
    assert_eq!(reported.await.unwrap().text(), "second");
    drop(third);
}

#[tokio::test]
async fn exactly_one_follower_leads_after_a_dropped_leader() {
    for _ in 0..20 {
        let here = test_engine();
        let question = Question::number(1);
        let ticket = here.lead(&question, &Policy::default()).await;
        let waiting: Vec<_> = (0..10)
            .map(|_| asks(&here, &question, &Policy::default(), "second"))
            .collect();
        settle_down().await;
        assert_eq!(here.runs(), 0);
        drop(ticket);
        for reported in all(waiting).await {
            assert_eq!(reported.text(), "second");
            assert!(reported.settled.stored.is_ok(), "{:?}", reported.settled);
        }
        assert_eq!(here.runs(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_survive_repeated_dropped_leaders() {
    let here = test_engine();
    let question = Question::number(1);
    let gone = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let crowd: Vec<_> = (0..32)
        .map(|_| {
            let (here, question, gone) = (here.clone(), question.clone(), Arc::clone(&gone));
            tokio::spawn(async move {
                match here
                    .cache
                    .begin(&question.call(), &Policy::default())
                    .await
                    .unwrap()
                {
                    BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
                        Some(outcome.body.whole().await.unwrap())
                    }
                    BeginResult::Run(ticket) if gone.fetch_add(1, Ordering::SeqCst) < 10 => {
                        tokio::task::yield_now().await;
                        drop(ticket);
                        None
                    }
                    BeginResult::Run(ticket) => {
                        assert!(ticket.finish(product("at last")).await.stored.is_ok());
                        None
                    }
                }
            })
        })
        .collect();
    for one in crowd {
        if let Some(bytes) = one.await.unwrap() {
            assert_eq!(&bytes[..], b"at last");
        }
    }
    assert_eq!(gone.load(Ordering::SeqCst), 11);
}

#[tokio::test]
async fn a_call_right_after_one_that_failed_or_gave_up_is_stored() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let file = sqlite(&home.path().join("cachalot.db"), &clock);
    for memory in [in_process(&clock), file] {
        let here = EngineBuilder::over(memory, &clock).make();
        drop(here.lead(&Question::number(1), &Policy::default()).await);
        let reported = here
            .ask(&Question::number(1), &Policy::default(), "x")
            .await;
        assert!(reported.settled.stored.is_ok(), "{:?}", reported.settled);

        let ticket = here.lead(&Question::number(2), &Policy::default()).await;
        ticket.emit("half".into());
        drop(ticket);
        let reported = here
            .ask(&Question::number(2), &Policy::default(), "x")
            .await;
        assert!(reported.settled.stored.is_ok(), "{:?}", reported.settled);

        let ticket = here.lead(&Question::number(3), &Policy::default()).await;
        ticket.fail(Failure::new(std::io::Error::other("no"))).await;
        let reported = here
            .ask(&Question::number(3), &Policy::default(), "x")
            .await;
        assert!(reported.settled.stored.is_ok(), "{:?}", reported.settled);
    }
}

#[tokio::test]
async fn early_reader_exit_does_not_prevent_storing() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let here = EngineBuilder::over(sqlite(&home.path().join("cachalot.db"), &clock), &clock).make();
    for number in 0..20 {
        let question = Question::number(number);
        let work = |ticket| crate::test_engine::finish(ticket, product("x"));
        let outcome = here.through(&question, &Policy::default(), work).await;
        outcome.body.whole().await.unwrap();
        drop(outcome);
    }
    crate::test_engine::eventually(async || here.cache.usage().await.unwrap().records == 20).await;
    assert_eq!(here.runs(), 20);
}

#[tokio::test]
async fn a_canceled_follower_does_not_affect_others() {
    let here = test_engine();
    let question = Question::number(1);
    let ticket = here.lead(&question, &Policy::default()).await;
    let own = ticket.outcome();
    let follower = asks(&here, &question, &Policy::default(), "no");
    settle_down().await;
    follower.abort();
    assert!(follower.await.is_err());
    assert!(ticket.finish(product("yes")).await.stored.is_ok());
    assert_eq!(&own.body.whole().await.unwrap()[..], b"yes");
}

#[tokio::test]
async fn single_flight_within_a_process_needs_no_reservations() {
    let clock = clock();
    let memory = Arc::new(FaultyStore::over(in_process(&clock)).without_reservations());
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    let question = Question::number(1);
    let reported = all((0..16)
        .map(|_| asks(&here, &question, &fleet(), "one"))
        .collect())
    .await;
    assert_eq!((here.runs(), memory.count(StoreOperation::Reserve)), (1, 0));
    assert!(
        reported
            .iter()
            .all(|reported| reported.settled.stored.is_ok())
    );
    assert_eq!(
        here.ask(&question, &Policy::default(), "").await.status,
        CacheStatus::Hit
    );
}

#[tokio::test]
async fn join_process_does_not_wait_for_other_processes() {
    let clock = clock();
    let memory = in_process(&clock);
    let (here, there) = (
        EngineBuilder::over(memory.clone(), &clock).make(),
        EngineBuilder::over(memory, &clock).make(),
    );
    let question = Question::number(1);
    let first = here.lead(&question, &Policy::default()).await;
    let second = there.lead(&question, &Policy::default()).await;
    assert_eq!(
        second.finish(product("second")).await.stored,
        Err(Reason::BusyElsewhere)
    );
    assert!(first.finish(product("first")).await.stored.is_ok());
    assert_eq!(
        there.ask(&question, &Policy::default(), "").await.text(),
        "first"
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_for_other_processes_is_limited() {
    let clock = clock();
    let memory = in_process(&clock);
    let (here, there) = (
        EngineBuilder::over(memory.clone(), &clock).make(),
        EngineBuilder::over(memory, &clock).make(),
    );
    let question = Question::number(1);
    let first = here.lead(&question, &Policy::default()).await;
    let began = tokio::time::Instant::now();
    let policy = Policy {
        run: RunPolicy {
            join: SingleFlight::AllProcesses {
                wait: Duration::from_secs(3),
            },
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    let second = there.lead(&question, &policy).await;
    let waited = began.elapsed();
    assert!(
        (Duration::from_secs(3)..Duration::from_millis(3_200)).contains(&waited),
        "{waited:?}"
    );
    assert_eq!(
        second.finish(product("second")).await.stored,
        Err(Reason::BusyElsewhere)
    );
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_follower_gets_the_result_of_another_process() {
    let clock = clock();
    let memory = in_process(&clock);
    let (here, there) = (
        EngineBuilder::over(memory.clone(), &clock).make(),
        EngineBuilder::over(memory, &clock).make(),
    );
    let question = Question::number(1);
    let first = here.lead(&question, &Policy::default()).await;
    let waiting = asks(&there, &question, &fleet(), "no");
    let behind = asks(&there, &question, &Policy::default(), "no");
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.finish(product("yes")).await;
    for reported in [waiting.await.unwrap(), behind.await.unwrap()] {
        assert_eq!(
            (&reported.status, reported.text()),
            (&CacheStatus::Coalesced, "yes")
        );
        assert_eq!(
            (reported.settled.paid.calls, reported.settled.saved),
            (0, crate::test_engine::COST)
        );
        assert!(reported.settled.stored.is_ok());
    }
    assert_eq!(there.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_follower_runs_when_the_other_process_fails() {
    let clock = clock();
    let memory = in_process(&clock);
    let (here, there) = (
        EngineBuilder::over(memory.clone(), &clock).make(),
        EngineBuilder::over(memory, &clock).make(),
    );
    let question = Question::number(1);
    let first = here.lead(&question, &Policy::default()).await;
    let waiting: Vec<_> = (0..4)
        .map(|_| asks(&there, &question, &fleet(), "second"))
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.fail(Failure::new(std::io::Error::other("no"))).await;
    assert!(
        all(waiting)
            .await
            .iter()
            .all(|reported| reported.text() == "second" && reported.settled.stored.is_ok())
    );
    assert_eq!(there.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn reservation_of_a_dead_process_blocks_only_until_it_lapses() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    let question = Question::number(1);
    let key = question.key().to_string();
    let dead = memory
        .reserve(space::CACHE, &key, &[], Duration::from_secs(2))
        .settle()
        .await
        .unwrap();
    assert!(matches!(dead, ReserveResult::Held(_)));
    let asking = asks(&here, &question, &fleet(), "mine");
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        clock.advance(Duration::from_millis(100));
    }
    let reported = asking.await.unwrap();
    assert!(
        matches!(reported.status, CacheStatus::Miss(Reason::Absent)),
        "{reported:?}"
    );
    assert!(reported.settled.stored.is_ok(), "{reported:?}");
}

#[tokio::test(start_paused = true)]
async fn a_long_run_keeps_its_reservation() {
    let clock = clock();
    let memory = in_process(&clock);
    let (here, there) = (
        EngineBuilder::over(memory.clone(), &clock).make(),
        EngineBuilder::over(memory, &clock).make(),
    );
    let question = Question::number(1);
    let ticket = here.lead(&question, &Policy::default()).await;
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        clock.advance(Duration::from_millis(100));
    }
    let other = there.lead(&question, &Policy::default()).await;
    assert_eq!(
        other.finish(product("no")).await.stored,
        Err(Reason::BusyElsewhere)
    );
    assert!(ticket.finish(product("yes")).await.stored.is_ok());
}

#[tokio::test]
async fn refresh_is_stored_during_an_older_run() {
    let here = test_engine();
    let question = Question::number(1);
    let older = here.lead(&question, &Policy::default()).await;
    let fresh = here
        .ask(&question, &in_mode(CacheMode::Refresh), "fresh")
        .await;
    assert!(fresh.settled.stored.is_ok(), "{:?}", fresh.settled);
    assert!(older.finish(product("older")).await.stored.is_err());
    assert_eq!(
        here.ask(&question, &Policy::default(), "").await.text(),
        "fresh"
    );
}

#[tokio::test]
async fn dropped_waiter_for_another_process_costs_nothing() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let memory = in_process(&clock);
    let there = EngineBuilder::over(memory.clone(), &clock).make();
    let here = EngineBuilder::over(memory, &clock)
        .ledger(&home.path().join("ledger.db"))
        .make();
    let question = Question::number(1);
    let other = there.lead(&question, &Policy::default()).await;
    let waiting = asks(&here, &question, &fleet(), "no");
    tokio::time::sleep(Duration::from_millis(20)).await;
    waiting.abort();
    assert!(waiting.await.is_err());
    here.cache.close().await;
    assert_eq!(
        here.cache.ledger().recent(5).unwrap(),
        [],
        "nothing ran, nothing was paid"
    );
    assert!(other.finish(product("yes")).await.stored.is_ok());
}

#[tokio::test(start_paused = true)]
async fn cancelled_finish_still_ends_the_run() {
    use crate::faulty_store::StoreBehavior;
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let memory = Arc::new(FaultyStore::over(in_process(&clock)));
    let here = EngineBuilder::over(memory.clone(), &clock)
        .ledger(&home.path().join("ledger.db"))
        .make();
    let question = Question::number(1);
    for hanging in [StoreOperation::Put, StoreOperation::Release] {
        memory.now(move |op| {
            if op == hanging {
                StoreBehavior::Hang
            } else {
                StoreBehavior::Pass
            }
        });
        let ticket = here.lead(&question, &Policy::default()).await;
        let outcome = ticket.outcome();
        let storable = if hanging == StoreOperation::Put {
            Ok(())
        } else {
            Err(Reason::Declined("no".into()))
        };
        let end = ticket.finish(cachalot_cache::RunResult {
            storable,
            ..product("x")
        });
        assert!(
            tokio::time::timeout(Duration::from_millis(5), end)
                .await
                .is_err()
        );
        assert_eq!(&outcome.body.whole().await.unwrap()[..], b"x");
        assert!(outcome.settled().await.stored.is_err());
        settle_down().await;
    }
    memory.now(|_| StoreBehavior::Pass);
    tokio::time::sleep(Duration::from_secs(1)).await;
    clock.advance(Duration::from_secs(10));
    assert!(
        here.ask(&question, &Policy::default(), "y")
            .await
            .settled
            .stored
            .is_ok()
    );
    here.cache.close().await;
    assert_eq!(
        here.cache.ledger().recent(9).unwrap().len(),
        3,
        "each run is one row"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flight_always_completes_despite_leaving_participants() {
    let here = test_engine();
    let stop = Arc::new(AtomicBool::new(false));
    let asking: Vec<_> = (0..8_u64)
        .map(|n| {
            let (here, stop) = (here.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut turn = n;
                while !stop.load(Ordering::Relaxed) {
                    turn = turn
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let question = Question::number((turn >> 33) as usize % 3);
                    let policy = in_mode(if turn >> 40 & 7 == 0 {
                        CacheMode::Refresh
                    } else {
                        CacheMode::On
                    });
                    let one = here.ask(&question, &policy, "x");
                    if turn >> 50 & 3 == 0 {
                        let _ = tokio::time::timeout(Duration::from_micros(turn >> 56), one).await;
                    } else {
                        let reported = tokio::time::timeout(Duration::from_secs(60), one)
                            .await
                            .expect("stuck");
                        assert!(
                            reported.body.is_ok()
                                || matches!(reported.status, CacheStatus::Coalesced),
                            "{reported:?}"
                        );
                    }
                    if turn >> 44 & 15 == 0 {
                        here.cache
                            .erase(&cachalot_cache::EntryFilter::default(), false)
                            .await
                            .unwrap();
                    }
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.store(true, Ordering::Relaxed);
    for one in asking {
        one.await.unwrap();
    }
}
