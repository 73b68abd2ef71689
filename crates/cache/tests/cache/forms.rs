//! Answers of one key in several forms.

use std::time::Duration;

use bytes::Bytes;
use cachalot_cache::{
    BeginResult, CacheBounds, CacheMode, CacheStatus, CallStatus, EntryFilter, Form, HitPolicy,
    Outcome, Policy, Reason, RunPolicy, SingleFlight, Ticket,
};

use crate::faulty_store::{FaultyStore, StoreBehavior};
use crate::test_engine::{
    EngineBuilder, Question, TestEngine, clock, fleet, in_process, product, reported, sqlite,
    test_engine,
};

/// The policy of callers that read a form, and accept entries that begin with its letter only.
fn strict(form: u8) -> Policy {
    Policy {
        hit: HitPolicy {
            accepts: Some(match form {
                0 => |answer: &Bytes| answer.starts_with(b"a"),
                _ => |answer: &Bytes| answer.starts_with(b"b"),
            }),
            ..reads(form).hit
        },
        ..reads(form)
    }
}

fn reads(form: u8) -> Policy {
    Policy {
        run: RunPolicy {
            form: Form(form),
            ..fleet().run
        },
        ..fleet()
    }
}

async fn follow(here: &TestEngine, question: &Question, policy: &Policy) -> Outcome {
    match here.cache.begin(&question.call(), policy).await.unwrap() {
        BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => outcome,
        BeginResult::Run(_) => panic!("it should have been served"),
    }
}

async fn lead(here: &TestEngine, question: &Question, policy: &Policy) -> Ticket {
    let leading = here.lead(question, policy);
    // It does not wait for the lease of another run.
    tokio::time::timeout(Duration::from_secs(60), leading)
        .await
        .unwrap()
}

#[tokio::test]
async fn callers_join_runs_of_their_own_form_only() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    for store in [in_process(&clock), sqlite(&home.path().join("db"), &clock)] {
        let here = EngineBuilder::over(store, &clock).make();
        let question = Question::number(1);
        let whole = lead(&here, &question, &reads(0)).await;
        whole.emit("whole".into());
        let streamed = lead(&here, &question, &reads(1)).await;
        assert_eq!(streamed.status(), &CacheStatus::Miss(Reason::Absent));
        streamed.emit("streamed".into());
        let mut followers = Vec::new();
        for form in [0, 1, 1, 0] {
            followers.push(follow(&here, &question, &reads(form)).await);
        }
        let beside = streamed.finish(product("streamed")).await;
        assert_eq!(beside.stored, Err(Reason::RunsInOtherForm));
        // The other run is still joined, and its answer is stored.
        followers.push(follow(&here, &question, &reads(0)).await);
        let settled = whole.finish(product("whole")).await;
        assert!(settled.stored.is_ok(), "{settled:?}");
        let expected = ["whole", "streamed", "streamed", "whole", "whole"];
        for (outcome, text) in followers.into_iter().zip(expected) {
            let report = reported(outcome).await;
            assert_eq!(
                (&report.status, report.text()),
                (&CacheStatus::Coalesced, text)
            );
        }
        let report = here.ask(&question, &reads(1), "").await;
        assert_eq!(
            (&report.status, report.text()),
            (&CacheStatus::Hit, "whole")
        );
    }
}

#[tokio::test]
async fn a_run_after_one_that_is_not_stored_is_stored() {
    let here = test_engine();
    let question = Question::number(1);
    let whole = lead(&here, &question, &reads(0)).await;
    let streamed = lead(&here, &question, &reads(1)).await;
    drop(whole);
    // The run beside the dropped one is neither joined in another form nor an obstacle.
    let again = lead(&here, &question, &reads(0)).await;
    let settled = again.finish(product("whole")).await;
    assert!(settled.stored.is_ok(), "{settled:?}");
    let beside = streamed.finish(product("streamed")).await;
    assert_eq!(beside.stored, Err(Reason::RunsInOtherForm));
    let report = here.ask(&question, &reads(0), "").await;
    assert_eq!(report.text(), "whole");
}

#[tokio::test]
async fn runs_that_are_not_stored_are_no_obstacle_to_other_forms() {
    let here = test_engine();
    let question = Question::number(1);
    let alone = Policy {
        run: RunPolicy {
            join: SingleFlight::Off,
            ..reads(1).run
        },
        ..reads(1)
    };
    for mode in [CacheMode::Off, CacheMode::ReadOnly] {
        let running = lead(
            &here,
            &question,
            &Policy {
                hit: HitPolicy {
                    mode,
                    ..alone.hit.clone()
                },
                ..alone.clone()
            },
        )
        .await;
        let ticket = lead(&here, &question, &reads(0)).await;
        assert!(ticket.finish(product("whole")).await.stored.is_ok());
        drop(running);
        here.cache
            .erase(&EntryFilter::default(), false)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_write_ends_runs_of_all_forms() {
    let here = test_engine();
    let question = Question::number(1);
    let whole = lead(&here, &question, &reads(0)).await;
    here.cache
        .erase(&EntryFilter::default(), false)
        .await
        .unwrap();
    // The run that was revoked is no current one: the answer of this one is stored.
    let streamed = lead(&here, &question, &reads(1)).await;
    assert!(streamed.finish(product("streamed")).await.stored.is_ok());
    assert_eq!(
        whole.finish(product("whole")).await.stored,
        Err(Reason::Revoked)
    );
}

#[tokio::test]
async fn an_entry_in_another_form_is_a_miss_and_is_replaced() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    for (number, front_bytes) in [(1, 0), (2, 1 << 20)] {
        let stores = [in_process(&clock), sqlite(&home.path().join("db"), &clock)];
        for (at, store) in stores.into_iter().enumerate() {
            let ledger = home.path().join(format!("ledger-{number}-{at}"));
            let here = EngineBuilder::over(store, &clock)
                .bounds(CacheBounds {
                    front_bytes,
                    ..CacheBounds::default()
                })
                .ledger(&ledger)
                .make();
            let question = Question::number(number);
            here.ask(&question, &strict(0), "a1").await;
            // In the front, too.
            let hit = here.ask(&question, &strict(0), "a2").await;
            assert_eq!(hit.text(), "a1");
            let before = here.cache.probe(&question.call(), &strict(1)).await;
            assert_eq!(before.err(), Some(Reason::OtherForm));
            let frozen = Policy {
                hit: HitPolicy {
                    mode: CacheMode::Frozen,
                    ..strict(1).hit
                },
                ..strict(1)
            };
            let miss = here.cache.begin(&question.call(), &frozen).await.err();
            assert_eq!(miss.unwrap().reason, Reason::OtherForm);
            let read_only = Policy {
                hit: HitPolicy {
                    mode: CacheMode::ReadOnly,
                    ..strict(1).hit
                },
                ..strict(1)
            };
            let report = here.ask(&question, &read_only, "b0").await;
            assert_eq!(
                (&report.status, report.text()),
                (&CacheStatus::Miss(Reason::OtherForm), "b0")
            );
            // The entry still answers callers that accept it.
            let hit = here.ask(&question, &strict(0), "a3").await;
            assert_eq!((&hit.status, hit.text()), (&CacheStatus::Hit, "a1"));
            let report = here.ask(&question, &strict(1), "b1").await;
            assert_eq!(report.status, CacheStatus::Miss(Reason::OtherForm));
            assert!(report.settled.stored.is_ok(), "{:?}", report.settled);
            let hit = here.ask(&question, &strict(1), "b2").await;
            assert_eq!((&hit.status, hit.text()), (&CacheStatus::Hit, "b1"));
            assert_eq!(
                here.ask(&question, &reads(0), "a4").await.text(),
                "b1",
                "without a condition, every form answers"
            );
            here.cache.ledger().flush().await;
            let rows = here.cache.ledger().recent(99).unwrap();
            let hits = rows.iter().filter(|row| row.answered == CallStatus::Hit);
            assert_eq!(hits.count(), 4, "a rejected entry is no hit");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn local_copy_in_another_form_does_not_answer() {
    let clock = clock();
    let (server, local) = (in_process(&clock), in_process(&clock));
    let server = std::sync::Arc::new(FaultyStore::over(server).without_stamps());
    let here = EngineBuilder::over(server.clone(), &clock)
        .local(&local)
        .make();
    let lasting = |form| Policy {
        run: RunPolicy {
            ttl: Some(Duration::from_secs(3_600)),
            ..strict(form).run
        },
        ..strict(form)
    };
    let question = Question::number(1);
    here.ask(&question, &lasting(0), "a1").await;
    here.cache.close().await;
    server.now(|_| StoreBehavior::Fail);
    let report = here.ask(&question, &lasting(0), "a2").await;
    assert!(report.status.is_hit(), "{:?}", report.status);
    let report = here.ask(&question, &lasting(1), "b1").await;
    assert_eq!(
        (&report.status, report.text()),
        (&CacheStatus::Miss(Reason::OtherForm), "b1")
    );
    // The copy is replaced, too.
    let report = here.ask(&question, &lasting(1), "b2").await;
    assert_eq!((report.status.is_hit(), report.text()), (true, "b1"));
}
