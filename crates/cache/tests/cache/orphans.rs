//! What becomes of a run that nobody reads any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cachalot_cache::{CacheStatus, OrphanPolicy, Outcome, Policy, Reason};

use crate::doubles::{Double, Fate, Op};
use crate::setting::{
    Making, Question, Setting, clock, in_process, product, setting, settle_down, told,
};

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
    here: &Setting,
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
async fn cancel_drops_the_work_when_the_last_reader_leaves() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let here = Making::over(in_process(&clock), &clock)
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
    let told = here.ask(&question, &Policy::default(), "again").await;
    assert_eq!(
        (&told.status, told.text()),
        (&CacheStatus::Miss(Reason::Absent), "again")
    );
    assert!(told.settled.stored.is_ok(), "{:?}", told.settled);
}

#[tokio::test(start_paused = true)]
async fn a_follower_keeps_a_run_alive_whose_first_caller_left() {
    let here = setting();
    let question = Question::number(1);
    let (outcome, work) = long_run(&here, &question, OrphanPolicy::Cancel).await;
    let follower = {
        let (here, question) = (here.clone(), question.clone());
        tokio::spawn(async move { here.ask(&question, &Policy::default(), "no").await })
    };
    settle_down().await;
    drop(outcome);
    let told = follower.await.unwrap();
    assert_eq!(
        (&told.status, told.text()),
        (&CacheStatus::Coalesced, "after ten seconds")
    );
    assert!(told.settled.stored.is_ok() && !stopped(&work));
}

#[tokio::test(start_paused = true)]
async fn finish_lets_the_work_go_on_for_a_while() {
    let here = setting();
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
    let told = here.ask(&question, &Policy::default(), "no").await;
    assert_eq!(
        (&told.status, told.text()),
        (&CacheStatus::Hit, "after ten seconds")
    );
}

#[tokio::test(start_paused = true)]
async fn finish_stops_the_work_when_the_while_is_over() {
    let here = setting();
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
async fn the_end_of_the_while_does_not_stop_a_store_in_progress() {
    for orphan in [
        OrphanPolicy::Cancel,
        OrphanPolicy::Finish {
            within: Duration::from_millis(10_050),
        },
    ] {
        let clock = clock();
        let double = Arc::new(Double::over(in_process(&clock)));
        double.now(|op| match op {
            Op::Put => Fate::Slow(Duration::from_millis(200)),
            _ => Fate::Pass,
        });
        let here = Making::over(double, &clock).make();
        let question = Question::number(1);
        let (outcome, work) = long_run(&here, &question, orphan).await;
        if orphan == OrphanPolicy::Cancel {
            // It leaves while the answer is stored.
            outcome.body.whole().await.unwrap();
        }
        drop(outcome);
        tokio::time::sleep(11 * SECOND).await;
        assert!(!stopped(&work), "{orphan:?}");
        let told = here.ask(&question, &Policy::default(), "no").await;
        assert_eq!(
            (&told.status, told.text()),
            (&CacheStatus::Hit, "after ten seconds"),
            "{orphan:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_reader_within_the_while_keeps_the_work() {
    let here = setting();
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
    let told = follower.await.unwrap();
    assert_eq!(
        (&told.status, told.text()),
        (&CacheStatus::Coalesced, "after ten seconds")
    );
    assert!(!stopped(&work));
}

#[tokio::test(start_paused = true)]
async fn the_while_begins_anew_each_time_the_last_reader_leaves() {
    let here = setting();
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
async fn an_owner_driven_ticket_is_notified_when_all_readers_left() {
    let here = setting();
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

#[tokio::test]
async fn work_that_ends_by_itself_ends_the_flight_for_all() {
    let here = setting();
    let outcome = here
        .through(
            &Question::number(1),
            &Policy::default(),
            |ticket| async move { drop(ticket) },
        )
        .await;
    let told = told(outcome).await;
    assert_eq!(told.body.unwrap_err(), "the work ended without an answer");
    assert_eq!(told.settled.stored, Err(Reason::Abandoned));
}
