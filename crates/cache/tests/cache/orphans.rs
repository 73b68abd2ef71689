//! Runs without readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cachalot_cache::{
    CacheBounds, CacheStatus, OrphanPolicy, Outcome, Policy, Reason, RunPolicy, Ticket,
};
use cachalot_core::{Cost, Spend};

use crate::faulty_store::{FaultyStore, StoreBehavior};
use crate::test_engine::{
    EngineBuilder, Question, TestEngine, clock, in_process, product, reported, settle_down,
    test_engine,
};
use cachalot_store::intercepted::StoreOperation;

const SECOND: Duration = Duration::from_secs(1);

/// Tells when the work was dropped before its end.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A run of ten seconds.
async fn long_run(
    here: &TestEngine,
    question: &Question,
    orphan: OrphanPolicy,
) -> (Outcome, Arc<AtomicBool>) {
    let stopped = Arc::new(AtomicBool::new(false));
    let guard = Dropped(Arc::clone(&stopped));
    let policy = Policy {
        run: RunPolicy {
            orphan,
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    let work = |ticket: cachalot_cache::Ticket| async move {
        tokio::time::sleep(10 * SECOND).await;
        ticket.finish(product("after ten seconds")).await;
        std::mem::forget(guard);
    };
    (here.through(question, &policy, work).await, stopped)
}

fn stopped(flag: &Arc<AtomicBool>) -> bool {
    flag.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn cancel_policy_drops_the_work_when_the_last_reader_leaves() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let here = EngineBuilder::over(in_process(&clock), &clock)
        .ledger(&home.path().join("ledger.db"))
        .make();
    let question = Question::number(1);
    let (outcome, work) = long_run(&here, &question, OrphanPolicy::Cancel).await;
    let reader = outcome.body.reader();
    let copy = outcome.body.clone();
    drop(outcome);
    tokio::time::sleep(SECOND).await;
    assert!(!stopped(&work), "two still read");
    drop(copy);
    tokio::time::sleep(SECOND).await;
    assert!(!stopped(&work), "one still reads");
    drop(reader);
    settle_down().await;
    assert!(stopped(&work));
    here.cache.ledger().flush().await;
    let row = &here.cache.ledger().recent(1).unwrap()[0];
    assert_eq!(row.not_stored.as_deref(), Some("the work was abandoned"));
    let reported = here.ask(&question, &Policy::default(), "again").await;
    assert_eq!(
        (&reported.status, reported.text()),
        (&CacheStatus::Miss(Reason::Absent), "again")
    );
    assert!(reported.settled.stored.is_ok(), "{:?}", reported.settled);
}

#[tokio::test(start_paused = true)]
async fn follower_keeps_the_run_alive_when_the_first_caller_leaves() {
    let here = test_engine();
    let question = Question::number(1);
    let (outcome, work) = long_run(&here, &question, OrphanPolicy::Cancel).await;
    let follower = {
        let (here, question) = (here.clone(), question.clone());
        tokio::spawn(async move { here.ask(&question, &Policy::default(), "no").await })
    };
    settle_down().await;
    drop(outcome);
    let reported = follower.await.unwrap();
    assert_eq!(
        (&reported.status, reported.text()),
        (&CacheStatus::Coalesced, "after ten seconds")
    );
    assert!(reported.settled.stored.is_ok() && !stopped(&work));
}

#[tokio::test(start_paused = true)]
async fn finish_policy_lets_the_work_complete_within_its_time() {
    let here = test_engine();
    let question = Question::number(1);
    let (outcome, work) = long_run(
        &here,
        &question,
        OrphanPolicy::Finish {
            within: 20 * SECOND,
        },
    )
    .await;
    drop(outcome);
    tokio::time::sleep(11 * SECOND).await;
    assert!(!stopped(&work));
    let reported = here.ask(&question, &Policy::default(), "no").await;
    assert_eq!(
        (&reported.status, reported.text()),
        (&CacheStatus::Hit, "after ten seconds")
    );
}

#[tokio::test(start_paused = true)]
async fn finish_policy_stops_the_work_after_its_time() {
    let here = test_engine();
    let question = Question::number(1);
    let (outcome, work) = long_run(
        &here,
        &question,
        OrphanPolicy::Finish { within: 5 * SECOND },
    )
    .await;
    tokio::time::sleep(SECOND).await;
    drop(outcome);
    tokio::time::sleep(Duration::from_millis(4_900)).await;
    assert!(!stopped(&work));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(stopped(&work));
    assert_eq!(
        here.ask(&question, &Policy::default(), "again")
            .await
            .text(),
        "again"
    );
}

#[tokio::test(start_paused = true)]
async fn finish_policy_timeout_does_not_stop_a_store_in_progress() {
    for orphan in [
        OrphanPolicy::Cancel,
        OrphanPolicy::Finish {
            within: Duration::from_millis(10_050),
        },
    ] {
        let clock = clock();
        let faulty_store = Arc::new(FaultyStore::over(in_process(&clock)));
        faulty_store.now(|op| match op {
            StoreOperation::Put => StoreBehavior::Slow(Duration::from_millis(200)),
            _ => StoreBehavior::Pass,
        });
        let here = EngineBuilder::over(faulty_store, &clock).make();
        let question = Question::number(1);
        let (outcome, work) = long_run(&here, &question, orphan).await;
        if orphan == OrphanPolicy::Cancel {
            // It leaves while the answer is stored.
            outcome.body.whole().await.unwrap();
        }
        drop(outcome);
        tokio::time::sleep(11 * SECOND).await;
        assert!(!stopped(&work), "{orphan:?}");
        let reported = here.ask(&question, &Policy::default(), "no").await;
        assert_eq!(
            (&reported.status, reported.text()),
            (&CacheStatus::Hit, "after ten seconds"),
            "{orphan:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn finish_policy_new_reader_keeps_the_work() {
    let here = test_engine();
    let question = Question::number(1);
    let (outcome, work) = long_run(
        &here,
        &question,
        OrphanPolicy::Finish { within: 5 * SECOND },
    )
    .await;
    drop(outcome);
    tokio::time::sleep(4 * SECOND).await;
    let follower = {
        let (here, question) = (here.clone(), question.clone());
        tokio::spawn(async move { here.ask(&question, &Policy::default(), "no").await })
    };
    let reported = follower.await.unwrap();
    assert_eq!(
        (&reported.status, reported.text()),
        (&CacheStatus::Coalesced, "after ten seconds")
    );
    assert!(!stopped(&work));
}

#[tokio::test(start_paused = true)]
async fn finish_policy_time_restarts_when_the_last_reader_leaves() {
    let here = test_engine();
    let question = Question::number(1);
    let (outcome, work) = long_run(
        &here,
        &question,
        OrphanPolicy::Finish { within: 6 * SECOND },
    )
    .await;
    drop(outcome);
    tokio::time::sleep(5 * SECOND).await;
    let follower = {
        let (here, question) = (here.clone(), question.clone());
        tokio::spawn(async move { here.ask(&question, &Policy::default(), "no").await })
    };
    settle_down().await;
    follower.abort();
    tokio::time::sleep(4 * SECOND).await;
    assert!(!stopped(&work), "four seconds after the last reader left");
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(
        here.ask(&question, &Policy::default(), "no").await.text(),
        "after ten seconds"
    );
}

#[tokio::test(start_paused = true)]
async fn abandoned_resolves_only_after_all_readers_left() {
    let here = test_engine();
    let ticket = here.lead(&Question::number(1), &Policy::default()).await;
    let never_read = tokio::time::timeout(60 * SECOND, ticket.abandoned()).await;
    assert!(never_read.is_err(), "nobody has left, for nobody was there");
    let outcome = ticket.outcome();
    assert!(
        tokio::time::timeout(60 * SECOND, ticket.abandoned())
            .await
            .is_err()
    );
    drop(outcome);
    ticket.abandoned().await;
    let settled = ticket.finish(product("finished all the same")).await;
    assert!(settled.stored.is_ok(), "{settled:?}");
}

const HOUR: OrphanPolicy = OrphanPolicy::Finish {
    within: Duration::from_secs(3_600),
};

#[tokio::test(start_paused = true)]
async fn the_oldest_runs_without_readers_are_given_up_beyond_their_number() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let here = EngineBuilder::over(in_process(&clock), &clock)
        .bounds(CacheBounds {
            orphan_runs: 2,
            ..CacheBounds::default()
        })
        .ledger(&home.path().join("ledger.db"))
        .make();
    let mut outcomes = Vec::new();
    let mut works = Vec::new();
    for number in 0..5 {
        let (outcome, work) = long_run(&here, &Question::number(number), HOUR).await;
        outcomes.push(Some(outcome));
        works.push(work);
    }
    let given_up = |works: &[Arc<AtomicBool>]| -> Vec<usize> {
        let works = works.iter().enumerate();
        works
            .filter_map(|(number, work)| stopped(work).then_some(number))
            .collect()
    };
    // With readers, there is no limit.
    for number in [3, 1] {
        outcomes[number] = None;
        settle_down().await;
    }
    assert!(given_up(&works).is_empty());
    // A reader takes a run out of the count.
    let reader = {
        let here = here.clone();
        tokio::spawn(async move {
            here.ask(&Question::number(3), &Policy::default(), "no")
                .await
        })
    };
    settle_down().await;
    outcomes[4] = None;
    settle_down().await;
    assert!(given_up(&works).is_empty());
    outcomes[0] = None;
    settle_down().await;
    assert_eq!(given_up(&works), [1]);
    tokio::time::sleep(11 * SECOND).await;
    assert_eq!(given_up(&works), [1]);
    assert_eq!(reader.await.unwrap().text(), "after ten seconds");
    for number in [0, 2, 3, 4] {
        let report = here
            .ask(&Question::number(number), &Policy::default(), "no")
            .await;
        assert_eq!(report.text(), "after ten seconds", "{number}");
    }
    here.cache.ledger().flush().await;
    let key = Question::number(1).key().to_string();
    let row = &here.cache.ledger().calls_by_key(&key, 1).unwrap()[0];
    assert_eq!(row.not_stored.as_deref(), Some("the work was abandoned"));
}

/// A run that adds a chunk of this size at each message, and was charged a cent.
async fn growing_run(
    here: &TestEngine,
    number: usize,
) -> (
    Outcome,
    Arc<AtomicBool>,
    tokio::sync::mpsc::UnboundedSender<usize>,
) {
    let stopped = Arc::new(AtomicBool::new(false));
    let guard = Dropped(Arc::clone(&stopped));
    let policy = Policy {
        run: RunPolicy {
            orphan: HOUR,
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    let (grow, mut sizes) = tokio::sync::mpsc::unbounded_channel::<usize>();
    let work = |ticket: Ticket| async move {
        let _guard = guard;
        ticket.charge(Spend {
            cost: Cost {
                picodollars: 10_000_000_000,
                unpriced: 0,
            },
            ..Spend::default()
        });
        while let Some(size) = sizes.recv().await {
            ticket.emit(vec![0; size].into());
        }
        ticket.finish(product("grown")).await;
    };
    let outcome = here.through(&Question::number(number), &policy, work).await;
    (outcome, stopped, grow)
}

#[tokio::test]
async fn the_oldest_runs_without_readers_are_given_up_beyond_their_bytes() {
    const MIB: usize = 1 << 20;
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let here = EngineBuilder::over(in_process(&clock), &clock)
        .bounds(CacheBounds {
            orphan_bytes: 10 << 20,
            ..CacheBounds::default()
        })
        .ledger(&home.path().join("ledger.db"))
        .make();
    let (first, first_work, grow_first) = growing_run(&here, 1).await;
    let (second, second_work, grow_second) = growing_run(&here, 2).await;
    let (third, third_work, grow_third) = growing_run(&here, 3).await;
    // Read, so that its bytes do not count.
    grow_third.send(20 * MIB).unwrap();
    grow_first.send(4 * MIB).unwrap();
    drop(first);
    settle_down().await;
    drop(second);
    grow_second.send(6 * MIB).unwrap();
    settle_down().await;
    assert!(!stopped(&first_work) && !stopped(&second_work));
    grow_second.send(1).unwrap();
    settle_down().await;
    assert!(stopped(&first_work) && !stopped(&second_work));
    // One that is too large alone.
    drop(third);
    settle_down().await;
    assert!(stopped(&second_work) && stopped(&third_work));
    here.cache.ledger().flush().await;
    let rows = here.cache.ledger().recent(9).unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert_eq!(row.not_stored.as_deref(), Some("the work was abandoned"));
        assert_eq!(row.paid.cost.picodollars, 10_000_000_000);
    }
}

/// Readers that join while runs are given up get the answer, or lead a run of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_are_answered_while_runs_are_given_up() {
    let clock = clock();
    let here = EngineBuilder::over(in_process(&clock), &clock)
        .bounds(CacheBounds {
            orphan_runs: 1,
            ..CacheBounds::default()
        })
        .make();
    let policy = Policy {
        run: RunPolicy {
            orphan: HOUR,
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    let callers: Vec<_> = (0..200)
        .map(|number| {
            let (here, policy) = (here.clone(), policy.clone());
            tokio::spawn(async move {
                let question = Question::number(number % 5);
                let work = |ticket: Ticket| async move {
                    for _ in 0..20 {
                        ticket.emit("x".into());
                        tokio::task::yield_now().await;
                    }
                    ticket.finish(product("answer")).await;
                };
                let outcome = here.through(&question, &policy, work).await;
                if number % 3 > 0 {
                    return;
                }
                let report = reported(outcome).await;
                assert_eq!(report.text(), "answer");
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

/// A caller that waits for the end of a run, and does not read, does not keep it alive.
#[tokio::test(start_paused = true)]
async fn waiting_for_the_end_is_not_reading() {
    let here = test_engine();
    let question = Question::number(1);
    let (outcome, work) = long_run(&here, &question, OrphanPolicy::Cancel).await;
    let settled = outcome.settled();
    drop(outcome);
    let began = tokio::time::Instant::now();
    assert_eq!(settled.await.stored, Err(Reason::Abandoned));
    assert!(stopped(&work) && began.elapsed() < SECOND);
    // With a reader, the run ends with its answer.
    let (outcome, _) = long_run(&here, &question, OrphanPolicy::Cancel).await;
    let settled = outcome.settled();
    let _reader = outcome.body.reader();
    assert!(settled.await.stored.is_ok());
}

#[tokio::test]
async fn dropped_ticket_ends_the_flight_with_an_error() {
    let here = test_engine();
    let outcome = here
        .through(
            &Question::number(1),
            &Policy::default(),
            |ticket| async move { drop(ticket) },
        )
        .await;
    let reported = reported(outcome).await;
    assert_eq!(
        reported.body.unwrap_err(),
        "the work ended without an answer"
    );
    assert_eq!(reported.settled.stored, Err(Reason::Abandoned));
}
