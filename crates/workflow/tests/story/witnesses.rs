//! Witnesses without `depends_on`: files that an action reads, and long-term memory.

use std::time::Duration;

use serde_json::json;

use crate::fixture::{Fixture, is_hit};
use crate::test_actions::TestAction;

#[tokio::test]
async fn changed_file_is_read_again() {
    let fixture = Fixture::with(TestAction::new());
    let path = fixture.file("note.txt", "one");
    for with in [
        json!({"action": "file.read", "args": {"path": path}}),
        json!({"action": "file.read", "key": "note", "args": {"path": path}}),
    ] {
        fixture.file("note.txt", "one");
        assert_eq!(fixture.wrap(with.clone()).await["result"]["content"], "one");
        assert!(is_hit(&fixture.wrap(with.clone()).await), "{with}");
        fixture.file("note.txt", "two");
        let changed = fixture.wrap(with.clone()).await;
        assert_eq!(changed["result"]["content"], "two", "{with}");
        assert!(
            changed["_cache_reason"]
                .as_str()
                .unwrap()
                .contains("note.txt"),
            "{changed}"
        );
        std::fs::remove_file(&path).unwrap();
        assert!(
            fixture.call("cache.wrap", with.clone()).await.is_err(),
            "what is gone is not replayed"
        );
    }
}

#[tokio::test]
async fn listing_is_repeated_after_a_new_file() {
    let fixture = Fixture::with(TestAction::new());
    fixture.file("notes/a.md", "");
    let with = json!({"action": "file.glob", "args": {"pattern": "notes/*.md"}});
    assert_eq!(fixture.wrap(with.clone()).await["result"]["count"], 1);
    assert!(is_hit(&fixture.wrap(with.clone()).await));
    fixture.file("notes/b.md", "");
    assert_eq!(fixture.wrap(with).await["result"]["count"], 2);
}

#[tokio::test]
async fn content_in_the_key_is_not_a_witness() {
    let fixture = Fixture::with(TestAction::new());
    let first = fixture.file("a.txt", "same");
    let second = fixture.file("b.txt", "same");
    let with = |path: &str| json!({"action": "file.read", "key_strategy": "file_content", "key_source": "path", "args": {"path": path}});
    fixture.wrap(with(&first)).await;
    fixture.file("a.txt", "other");
    assert!(
        is_hit(&fixture.wrap(with(&second)).await),
        "the same content by another name"
    );
}

#[tokio::test]
async fn ltm_store_invalidates_entries_that_read_long_term_memory() {
    let fixture = Fixture::with(TestAction::new());
    let retrieve = json!({"action": "ltm.retrieve", "args": {"key": "k"}});
    let search = json!({"action": "ltm.search", "args": {"query": "whale"}});
    fixture
        .call("ltm.store", json!({"key": "k", "value": "a whale"}))
        .await
        .unwrap();
    assert_eq!(
        fixture.wrap(retrieve.clone()).await["result"]["value"],
        "a whale"
    );
    assert_eq!(fixture.wrap(search.clone()).await["result"]["count"], 1);
    assert!(is_hit(&fixture.wrap(retrieve.clone()).await));
    assert!(is_hit(&fixture.wrap(search.clone()).await));
    fixture
        .call("ltm.store", json!({"key": "k", "value": "two whales"}))
        .await
        .unwrap();
    assert_eq!(
        fixture.wrap(retrieve.clone()).await["result"]["value"],
        "two whales"
    );
    fixture
        .call("ltm.delete", json!({"key": "k"}))
        .await
        .unwrap();
    assert_eq!(fixture.wrap(retrieve).await["result"]["found"], false);
    assert_eq!(fixture.wrap(search).await["result"]["count"], 0);
}

#[tokio::test]
async fn nested_wrap_is_paid_once() {
    let took = Duration::from_secs(1);
    let fixture = Fixture::with(TestAction::new().takes(took));
    let inner = json!({"action": "test.act", "args": {"x": 1}});
    fixture
        .wrap(json!({"action": "cache.wrap", "args": inner}))
        .await;
    fixture.runtime.cache.ledger().flush().await;
    let totals = fixture.runtime.cache.ledger().totals().unwrap();
    let paid: Duration = totals.iter().map(|(_, _, totals)| totals.paid.time).sum();
    assert!(paid >= took && paid < took * 2, "{paid:?}");
}
