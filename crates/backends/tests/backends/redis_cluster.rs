//! The contract of a store, on a Redis cluster that the test process starts.

use std::time::{Duration, Instant};

use cachalot_backends::redis::{RedisStore, Server};
use cachalot_backends::testing::{PASSWORD, RedisCluster, RedisServer};
use cachalot_store::conformance::Subject;
use cachalot_store::{
    ErrorKind, Label, LabelMatch, PageRequest, PutAllResult, PutCondition, PutResult, RecordFilter,
    ReserveResult, Store as _, counter, space,
};
use tokio::sync::Mutex;

use crate::{parse, record, runtime, subject};

cachalot_store::memory_conformance_checks! { checks, empty() }

/// The cluster has one database: the tests have it one after another.
fn empty() -> Option<Subject> {
    static TURN: Mutex<()> = Mutex::const_new(());
    let cluster = RedisCluster::shared()?;
    let turn = TURN.blocking_lock();
    cluster.clear();
    let url = parse(&cluster.url());
    let open = |shift| RedisStore::with_shift(Server::new(&url, None).unwrap(), shift);
    Some(subject(open).keeping(turn))
}

fn open(url: &str) -> RedisStore {
    RedisStore::new(Server::new(&parse(url), None).unwrap())
}

async fn put(store: &RedisStore, space: &str, key: &str) {
    let labels = vec![Label::new("tag", "x")];
    let new = record(key.to_owned(), b"value".to_vec(), labels);
    let stored = store.put(space, new, None, &[]).settle().await;
    assert!(matches!(stored, Ok(PutResult::Stored { .. })), "{stored:?}");
}

#[test]
fn clusters_and_single_servers_are_told_apart() {
    let (Some(cluster), Some(server)) = (RedisCluster::shared(), RedisServer::shared()) else {
        return;
    };
    runtime().block_on(async {
        let single = cluster.url().replace("redis-cluster", "redis");
        let single = single.split(',').next().unwrap().to_owned();
        let of_cluster = open(&single).get("space", "key", &[]).settle().await;
        let of_single = server.fresh_url();
        let of_single = of_single.rsplit_once('/').unwrap().0;
        let of_single = open(&of_single.replace("redis:", "redis-cluster:"));
        let of_single = of_single.get("space", "key", &[]).settle().await;
        for (error, remedy) in [(of_cluster, "write redis-cluster://"), (of_single, "redis")] {
            let error = error.unwrap_err();
            assert!(error.message.contains(remedy), "{error}");
            assert!(!error.message.contains(PASSWORD), "{error}");
        }
    });
}

/// What a call for all keys changes is seen through every key, and through the lease of every key.
#[test]
fn erases_and_counters_reach_all_shards() {
    let Some(_turn) = empty() else {
        return;
    };
    let url = RedisCluster::shared().unwrap().url();
    runtime().block_on(async {
        let (store, other) = (open(&url), open(&url));
        let keys: Vec<String> = (0..300).map(|number| format!("key {number:03}")).collect();
        for key in &keys {
            put(&store, space::CACHE, key).await;
        }
        assert_eq!(
            store.usage(space::CACHE).settle().await.unwrap().records,
            300
        );
        let tagged = RecordFilter {
            labels: &[LabelMatch::Is {
                name: "tag",
                value: "x",
            }],
            ..RecordFilter::default()
        };
        let page = store.find(space::CACHE, &tagged, PageRequest::keys(200));
        let page = page.settle().await.unwrap();
        let found: Vec<_> = page.records.iter().map(|record| &record.key).collect();
        assert_eq!(found, keys[..200].iter().collect::<Vec<_>>());
        assert_eq!(page.next.as_deref(), Some("key 199"));
        let mut leases = Vec::new();
        for number in 0..100 {
            let key = format!("leased {number}");
            let labels = [Label::new("tag", "x")];
            let lease = store.reserve(space::CACHE, &key, &labels, Duration::from_secs(60));
            let ReserveResult::Held(lease) = lease.settle().await.unwrap() else {
                panic!("it is free");
            };
            leases.push(lease);
        }
        let read = async |key: &str| {
            let counters = ["epoch", counter::ERASED];
            other
                .get(space::CACHE, key, &counters)
                .settle()
                .await
                .unwrap()
        };
        let before = read("key 000").await.counters;
        let added = store.add(space::CACHE, &[("epoch", 2)]).settle().await;
        assert_eq!(added.unwrap(), [2]);
        let erased = store.erase(space::CACHE, &tagged, PageRequest::keys(250));
        let erased = erased.settle().await.unwrap();
        let found: Vec<_> = erased.records.iter().map(|record| &record.key).collect();
        assert_eq!(found, keys[..250].iter().collect::<Vec<_>>());
        assert_eq!(erased.next.as_deref(), Some("key 249"));
        for (number, key) in keys.iter().enumerate() {
            let found = read(key).await;
            assert_eq!(found.record.is_some(), number >= 250, "{key}");
            assert_eq!(found.counters[0], 2, "{key}");
            assert!(found.counters[1] > before[1], "{key}");
        }
        for lease in leases {
            let new = record(lease.key.clone(), Vec::new(), Vec::new());
            let late = store.put(space::CACHE, new, Some(&lease), &[]);
            assert_eq!(late.settle().await.unwrap(), PutResult::LeaseLost);
        }
    });
}

/// Records of sessions are in one shard.
#[test]
fn records_of_a_session_are_stored_together() {
    let Some(_turn) = empty() else {
        return;
    };
    let url = RedisCluster::shared().unwrap().url();
    runtime().block_on(async {
        let store = open(&url);
        let condition = PutCondition {
            space: "sessions",
            key: "head",
            value: None,
        };
        let new = |key: &str| record(key.to_owned(), Vec::new(), Vec::new());
        let records = vec![
            ("sessions", new("head")),
            ("pieces", new("a")),
            ("pieces", new("b")),
        ];
        let stored = store.put_all(condition, records).settle().await;
        assert_eq!(stored.unwrap(), PutAllResult::Stored);
        assert_eq!(store.usage("pieces").settle().await.unwrap().records, 2);
    });
}

/// A replica takes over: it may not have the last writes. A shard that has lost counters has other values than the
/// others, and all of them change with the next increment.
#[test]
fn nothing_from_before_a_failover_is_served() {
    let Some(mut cluster) = RedisCluster::start(1) else {
        return;
    };
    let url = cluster.url();
    runtime().block_on(async {
        let store = open(&url);
        let keys: Vec<String> = (0..60).map(|number| format!("key {number}")).collect();
        for key in &keys {
            put(&store, space::CACHE, key).await;
        }
        let added = store.add(space::CACHE, &[("epoch", 1)]).settle().await;
        assert_eq!(added.unwrap(), [1]);

        // A node that gives its shards to a replica says where they are.
        let primaries = cluster.primaries();
        let replica = (0..6).find(|number| !primaries.contains(number)).unwrap();
        cluster.nodes()[replica].execute(&["CLUSTER", "FAILOVER"]);
        cluster.wait_for_primary(replica);
        for key in &keys {
            let found = store.get(space::CACHE, key, &["epoch"]).settle().await;
            assert!(found.unwrap().counters[0] >= 1);
            put(&store, space::CACHE, key).await;
        }
        let count = store.add(space::CACHE, &[("epoch", 1)]).settle().await;
        let count = count.unwrap()[0];

        let primary = cluster.primaries()[0];
        cluster.nodes()[primary].stop();
        let started = Instant::now();
        let mut answered = 0;
        let mut last = None;
        while answered < keys.len() {
            assert!(started.elapsed() < Duration::from_secs(40), "{last:?}");
            answered = 0;
            for key in &keys {
                match store.get(space::CACHE, key, &["epoch"]).settle().await {
                    Ok(_) => answered += 1,
                    Err(error) => {
                        assert!(
                            matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Busy),
                            "{error}"
                        );
                        last = Some(error);
                    }
                }
            }
        }
        let mut served = Vec::new();
        let mut before = Vec::new();
        for key in &keys {
            let found = store
                .get(space::CACHE, key, &["epoch"])
                .settle()
                .await
                .unwrap();
            before.push(found.counters[0]);
            // Where the counter is what it was, nothing was lost.
            assert_eq!(found.record.is_some(), found.counters[0] == count, "{key}");
            served.push(found.record.is_some());
        }
        assert!(
            served.contains(&true) && served.contains(&false),
            "{served:?}"
        );
        let added = store
            .add(space::CACHE, &[("epoch", 1)])
            .settle()
            .await
            .unwrap()[0];
        for (key, before) in keys.iter().zip(before) {
            let found = open(&url)
                .get(space::CACHE, key, &["epoch"])
                .settle()
                .await
                .unwrap();
            assert!(
                found.counters[0] > before,
                "{key}: {} {before}",
                found.counters[0]
            );
            assert!(found.counters[0] >= added);
        }
    });
}
