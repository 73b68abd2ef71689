//! A store in the server that sentinels name.

use std::time::{Duration, Instant};

use cachalot_backends::redis::{RedisStore, Server};
use cachalot_backends::testing::RedisSentinels;
use cachalot_store::{ErrorKind, GetResult, PutResult, Store as _, space};

use crate::{parse, record, runtime};

fn open(url: &str) -> RedisStore {
    RedisStore::new(Server::new(&parse(url), None).unwrap())
}

async fn put(store: &RedisStore, key: &str) {
    let new = record(key.to_owned(), b"value".to_vec(), Vec::new());
    let stored = store.put(space::CACHE, new, None, &[]).settle().await;
    assert!(matches!(stored, Ok(PutResult::Stored { .. })), "{stored:?}");
}

/// Asks until the store answers.
async fn get(store: &RedisStore, is_new: impl Fn(&GetResult) -> bool) -> GetResult {
    let started = Instant::now();
    loop {
        let found = store.get(space::CACHE, "key", &["epoch"]);
        match found.within(Duration::from_millis(500)).await {
            Ok(found) if is_new(&found) => return found,
            Ok(_) => {}
            Err(error) => {
                let kinds = [ErrorKind::Unavailable, ErrorKind::TimedOut];
                assert!(kinds.contains(&error.kind), "{error}");
            }
        }
        assert!(started.elapsed() < Duration::from_secs(40));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn calls_follow_the_primary() {
    let Some(mut group) = RedisSentinels::start(true) else {
        return;
    };
    let url = group.url();
    runtime().block_on(async {
        let store = open(&url);
        put(&store, "key").await;
        let added = store.add(space::CACHE, &[("epoch", 1)]).settle().await;
        assert_eq!(added.unwrap(), [1]);
        assert!(get(&store, |_| true).await.record.is_some());

        // The primary stops answering without closing its connections, and is a replica of the other one later.
        let [primary, _] = group.servers();
        primary.signal("STOP");
        let found = get(&store, |_| true).await;
        assert_eq!(found.record, None);
        assert!(found.counters[0] > 1);
        put(&store, "key").await;
        let [primary, replica] = group.servers();
        primary.signal("CONT");
        assert!(replica.execute(&["ROLE"]).starts_with("master"));
        let found = get(&store, |_| true).await;
        assert!(found.record.is_some());
    });
}

#[test]
fn most_sentinels_have_to_agree() {
    let Some(mut group) = RedisSentinels::start(false) else {
        return;
    };
    let url = group.url();
    runtime().block_on(async {
        let unknown = open(&url.replace("/main/", "/other/"));
        let error = unknown.usage("space").settle().await.unwrap_err();
        assert!(error.message.contains("does not know it"), "{error}");
        let store = open(&url);
        put(&store, "key").await;
        group.stop_sentinel(0);
        tokio::time::sleep(Duration::from_millis(1100)).await;
        assert!(get(&store, |_| true).await.record.is_some());
        group.stop_sentinel(1);
        // The server may be cut off from the sentinels, which have named another one.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let error = store
            .get(space::CACHE, "key", &[])
            .settle()
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains("do not agree"), "{error}");
    });
}
