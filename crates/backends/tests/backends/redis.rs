//! The contract of a store, on a Redis server that the test process starts.

use std::time::Duration;

use cachalot_backends::followed::FollowedStore;
use cachalot_backends::redis::{RedisStore, Server};
use cachalot_backends::testing::{PASSWORD, RedisServer};
use cachalot_store::conformance::Subject;
use cachalot_store::{
    Error, ErrorKind, GetResult, Label, LabelMatch, PageRequest, PutResult, RecordFilter,
    ReserveResult, Store as _, counter, space,
};

use crate::{CONNECT_TIMEOUT, parse, record, runtime, subject};

cachalot_store::memory_conformance_checks! { checks, shared() }

fn shared() -> Option<Subject> {
    let url = parse(&RedisServer::shared()?.fresh_url());
    let open = |shift| {
        RedisStore::with_shift(
            Server::new(&url, None)
                .unwrap()
                .connecting_within(CONNECT_TIMEOUT),
            shift,
        )
    };
    Some(subject(open))
}

fn open(url: &str) -> RedisStore {
    RedisStore::new(
        Server::new(&parse(url), None)
            .unwrap()
            .connecting_within(CONNECT_TIMEOUT),
    )
}

async fn get(store: &RedisStore, space: &str, key: &str, counter: &str) -> GetResult {
    let counters = [counter];
    // The first call after a restart may find the old connection closed.
    let _ = store.get(space, key, &counters).settle().await;
    let found = store.get(space, key, &counters);
    found.settle().await.unwrap()
}

async fn put(store: &RedisStore, space: &str, key: &str) {
    let new = record(key.to_owned(), b"value".to_vec(), Vec::new());
    let stored = store.put(space, new, None, &[]).settle().await;
    assert!(matches!(stored, Ok(PutResult::Stored { .. })));
}

/// A server that starts again has the state of its last snapshot: later increments, erases and ends of leases are lost.
#[test]
fn nothing_from_before_a_restart_is_served_or_stored() {
    let Some(mut server) = RedisServer::start(&[]) else {
        return;
    };
    let url = server.fresh_url();
    runtime().block_on(async {
        let (store, other) = (open(&url), open(&url));
        put(&store, space::CACHE, "kept").await;
        put(&store, space::CACHE, "erased").await;
        put(&store, space::USER, "fact").await;
        let lease = store.reserve(space::CACHE, "leased", &[], Duration::from_secs(3600));
        let ReserveResult::Held(lease) = lease.settle().await.unwrap() else {
            panic!("the key is reserved");
        };
        for counter in ["epoch:raised", "epoch:kept"] {
            let added = store.add(space::CACHE, &[(counter, 1)]).settle().await;
            assert_eq!(added.unwrap(), [1]);
        }
        let erased = get(&store, space::CACHE, "kept", counter::ERASED).await;
        let erased = erased.counters[0];
        assert_eq!(server.execute(&["SAVE"]).trim(), "OK");
        let added = other.add(space::CACHE, &[("epoch:raised", 1), ("epoch:new", 1)]);
        assert_eq!(added.settle().await.unwrap(), [2, 1]);
        let filter = RecordFilter {
            prefix: "erased",
            ..RecordFilter::default()
        };
        let lost = other.erase(space::CACHE, &filter, PageRequest::keys(9));
        assert_eq!(lost.settle().await.unwrap().records.len(), 1);

        server.restart();
        for store in [&store, &other, &open(&url)] {
            for (counter, was) in [
                ("epoch:raised", 2),
                ("epoch:kept", 1),
                ("epoch:new", 1),
                (counter::ERASED, erased),
            ] {
                for key in ["kept", "erased"] {
                    let found = get(store, space::CACHE, key, counter).await;
                    assert_eq!(found.record, None, "{key}");
                    assert!(found.counters[0] > was, "{counter}: {}", found.counters[0]);
                }
            }
            // Long-term memory does not depend on what was lost.
            let found = get(store, space::USER, "fact", "x").await;
            assert_eq!(found.record.unwrap().value, "value");
        }
        let late = record("leased".to_owned(), Vec::new(), Vec::new());
        let late = store
            .put(space::CACHE, late, Some(&lease), &[])
            .settle()
            .await;
        assert_eq!(late.unwrap(), PutResult::LeaseLost);
        let renewed = store.renew(&lease, Duration::from_secs(60)).settle().await;
        assert!(!renewed.unwrap());
        let again = store.reserve(space::CACHE, "leased", &[], Duration::from_secs(60));
        let ReserveResult::Held(again) = again.settle().await.unwrap() else {
            panic!("the key is not reserved any more");
        };
        assert!(again.fence > lease.fence);
        put(&store, space::CACHE, "kept").await;
        let found = get(&other, space::CACHE, "kept", "epoch:kept").await;
        assert_eq!(found.record.unwrap().value, "value");
    });
}

/// A server that keeps nothing in files, and one whose database is emptied, forget that a counter was ever raised.
#[test]
fn counters_of_an_emptied_space_are_others_than_before() {
    let Some(mut server) = RedisServer::start(&[]) else {
        return;
    };
    let url = server.fresh_url();
    runtime().block_on(async {
        let store = open(&url);
        for number in 0..2 {
            let before = get(&store, space::CACHE, "key", "epoch").await.counters[0];
            let lease = store.reserve(space::CACHE, "key", &[], Duration::from_secs(60));
            assert!(matches!(lease.settle().await, Ok(ReserveResult::Held(_))));
            match number {
                0 => server.restart(),
                _ => drop(server.execute(&["FLUSHALL"])),
            }
            // The first call may find the old connection closed.
            let _ = store.usage(space::CACHE).settle().await;
            let new = record("key".to_owned(), Vec::new(), Vec::new());
            let counters = [("epoch", before)];
            let put = store.put(space::CACHE, new, None, &counters);
            assert_eq!(
                put.settle().await.unwrap(),
                PutResult::CounterChanged { counter: 0 }
            );
            let after = get(&store, space::CACHE, "key", "epoch").await.counters[0];
            assert!(after > before, "{after}");
        }
        // To a client that has not used it, the space is a new one.
        server.execute(&["FLUSHALL"]);
        let found = get(&open(&url), space::CACHE, "key", "epoch").await;
        assert_eq!(found.counters, [0]);
    });
}

async fn first_call(url: &str) -> Error {
    let answer = open(url).get("space", "key", &[]).settle().await;
    answer.unwrap_err()
}

#[test]
fn server_that_evicts_any_key_is_refused() {
    let Some(server) = RedisServer::start(&["--maxmemory-policy", "allkeys-lru"]) else {
        return;
    };
    runtime().block_on(async {
        let error = first_call(&server.fresh_url()).await;
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.to_string().contains("noeviction"), "{error}");
        for policy in ["noeviction", "volatile-ttl"] {
            server.execute(&["CONFIG", "SET", "maxmemory-policy", policy]);
            let store = open(&server.fresh_url());
            put(&store, "space", "key").await;
        }
    });
}

#[test]
fn full_server_says_so() {
    let Some(server) = RedisServer::start(&["--maxmemory", "8mb"]) else {
        return;
    };
    runtime().block_on(async {
        let url = server.fresh_url();
        let store = open(&url);
        let mut last = Ok(PutResult::LeaseLost);
        for number in 0..20 {
            let new = record(number.to_string(), vec![1; 1 << 20], Vec::new());
            last = store.put("space", new, None, &[]).settle().await;
        }
        let error = last.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Full, "{error}");
        let found = store.get("space", "0", &[]).settle().await.unwrap();
        assert!(found.record.is_some());
        // Nothing that has to be known to others is lost, and room can be made.
        let added = store.add("space", &[("epoch", 1)]).settle().await;
        assert_eq!(added.unwrap(), [1]);
        // Lookups work also when the server has another identity, so that a new incarnation begins.
        server.execute(&["REPLICAOF", "127.0.0.1", "1"]);
        server.execute(&["REPLICAOF", "NO", "ONE"]);
        let found = store.get("space", "0", &["epoch"]).settle().await.unwrap();
        assert!(found.counters[0] > 1);
        let found = open(&url).get("space", "0", &[]).settle().await;
        assert!(found.unwrap().record.is_some());
        let all = RecordFilter::default();
        let erased = store.erase("space", &all, PageRequest::keys(100));
        assert!(!erased.settle().await.unwrap().records.is_empty());
        put(&store, "space", "key").await;
    });
}

/// A user needs the rights that the documentation names, and no other ones.
#[test]
fn documented_rights_are_enough() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let rights = "on >limited ~cachalot:* +@read +@write +info +time +evalsha +script|load +wait";
    let user = |name: &str, more: &str| {
        let all = ["ACL", "SETUSER", name].into_iter();
        let all = all.chain(rights.split(' ')).chain(more.split_whitespace());
        let set = server.execute(&all.collect::<Vec<_>>());
        assert_eq!(set.trim(), "OK", "{name}");
        format!("redis://{name}:limited@127.0.0.1:{}", server.port())
    };
    runtime().block_on(async {
        let store = open(&user("first-database", ""));
        put(&store, space::CACHE, "key").await;
        store
            .add(space::CACHE, &[("epoch", 1)])
            .settle()
            .await
            .unwrap();
        let url = user("numbered-database", "+select");
        put(&open(&format!("{url}/1")), space::CACHE, "key").await;
        let url = user("followed", "+hello +client|tracking");
        let store = FollowedStore::new(open(&url), Duration::from_secs(1));
        let findings = store.inspect().settle().await.unwrap();
        let staleness = findings.iter().find(|one| one.topic == "staleness");
        assert_eq!(staleness.unwrap().remedy, None, "{staleness:?}");
    });
}

/// The order of names is that of their bytes on every server, also on one that has another order for text.
#[test]
fn order_of_names_does_not_depend_on_the_locale() {
    let Some(server) = RedisServer::start_in_english() else {
        return;
    };
    let names = ["Alpha", "Beta", "Gamma", "alpha", "beta", "delta", "z1"];
    let by = |kind: &str| -> Vec<LabelMatch<'static>> {
        let name = "tag";
        match kind {
            "is" => vec![LabelMatch::Is { name, value: "x" }],
            "starts" => vec![LabelMatch::Starts { name, prefix: "x" }],
            "glob" => {
                let pattern = "*x";
                vec![LabelMatch::Glob { name, pattern }]
            }
            _ => Vec::new(),
        }
    };
    runtime().block_on(async {
        for kind in ["all", "is", "starts", "glob", "expired"] {
            for erases in [false, true] {
                let store = open(&server.fresh_url());
                for name in names {
                    let labels = vec![Label::new("tag", "x")];
                    let mut new = record(name.to_owned(), Vec::new(), labels);
                    new.expires = Some(1);
                    store
                        .put(space::USER, new, None, &[])
                        .settle()
                        .await
                        .unwrap();
                }
                let labels = by(kind);
                let filter = RecordFilter {
                    labels: &labels,
                    expired_before: (kind == "expired").then_some(2),
                    ..RecordFilter::default()
                };
                let mut found: Vec<String> = Vec::new();
                loop {
                    let page = PageRequest {
                        after: found.last().map(String::as_str),
                        ..PageRequest::keys(2)
                    };
                    let page = if erases {
                        store.erase(space::USER, &filter, page).settle().await
                    } else {
                        store.find(space::USER, &filter, page).settle().await
                    };
                    let page = page.unwrap().records;
                    if page.is_empty() {
                        break;
                    }
                    found.extend(page.into_iter().map(|record| record.key));
                }
                assert_eq!(found, names, "{kind}, erases: {erases}");
            }
        }
    });
}

/// An erase and an increment succeed only if the replicas have them.
#[test]
fn erases_and_increments_wait_for_replicas() {
    let Some(primary) = RedisServer::start(&["--repl-diskless-sync-delay", "0"]) else {
        return;
    };
    let port = primary.port().to_string();
    let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &port]).unwrap();
    let is_connected = || {
        replica
            .execute(&["INFO", "replication"])
            .contains("master_link_status:up")
    };
    while !is_connected() {
        std::thread::sleep(Duration::from_millis(50));
    }
    runtime().block_on(async {
        let store = open(&primary.fresh_url());
        let added = store.add("space", &[("epoch", 1)]).settle().await;
        assert_eq!(added.unwrap(), [1]);
        let error = first_call(&replica.fresh_url()).await;
        assert!(error.message.contains("is a replica"), "{error}");
        assert_eq!(error.kind, ErrorKind::Unavailable);

        // The replica's process stops; the connection stays.
        replica.signal("STOP");
        let added = store.add("space", &[("epoch", 1)]).settle().await;
        let all = RecordFilter::default();
        let erased = store.erase("space", &all, PageRequest::keys(1));
        let erased = erased.settle().await;
        replica.signal("CONT");
        for error in [added.unwrap_err(), erased.unwrap_err()] {
            assert_eq!(error.kind, ErrorKind::Unavailable);
            assert!(error.message.contains("confirmed"), "{error}");
        }
        // Lookups and puts do not wait for replicas.
        put(&store, "space", "key").await;
    });
}

#[test]
fn socket_in_the_file_system_is_a_server() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let socket = server.socket();
    let socket = socket.to_str().unwrap();
    runtime().block_on(async {
        let url = format!("unix:{socket}?db=9999&pass={PASSWORD}");
        let store = open(&url);
        put(&store, "space", "key").await;
        assert!(!parse(&url).location().contains(PASSWORD));
        let error = first_call(&format!("unix://{socket}?db=9999")).await;
        assert_eq!(error.kind, ErrorKind::Denied, "{error}");
        let server = Server::new(&parse(&format!("unix://{socket}?db=9999")), Some(PASSWORD));
        let found = RedisStore::new(server.unwrap())
            .get("space", "key", &[])
            .settle()
            .await;
        assert!(found.unwrap().record.is_some());
    });
}

#[test]
fn wrong_password_and_missing_server_are_told_apart() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let url = server.fresh_url();
    runtime().block_on(async {
        let error = first_call(&url.replace(PASSWORD, "wrong-secret")).await;
        assert_eq!(error.kind, ErrorKind::Denied);
        assert!(!error.message.contains("wrong-secret"), "{error}");
        let error = first_call("redis://127.0.0.1:1/0").await;
        assert_eq!(error.kind, ErrorKind::Unavailable);
    });
}
