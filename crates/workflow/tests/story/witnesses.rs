//! What is noticed without anybody saying `depends_on`: files that an action reads, and user memory.

use std::time::Duration;

use serde_json::json;

use crate::acts::Act;
use crate::world::{World, is_hit};

#[tokio::test]
async fn a_file_that_is_read_is_read_again_after_it_changed() {
    let world = World::with(Act::new());
    let path = world.file("note.txt", "one");
    for with in [
        json!({"action": "file.read", "args": {"path": path}}),
        json!({"action": "file.read", "key": "note", "args": {"path": path}}),
    ] {
        world.file("note.txt", "one");
        assert_eq!(world.wrap(with.clone()).await["result"]["content"], "one");
        assert!(is_hit(&world.wrap(with.clone()).await), "{with}");
        world.file("note.txt", "two");
        let changed = world.wrap(with.clone()).await;
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
            world.call("cache.wrap", with.clone()).await.is_err(),
            "what is gone is not replayed"
        );
    }
}

#[tokio::test]
async fn a_listing_is_made_again_after_a_file_came() {
    let world = World::with(Act::new());
    world.file("notes/a.md", "");
    let with = json!({"action": "file.glob", "args": {"pattern": "notes/*.md"}});
    assert_eq!(world.wrap(with.clone()).await["result"]["count"], 1);
    assert!(is_hit(&world.wrap(with.clone()).await));
    world.file("notes/b.md", "");
    assert_eq!(world.wrap(with).await["result"]["count"], 2);
}

#[tokio::test]
async fn the_content_that_is_in_the_key_is_not_watched_as_well() {
    let world = World::with(Act::new());
    let first = world.file("a.txt", "same");
    let second = world.file("b.txt", "same");
    let with = |path: &str| json!({"action": "file.read", "key_strategy": "file_content", "key_source": "path", "args": {"path": path}});
    world.wrap(with(&first)).await;
    world.file("a.txt", "other");
    assert!(
        is_hit(&world.wrap(with(&second)).await),
        "the same content by another name"
    );
}

#[tokio::test]
async fn a_store_invalidates_entries_that_read_long_term_memory() {
    let world = World::with(Act::new());
    let retrieve = json!({"action": "ltm.retrieve", "args": {"key": "k"}});
    let search = json!({"action": "ltm.search", "args": {"query": "whale"}});
    world
        .call("ltm.store", json!({"key": "k", "value": "a whale"}))
        .await
        .unwrap();
    assert_eq!(
        world.wrap(retrieve.clone()).await["result"]["value"],
        "a whale"
    );
    assert_eq!(world.wrap(search.clone()).await["result"]["count"], 1);
    assert!(is_hit(&world.wrap(retrieve.clone()).await));
    assert!(is_hit(&world.wrap(search.clone()).await));
    world
        .call("ltm.store", json!({"key": "k", "value": "two whales"}))
        .await
        .unwrap();
    assert_eq!(
        world.wrap(retrieve.clone()).await["result"]["value"],
        "two whales"
    );
    world.call("ltm.delete", json!({"key": "k"})).await.unwrap();
    assert_eq!(world.wrap(retrieve).await["result"]["found"], false);
    assert_eq!(world.wrap(search).await["result"]["count"], 0);
}

#[tokio::test]
async fn a_wrap_in_a_wrap_is_paid_for_once() {
    let took = Duration::from_millis(200);
    let world = World::with(Act::new().takes(took));
    let inner = json!({"action": "test.act", "args": {"x": 1}});
    world
        .wrap(json!({"action": "cache.wrap", "args": inner}))
        .await;
    world.runtime.cache.ledger().flush().await;
    let totals = world.runtime.cache.ledger().totals().unwrap();
    let paid: Duration = totals.iter().map(|(_, _, totals)| totals.paid.time).sum();
    assert!(paid >= took && paid < took * 3 / 2, "{paid:?}");
}
