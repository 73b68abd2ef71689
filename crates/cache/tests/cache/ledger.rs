//! Costs and savings of calls, per row and in sum.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{
    CacheMode, CacheStatus, CallStatus, Failure, HANDLE_LABEL, Ledger, LedgerRow, LedgerTotals,
    Policy, Reason, RunPolicy,
};
use cachalot_core::Cost;
use cachalot_store::Label;
use serde_json::json;

use crate::test_engine::{
    COST, EngineBuilder, Question, START, TestEngine, clock, in_mode, in_process, product,
    reported, settle_down,
};

pub(super) fn with_ledger(path: &Path) -> TestEngine {
    let clock = clock();
    EngineBuilder::over(in_process(&clock), &clock)
        .ledger(path)
        .make()
}

pub(super) async fn rows(here: &TestEngine) -> Vec<LedgerRow> {
    here.cache.ledger().flush().await;
    let mut rows = here.cache.ledger().recent(100_000).unwrap();
    rows.reverse();
    rows
}

pub(super) fn totals(here: &TestEngine, name: &str) -> LedgerTotals {
    let all = here.cache.ledger().totals().unwrap();
    all.into_iter()
        .find(|(_, found, _)| found == name)
        .map(|(_, _, totals)| totals)
        .unwrap_or_default()
}

#[tokio::test]
async fn payment_is_a_row_with_every_field() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let question = Question::of(json!({"path": "a", "limit": 9_007_199_254_740_993_i64}));
    let policy = Policy {
        run: RunPolicy {
            labels: vec![Label::new(HANDLE_LABEL, "cache:t:read:1")],
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    here.ask(&question, &policy, "x").await;
    let rows = rows(&here).await;
    let [row] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    assert_eq!(
        (row.at, row.run.as_str(), row.kind.as_str()),
        (START, "run-1", "action")
    );
    assert_eq!(
        (row.name.as_str(), row.scope.as_str()),
        ("file.read", "agent:tester")
    );
    assert_eq!(
        (row.key.clone(), row.handle.as_deref()),
        (question.key().to_string(), Some("cache:t:read:1"))
    );
    assert_eq!(
        (row.answered, row.reason.as_deref()),
        (CallStatus::Miss, Some("not in the cache"))
    );
    assert_eq!((&row.not_stored, &row.failure), (&None, &None));
    assert_eq!((row.paid.time, row.saved.time), (COST.time, Duration::ZERO));
    assert_eq!(
        row.input,
        Some(json!({"path": "a", "limit": 9_007_199_254_740_993_i64}))
    );
    assert_eq!(
        row.input_digest.as_deref(),
        Some(question.input.digest().to_hex().as_str())
    );
    let shown = serde_json::to_value(row).unwrap();
    assert_eq!(
        (&shown["answered"], &shown["paid_ms"]),
        (&json!("miss"), &json!(40.0))
    );
}

#[tokio::test]
async fn each_outcome_is_recorded_separately() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let question = Question::number(1);
    here.ask(&question, &Policy::default(), "x").await;
    here.ask(&question, &Policy::default(), "").await;
    here.ask(&question, &in_mode(CacheMode::Refresh), "x").await;
    here.ask(&question, &in_mode(CacheMode::Off), "x").await;
    here.ask(&Question::number(2), &in_mode(CacheMode::ReadOnly), "x")
        .await;
    let fails = |ticket: cachalot_cache::Ticket| async move {
        ticket
            .fail(Failure::new(std::io::Error::other("no such host")))
            .await;
    };
    reported(
        here.through(&Question::number(3), &Policy::default(), fails)
            .await,
    )
    .await;
    drop(here.lead(&Question::number(4), &Policy::default()).await);
    let rows = rows(&here).await;
    let shown: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row.answered,
                row.reason.as_deref(),
                row.not_stored.as_deref(),
                row.failure.as_deref(),
            )
        })
        .collect();
    use CallStatus::{Bypass, Hit, Miss};
    assert_eq!(
        shown,
        [
            (Miss, Some("not in the cache"), None, None),
            (Hit, None, None, None),
            (Miss, Some("a fresh answer was asked for"), None, None),
            (Bypass, Some("caching is off"), Some("caching is off"), None),
            (
                Miss,
                Some("not in the cache"),
                Some("the cache is read-only"),
                None
            ),
            (
                Miss,
                Some("not in the cache"),
                Some("the work failed"),
                Some("no such host")
            ),
            (
                Miss,
                Some("not in the cache"),
                Some("the work was abandoned"),
                None
            ),
        ]
    );
    assert_eq!(
        (rows[1].paid.time, rows[1].saved.time),
        (Duration::ZERO, COST.time)
    );
    let totals = totals(&here, "file.read");
    assert_eq!(
        (
            totals.hits,
            totals.coalesced,
            totals.misses,
            totals.bypasses,
            totals.failures
        ),
        (1, 0, 5, 1, 1)
    );
    // The run that failed, and the one that was abandoned.
    assert_eq!((totals.failed, totals.paid_runs()), (2, 4));
    assert_eq!(totals.saved.time, COST.time);
    assert!(totals.paid.time >= 4 * COST.time);
}

#[tokio::test]
async fn a_bypass_is_a_row_with_its_reason() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let question = Question::number(1);
    let ticket = here.cache.bypass(
        &question.call(),
        &Policy::default(),
        Reason::NoKey("no digest".into()),
    );
    assert_eq!(
        ticket.status(),
        &CacheStatus::Bypass(Reason::NoKey("no digest".into()))
    );
    assert_eq!(
        ticket.finish(product("x")).await.stored,
        Err(Reason::NoKey("no digest".into()))
    );
    assert_eq!(
        here.ask(&question, &Policy::default(), "y").await.text(),
        "y"
    );
    assert_eq!(
        rows(&here).await[0].reason.as_deref(),
        Some("no key: no digest")
    );
}

#[tokio::test]
async fn probe_is_not_recorded() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let question = Question::number(1);
    let probe = async |mode| {
        here.cache
            .probe(&question.call(), &in_mode(mode))
            .await
            .map(|outcome| outcome.status)
    };
    assert_eq!(probe(CacheMode::On).await, Err(Reason::Absent));
    here.ask(&question, &Policy::default(), "x").await;
    assert_eq!(probe(CacheMode::On).await, Ok(CacheStatus::Hit));
    assert_eq!(probe(CacheMode::Frozen).await, Ok(CacheStatus::Hit));
    assert_eq!(probe(CacheMode::Off).await, Err(Reason::Off));
    assert_eq!(probe(CacheMode::Refresh).await, Err(Reason::Refresh));
    assert_eq!(rows(&here).await.len(), 1);
    assert_eq!(totals(&here, "file.read").hits, 0);
}

#[tokio::test]
async fn followers_are_rows_with_the_saved_cost_of_the_run() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let question = Question::number(1);
    let ticket = here.lead(&question, &Policy::default()).await;
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let (here, question) = (here.clone(), question.clone());
            tokio::spawn(async move { here.ask(&question, &Policy::default(), "").await })
        })
        .collect();
    settle_down().await;
    ticket.finish(product("x")).await;
    for one in waiting {
        assert_eq!(one.await.unwrap().status, CacheStatus::Coalesced);
    }
    let rows = rows(&here).await;
    let coalesced: Vec<_> = rows
        .iter()
        .filter(|row| row.answered == CallStatus::Coalesced)
        .collect();
    assert_eq!(coalesced.len(), 3);
    assert!(
        coalesced
            .iter()
            .all(|row| row.saved.time == COST.time && row.paid.time.is_zero()),
        "{coalesced:?}"
    );
    let totals = totals(&here, "file.read");
    assert_eq!(
        (
            totals.misses,
            totals.coalesced,
            totals.paid.time,
            totals.saved.time
        ),
        (1, 3, COST.time, 3 * COST.time)
    );
}

#[tokio::test]
async fn follower_of_a_failed_run_saves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    for number in 0..3 {
        let question = Question::number(number);
        let ticket = here.lead(&question, &Policy::default()).await;
        ticket.charge(COST);
        let waiting = {
            let (here, question) = (here.clone(), question.clone());
            tokio::spawn(async move { here.ask(&question, &Policy::default(), "").await })
        };
        settle_down().await;
        match number {
            0 => drop(
                ticket
                    .fail(Failure::new(std::io::Error::other("overloaded")))
                    .await,
            ),
            1 => {
                ticket.mark_error();
                ticket.finish(product("{\"error\": 1}")).await;
            }
            _ => drop(ticket),
        }
        let reported = waiting.await.unwrap();
        assert!(
            number == 2 || reported.status == CacheStatus::Coalesced,
            "{number}"
        );
    }
    let followers: Vec<_> = rows(&here)
        .await
        .into_iter()
        .filter(|row| row.answered == CallStatus::Coalesced)
        .collect();
    assert!(followers.len() >= 2, "{followers:?}");
    // Each is a call that did not run.
    let nothing = cachalot_core::Spend {
        calls: 1,
        ..cachalot_core::Spend::default()
    };
    assert!(
        followers.iter().all(|row| row.saved == nothing),
        "{followers:?}"
    );
    let saved = totals(&here, "file.read").saved;
    assert!(saved.time.is_zero() && saved.input_tokens == 0, "{saved:?}");
    assert_eq!(saved.cost, nothing.cost);
}

#[tokio::test]
async fn nested_calls_are_paid_once_and_saved_in_full() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let question = Question::number(1);
    let ticket = here.lead(&question, &Policy::default()).await;
    let follower = {
        let (here, question) = (here.clone(), question.clone());
        tokio::spawn(async move { here.ask(&question, &Policy::default(), "").await })
    };
    settle_down().await;
    ticket.subtract_nested(cachalot_core::Spend {
        time: Duration::from_millis(30),
        ..cachalot_core::Spend::default()
    });
    assert_eq!(
        ticket.finish(product("x")).await.paid.time,
        Duration::from_millis(10)
    );
    assert_eq!(follower.await.unwrap().settled.saved, COST);
    assert_eq!(
        here.ask(&question, &Policy::default(), "")
            .await
            .settled
            .saved,
        COST
    );
    here.cache.close().await;
    let totals = totals(&here, "file.read");
    assert_eq!(
        (totals.paid.time, totals.saved.time),
        (Duration::from_millis(10), 2 * COST.time)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hits_are_counted_exactly() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    for name in ["one", "two", "three"] {
        here.ask(&Question::number(1).named(name), &Policy::default(), "x")
            .await;
    }
    let asking: Vec<_> = (0..8)
        .map(|_| {
            let here = here.clone();
            tokio::spawn(async move {
                for round in 0..600 {
                    let name = ["one", "two", "three"][round % 3];
                    here.ask(&Question::number(1).named(name), &Policy::default(), "")
                        .await;
                    if round % 100 == 0 {
                        here.cache.ledger().flush().await;
                    }
                }
            })
        })
        .collect();
    for one in asking {
        one.await.unwrap();
    }
    here.cache.ledger().flush().await;
    for name in ["one", "two", "three"] {
        let totals = totals(&here, name);
        assert_eq!((totals.hits, totals.misses), (1_600, 1), "{name}");
        assert_eq!(totals.saved.time, 1_600 * COST.time);
    }
}

#[tokio::test]
async fn recent_hits_are_limited_to_the_newest_rows() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    here.ask(&Question::number(1), &Policy::default(), "x")
        .await;
    for _ in 0..5_000 {
        here.ask(&Question::number(1), &Policy::default(), "").await;
    }
    let rows = rows(&here).await;
    let hits = rows
        .iter()
        .filter(|row| row.answered == CallStatus::Hit)
        .count();
    assert!((200..1_000).contains(&hits), "{hits}");
    assert!(rows.iter().any(|row| row.answered == CallStatus::Miss));
    assert_eq!(totals(&here, "file.read").hits, 5_000);
}

#[tokio::test]
async fn rows_are_ordered_by_completion() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    for number in [1, 1, 2, 1, 3, 2, 2, 4] {
        here.ask(&Question::number(number), &Policy::default(), "x")
            .await;
    }
    let keys: Vec<_> = rows(&here).await.into_iter().map(|row| row.key).collect();
    let expected =
        [1, 1, 2, 1, 3, 2, 2, 4].map(|number| Question::number(number).key().to_string());
    assert_eq!(keys, expected);
}

#[tokio::test]
async fn flushed_rows_are_visible_to_other_engines() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("deep/er/ledger.db");
    let (here, there) = (with_ledger(&path), with_ledger(&path));
    for number in 0..2_500 {
        here.ask(&Question::number(number), &in_mode(CacheMode::Off), "x")
            .await;
        if number % 10 == 0 {
            there
                .ask(&Question::number(number), &in_mode(CacheMode::Off), "x")
                .await;
        }
    }
    here.cache.ledger().flush().await;
    there.cache.close().await;
    let other = Ledger::at(&path, "another", Arc::new(|_: &str| {}));
    assert_eq!(other.recent(10_000).unwrap().len(), 2_750);
    assert_eq!(other.totals().unwrap()[0].2.bypasses, 2_750);
    assert!(
        here.warned().is_empty() && there.warned().is_empty(),
        "{:?}",
        here.warned()
    );
}

#[tokio::test]
async fn missing_ledger_is_empty_and_not_created_by_reads() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("ledger.db");
    let here = with_ledger(&path);
    assert_eq!(here.cache.ledger().path(), Some(path.as_path()));
    here.cache.close().await;
    assert!(here.cache.ledger().recent(1).unwrap().is_empty());
    assert!(here.cache.ledger().totals().unwrap().is_empty());
    assert!(here.cache.ledger().explain(None).unwrap().is_none());
    assert!(!path.exists());
    assert!(Ledger::disabled().recent(1).unwrap().is_empty());
    assert!(Ledger::disabled().path().is_none());
}

#[cfg(unix)]
#[tokio::test]
async fn ledger_files_are_private_to_their_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("made/ledger.db"));
    here.ask(&Question::number(1), &Policy::default(), "x")
        .await;
    here.cache.ledger().flush().await;
    let mut files = 0;
    for entry in std::fs::read_dir(home.path().join("made")).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(
            entry.metadata().unwrap().permissions().mode() & 0o777,
            0o600,
            "{entry:?}"
        );
        files += 1;
    }
    assert!(files >= 1);
}

fn sqlite_at(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).unwrap()
}

#[tokio::test]
async fn newer_ledger_version_is_left_unchanged_and_calls_continue() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("ledger.db");
    sqlite_at(&path)
        .execute_batch("CREATE TABLE future (x); PRAGMA user_version = 99;")
        .unwrap();
    let before = std::fs::read(&path).unwrap();
    let here = with_ledger(&path);
    for number in 0..3 {
        assert_eq!(
            here.ask(&Question::number(number), &Policy::default(), "x")
                .await
                .text(),
            "x"
        );
        here.cache.ledger().flush().await;
    }
    let warned = here.warned();
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains("newer version"), "{warned:?}");
    let error = here.cache.ledger().recent(1).unwrap_err();
    assert!(error.to_string().contains("newer version"), "{error}");
    assert!(here.cache.ledger().explain(None).is_err());
    drop(here);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn damaged_ledger_is_renamed_and_reported() {
    let garbage = b"this is no database, it is a shopping list: milk, eggs, bread".repeat(200);
    let mut torn = {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("ledger.db");
        let here = with_ledger(&path);
        here.ask(&Question::number(1), &Policy::default(), "x")
            .await;
        here.cache.ledger().flush().await;
        drop(here);
        sqlite_at(&path)
            .execute_batch("PRAGMA wal_checkpoint(TRUNCATE);")
            .unwrap();
        std::fs::read(&path).unwrap()
    };
    torn[100..].fill(0xa5);
    for bytes in [garbage, torn] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("ledger.db");
        std::fs::write(&path, &bytes).unwrap();
        let here = with_ledger(&path);
        here.ask(&Question::number(1), &Policy::default(), "x")
            .await;
        let reported = here.ask(&Question::number(1), &Policy::default(), "").await;
        assert_eq!(reported.status, CacheStatus::Hit);
        assert_eq!(rows(&here).await.len(), 2);
        let aside: Vec<_> = std::fs::read_dir(home.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_str().unwrap().contains("corrupt"))
            .filter(|path| std::fs::read(path).unwrap() == bytes)
            .collect();
        assert_eq!(aside.len(), 1, "renamed, never deleted");
        let warned = here.warned();
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(warned[0].contains(aside[0].to_str().unwrap()), "{warned:?}");
    }
}

#[tokio::test]
async fn unwritable_ledger_path_is_a_warning() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("file"), "").unwrap();
    let here = with_ledger(&home.path().join("file/ledger.db"));
    for number in 0..3 {
        here.ask(&Question::number(number), &Policy::default(), "x")
            .await;
        here.cache.close().await;
    }
    assert_eq!(here.warned().len(), 1, "{:?}", here.warned());
}

#[tokio::test]
async fn briefly_locked_ledger_loses_no_rows() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("ledger.db");
    let here = with_ledger(&path);
    here.ask(&Question::number(1), &Policy::default(), "x")
        .await;
    here.cache.ledger().flush().await;
    let other = sqlite_at(&path);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..10 {
        here.ask(&Question::number(1), &Policy::default(), "").await;
    }
    let flushing = {
        let here = here.clone();
        tokio::spawn(async move { here.cache.ledger().flush().await })
    };
    tokio::time::sleep(Duration::from_millis(200)).await;
    other.execute_batch("COMMIT").unwrap();
    flushing.await.unwrap();
    assert_eq!(totals(&here, "file.read").hits, 10);
    assert!(here.warned().is_empty());
}

#[tokio::test]
async fn long_inputs_are_truncated_and_stay_distinguishable() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let long = |end: &str| Question::of(json!({"text": "é".repeat(5_000) + end, "n": 1}));
    here.ask(&long("a"), &Policy::default(), "x").await;
    here.ask(&long("b"), &Policy::default(), "x").await;
    let rows = rows(&here).await;
    let texts: Vec<_> = rows
        .iter()
        .map(|row| row.input.as_ref().unwrap()["text"].as_str().unwrap())
        .collect();
    assert!(texts.iter().all(|text| text.len() < 600), "{texts:?}");
    assert_ne!(texts[0], texts[1]);
    let why = here.cache.ledger().explain(None).unwrap().unwrap();
    assert_eq!(why.differences.len(), 1);
    assert_eq!(why.differences[0].pointer, "/text");
}

#[tokio::test]
async fn frozen_miss_is_recorded_as_refused() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    here.ask(&Question::number(1), &Policy::default(), "x")
        .await;
    let refused = here
        .cache
        .begin(&Question::number(2).call(), &in_mode(CacheMode::Frozen))
        .await;
    assert!(refused.is_err());
    let rows = rows(&here).await;
    let last = rows.last().unwrap();
    assert_eq!(
        (last.answered, last.reason.as_deref()),
        (CallStatus::Refused, Some("not in the cache"))
    );
    assert_eq!(
        (last.paid.time, totals(&here, "file.read").misses),
        (Duration::ZERO, 1)
    );
}

#[tokio::test]
async fn nested_time_is_paid_once() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let (outer, inner) = (Question::number(1), Question::number(2));
    let ticket = here.lead(&outer, &Policy::default()).await;
    here.ask(&inner, &Policy::default(), "inner").await;
    ticket.subtract_nested(COST);
    let whole = cachalot_core::Spend::for_call(COST.time * 3);
    let settled = ticket
        .finish(cachalot_cache::RunResult::storable("outer".into(), whole))
        .await;
    assert_eq!(settled.paid.time, COST.time * 2);
    assert_eq!(rows(&here).await.len(), 2);
    assert_eq!(totals(&here, "file.read").paid.time, COST.time * 3);
    // A hit on the outer call saves the cost of the inner ones as well.
    here.ask(&outer, &Policy::default(), "").await;
    assert_eq!(rows(&here).await.last().unwrap().saved.time, COST.time * 3);
}

#[tokio::test]
async fn tokens_and_money_are_paid_once_and_saved_by_each_hit() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let question = Question::number(1);
    let ticket = here.lead(&question, &Policy::default()).await;
    let charged = cachalot_core::Spend {
        // Calls and time are the ticket's own affair.
        calls: 7,
        time: Duration::from_secs(9),
        input_tokens: 100,
        output_tokens: 20,
        cost: Cost {
            picodollars: 5,
            unpriced: 1,
        },
    };
    ticket.charge(charged);
    // Of that, a call inside has told the ledger itself.
    ticket.subtract_nested(cachalot_core::Spend {
        input_tokens: 40,
        cost: Cost::UNPRICED,
        ..cachalot_core::Spend::default()
    });
    let own = cachalot_core::Spend::for_call(COST.time);
    let settled = ticket
        .finish(cachalot_cache::RunResult::storable("x".into(), own))
        .await;
    let paid = cachalot_core::Spend {
        input_tokens: 60,
        output_tokens: 20,
        cost: Cost::from_picodollars(5),
        ..own
    };
    let worth = cachalot_core::Spend {
        calls: 1,
        time: COST.time,
        ..charged
    };
    assert_eq!(settled.paid, paid);
    for _ in 0..3 {
        let saved = here.ask(&question, &Policy::default(), "").await;
        assert_eq!(saved.settled.saved, worth);
    }
    let rows = rows(&here).await;
    assert_eq!(
        (rows[0].paid, rows[0].saved),
        (paid, cachalot_core::Spend::default())
    );
    assert_eq!(
        (rows[1].paid, rows[1].saved),
        (cachalot_core::Spend::default(), worth)
    );
    let totals = totals(&here, "file.read");
    assert_eq!(
        (totals.paid.input_tokens, totals.paid.cost),
        (60, paid.cost)
    );
    assert_eq!(
        (
            totals.saved.input_tokens,
            totals.saved.output_tokens,
            totals.saved.cost
        ),
        (
            300,
            60,
            Cost {
                picodollars: 15,
                unpriced: 3
            }
        )
    );
    let shown = serde_json::to_value(totals).unwrap();
    assert_eq!(shown["paid_input_tokens"], 60);
    assert_eq!(shown["saved_unpriced_calls"], 3);
    assert_eq!(shown.get("paid_unpriced_calls"), None);
}

#[tokio::test]
async fn a_failed_run_records_its_charge() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let ticket = here.lead(&Question::number(1), &Policy::default()).await;
    ticket.charge(COST);
    let settled = ticket
        .fail(Failure::new(std::io::Error::other("cut off")))
        .await;
    assert_eq!(settled.paid.input_tokens, COST.input_tokens);
    let dropped = here.lead(&Question::number(2), &Policy::default()).await;
    dropped.charge(COST);
    drop(dropped);
    let rows = rows(&here).await;
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.paid.cost == COST.cost));
    // What was charged is paid, whatever came of it.
    assert!(
        rows.iter().all(|row| !row.failed && row.paid.calls == 1),
        "{rows:?}"
    );
    let totals = totals(&here, "file.read");
    assert_eq!((totals.failed, totals.paid_runs()), (0, 2));
}

#[tokio::test]
async fn a_run_without_an_answer_that_cost_nothing_is_failed_and_not_paid() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let free = |text: &str| {
        let spent = cachalot_core::Spend::for_call(COST.time);
        cachalot_cache::RunResult::storable(text.to_owned().into(), spent)
    };
    let failing = here.lead(&Question::number(1), &Policy::default()).await;
    failing
        .fail(Failure::new(std::io::Error::other("no such host")))
        .await;
    // An answer that tells of an error, in whatever way.
    let telling = here.lead(&Question::number(2), &Policy::default()).await;
    telling.mark_error();
    telling.finish(free("{\"success\": false}")).await;
    drop(here.lead(&Question::number(3), &Policy::default()).await);
    let working = here.lead(&Question::number(4), &Policy::default()).await;
    working.finish(free("x")).await;
    let charged = here.lead(&Question::number(5), &Policy::default()).await;
    charged.mark_error();
    charged.finish(product("paid for an error")).await;
    let rows = rows(&here).await;
    let failed: Vec<_> = rows.iter().map(|row| row.failed).collect();
    assert_eq!(failed, [true, true, true, false, false]);
    assert!(
        rows.iter()
            .all(|row| row.paid.calls == u64::from(!row.failed)),
        "{rows:?}"
    );
    let totals = totals(&here, "file.read");
    assert_eq!(
        (totals.misses, totals.failed, totals.paid_runs()),
        (5, 3, 2)
    );
    let shown = serde_json::to_value(totals).unwrap();
    assert_eq!(shown["failed"], 3);
}

#[tokio::test]
async fn ledger_of_layout_1_is_migrated() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("ledger.db");
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(
        "CREATE TABLE calls (
            id INTEGER PRIMARY KEY, at INTEGER NOT NULL, run TEXT NOT NULL, kind TEXT NOT NULL,
            name TEXT NOT NULL, scope TEXT NOT NULL, key TEXT NOT NULL, handle TEXT,
            answered TEXT NOT NULL, reason TEXT, not_stored TEXT, failure TEXT,
            paid INTEGER NOT NULL, saved INTEGER NOT NULL, input TEXT, input_digest TEXT);
         CREATE TABLE totals (
            kind TEXT NOT NULL, name TEXT NOT NULL, hits INTEGER NOT NULL, coalesced INTEGER NOT NULL,
            misses INTEGER NOT NULL, bypasses INTEGER NOT NULL, failures INTEGER NOT NULL,
            paid INTEGER NOT NULL, saved INTEGER NOT NULL, PRIMARY KEY (kind, name)) WITHOUT ROWID;
         INSERT INTO calls VALUES (1, 5, 'r', 'action', 'file.read', 'global', 'k', NULL, 'miss',
            NULL, NULL, NULL, 7, 0, '{}', 'd');
         INSERT INTO totals VALUES ('action', 'file.read', 0, 0, 1, 0, 0, 7, 0);
         PRAGMA user_version = 1;",
    )
    .unwrap();
    drop(old);
    let here = with_ledger(&path);
    here.ask(&Question::number(1), &Policy::default(), "x")
        .await;
    let rows = rows(&here).await;
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].paid.time, Duration::from_nanos(7));
    assert_eq!(rows[0].paid.input_tokens, 0);
    let totals = totals(&here, "file.read");
    assert_eq!(totals.misses, 2);
    assert_eq!(totals.paid.input_tokens, COST.input_tokens);
}
