//! Erasing what calls were about, and deleting calls from the ledger.

use std::path::Path;
use std::sync::Arc;

use cachalot_cache::{
    CallKind, CallStatus, Failure, HANDLE_LABEL, HitPolicy, LedgerSelection, Payment, Policy,
    RunPolicy, Scope,
};
use cachalot_core::{Canonical, Digest, SecretSet, Spend};
use cachalot_store::Label;
use serde_json::json;

use crate::ledger::{rows, totals, with_ledger};
use crate::test_engine::{COST, Question, START, TestEngine, product};

/// In every text that has to be gone.
const MARK: &str = "klabautermann";

/// Files of the directory that hold the mark.
fn marked(directory: &Path) -> Vec<String> {
    let mut marked = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        if bytes
            .windows(MARK.len())
            .any(|part| part == MARK.as_bytes())
        {
            marked.push(path.display().to_string());
        }
    }
    marked
}

fn question(kind: CallKind, number: usize) -> Question {
    Question {
        kind,
        scope: Scope::Workspace(format!("/home/{MARK}")),
        name: "read".into(),
        input: Canonical::value(&json!({
            "number": number,
            "text": format!("{MARK} {number} ").repeat(100),
        })),
    }
}

fn policy(session: Option<&str>) -> Policy {
    Policy {
        hit: HitPolicy {
            session: session.map(Into::into),
            ..HitPolicy::default()
        },
        run: RunPolicy {
            labels: vec![Label::new(HANDLE_LABEL, format!("cache:{MARK}:read"))],
            ..RunPolicy::default()
        },
    }
}

fn record_payment(here: &TestEngine, session: &str, on_behalf_of: Option<&str>) {
    here.cache.ledger().record_payment(Payment {
        at: START,
        model: "anthropic/claude",
        scope: &Scope::Agent(MARK.into()),
        session,
        on_behalf_of,
        prefix: Digest::sha256(session.as_bytes()),
        input: Canonical::value(&json!({ "about": MARK })),
        reason: Some(format!("system_changed: {MARK}")),
        paid: COST,
        saved: Spend::default(),
        secret_set: &Arc::new(SecretSet::empty()),
    });
}

/// Calls of all kinds: 60 paid, 60 hits, 60 failed.
async fn calls(here: &TestEngine) {
    for number in 0..60 {
        let asked = question(CallKind::Action, number);
        here.ask(&asked, &policy(None), "x").await;
        here.ask(&asked, &policy(None), "").await;
        let failing = question(CallKind::Tool, number);
        let ticket = here.lead(&failing, &policy(Some(MARK))).await;
        let error = std::io::Error::other(format!("cannot read {MARK}"));
        ticket.fail(Failure::new(error)).await;
    }
    here.cache.ledger().flush().await;
}

#[tokio::test]
async fn ledger_erase_removes_texts_from_all_files_and_keeps_amounts() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("ledger.db");
    let here = with_ledger(&path);
    calls(&here).await;
    record_payment(&here, MARK, None);
    let before = rows(&here).await;
    let totals_before = totals(&here, "read");
    assert!(!marked(home.path()).is_empty());

    let ledger = here.cache.ledger();
    let count = before.len() as u64;
    assert_eq!(ledger.erase(LedgerSelection::All, true).unwrap(), count);
    assert_eq!(rows(&here).await, before, "a dry run changes nothing");
    assert_eq!(ledger.erase(LedgerSelection::All, false).unwrap(), count);
    // The writer of this process still has the file open.
    assert_eq!(marked(home.path()), Vec::<String>::new());

    let after = rows(&here).await;
    assert_eq!(after.len(), before.len());
    for (before, after) in before.iter().zip(&after) {
        assert!(!before.erased && after.erased);
        assert_eq!(
            (before.id, before.at, &before.kind, &before.name),
            (after.id, after.at, &after.kind, &after.name)
        );
        assert_eq!(
            (before.answered, before.failed, before.paid, before.saved),
            (after.answered, after.failed, after.paid, after.saved)
        );
        let shown = serde_json::to_value(after).unwrap();
        for gone in [
            "handle",
            "session",
            "reason",
            "not_stored",
            "failure",
            "input",
            "input_digest",
        ] {
            assert!(shown[gone].is_null(), "{gone}: {shown}");
        }
        assert!(after.key.is_empty() && after.scope.is_empty() && after.run.is_empty());
    }
    assert_eq!(totals(&here, "read"), totals_before);
    assert_eq!(ledger.erase(LedgerSelection::All, false).unwrap(), 0);
    // What comes next is written and explained as ever.
    let why = ledger.explain(None).unwrap().unwrap();
    assert!(
        why.call.erased && why.same.is_none() && why.payment.is_none() && why.nearest.is_none()
    );
    let next = question(CallKind::Action, 1_000);
    here.ask(&next, &policy(None), "x").await;
    assert_eq!(rows(&here).await.len(), before.len() + 1);
    assert_eq!(
        ledger
            .calls_by_key(&next.key().to_string(), 9)
            .unwrap()
            .len(),
        1
    );
    assert!(here.warned().is_empty(), "{:?}", here.warned());
}

#[tokio::test]
async fn ledger_erase_removes_rows_deleted_by_earlier_versions() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("ledger.db");
    let here = with_ledger(&path);
    calls(&here).await;
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(
        "PRAGMA secure_delete = OFF; DELETE FROM calls WHERE id % 3 = 0;
         PRAGMA wal_checkpoint(TRUNCATE);",
    )
    .unwrap();
    drop(old);
    here.cache
        .ledger()
        .erase(LedgerSelection::All, false)
        .unwrap();
    assert_eq!(marked(home.path()), Vec::<String>::new());
}

#[tokio::test]
async fn interrupted_ledger_erase_is_completed_by_the_next() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("ledger.db");
    let here = with_ledger(&path);
    calls(&here).await;
    // As if the process had been killed before it rebuilt the file.
    let killed = rusqlite::Connection::open(&path).unwrap();
    killed
        .execute_batch(
            "PRAGMA secure_delete = OFF;
             BEGIN; DELETE FROM calls; INSERT INTO counters VALUES ('uncompacted', 1); COMMIT;",
        )
        .unwrap();
    drop(killed);
    assert!(!marked(home.path()).is_empty());
    assert_eq!(
        here.cache
            .ledger()
            .erase(LedgerSelection::All, false)
            .unwrap(),
        0
    );
    assert_eq!(marked(home.path()), Vec::<String>::new());
}

#[tokio::test]
async fn sessions_are_erased_with_their_forks_and_without_others() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let ask = async |kind, number, session: Option<&str>| {
        here.ask(&question(kind, number), &policy(session), "x")
            .await;
        // A hit is of the session in which it was made.
        here.ask(&question(kind, number), &policy(Some("other")), "")
            .await;
    };
    record_payment(&here, "one", None);
    record_payment(&here, "fork-of-one", Some("one"));
    record_payment(&here, "other", None);
    ask(CallKind::Tool, 1, Some("one")).await;
    ask(CallKind::Turn, 2, Some("one")).await;
    ask(CallKind::Tool, 3, Some("fork-of-one")).await;
    ask(CallKind::Tool, 4, Some("other")).await;
    ask(CallKind::Action, 5, None).await;
    here.cache.ledger().flush().await;
    let ledger = here.cache.ledger();
    let one = ["one".to_owned()];
    assert_eq!(
        ledger
            .erase(LedgerSelection::Sessions(&one), false)
            .unwrap(),
        5
    );
    let left = rows(&here).await;
    let left: Vec<_> = left.iter().filter(|row| !row.erased).collect();
    assert_eq!(left.len(), 8);
    assert!(
        left.iter()
            .all(|row| row.session.as_deref() == Some("other") || row.kind == "action"),
        "{left:?}"
    );
    assert_eq!(
        ledger.erase(LedgerSelection::AllSessions, false).unwrap(),
        7
    );
    let left = rows(&here).await;
    let left: Vec<_> = left.iter().filter(|row| !row.erased).collect();
    assert_eq!((left.len(), left[0].kind.as_str()), (1, "action"));
    assert_eq!(ledger.erase(LedgerSelection::Cacheable, false).unwrap(), 1);
}

#[tokio::test]
async fn calls_are_erased_by_key_handle_and_pattern() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    for number in 0..4 {
        let policy = Policy {
            run: RunPolicy {
                labels: vec![Label::new(HANDLE_LABEL, format!("cache:t:read:{number}"))],
                ..RunPolicy::default()
            },
            ..Policy::default()
        };
        here.ask(&Question::number(number), &policy, "x").await;
    }
    record_payment(&here, "one", None);
    here.cache.ledger().flush().await;
    let erase = |which: &str| {
        here.cache
            .ledger()
            .erase(LedgerSelection::Matching(which), false)
            .unwrap()
    };
    assert_eq!(erase(&Question::number(0).key().to_string()), 1);
    assert_eq!(erase("cache:t:read:1"), 1);
    assert_eq!(erase("cache:t:read"), 0);
    assert_eq!(erase("cache:*:2"), 1);
    assert_eq!(erase("cache:*"), 1);
    let left = rows(&here).await;
    let left: Vec<_> = left.iter().filter(|row| !row.erased).collect();
    assert_eq!((left.len(), left[0].kind.as_str()), (1, "prefix"));
}

#[tokio::test]
async fn numbers_of_deleted_calls_are_not_used_again() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let mut last = 0;
    for round in 0..3 {
        for session in ["one", "two"] {
            record_payment(&here, session, None);
        }
        let found = rows(&here).await;
        assert!(found.iter().all(|row| row.id > last), "{round}: {found:?}");
        last = found.last().unwrap().id;
        let all = LedgerSelection::All;
        here.cache.ledger().prune(all, false).unwrap();
        assert!(rows(&here).await.is_empty());
    }
    assert_eq!(last, 6);
}

#[tokio::test]
async fn a_ledger_is_copied_without_inputs() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let (ledger, copy) = (here.cache.ledger(), home.path().join("copy.db"));
    assert_eq!(ledger.identity().unwrap(), None);
    calls(&here).await;
    record_payment(&here, "one", None);
    let mut expected = rows(&here).await;
    let identity = ledger.identity().unwrap();
    assert_eq!(identity, ledger.identity().unwrap());
    assert_eq!(identity.unwrap().len(), 16);
    let copied = ledger.calls_to_copy(0, 100_000).unwrap();
    let totals = ledger.totals().unwrap();
    let copy = cachalot_cache::Ledger::at(&copy, "reader", Arc::new(|_: &str| {}));
    copy.import(&copied, &[]).unwrap();
    copy.import(&[], &totals).unwrap();
    for row in &mut expected {
        (row.input, row.input_digest) = (None, None);
    }
    let mut found = copy.recent(100_000).unwrap();
    found.reverse();
    assert_eq!(found, expected);
    assert_eq!(copy.totals().unwrap(), totals);
    assert_ne!(copy.identity().unwrap(), ledger.identity().unwrap());
    assert!(copy.explain(Some(&expected[0].key)).unwrap().is_some());
    let after = ledger.calls_to_copy(expected[1].id, 2).unwrap();
    assert_eq!(after, expected[2..4]);
}

#[tokio::test]
async fn ledger_prune_removes_calls_from_all_files_and_keeps_totals() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("ledger.db");
    let here = with_ledger(&path);
    calls(&here).await;
    here.clock.advance(std::time::Duration::from_secs(60));
    let late = Question::number(7);
    here.ask(&late, &Policy::default(), "x").await;
    let all = rows(&here).await.len() as u64;
    let totals_before = totals(&here, "read");
    let ledger = here.cache.ledger();
    let before = LedgerSelection::Before(START + 60_000);
    assert_eq!(ledger.prune(before, true).unwrap().calls, all - 1);
    assert_eq!(rows(&here).await.len() as u64, all);
    let pruned = ledger.prune(before, false).unwrap();
    assert_eq!(pruned.calls, all - 1);
    assert!(pruned.bytes > 0, "{pruned:?}");
    assert_eq!(marked(home.path()), Vec::<String>::new());
    let left = rows(&here).await;
    assert_eq!((left.len(), left[0].answered), (1, CallStatus::Miss));
    assert_eq!(ledger.prune(LedgerSelection::All, false).unwrap().calls, 1);
    assert!(rows(&here).await.is_empty());
    assert_eq!(totals(&here, "read"), totals_before);
    let ticket = here.lead(&Question::number(8), &Policy::default()).await;
    ticket.finish(product("x")).await;
    assert_eq!(rows(&here).await.len(), 1);
}

#[tokio::test]
async fn ledger_erase_of_a_missing_file_does_nothing() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("ledger.db");
    let here = with_ledger(&path);
    let ledger = here.cache.ledger();
    assert_eq!(ledger.erase(LedgerSelection::All, false).unwrap(), 0);
    assert_eq!(ledger.prune(LedgerSelection::All, false).unwrap().calls, 0);
    assert_eq!(ledger.dropped().unwrap(), 0);
    assert!(!path.exists());
}
