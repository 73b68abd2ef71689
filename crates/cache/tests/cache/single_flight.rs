//! Concurrent identical calls run once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cachalot_cache::{BeginResult, CacheMode, CacheStatus, Failure, Policy, Reason, SingleFlight};
use cachalot_store::{ReserveResult, Store, space};
use tokio::task::JoinHandle;

use crate::doubles::{Double, Op};
use crate::setting::{
    Making, Question, Setting, Told, clock, fleet, in_mode, in_process, product, setting,
    settle_down, sqlite,
};

/// Asks in a task of its own; a run takes a little.
fn asks(here: &Setting, question: &Question, policy: &Policy, text: &str) -> JoinHandle<Told> {
    let (here, question, policy) = (here.clone(), question.clone(), policy.clone());
    let product = product(text);
    tokio::spawn(async move {
        let work = |ticket: cachalot_cache::Ticket| async move {
            tokio::time::sleep(Duration::from_millis(30)).await;
            ticket.finish(product).await;
        };
        crate::setting::told(here.through(&question, &policy, work).await).await
    })
}

async fn all(asking: Vec<JoinHandle<Told>>) -> Vec<Told> {
    let mut told = Vec::new();
    for one in asking {
        told.push(one.await.unwrap());
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_tasks_on_one_key_run_it_once() {
    let here = setting();
    let question = Question::number(1);
    let told = all((0..16)
        .map(|_| asks(&here, &question, &Policy::default(), "one"))
        .collect())
    .await;
    assert_eq!(here.runs(), 1);
    assert!(
        told.iter()
            .all(|told| told.text() == "one" && told.settled.stored.is_ok())
    );
    assert_eq!(
        told.iter()
            .filter(|told| matches!(told.status, CacheStatus::Miss(_)))
            .count(),
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_tasks_run_once_whatever_is_wrong_with_the_memory() {
    use crate::doubles::Fate;
    for fate in [Fate::Fail, Fate::Slow(Duration::from_millis(3))] {
        let clock = clock();
        let here = Making::over(Arc::new(Double::always(in_process(&clock), fate)), &clock).make();
        let told = all((0..16)
            .map(|_| asks(&here, &Question::number(1), &Policy::default(), "x"))
            .collect())
        .await;
        assert_eq!(here.runs(), 1, "{fate:?}");
        assert!(told.iter().all(|told| told.text() == "x"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_engines_over_one_memory_run_it_once() {
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
        let here = Making::over(one, &clock).make();
        let there = Setting {
            runs: Arc::clone(&here.runs),
            ..Making::over(other, &clock).make()
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
            let told = all(asking.collect()).await;
            assert_eq!(here.runs(), number + 1, "{name}");
            assert!(
                told.iter()
                    .all(|told| told.text() == "once" && told.settled.stored.is_ok()),
                "{told:?}"
            );
            let paid: u64 = told.iter().map(|told| told.settled.paid.calls).sum();
            assert_eq!(paid, 1, "{name}");
        }
        assert!(here.warned().is_empty() && there.warned().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_keys_do_not_wait_for_each_other() {
    let here = setting();
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
    let here = setting();
    let question = Question::number(1);
    let alone = Policy {
        join: SingleFlight::Off,
        ..Policy::default()
    };
    let first = here.lead(&question, &alone).await;
    let second = here.lead(&question, &Policy::default()).await;
    let third = here.lead(&question, &alone).await;
    let told = asks(&here, &question, &Policy::default(), "ran");
    settle_down().await;
    assert!(
        first.finish(product("first")).await.stored.is_ok(),
        "it began first, it is stored"
    );
    assert_eq!(
        second.finish(product("second")).await.stored,
        Err(Reason::BusyElsewhere)
    );
    assert_eq!(told.await.unwrap().text(), "second");
    drop(third);
}

#[tokio::test]
async fn if_the_leader_leaves_without_a_word_exactly_one_waiter_leads() {
    for _ in 0..20 {
        let here = setting();
        let question = Question::number(1);
        let ticket = here.lead(&question, &Policy::default()).await;
        let waiting: Vec<_> = (0..10)
            .map(|_| asks(&here, &question, &Policy::default(), "second"))
            .collect();
        settle_down().await;
        assert_eq!(here.runs(), 0);
        drop(ticket);
        for told in all(waiting).await {
            assert_eq!(told.text(), "second");
            assert!(told.settled.stored.is_ok(), "{:?}", told.settled);
        }
        assert_eq!(here.runs(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_outlives_any_number_of_leaders_that_give_up() {
    let here = setting();
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
                    BeginResult::Served(outcome) => Some(outcome.body.whole().await.unwrap()),
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
        let here = Making::over(memory, &clock).make();
        drop(here.lead(&Question::number(1), &Policy::default()).await);
        let told = here
            .ask(&Question::number(1), &Policy::default(), "x")
            .await;
        assert!(told.settled.stored.is_ok(), "{:?}", told.settled);

        let ticket = here.lead(&Question::number(2), &Policy::default()).await;
        ticket.emit("half".into());
        drop(ticket);
        let told = here
            .ask(&Question::number(2), &Policy::default(), "x")
            .await;
        assert!(told.settled.stored.is_ok(), "{:?}", told.settled);

        let ticket = here.lead(&Question::number(3), &Policy::default()).await;
        ticket.fail(Failure::new(std::io::Error::other("no"))).await;
        let told = here
            .ask(&Question::number(3), &Policy::default(), "x")
            .await;
        assert!(told.settled.stored.is_ok(), "{:?}", told.settled);
    }
}

#[tokio::test]
async fn a_reader_that_leaves_early_does_not_prevent_storing() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let here = Making::over(sqlite(&home.path().join("cachalot.db"), &clock), &clock).make();
    for number in 0..20 {
        let question = Question::number(number);
        let work = |ticket| crate::setting::finish(ticket, product("x"));
        let outcome = here.through(&question, &Policy::default(), work).await;
        outcome.body.whole().await.unwrap();
        drop(outcome);
    }
    crate::setting::eventually(async || here.cache.usage().await.unwrap().records == 20).await;
    assert_eq!(here.runs(), 20);
}

#[tokio::test]
async fn a_canceled_follower_does_not_affect_others() {
    let here = setting();
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
async fn without_reservations_a_process_is_still_one_flight() {
    let clock = clock();
    let memory = Arc::new(Double::over(in_process(&clock)).without_reservations());
    let here = Making::over(memory.clone(), &clock).make();
    let question = Question::number(1);
    let told = all((0..16)
        .map(|_| asks(&here, &question, &fleet(), "one"))
        .collect())
    .await;
    assert_eq!((here.runs(), memory.count(Op::Reserve)), (1, 0));
    assert!(told.iter().all(|told| told.settled.stored.is_ok()));
    assert_eq!(
        here.ask(&question, &Policy::default(), "").await.status,
        CacheStatus::Hit
    );
}

#[tokio::test]
async fn with_process_join_a_concurrent_run_of_another_process_is_not_awaited() {
    let clock = clock();
    let memory = in_process(&clock);
    let (here, there) = (
        Making::over(memory.clone(), &clock).make(),
        Making::over(memory, &clock).make(),
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
        Making::over(memory.clone(), &clock).make(),
        Making::over(memory, &clock).make(),
    );
    let question = Question::number(1);
    let first = here.lead(&question, &Policy::default()).await;
    let began = tokio::time::Instant::now();
    let policy = Policy {
        join: SingleFlight::AllProcesses {
            wait: Duration::from_secs(3),
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
        Making::over(memory.clone(), &clock).make(),
        Making::over(memory, &clock).make(),
    );
    let question = Question::number(1);
    let first = here.lead(&question, &Policy::default()).await;
    let waiting = asks(&there, &question, &fleet(), "no");
    let behind = asks(&there, &question, &Policy::default(), "no");
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.finish(product("yes")).await;
    for told in [waiting.await.unwrap(), behind.await.unwrap()] {
        assert_eq!(
            (&told.status, told.text()),
            (&CacheStatus::Coalesced, "yes")
        );
        assert_eq!(
            (told.settled.paid.calls, told.settled.saved),
            (0, crate::setting::COST)
        );
        assert!(told.settled.stored.is_ok());
    }
    assert_eq!(there.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn if_the_other_process_fails_one_follower_runs() {
    let clock = clock();
    let memory = in_process(&clock);
    let (here, there) = (
        Making::over(memory.clone(), &clock).make(),
        Making::over(memory, &clock).make(),
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
            .all(|told| told.text() == "second" && told.settled.stored.is_ok())
    );
    assert_eq!(there.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_died_with_a_reservation_keeps_others_waiting_only_until_it_lapses() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = Making::over(memory.clone(), &clock).make();
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
    let told = asking.await.unwrap();
    assert!(
        matches!(told.status, CacheStatus::Miss(Reason::Absent)),
        "{told:?}"
    );
    assert!(told.settled.stored.is_ok(), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_long_run_keeps_its_reservation() {
    let clock = clock();
    let memory = in_process(&clock);
    let (here, there) = (
        Making::over(memory.clone(), &clock).make(),
        Making::over(memory, &clock).make(),
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
async fn a_refresh_is_stored_even_while_an_older_run_is_under_way() {
    let here = setting();
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
async fn a_caller_that_gives_up_while_it_waits_for_another_process_costs_nothing() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let memory = in_process(&clock);
    let there = Making::over(memory.clone(), &clock).make();
    let here = Making::over(memory, &clock)
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
async fn an_end_that_is_cut_short_is_an_end_all_the_same() {
    use crate::doubles::Fate;
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let memory = Arc::new(Double::over(in_process(&clock)));
    let here = Making::over(memory.clone(), &clock)
        .ledger(&home.path().join("ledger.db"))
        .make();
    let question = Question::number(1);
    for hanging in [Op::Put, Op::Release] {
        memory.now(move |op| {
            if op == hanging {
                Fate::Hang
            } else {
                Fate::Pass
            }
        });
        let ticket = here.lead(&question, &Policy::default()).await;
        let outcome = ticket.outcome();
        let storable = if hanging == Op::Put {
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
    memory.now(|_| Fate::Pass);
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
    let here = setting();
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
                        let told = tokio::time::timeout(Duration::from_secs(5), one)
                            .await
                            .expect("stuck");
                        assert!(
                            told.body.is_ok() || matches!(told.status, CacheStatus::Coalesced),
                            "{told:?}"
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
