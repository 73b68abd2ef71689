//! Payments of model calls in conversations.

use std::sync::Arc;

use cachalot_cache::{Ledger, LedgerSelection, Payment, Policy, Scope};
use cachalot_core::{Canonical, Digest, DigestKey, SecretSet, Spend};
use serde_json::json;

use crate::ledger::{rows, totals, with_ledger};
use crate::test_engine::{COST, Question, START};

#[tokio::test]
async fn conversation_payment_is_found_by_its_session() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let question = Question::of(json!({"path": "a"}));
    here.ask(&question, &Policy::default(), "x").await;
    let secret_set = Arc::new(SecretSet::with_key(DigestKey::new([7; 32])));
    secret_set.learn("the-secret-key");
    here.cache.ledger().record_payment(Payment {
        at: START,
        model: "anthropic/claude",
        scope: &Scope::Agent("tester".into()),
        session: "session-1",
        on_behalf_of: None,
        prefix: Digest::sha256(b"everything"),
        input: Canonical::value(&json!({"read": 12, "before": "the-secret-key"})),
        reason: Some("system_changed: the-secret-key".to_owned()),
        paid: COST,
        saved: Spend::default(),
        secret_set: &secret_set,
    });
    let rows = rows(&here).await;
    assert_eq!(rows.len(), 2);
    let ledger = here.cache.ledger();
    let explained = ledger.explain(Some("session-1")).unwrap().unwrap();
    assert_eq!(
        (explained.call.kind.as_str(), explained.call.name.as_str()),
        ("prefix", "anthropic/claude")
    );
    assert_eq!(explained.call.paid.time, COST.time);
    assert_eq!(explained.call.input.as_ref().unwrap()["read"], 12);
    assert!(explained.nearest.is_none());
    let text = serde_json::to_string(&explained).unwrap();
    assert!(
        text.contains("system_changed") && !text.contains("the-secret-key"),
        "{text}"
    );
    // The last call is the last that an entry could have answered.
    let last = ledger.explain(None).unwrap().unwrap();
    assert_eq!(last.call.kind, "action");
    assert_eq!(totals(&here, "anthropic/claude").misses, 1);
}

/// Accounts for an answer in a session.
fn record_payment(ledger: &Ledger, session: &str, at: i64, reason: Option<&str>) {
    ledger.record_payment(Payment {
        at,
        model: "anthropic/claude",
        scope: &Scope::Agent("tester".into()),
        session,
        on_behalf_of: None,
        prefix: Digest::sha256(session.as_bytes()),
        input: Canonical::value(&json!({"session": session})),
        reason: reason.map(str::to_owned),
        paid: COST,
        saved: Spend::default(),
        secret_set: &Arc::new(SecretSet::with_key(DigestKey::new([7; 32]))),
    });
}

/// The sessions whose prefixes broke behind a row, and the newest row.
fn broken(ledger: &Ledger, after: i64, since: i64) -> (Vec<String>, i64) {
    let (rows, newest) = ledger.broken_prefixes(after, since).unwrap();
    let sessions = rows.into_iter().map(|row| row.handle.unwrap());
    (sessions.collect(), newest)
}

#[tokio::test]
async fn prefix_breaks_are_followed_once_each() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let ledger = here.cache.ledger();
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let none: Vec<String> = Vec::new();
    assert_eq!(
        broken(ledger, i64::MAX, 0),
        (none.clone(), 0),
        "no file yet"
    );
    for (session, at, reason) in [
        ("old", 1_000, Some("system_changed")),
        ("new", 2_000, Some("tools_changed")),
        ("fine", 3_000, None),
    ] {
        record_payment(ledger, session, at, reason);
    }
    assert_eq!(rows(&here).await.len(), 3);
    assert_eq!(broken(ledger, i64::MAX, 0), (none.clone(), 3));
    assert_eq!(broken(ledger, 0, 0), (named(&["old", "new"]), 3));
    assert_eq!(broken(ledger, 0, 1_500), (named(&["new"]), 3));
    assert_eq!(broken(ledger, 3, 0), (none.clone(), 3));
    record_payment(ledger, "later", 4_000, Some("expired"));
    assert_eq!(rows(&here).await.len(), 4);
    assert_eq!(broken(ledger, 3, 0), (named(&["later"]), 4));
    // Numbers of deleted rows are not given again: a follower misses nothing.
    ledger.prune(LedgerSelection::All, false).unwrap();
    assert_eq!(broken(ledger, 4, 0), (none, 0));
    record_payment(ledger, "again", 5_000, Some("expired"));
    assert_eq!(rows(&here).await.len(), 1);
    assert_eq!(broken(ledger, 4, 0), (named(&["again"]), 5));
}
