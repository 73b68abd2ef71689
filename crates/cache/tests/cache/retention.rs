//! Retention of ledger rows.

use std::time::Duration;

use cachalot_cache::{CallStatus, Failure, LedgerLimits, Policy};
use cachalot_core::Spend;
use serde_json::json;

use crate::ledger::{rows, totals};
use crate::test_engine::{COST, EngineBuilder, Question, TestEngine, clock, in_process, product};

fn limited(path: &std::path::Path, limits: LedgerLimits) -> TestEngine {
    let clock = clock();
    EngineBuilder::over(in_process(&clock), &clock)
        .ledger(path)
        .limits(limits)
        .make()
}

fn count(rows: &[cachalot_cache::LedgerRow], answered: CallStatus) -> usize {
    rows.iter().filter(|row| row.answered == answered).count()
}

#[tokio::test]
async fn hits_never_displace_a_payment() {
    let home = tempfile::tempdir().unwrap();
    let here = limited(&home.path().join("ledger.db"), LedgerLimits::default());
    for number in 0..5 {
        here.ask(&Question::number(number), &Policy::default(), "x")
            .await;
    }
    for hit in 0..30_000 {
        here.ask(&Question::number(hit % 5), &Policy::default(), "")
            .await;
        // Between two writes, only the most recent hits are kept.
        if hit % 250 == 0 {
            here.cache.ledger().flush().await;
        }
    }
    let rows = rows(&here).await;
    assert_eq!(count(&rows, CallStatus::Miss), 5);
    assert_eq!(count(&rows, CallStatus::Hit), 1_000);
    let totals = totals(&here, "file.read");
    assert_eq!((totals.misses, totals.hits), (5, 30_000));
    for number in 0..5 {
        let key = Question::number(number).key().to_string();
        let why = here.cache.ledger().explain(Some(&key)).unwrap().unwrap();
        assert_eq!(why.call.answered, CallStatus::Hit);
        let payment = why.payment.expect("the payment");
        assert_eq!((payment.key, payment.paid.cost), (key, COST.cost));
        assert_eq!(payment.reason.as_deref(), Some("not in the cache"));
    }
}

#[tokio::test]
async fn paid_call_has_no_separate_payment() {
    let home = tempfile::tempdir().unwrap();
    let here = limited(&home.path().join("ledger.db"), LedgerLimits::default());
    let question = Question::number(1);
    here.ask(&question, &Policy::default(), "x").await;
    here.cache.ledger().flush().await;
    let why = here.cache.ledger().explain(None).unwrap().unwrap();
    assert_eq!((why.call.answered, why.payment), (CallStatus::Miss, None));
}

#[tokio::test]
async fn free_calls_are_bounded_by_count() {
    let home = tempfile::tempdir().unwrap();
    let limits = LedgerLimits {
        unpaid: 30,
        ..LedgerLimits::default()
    };
    let here = limited(&home.path().join("ledger.db"), limits);
    here.ask(&Question::number(0), &Policy::default(), "x")
        .await;
    for number in 1..=100 {
        let ticket = here
            .lead(&Question::number(number), &Policy::default())
            .await;
        ticket
            .fail(Failure::new(std::io::Error::other("no such host")))
            .await;
        here.ask(&Question::number(0), &Policy::default(), "").await;
    }
    let rows = rows(&here).await;
    assert_eq!(count(&rows, CallStatus::Hit), 30);
    assert_eq!(rows.iter().filter(|row| row.failed).count(), 30);
    assert_eq!(rows.len(), 61);
    let newest = Question::number(100).key().to_string();
    assert!(rows.iter().any(|row| row.key == newest));
    assert!(rows.iter().any(|row| row.paid.cost == COST.cost));
}

#[tokio::test]
async fn oldest_rows_are_deleted_at_the_byte_limit_and_totals_kept() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("ledger.db");
    let limits = LedgerLimits {
        bytes: 1 << 20,
        ..LedgerLimits::default()
    };
    let here = limited(&path, limits);
    let question = |number: usize| {
        let texts: Vec<_> = (0..4)
            .map(|part| format!("{number}.{part}").repeat(200))
            .collect();
        Question::of(json!({ "number": number, "texts": texts }))
    };
    for number in 0..1_500 {
        here.ask(&question(number), &Policy::default(), "x").await;
    }
    let rows = rows(&here).await;
    assert!((100..1_000).contains(&rows.len()), "{}", rows.len());
    // The newest ones, without a gap.
    let kept: Vec<_> = rows.iter().map(|row| row.key.clone()).collect();
    let expected: Vec<_> = (1_500 - rows.len()..1_500)
        .map(|number| question(number).key().to_string())
        .collect();
    assert_eq!(kept, expected);
    assert_eq!(totals(&here, "file.read").misses, 1_500);
    drop(here);
    let size = std::fs::metadata(&path).unwrap().len();
    // One batch may be written before room is made.
    assert!(size < 10 << 20, "{size}");
}

#[tokio::test]
async fn expired_rows_are_deleted_and_totals_kept() {
    let home = tempfile::tempdir().unwrap();
    let limits = LedgerLimits {
        age: Some(Duration::from_secs(3_600)),
        ..LedgerLimits::default()
    };
    let here = limited(&home.path().join("ledger.db"), limits);
    for number in 1..=3 {
        here.ask(&Question::number(number), &Policy::default(), "x")
            .await;
        here.cache.ledger().flush().await;
        here.after(Duration::from_secs(1_800));
    }
    let rows = rows(&here).await;
    let keys: Vec<_> = rows.into_iter().map(|row| row.key).collect();
    // At most an hour lies between the newest call and the others.
    assert_eq!(
        keys,
        [1, 2, 3].map(|number| Question::number(number).key().to_string())
    );
    here.ask(&Question::number(4), &Policy::default(), "x")
        .await;
    here.after(Duration::from_secs(7_200));
    here.ask(&Question::number(5), &Policy::default(), "x")
        .await;
    let rows = self::rows(&here).await;
    let keys: Vec<_> = rows.into_iter().map(|row| row.key).collect();
    assert_eq!(keys, [Question::number(5).key().to_string()]);
    assert_eq!(totals(&here, "file.read").misses, 5);
}

/// The tables of version 2, as that version created them.
const VERSION_2: &str = "
    CREATE TABLE calls (
        id INTEGER PRIMARY KEY, at INTEGER NOT NULL, run TEXT NOT NULL, kind TEXT NOT NULL,
        name TEXT NOT NULL, scope TEXT NOT NULL, key TEXT NOT NULL, handle TEXT,
        answered TEXT NOT NULL, reason TEXT, not_stored TEXT, failure TEXT,
        paid INTEGER NOT NULL, saved INTEGER NOT NULL, input TEXT, input_digest TEXT,
        paid_input INTEGER NOT NULL DEFAULT 0, paid_output INTEGER NOT NULL DEFAULT 0,
        paid_cost INTEGER NOT NULL DEFAULT 0, paid_unpriced INTEGER NOT NULL DEFAULT 0,
        saved_input INTEGER NOT NULL DEFAULT 0, saved_output INTEGER NOT NULL DEFAULT 0,
        saved_cost INTEGER NOT NULL DEFAULT 0, saved_unpriced INTEGER NOT NULL DEFAULT 0);
    CREATE INDEX calls_by_key ON calls(key, id);
    CREATE INDEX calls_by_handle ON calls(handle, id);
    CREATE INDEX calls_by_name ON calls(name, scope, id);
    CREATE INDEX hits ON calls(id) WHERE answered = 'hit' AND input IS NULL;
    CREATE TABLE totals (
        kind TEXT NOT NULL, name TEXT NOT NULL, hits INTEGER NOT NULL, coalesced INTEGER NOT NULL,
        misses INTEGER NOT NULL, bypasses INTEGER NOT NULL, failures INTEGER NOT NULL,
        paid INTEGER NOT NULL, saved INTEGER NOT NULL,
        paid_input INTEGER NOT NULL DEFAULT 0, paid_output INTEGER NOT NULL DEFAULT 0,
        paid_cost INTEGER NOT NULL DEFAULT 0, paid_unpriced INTEGER NOT NULL DEFAULT 0,
        saved_input INTEGER NOT NULL DEFAULT 0, saved_output INTEGER NOT NULL DEFAULT 0,
        saved_cost INTEGER NOT NULL DEFAULT 0, saved_unpriced INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (kind, name)) WITHOUT ROWID;
    PRAGMA user_version = 2;";

#[tokio::test]
async fn ledger_of_layout_2_keeps_every_payment() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("ledger.db");
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch("PRAGMA journal_mode = WAL;").unwrap();
    old.execute_batch(VERSION_2).unwrap();
    old.execute_batch(
        "INSERT INTO calls
            (at, run, kind, name, scope, key, handle, answered, failure, paid, saved, input, paid_cost)
         VALUES
            (5, 'r', 'prefix', 'openai/gpt', 'agent:root', 'p1', 'held', 'miss', NULL, 7, 0,
                '{\"session\":\"held\"}', 30),
            (6, 'r', 'prefix', 'openai/gpt', 'agent:root', 'p2', 'fork', 'miss', NULL, 7, 0,
                '{\"session\":\"fork\",\"on_behalf_of\":\"held\"}', 40),
            (7, 'r', 'tool', 'read_file', 'session:held', 'k1', NULL, 'miss', NULL, 7, 0, '{}', 0),
            (8, 'r', 'action', 'file.read', 'global', 'k2', 'h', 'miss', 'gone', 7, 0, '{}', 0),
            (9, 'r', 'action', 'file.read', 'global', 'k2', 'h', 'miss', 'cut off', 7, 0, '{}', 50),
            (9, 'r', 'action', 'file.read', 'global', 'k2', 'h', 'hit', NULL, 0, 7, NULL, 0);
         INSERT INTO totals (kind, name, hits, coalesced, misses, bypasses, failures, paid, saved)
         VALUES ('action', 'file.read', 1, 0, 9, 0, 4, 7, 0);",
    )
    .unwrap();
    drop(old);
    let here = limited(&path, LedgerLimits::default());
    here.ask(&Question::number(1), &Policy::default(), "x")
        .await;
    let rows = rows(&here).await;
    assert_eq!(rows.len(), 7);
    let sessions: Vec<_> = rows.iter().map(|row| row.session.as_deref()).collect();
    let held = Some("held");
    assert_eq!(sessions, [held, held, held, None, None, None, None]);
    let failed: Vec<_> = rows.iter().map(|row| row.failed).collect();
    assert_eq!(failed, [false, false, false, true, false, false, false]);
    let costs: Vec<_> = rows.iter().map(|row| row.paid.cost.picodollars).collect();
    assert_eq!(costs[..6], [30, 40, 0, 0, 50, 0]);
    assert!(rows.iter().all(|row| !row.erased));
    let totals = totals(&here, "file.read");
    // One of the four failures was charged, as far as is known.
    assert_eq!((totals.misses, totals.failures, totals.failed), (10, 4, 3));
    assert_eq!(
        here.cache.ledger().sessions("he", 5).unwrap(),
        ["held".to_owned()]
    );
    assert!(here.warned().is_empty(), "{:?}", here.warned());
}

#[tokio::test]
async fn spend_without_tokens_and_money_is_free() {
    let here = limited(
        &tempfile::tempdir().unwrap().path().join("ledger.db"),
        LedgerLimits::default(),
    );
    let ticket = here.lead(&Question::number(1), &Policy::default()).await;
    let settled = ticket.finish(product("x")).await;
    assert!(!settled.paid.is_free());
    assert!(Spend::for_call(COST.time).is_free());
}
