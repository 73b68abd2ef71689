//! A ledger that cannot be written for a while.

use std::path::Path;
use std::time::{Duration, Instant};

use cachalot_cache::Policy;
use serde_json::json;

use crate::ledger::{rows, totals, with_ledger};
use crate::test_engine::{COST, Question, TestEngine, eventually, in_mode};

/// Holds the file's lock until it is dropped.
fn lock(path: &Path) -> rusqlite::Connection {
    let other = rusqlite::Connection::open(path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

async fn with_one_payment(path: &Path) -> TestEngine {
    let here = with_ledger(path);
    here.ask(&Question::number(0), &Policy::default(), "x")
        .await;
    here.cache.ledger().flush().await;
    here
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_wait_for_a_ledger_locked_for_seconds() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("ledger.db");
    let here = with_one_payment(&path).await;
    let other = lock(&path);
    for number in 1..=20 {
        here.ask(&Question::number(number), &Policy::default(), "x")
            .await;
        here.ask(&Question::number(number), &Policy::default(), "")
            .await;
    }
    let locked = Instant::now();
    let flushing = {
        let here = here.clone();
        tokio::spawn(async move { here.cache.ledger().flush().await })
    };
    // Longer than SQLite waits for a lock by itself.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert!(!flushing.is_finished());
    drop(other);
    flushing.await.unwrap();
    assert!(locked.elapsed() < Duration::from_secs(9));
    let rows = rows(&here).await;
    let paid = rows.iter().filter(|row| row.paid.cost == COST.cost).count();
    assert_eq!((paid, rows.len()), (21, 41));
    assert!(
        rows.windows(2).all(|pair| pair[0].at <= pair[1].at),
        "in the order in which they came"
    );
    let totals = totals(&here, "file.read");
    assert_eq!((totals.misses, totals.hits), (21, 20));
    assert!(here.warned().is_empty(), "{:?}", here.warned());
    assert_eq!(here.cache.ledger().dropped().unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_rows_are_counted_and_their_costs_kept() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("ledger.db");
    let here = with_one_payment(&path).await;
    let other = lock(&path);
    let calls = 80;
    for number in 1..=calls {
        let question = Question::of(json!({ "number": number, "text": "x".repeat(1 << 20) }));
        here.ask(&question, &in_mode(cachalot_cache::CacheMode::Off), "x")
            .await;
    }
    eventually(async || !here.warned().is_empty()).await;
    drop(other);
    here.cache.ledger().flush().await;
    let dropped = here.cache.ledger().dropped().unwrap();
    assert!((1..calls).contains(&dropped), "{dropped}");
    let rows = rows(&here).await;
    assert_eq!(rows.len() as u64, 1 + calls - dropped);
    let totals = totals(&here, "file.read");
    assert_eq!((totals.misses, totals.bypasses), (1, calls));
    assert_eq!(
        totals.paid.cost.picodollars,
        (1 + calls) * COST.cost.picodollars
    );
    let warned = here.warned();
    assert_eq!(warned.len(), 1, "{warned:?}");
    for said in ["another process has locked", "were dropped", "ledger.db"] {
        assert!(warned[0].contains(said), "{warned:?}");
    }
}
