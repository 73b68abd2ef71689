//! Runs without readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cachalot_cache::{CacheStatus, OrphanPolicy, Outcome, Policy, Reason};

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
        orphan,
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
