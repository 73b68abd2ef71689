//! A Redis server that has all acknowledged writes when it starts again, and replicas that do not have all of them.

use std::time::{Duration, Instant};

use cachalot_backends::redis::{RedisStore, Server};
use cachalot_backends::testing::RedisServer;
use cachalot_store::{ErrorKind, GetResult, PutResult, ReserveResult, Store as _, space};

use crate::{CONNECT_TIMEOUT, parse, record, runtime, spent};

/// Settings with which each reply comes after its write is in the file.
const DURABLE: [&str; 6] = [
    "--appendonly",
    "yes",
    "--appendfsync",
    "always",
    "--repl-diskless-sync-delay",
    "0",
];

fn open(url: &str, is_durable: bool) -> RedisStore {
    let server = Server::new(&parse(url), None)
        .unwrap()
        .connecting_within(CONNECT_TIMEOUT);
    RedisStore::new(server.durable(is_durable))
}

async fn put(store: &RedisStore) {
    let new = record("key".to_owned(), b"value".to_vec(), Vec::new());
    let put = store.put(space::CACHE, new, None, &[]).settle().await;
    assert!(matches!(put, Ok(PutResult::Stored { .. })), "{put:?}");
}

async fn get(store: &RedisStore) -> GetResult {
    let found = store.get(space::CACHE, "key", &["epoch", "never"]);
    found.settle().await.unwrap()
}

/// Adds to the sum of budgets. An increment whose connection had ended fails: it is repeated here if it had no effect.
async fn spend(store: &RedisStore, more: u64) -> u64 {
    let before = spent(store).await;
    // As many connections as a store may have, all of them ended.
    for _ in 0..20 {
        let added = store.add(space::GATEWAY, &[("spent", more)]).settle().await;
        match added {
            Ok(sums) => return sums[0],
            Err(error) if error.kind == ErrorKind::Unavailable => {
                assert_eq!(spent(store).await, before, "{error}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no increment was executed")
}

fn wait_for(server: &RedisServer, section: &str, states: &[&str]) {
    let end = Instant::now() + Duration::from_secs(60);
    let is_reached = || {
        let info = server.execute(&["INFO", section]);
        states.iter().all(|state| info.contains(state))
    };
    while !is_reached() {
        assert!(Instant::now() < end, "{states:?} is not reached");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Makes a server a replica, and waits until it has the data set in its file, too.
fn replicate(primary: &RedisServer, replica: &RedisServer) {
    let port = primary.port().to_string();
    replica.execute(&["REPLICAOF", "127.0.0.1", &port]);
    wait_for(replica, "replication", &["master_link_status:up"]);
    let written = ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"];
    wait_for(replica, "persistence", &written);
    wait_for(primary, "replication", &["state=online"]);
}

#[test]
fn entries_survive_restarts_of_a_durable_server() {
    let Some(mut server) = RedisServer::start(&DURABLE) else {
        return;
    };
    let url = server.fresh_url();
    runtime().block_on(async {
        let store = open(&url, true);
        put(&store).await;
        store
            .add(space::CACHE, &[("epoch", 4)])
            .settle()
            .await
            .unwrap();
        let lease = store.reserve(space::CACHE, "leased", &[], Duration::from_secs(60));
        let ReserveResult::Held(lease) = lease.settle().await.unwrap() else {
            panic!("it is free");
        };
        for _ in 0..2 {
            server.restart();
            for store in [&open(&url, true), &store] {
                let found = get(store).await;
                assert!(found.record.is_some());
                assert_eq!(found.counters, [4, 0]);
                let renewed = store.renew(&lease, Duration::from_secs(60));
                assert!(renewed.settle().await.unwrap());
            }
        }
        // A client that is not told so begins anew, for all.
        server.restart();
        assert_eq!(get(&open(&url, false)).await.record, None);
        assert_eq!(get(&store).await.record, None);
        // A server that has lost its data set is a new one.
        put(&store).await;
        server.execute(&["FLUSHALL"]);
        server.restart();
        let found = get(&store).await;
        assert_eq!(found.record, None);
        assert!(found.counters[0] > 4);
    });
}

/// A replica that connects, or is connected when its primary starts again, does not matter.
#[test]
fn entries_survive_restarts_of_a_durable_server_with_a_replica() {
    let Some(mut primary) = RedisServer::start(&DURABLE) else {
        return;
    };
    let Some(replica) = RedisServer::start(&DURABLE) else {
        return;
    };
    let url = primary.fresh_url();
    runtime().block_on(async {
        let store = open(&url, true);
        put(&store).await;
        replicate(&primary, &replica);
        assert!(get(&store).await.record.is_some());
        assert_eq!(spend(&store, 1).await, 1);
        primary.restart();
        replicate(&primary, &replica);
        assert!(get(&store).await.record.is_some());
        assert!(get(&open(&url, true)).await.record.is_some());
    });
}

/// A replica that takes over may lack what was invalidated, also if it starts again before any client comes.
#[test]
fn failover_of_a_durable_server_begins_anew() {
    for starts_again in [false, true] {
        let Some(mut primary) = RedisServer::start(&DURABLE) else {
            return;
        };
        let Some(mut replica) = RedisServer::start(&DURABLE) else {
            return;
        };
        let url = primary.fresh_url();
        let (of_primary, of_replica) = (primary.port().to_string(), replica.port().to_string());
        let url_of_replica = url.replace(&of_primary, &of_replica);
        runtime().block_on(async {
            let store = open(&url, true);
            get(&store).await;
            replicate(&primary, &replica);
            put(&store).await;
            store
                .add(space::CACHE, &[("epoch", 1)])
                .settle()
                .await
                .unwrap();
            assert_eq!(spend(&store, 7).await, 7);
            assert!(get(&store).await.record.is_some());
            // What follows does not reach the replica.
            replica.execute(&["REPLICAOF", "127.0.0.1", "1"]);
            wait_for(&primary, "replication", &["connected_slaves:0"]);
            store
                .add(space::CACHE, &[("epoch", 1)])
                .settle()
                .await
                .unwrap();
            primary.stop();
            replica.execute(&["REPLICAOF", "NO", "ONE"]);
            if starts_again {
                replica.restart();
            }
            let (one, other) = (open(&url_of_replica, true), open(&url_of_replica, true));
            for store in [&one, &other] {
                let found = get(store).await;
                assert_eq!(found.record, None, "{starts_again}");
                assert!(found.counters[0] > 2 && found.counters[1] > 0);
                assert_eq!(spent(store).await, 7);
            }
            // Once.
            put(&one).await;
            assert!(get(&other).await.record.is_some());
            replica.restart();
            assert!(get(&other).await.record.is_some());
        });
    }
}

#[test]
fn servers_that_may_lose_writes_are_not_durable() {
    let Some(server) = RedisServer::start(&DURABLE) else {
        return;
    };
    let url = server.fresh_url();
    let first_call = async |url: &str| open(url, true).get("x", "x", &[]).settle().await;
    runtime().block_on(async {
        for (setting, value, before) in [
            ("appendfsync", "everysec", "always"),
            ("no-appendfsync-on-rewrite", "yes", "no"),
            ("appendonly", "no", "yes"),
        ] {
            first_call(&url).await.unwrap();
            server.execute(&["CONFIG", "SET", setting, value]);
            let error = first_call(&url).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unsupported);
            assert!(error.message.contains(&format!("{setting} {value}")), "{error}");
            assert!(error.message.contains("settings.ltm.durable"), "{error}");
            let findings = open(&url, false).inspect().settle().await.unwrap();
            let budgets = findings.iter().find(|finding| finding.topic == "budgets").unwrap();
            assert!(budgets.remedy.is_some(), "{budgets:?}");
            server.execute(&["CONFIG", "SET", setting, before]);
        }
        let findings = open(&url, true).inspect().settle().await.unwrap();
        let budgets = findings.iter().find(|finding| finding.topic == "budgets").unwrap();
        assert_eq!(budgets.remedy, None, "{budgets:?}");
        // Without the right to read the settings.
        let rights = "on >limited ~cachalot:* +@read +@write +info +time +evalsha +script|load +wait +select";
        let set = ["ACL", "SETUSER", "limited"].into_iter();
        server.execute(&set.chain(rights.split(' ')).collect::<Vec<_>>());
        let limited = format!("redis://limited:limited@127.0.0.1:{}/0", server.port());
        let error = first_call(&limited).await.unwrap_err();
        assert!(error.message.contains("+config|get"), "{error}");
        open(&limited, false).inspect().settle().await.unwrap();
    });
}

/// Also of a server that is not declared durable: money is not an epoch.
#[test]
fn sums_stay_as_they_are_in_a_new_incarnation() {
    let Some(mut server) = RedisServer::start(&DURABLE) else {
        return;
    };
    let url = server.fresh_url();
    runtime().block_on(async {
        let store = open(&url, false);
        assert_eq!(spend(&store, 5).await, 5);
        for _ in 0..2 {
            server.restart();
            for store in [&open(&url, false), &store] {
                let found = store.get(space::GATEWAY, "budget", &["spent", "returned"]);
                assert_eq!(found.settle().await.unwrap().counters, [5, 0]);
            }
            server.execute(&["REPLICAOF", "127.0.0.1", "1"]);
            server.execute(&["REPLICAOF", "NO", "ONE"]);
            assert_eq!(spent(&store).await, 5);
        }
        assert_eq!(spend(&store, 2).await, 7);
        let raised = store.raise_to(space::GATEWAY, "spent", 9).settle().await;
        assert_eq!(raised.unwrap(), 9);
    });
}
