//! What models of conversations were paid.

use std::sync::Arc;

use cachalot_cache::{Payment, Policy, Scope};
use cachalot_core::{Canonical, Digest, DigestKey, Seals, Spend};
use serde_json::json;

use crate::ledger::{rows, totals, with_ledger};
use crate::setting::{COST, Question, START};

#[tokio::test]
async fn a_payment_of_a_conversation_is_a_row_that_is_found_by_its_session() {
    let home = tempfile::tempdir().unwrap();
    let here = with_ledger(&home.path().join("ledger.db"));
    let question = Question::of(json!({"path": "a"}));
    here.ask(&question, &Policy::default(), "x").await;
    let seals = Arc::new(Seals::under(DigestKey::new([7; 32])));
    seals.learn("the-secret-key");
    here.cache.ledger().pay(Payment {
        at: START,
        model: "anthropic/claude",
        scope: &Scope::Agent("tester".into()),
        session: "session-1",
        on_behalf_of: None,
        prefix: Digest::of(b"everything"),
        input: Canonical::value(&json!({"read": 12, "before": "the-secret-key"})),
        reason: Some("system_changed: the-secret-key".to_owned()),
        paid: COST,
        saved: Spend::default(),
        seals: &seals,
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
