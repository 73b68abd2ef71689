//! Modes, time to live, and what is not stored.

use std::time::Duration;

use bytes::Bytes;
use cachalot_cache::{
    CacheMode, CacheStatus, Failure, HitPolicy, Policy, Reason, RunPolicy, RunResult,
};
use cachalot_core::{Clock as _, Millis, Spend};
use cachalot_store::Label;

use crate::test_engine::{
    COST, CallReport, EngineBuilder, Question, START, clock, in_domains, in_mode, product,
    reported, tagged, test_engine,
};

const SECOND: Duration = Duration::from_secs(1);

fn is_hit(reported: &CallReport, text: &str) {
    assert_eq!(
        (&reported.status, reported.text()),
        (&CacheStatus::Hit, text)
    );
}

fn is_miss(reported: &CallReport, reason: Reason, text: &str) {
    assert_eq!(
        (&reported.status, reported.text()),
        (&CacheStatus::Miss(reason), text)
    );
}

#[tokio::test]
async fn a_miss_runs_and_is_stored_and_the_next_call_is_a_hit() {
    let here = test_engine();
    let question = Question::number(1);
    let policy = tagged(&["t"]);
    let first = here.ask(&question, &policy, "one").await;
    is_miss(&first, Reason::Absent, "one");
    assert_eq!(first.settled.stored.as_ref().unwrap().0, 1);
    assert_eq!(
        (first.settled.paid, first.settled.saved),
        (COST, Spend::default())
    );

    let outcome = here
        .through(&question, &policy, |_| async {
            panic!("a hit runs nothing")
        })
        .await;
    assert_eq!(outcome.key, question.key());
    let entry = outcome.entry.clone().unwrap();
    assert_eq!(
        (entry.created, entry.expires, entry.spent, entry.revision),
        (START, None, COST, 1)
    );
    assert!(entry.labels.contains(&Label::new("tag", "t")));
    let again = reported(outcome).await;
    is_hit(&again, "one");
    assert_eq!(
        (again.settled.paid, again.settled.saved),
        (Spend::default(), COST)
    );
    assert_eq!(again.settled.stored.unwrap().0, 1);
}

#[tokio::test]
async fn off_neither_reads_nor_stores() {
    let here = test_engine();
    let question = Question::number(1);
    for _ in 0..2 {
        let reported = here.ask(&question, &in_mode(CacheMode::Off), "off").await;
        assert_eq!(reported.status, CacheStatus::Bypass(Reason::Off));
        assert_eq!(reported.settled.stored, Err(Reason::Off));
        assert_eq!(reported.settled.paid, COST);
    }
    is_miss(
        &here.ask(&question, &Policy::default(), "on").await,
        Reason::Absent,
        "on",
    );
    assert_eq!(
        here.ask(&question, &in_mode(CacheMode::Off), "off")
            .await
            .text(),
        "off"
    );
    is_hit(&here.ask(&question, &Policy::default(), "").await, "on");
}

#[tokio::test]
async fn refresh_runs_despite_an_entry_and_replaces_it() {
    let here = test_engine();
    let question = Question::number(1);
    here.ask(&question, &Policy::default(), "old").await;
    let reported = here
        .ask(&question, &in_mode(CacheMode::Refresh), "new")
        .await;
    is_miss(&reported, Reason::Refresh, "new");
    assert_eq!(reported.settled.stored.unwrap().0, 2);
    is_hit(&here.ask(&question, &Policy::default(), "").await, "new");
}

#[tokio::test]
async fn refresh_under_a_domain_replaces_the_entry_too() {
    let here = test_engine();
    let question = Question::number(1);
    let policy = in_domains(&["a", "b"]);
    for text in ["first", "second", "third"] {
        here.cache
            .write_guard(&policy.hit.domains[..1])
            .await
            .finish()
            .await
            .unwrap();
        let reported = here
            .ask(
                &question,
                &Policy {
                    hit: HitPolicy {
                        mode: CacheMode::Refresh,
                        ..policy.hit.clone()
                    },
                    ..policy.clone()
                },
                text,
            )
            .await;
        assert!(reported.settled.stored.is_ok(), "{:?}", reported.settled);
        is_hit(&here.ask(&question, &policy, "").await, text);
    }
}

#[tokio::test]
async fn read_only_serves_and_runs_but_does_not_store() {
    let here = test_engine();
    let question = Question::number(1);
    let reported = here
        .ask(&question, &in_mode(CacheMode::ReadOnly), "run")
        .await;
    is_miss(&reported, Reason::Absent, "run");
    assert_eq!(reported.settled.stored, Err(Reason::ReadOnly));
    is_miss(
        &here.ask(&question, &Policy::default(), "stored").await,
        Reason::Absent,
        "stored",
    );
    is_hit(
        &here.ask(&question, &in_mode(CacheMode::ReadOnly), "").await,
        "stored",
    );
}

#[tokio::test]
async fn frozen_answers_from_the_cache_only() {
    let here = test_engine();
    let question = Question::number(1);
    let miss = here.frozen(&question).await.unwrap_err();
    assert_eq!(
        (miss.name.as_str(), miss.key, &miss.reason),
        ("file.read", question.key(), &Reason::Absent)
    );
    let text = format!(
        "frozen: file.read is not answered by the cache (not in the cache; key {:.10})",
        question.key().to_string()
    );
    assert_eq!(miss.to_string(), text);

    let policy = Policy {
        run: RunPolicy {
            ttl: Some(SECOND),
            ..in_domains(&["d"]).run
        },
        ..in_domains(&["d"])
    };
    here.ask(&question, &policy, "kept").await;
    here.after(SECOND * 100);
    here.cache
        .write_guard(&policy.hit.domains)
        .await
        .finish()
        .await
        .unwrap();
    is_hit(&here.frozen(&question).await.unwrap(), "kept");
    is_miss(
        &here.ask(&question, &policy, "new").await,
        Reason::Expired,
        "new",
    );
}

#[tokio::test]
async fn entry_created_in_the_future_does_not_outlive_its_ttl() {
    let here = test_engine();
    let (timed, untimed) = (Question::number(1), Question::number(2));
    let policy = Policy {
        run: RunPolicy {
            ttl: Some(10 * SECOND),
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    let year = SECOND * 31_536_000;
    let year = Millis::try_from(year.as_millis()).unwrap();
    here.clock.set(START + year);
    here.ask(&timed, &policy, "early").await;
    here.ask(&untimed, &Policy::default(), "early").await;
    is_hit(&here.ask(&timed, &policy, "no").await, "early");
    here.clock.set(START);
    is_miss(
        &here.ask(&timed, &policy, "now").await,
        Reason::Expired,
        "now",
    );
    is_hit(&here.ask(&timed, &policy, "no").await, "now");
    // What never expires is as good as ever.
    let reported = here.ask(&untimed, &Policy::default(), "no").await;
    is_hit(&reported, "early");
    // Clocks of machines differ a little.
    here.clock.set(START - 200_000);
    is_hit(&here.ask(&timed, &policy, "no").await, "now");
}

#[tokio::test]
async fn frozen_without_a_store_reports_no_store() {
    let here = EngineBuilder {
        memory: None,
        ..EngineBuilder::over(crate::test_engine::in_process(&clock()), &clock())
    }
    .make();
    assert_eq!(
        here.frozen(&Question::number(1)).await.unwrap_err().reason,
        Reason::NoStore
    );
    let reported = here
        .ask(&Question::number(1), &Policy::default(), "run")
        .await;
    is_miss(&reported, Reason::NoStore, "run");
    assert_eq!(reported.settled.stored, Err(Reason::NoStore));
}

#[tokio::test]
async fn the_producer_can_shorten_the_time_to_live() {
    let here = test_engine();
    for (number, (ttl, lifetimes, expected)) in [
        (None, &[5][..], 5),
        (Some(SECOND * 3), &[5], 3),
        (Some(SECOND * 9), &[5], 5),
        (Some(SECOND * 9), &[7, 2, 4], 2),
    ]
    .into_iter()
    .enumerate()
    {
        let policy = Policy {
            run: RunPolicy {
                ttl,
                ..RunPolicy::default()
            },
            ..Policy::default()
        };
        let question = Question::number(number);
        let mut ticket = here.lead(&question, &policy).await;
        for seconds in lifetimes {
            ticket.limit_ttl(SECOND * *seconds);
        }
        let settled = ticket.finish(product("brief")).await;
        let expires = here.clock.now() + expected * 1_000;
        assert_eq!(settled.expires, Some(expires), "{ttl:?} {lifetimes:?}");
    }
}

#[tokio::test]
async fn an_entry_is_served_up_to_the_last_millisecond_of_its_time() {
    for from_front in [true, false] {
        let clock = clock();
        let making = EngineBuilder::over(crate::test_engine::in_process(&clock), &clock);
        let bounds = cachalot_cache::CacheBounds {
            front_bytes: u64::from(from_front) << 20,
            ..making.bounds
        };
        let here = making.bounds(bounds).make();
        let question = Question::number(1);
        let policy = Policy {
            run: RunPolicy {
                ttl: Some(10 * SECOND),
                ..RunPolicy::default()
            },
            ..Policy::default()
        };
        let stored = here.ask(&question, &policy, "first").await;
        assert_eq!(stored.settled.expires, Some(START + 10_000));
        here.after(Duration::from_millis(9_999));
        is_hit(&here.ask(&question, &policy, "").await, "first");
        here.after(Duration::from_millis(1));
        let reported = here.ask(&question, &policy, "second").await;
        is_miss(&reported, Reason::Expired, "second");
        assert_eq!(reported.settled.expires, Some(START + 20_000));
        here.after(Duration::from_millis(9_999));
        let reported = here.ask(&question, &policy, "").await;
        is_hit(&reported, "second");
        assert_eq!(reported.settled.expires, Some(START + 20_000));
    }
}

#[tokio::test]
async fn ttl_is_taken_from_the_storing_call() {
    let here = test_engine();
    let question = Question::number(1);
    here.ask(
        &question,
        &Policy {
            run: RunPolicy {
                ttl: Some(SECOND),
                ..RunPolicy::default()
            },
            ..Policy::default()
        },
        "short",
    )
    .await;
    here.after(2 * SECOND);
    is_miss(
        &here.ask(&question, &Policy::default(), "for ever").await,
        Reason::Expired,
        "for ever",
    );
    here.after(Duration::from_secs(u32::MAX.into()));
    is_hit(
        &here
            .ask(
                &question,
                &Policy {
                    run: RunPolicy {
                        ttl: Some(SECOND),
                        ..RunPolicy::default()
                    },
                    ..Policy::default()
                },
                "",
            )
            .await,
        "for ever",
    );
}

#[tokio::test]
async fn zero_ttl_is_never_served_and_a_huge_one_always() {
    let here = test_engine();
    let nothing = Policy {
        run: RunPolicy {
            ttl: Some(Duration::ZERO),
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    here.ask(&Question::number(1), &nothing, "a").await;
    is_miss(
        &here.ask(&Question::number(1), &nothing, "b").await,
        Reason::Expired,
        "b",
    );
    let endless = Policy {
        run: RunPolicy {
            ttl: Some(Duration::MAX),
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    here.ask(&Question::number(2), &endless, "a").await;
    here.after(Duration::from_secs(u32::MAX.into()));
    is_hit(&here.ask(&Question::number(2), &endless, "b").await, "a");
}

#[tokio::test]
async fn answer_at_the_byte_limit_is_stored_and_a_larger_one_not() {
    let here = test_engine();
    let policy = Policy {
        run: RunPolicy {
            max_bytes: 10,
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    assert!(
        here.ask(&Question::number(1), &policy, "0123456789")
            .await
            .settled
            .stored
            .is_ok()
    );
    let reported = here.ask(&Question::number(2), &policy, "0123456789a").await;
    assert_eq!(reported.text(), "0123456789a");
    assert_eq!(
        reported.settled.stored,
        Err(Reason::TooLarge {
            bytes: 11,
            limit: 10
        })
    );
    is_miss(
        &here.ask(&Question::number(2), &policy, "x").await,
        Reason::Absent,
        "x",
    );
}

#[tokio::test]
async fn declined_answer_is_delivered_and_not_stored() {
    let here = test_engine();
    let question = Question::number(1);
    let declined = Reason::Declined("a refusal".into());
    let product = RunResult {
        storable: Err(declined.clone()),
        ..product("no")
    };
    let reported = reported(
        here.through(&question, &Policy::default(), |t| {
            crate::test_engine::finish(t, product)
        })
        .await,
    )
    .await;
    assert_eq!(
        (reported.text(), &reported.settled.stored),
        ("no", &Err(declined))
    );
    assert_eq!(reported.settled.paid, COST);
    is_miss(
        &here.ask(&question, &Policy::default(), "yes").await,
        Reason::Absent,
        "yes",
    );
}

#[derive(Debug, thiserror::Error)]
#[error("the disk is full")]
struct DiskFull;

#[tokio::test]
async fn failure_reaches_the_caller_with_its_source_and_is_not_stored() {
    let here = test_engine();
    let question = Question::number(1);
    let fails = |ticket: cachalot_cache::Ticket| async move {
        drop(ticket.fail(Failure::new(DiskFull)).await)
    };
    let outcome = here.through(&question, &Policy::default(), fails).await;
    let failure = outcome.body.whole().await.unwrap_err();
    assert!(failure.cause::<DiskFull>().is_some());
    assert_eq!(failure.to_string(), "the disk is full");
    assert_eq!(outcome.settled().await.stored, Err(Reason::Failed));
    is_miss(
        &here.ask(&question, &Policy::default(), "fine").await,
        Reason::Absent,
        "fine",
    );
    is_hit(&here.ask(&question, &Policy::default(), "").await, "fine");
}

#[tokio::test]
async fn panic_reaches_the_caller_as_a_failure_and_is_not_stored() {
    let here = test_engine();
    let question = Question::number(1);
    let outcome = here
        .through(&question, &Policy::default(), |_| async {
            panic!("on purpose")
        })
        .await;
    assert!(outcome.body.whole().await.is_err());
    assert_eq!(outcome.settled().await.stored, Err(Reason::Abandoned));
    let reported = here.ask(&question, &Policy::default(), "fine").await;
    assert!(reported.settled.stored.is_ok(), "{:?}", reported.settled);
    is_hit(&here.ask(&question, &Policy::default(), "").await, "fine");
}

#[tokio::test]
async fn labels_of_policy_and_result_are_merged() {
    let here = test_engine();
    let product = RunResult {
        labels: vec![Label::new("tag", "late"), Label::new("tag", "early")],
        ..product("x")
    };
    let policy = tagged(&["early"]);
    reported(
        here.through(&Question::number(1), &policy, |t| {
            crate::test_engine::finish(t, product)
        })
        .await,
    )
    .await;
    let stored = here
        .cache
        .peek(&Question::number(1).key())
        .await
        .unwrap()
        .unwrap();
    let tags: Vec<_> = stored
        .entry_info
        .provenance
        .labels
        .iter()
        .filter(|label| label.name == "tag")
        .collect();
    assert_eq!(
        tags,
        [&Label::new("tag", "early"), &Label::new("tag", "late")]
    );
}

#[tokio::test]
async fn answer_may_be_any_bytes_or_empty() {
    let here = test_engine();
    for (number, bytes) in [&b""[..], b"\0\xff\xfe", b"{\"a\":1}"]
        .into_iter()
        .enumerate()
    {
        let question = Question::number(number);
        let product = RunResult::storable(Bytes::from_static(bytes), COST);
        reported(
            here.through(&question, &Policy::default(), |t| {
                crate::test_engine::finish(t, product)
            })
            .await,
        )
        .await;
        let reported = here.ask(&question, &Policy::default(), "wrong").await;
        assert_eq!(
            (&reported.status, &reported.body.unwrap()[..]),
            (&CacheStatus::Hit, bytes)
        );
    }
}

#[tokio::test]
async fn peek_is_not_recorded_and_returns_expired_entries() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let here = EngineBuilder::over(crate::test_engine::in_process(&clock), &clock)
        .ledger(&home.path().join("l"))
        .make();
    let question = Question::number(1);
    assert!(here.cache.peek(&question.key()).await.unwrap().is_none());
    here.ask(
        &question,
        &Policy {
            run: RunPolicy {
                ttl: Some(SECOND),
                ..RunPolicy::default()
            },
            ..Policy::default()
        },
        "x",
    )
    .await;
    for expired in [false, true] {
        let stored = here.cache.peek(&question.key()).await.unwrap().unwrap();
        assert_eq!(
            (
                stored.entry_info.expired,
                stored.entry_info.bytes,
                stored.entry_info.key
            ),
            (expired, 1, question.key())
        );
        assert_eq!(
            (
                stored.entry_info.name.as_str(),
                stored.entry_info.scope.as_str()
            ),
            ("file.read", "agent:tester")
        );
        assert_eq!(&stored.body.whole().await.unwrap()[..], b"x");
        here.after(SECOND);
    }
    here.cache.close().await;
    assert_eq!(here.cache.ledger().recent(10).unwrap().len(), 1);
}

#[test]
fn mode_of_the_command_line_overrides_all_but_off() {
    assert_eq!(
        CacheMode::On.overridden_by(CacheMode::Frozen),
        CacheMode::Frozen
    );
    assert_eq!(
        CacheMode::On.overridden_by(CacheMode::Refresh),
        CacheMode::Refresh
    );
    assert_eq!(
        CacheMode::Refresh.overridden_by(CacheMode::On),
        CacheMode::Refresh
    );
    assert_eq!(
        CacheMode::Off.overridden_by(CacheMode::Refresh),
        CacheMode::Off
    );
    assert_eq!(CacheMode::On.overridden_by(CacheMode::Off), CacheMode::Off);
}

#[test]
fn refresh_over_read_only_neither_reads_nor_stores() {
    assert_eq!(
        CacheMode::ReadOnly.overridden_by(CacheMode::On),
        CacheMode::ReadOnly
    );
    // Neither is looked, which was asked for, nor stored, which is not allowed.
    assert_eq!(
        CacheMode::ReadOnly.overridden_by(CacheMode::Refresh),
        CacheMode::Off
    );
    assert_eq!(
        CacheMode::ReadOnly.overridden_by(CacheMode::Off),
        CacheMode::Off
    );
    assert_eq!(
        CacheMode::ReadOnly.overridden_by(CacheMode::Frozen),
        CacheMode::Frozen
    );
}
