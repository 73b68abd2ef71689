//! Servers that lose writes, or stop being the primary, while several clients use them.

use std::time::{Duration, Instant};

use cachalot_backends::redis::{RedisStore, Server};
use cachalot_backends::testing::RedisServer;
use cachalot_store::{
    ErrorKind, GetResult, PageRequest, PutResult, RecordFilter, ReserveResult, Store as _, counter,
    space,
};

use crate::{CONNECT_TIMEOUT, parse, record, runtime};

fn open(url: &str) -> RedisStore {
    RedisStore::new(
        Server::new(&parse(url), None)
            .unwrap()
            .connecting_within(CONNECT_TIMEOUT),
    )
}

async fn get(store: &RedisStore) -> GetResult {
    let found = store.get(space::CACHE, "key", &["epoch", counter::ERASED]);
    found.settle().await.unwrap()
}

/// Stores a record if the epoch has a value.
async fn put_at(store: &RedisStore, epoch: u64) -> PutResult {
    let new = record("key".to_owned(), b"value".to_vec(), Vec::new());
    let counters = [("epoch", epoch)];
    let put = store.put(space::CACHE, new, None, &counters);
    put.settle().await.unwrap()
}

async fn put(store: &RedisStore) {
    let new = record("key".to_owned(), b"value".to_vec(), Vec::new());
    let put = store.put(space::CACHE, new, None, &[]).settle().await;
    assert!(matches!(put, Ok(PutResult::Stored { .. })), "{put:?}");
}

async fn add(store: &RedisStore) -> u64 {
    let added = store.add(space::CACHE, &[("epoch", 1)]).settle().await;
    added.unwrap()[0]
}

/// Waits until a call succeeds: the first ones may find the old connection closed.
async fn reconnect(store: &RedisStore) {
    let end = Instant::now() + Duration::from_secs(10);
    while let Err(error) = store.usage(space::CACHE).settle().await {
        assert!(Instant::now() < end, "{error}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// All clients find an entry that one of them has stored, and none of them changes the counters by looking.
async fn assert_agreement(stores: &[&RedisStore]) {
    for store in stores {
        // The first one may find the old connection closed.
        let _ = store.add(space::CACHE, &[("other", 1)]).settle().await;
    }
    put(stores[0]).await;
    let counters = get(stores[0]).await.counters;
    let lease = stores[0].reserve(space::CACHE, "leased", &[], Duration::from_secs(60));
    let ReserveResult::Held(lease) = lease.settle().await.unwrap() else {
        panic!("it is free");
    };
    for _ in 0..3 {
        for store in stores {
            let found = get(store).await;
            assert!(found.record.is_some());
            assert_eq!(found.counters, counters);
            // Calls that wait for replicas have connections of their own.
            store
                .add(space::CACHE, &[("other", 1)])
                .settle()
                .await
                .unwrap();
        }
    }
    let renewed = stores[0].renew(&lease, Duration::from_secs(60));
    assert!(renewed.settle().await.unwrap());
    stores[0].release(lease).settle().await.unwrap();
}

/// A server does not close the connections of its clients when it becomes a replica. What it has is outdated then, also
/// if it becomes the primary again.
#[test]
fn server_that_has_become_a_replica_is_not_read() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let url = server.fresh_url();
    runtime().block_on(async {
        let store = open(&url);
        put(&store).await;
        let before = get(&store).await;
        assert!(before.record.is_some());
        // Of a server that does not exist, so that nothing is replicated.
        server.execute(&["REPLICAOF", "127.0.0.1", "1"]);
        for _ in 0..2 {
            let all = RecordFilter::default();
            let page = PageRequest::keys(9);
            for error in [
                store.get(space::CACHE, "key", &[]).settle().await.err(),
                store.find(space::CACHE, &all, page).settle().await.err(),
                store
                    .counters(space::CACHE, "", None, 9)
                    .settle()
                    .await
                    .err(),
                store.usage(space::CACHE).settle().await.err(),
            ] {
                let error = error.unwrap();
                assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
                assert!(error.message.contains("is a replica"), "{error}");
            }
        }
        server.execute(&["REPLICAOF", "NO", "ONE"]);
        let found = get(&store).await;
        assert_eq!(found.record, None);
        assert!(found.counters[0] > before.counters[0]);
        assert_agreement(&[&store, &open(&url)]).await;
    });
}

/// A server is a replica, and the primary again, between two calls on one connection.
#[test]
fn server_that_was_a_replica_meanwhile_begins_anew() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let url = server.fresh_url();
    runtime().block_on(async {
        let (store, other) = (open(&url), open(&url));
        for store in [&store, &other] {
            put(store).await;
            let before = get(store).await;
            server.execute(&["REPLICAOF", "127.0.0.1", "1"]);
            server.execute(&["REPLICAOF", "NO", "ONE"]);
            let found = get(store).await;
            assert_eq!(found.record, None);
            assert!(found.counters[0] > before.counters[0]);
            assert_agreement(&[store, &other]).await;
        }
    });
}

/// A server has another replication ID from the time at which its first replica connects. Clients with connections from
/// before and after that agree.
#[test]
fn clients_agree_after_a_replica_was_added() {
    let Some(primary) = RedisServer::start(&["--repl-diskless-sync-delay", "0"]) else {
        return;
    };
    let url = primary.fresh_url();
    runtime().block_on(async {
        let old = open(&url);
        put(&old).await;
        add(&old).await;
        assert!(get(&old).await.record.is_some());
        let port = primary.port().to_string();
        let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &port]).unwrap();
        let is_connected = || replica.execute(&["INFO", "replication"]);
        while !is_connected().contains("master_link_status:up") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let new = open(&url);
        get(&new).await;
        assert_agreement(&[&old, &new]).await;
        assert_agreement(&[&new, &old]).await;
    });
}

/// Lookups of several clients at once, around a change of the server, all succeed.
#[test]
fn lookups_around_a_change_of_the_server_succeed() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let url = server.fresh_url();
    runtime().block_on(async {
        let stores = [open(&url), open(&url), open(&url)];
        for _ in 0..20 {
            server.execute(&["REPLICAOF", "127.0.0.1", "1"]);
            server.execute(&["REPLICAOF", "NO", "ONE"]);
            let lookups = stores.iter().flat_map(|store| [get(store), get(store)]);
            futures_util::future::join_all(lookups).await;
        }
    });
}

/// A server that keeps nothing in files, and one whose database is emptied, forget the counters. A client that has read
/// them stores nothing under what it has read, also if a new client has used the space before it.
#[test]
fn counters_of_an_emptied_space_are_others_although_a_new_client_comes_first() {
    let Some(mut server) = RedisServer::start(&[]) else {
        return;
    };
    runtime().block_on(async {
        for restarts in [true, false] {
            for counts in [0, 1] {
                for looks_up_first in [true, false] {
                    let url = server.fresh_url();
                    let used = open(&url);
                    get(&used).await;
                    for _ in 0..counts {
                        add(&used).await;
                    }
                    let before = get(&used).await.counters[0];
                    assert_eq!(before, counts);
                    let other = open(&url);
                    add(&other).await;

                    if restarts {
                        server.restart()
                    } else {
                        drop(server.execute(&["FLUSHALL"]))
                    }
                    let new = open(&url);
                    assert_eq!(get(&new).await.counters[0], 0);
                    // It counts up to what the other one has read.
                    for _ in 0..counts {
                        add(&new).await;
                    }
                    put(&new).await;
                    reconnect(&used).await;
                    if looks_up_first {
                        assert!(get(&used).await.counters[0] > before);
                    }
                    let changed = PutResult::CounterChanged { counter: 0 };
                    assert_eq!(put_at(&used, before).await, changed);
                    let after = get(&used).await.counters[0];
                    assert!(after > before, "{after}");
                    assert_eq!(get(&new).await.counters[0], after);
                    reconnect(&other).await;
                    // One new incarnation is enough for all.
                    assert_eq!(get(&other).await.counters[0], after);
                    assert_agreement(&[&used, &new, &other]).await;
                }
            }
        }
    });
}

/// The first call after a restart that lost an increment is a put without a lease.
#[test]
fn put_under_a_counter_whose_increment_was_lost_is_refused() {
    let Some(mut server) = RedisServer::start(&[]) else {
        return;
    };
    let url = server.fresh_url();
    runtime().block_on(async {
        let store = open(&url);
        let epoch = add(&store).await;
        assert_eq!(get(&store).await.counters[0], epoch);
        assert_eq!(server.execute(&["SAVE"]).trim(), "OK");
        add(&open(&url)).await;
        server.restart();
        reconnect(&store).await;
        let changed = PutResult::CounterChanged { counter: 0 };
        assert_eq!(put_at(&store, epoch).await, changed);
    });
}

/// A database that a version before births has written is used on, with its entries.
#[test]
fn space_without_a_birth_is_given_one() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let url = server.fresh_url();
    let number = url.rsplit_once('/').unwrap().1;
    runtime().block_on(async {
        let (one, other) = (open(&url), open(&url));
        put(&one).await;
        add(&one).await;
        let before = get(&one).await;
        let birth = ["-n", number, "DEL", "cachalot:{cache}:ib"];
        assert_eq!(server.execute(&birth).trim(), "1");
        assert_eq!(get(&other).await.record, before.record);
        assert_eq!(get(&other).await.counters, before.counters);
        assert_agreement(&[&other, &open(&url)]).await;
    });
}
