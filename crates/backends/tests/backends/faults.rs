//! Faults between the client and a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cachalot_backends::testing::{
    Fault, FaultProxy, FirestoreEmulator, LibsqlServer, PostgresServer, RedisServer,
};
use cachalot_backends::{OpenOptions, open};
use cachalot_store::{Error, ErrorKind, GetOrReserve, PutResult, ReserveResult, Stale, Store};

use crate::{parse, patient, record, runtime};

/// How long the cache waits for a lookup by default.
const PATIENCE: Duration = Duration::from_millis(250);
/// Longer than anything takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A store behind a proxy on the server with a URL and a port.
pub(crate) fn proxied(url: &str, port: u16) -> (FaultProxy, Arc<dyn Store>) {
    let proxy = FaultProxy::start(port);
    let url = proxy.url(url, port);
    let store = open(&parse(&url), &patient()).unwrap();
    (proxy, store)
}

/// A store behind a proxy on each server that is used over connections that stay.
pub(crate) fn stores_with_connections() -> Vec<(FaultProxy, Arc<dyn Store>)> {
    let mut stores = Vec::new();
    if let Some(server) = PostgresServer::shared() {
        stores.push(proxied(&server.fresh_url(), server.port()));
    }
    if let Some(server) = RedisServer::shared() {
        stores.push(proxied(&server.fresh_url(), server.port()));
    }
    stores
}

/// A store behind a proxy on each server of this machine.
fn stores() -> Vec<(FaultProxy, Arc<dyn Store>)> {
    let mut stores = stores_with_connections();
    if let Some(server) = LibsqlServer::start(&[]) {
        // Runs until the end of the process.
        let server = Box::leak(Box::new(server));
        stores.push(proxied(&server.url(), server.port()));
    }
    if let Some(emulator) = FirestoreEmulator::shared() {
        let proxy = FaultProxy::start(emulator.port());
        let environment = emulator.environment();
        let through = |(name, host): (String, String)| (name, proxy.url(&host, emulator.port()));
        let options = OpenOptions {
            environment: environment.into_iter().map(through).collect(),
            ..patient()
        };
        let store = open(&parse(&emulator.fresh_url()), &options).unwrap();
        stores.push((proxy, store));
    }
    stores
}

/// A value that names its key.
fn value(key: &str) -> Vec<u8> {
    key.repeat(2000).into_bytes()
}

async fn put(store: &dyn Store, key: &str) -> Result<PutResult, Error> {
    let new = record(key.to_owned(), value(key), Vec::new());
    store.put("space", new, None, &[]).settle().await
}

/// Looks up as the cache does, without its limit of time.
async fn get(store: &dyn Store, key: &str) -> Result<bool, Error> {
    get_within(store, key, LONG).await
}

/// Looks up as the cache does. A value has to be that of the key.
async fn get_within(store: &dyn Store, key: &str, limit: Duration) -> Result<bool, Error> {
    let found = store.get("space", key, &["counter"]).within(limit).await?;
    assert_eq!(found.counters, [0]);
    Ok(match found.record {
        Some(found) => {
            assert!(
                found.key == key && found.value == value(key),
                "another value"
            );
            true
        }
        None => false,
    })
}

/// Waits until lookups succeed again.
async fn recover(store: &dyn Store, key: &str) {
    let began = Instant::now();
    while !matches!(get_within(store, key, LONG / 20).await, Ok(true)) {
        assert!(
            began.elapsed() < LONG,
            "{} does not recover",
            store.about().name
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn connection_that_ends_within_a_reply_is_replaced() {
    runtime().block_on(async {
        for (proxy, store) in stores() {
            let store = store.as_ref();
            put(store, "key").await.unwrap();
            for bytes in [0, 1, 9, 300] {
                proxy.set(Fault::Cut(bytes));
                let error = get(store, "key").await.unwrap_err();
                assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
                proxy.set(Fault::None);
                recover(store, "key").await;
            }
        }
    });
}

#[test]
fn server_that_refuses_or_hangs_costs_no_more_than_the_limit() {
    runtime().block_on(async {
        for (proxy, store) in stores() {
            let store = store.as_ref();
            put(store, "key").await.unwrap();
            proxy.set(Fault::Refuse);
            tokio::time::sleep(Duration::from_millis(100)).await;
            let error = get(store, "key").await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
            proxy.set(Fault::None);
            recover(store, "key").await;

            proxy.set(Fault::Hang);
            let error = get_within(store, "key", PATIENCE).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::TimedOut, "{error}");
            proxy.set(Fault::None);
            recover(store, "key").await;
        }
    });
}

/// The connection stays, and nothing comes back on it: a proxy has lost its server.
#[test]
fn abandoned_connections_are_replaced() {
    runtime().block_on(async {
        for (proxy, store) in stores() {
            let store = store.as_ref();
            put(store, "key").await.unwrap();
            assert!(get(store, "key").await.unwrap());
            proxy.set(Fault::Abandon);
            let error = get_within(store, "key", PATIENCE).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::TimedOut, "{error}");
            proxy.set(Fault::None);
            recover(store, "key").await;
            // Writes have connections of their own.
            let stored = async {
                while !matches!(
                    tokio::time::timeout(LONG / 20, put(store, "other")).await,
                    Ok(Ok(PutResult::Stored { .. }))
                ) {}
            };
            tokio::time::timeout(LONG, stored).await.unwrap();
        }
    });
}

/// Calls that are dropped while their replies are under way leave the replies of others in place.
#[test]
fn replies_of_dropped_calls_reach_no_other_call() {
    runtime().block_on(async {
        for (proxy, store) in stores() {
            let keys: Vec<String> = (0..20).map(|number| format!("key-{number}")).collect();
            for key in &keys {
                put(store.as_ref(), key).await.unwrap();
            }
            proxy.set(Fault::Delay(Duration::from_millis(3)));
            let mut tasks = tokio::task::JoinSet::new();
            for task in 0..8_u64 {
                let (store, keys) = (Arc::clone(&store), keys.clone());
                tasks.spawn(async move {
                    let (mut found, mut dropped) = (0, 0);
                    for step in 0..60 {
                        let key = &keys[(task * 7 + step * 3) as usize % keys.len()];
                        let limit = Duration::from_micros((step * 997 + task * 131) % 9000);
                        match tokio::time::timeout(limit, get(store.as_ref(), key)).await {
                            Ok(result) => {
                                assert!(result.unwrap());
                                found += 1;
                            }
                            Err(_) => dropped += 1,
                        }
                    }
                    (found, dropped)
                });
            }
            let ended = tasks.join_all().await;
            let dropped: u64 = ended.iter().map(|(_, dropped)| dropped).sum();
            assert!(dropped > 50, "{ended:?}");
            proxy.set(Fault::None);
            recover(store.as_ref(), &keys[0]).await;
            for key in &keys {
                assert!(get(store.as_ref(), key).await.unwrap());
            }
        }
    });
}

/// A write that was answered is there, however the connection ends; one that was not is there or not.
#[test]
fn acknowledged_writes_survive_cuts() {
    runtime().block_on(async {
        for (proxy, store) in stores() {
            let store = store.as_ref();
            let mut acknowledged = Vec::new();
            for number in 0..40 {
                let key = format!("key-{number}");
                proxy.set(match number % 4 {
                    1 => Fault::Cut(1),
                    3 => Fault::Refuse,
                    _ => Fault::None,
                });
                if let Ok(PutResult::Stored { .. }) = put(store, &key).await {
                    acknowledged.push(key);
                }
            }
            proxy.set(Fault::None);
            recover(store, &acknowledged[0]).await;
            assert!(acknowledged.len() >= 10, "{}", acknowledged.len());
            for key in &acknowledged {
                assert!(get(store, key).await.unwrap(), "{key}");
            }
        }
    });
}

#[test]
fn calls_are_few_round_trips() {
    /// True while the only thread of the runtime has nothing to do: all requests of a round trip are sent.
    static IS_IDLE: AtomicBool = AtomicBool::new(false);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(|| IS_IDLE.store(true, Ordering::SeqCst))
        .on_thread_unpark(|| IS_IDLE.store(false, Ordering::SeqCst))
        .build();
    runtime.unwrap().block_on(async {
        for (proxy, store) in stores() {
            let name = store.about().name;
            let (lookup, miss, write) = match name {
                "postgres" | "redis" => (1, 1, 1),
                "turso" => (1, 1, 1),
                // A reservation depends on what was read; a write under conditions begins a transaction.
                "firestore" => (1, 2, 3),
                other => panic!("{other}"),
            };
            let request = GetOrReserve {
                counters: &["counter"],
                labels: &[],
                hold: Duration::from_secs(60),
                stale: Stale::None,
            };
            // Connections are opened.
            for key in ["a", "b", "c", "d", "e", "f"] {
                put(&*store, key).await.unwrap();
                store
                    .get_or_reserve("space", key, request)
                    .settle()
                    .await
                    .unwrap();
                get(&*store, key).await.unwrap();
            }
            proxy.set(Fault::WhenIdle(|| IS_IDLE.load(Ordering::SeqCst)));
            let before = proxy.round_trips();
            let found = store
                .get_or_reserve("space", "a", request)
                .settle()
                .await
                .unwrap();
            assert!(found.reserved.is_none());
            assert_eq!(proxy.round_trips() - before, lookup, "lookup on {name}");
            let before = proxy.round_trips();
            let found = store
                .get_or_reserve("space", "new", request)
                .settle()
                .await
                .unwrap();
            assert_eq!(proxy.round_trips() - before, miss, "miss on {name}");
            let Some(ReserveResult::Held(lease)) = found.reserved else {
                panic!("not reserved");
            };
            // One in 64 reservations on Firestore, chosen by the time, removes old leases beside the next call.
            let clean_up = name == "firestore" && lease.fence.is_multiple_of(64);
            let write = write + usize::from(clean_up);
            let before = proxy.round_trips();
            let new = record("new".to_owned(), value("new"), Vec::new());
            let stored = store.put("space", new, Some(&lease), &[("counter", 0)]);
            assert!(matches!(
                stored.settle().await.unwrap(),
                PutResult::Stored { .. }
            ));
            assert_eq!(proxy.round_trips() - before, write, "write on {name}");
        }
    });
}

/// The server of a session that may only read, as a role or a full disk makes it, refuses writes; lookups work.
#[test]
fn postgres_that_is_read_only_still_answers() {
    let Some(server) = PostgresServer::shared() else {
        return;
    };
    let url = server.fresh_url();
    runtime().block_on(async {
        let writer = open(&parse(&url), &patient()).unwrap();
        put(&*writer, "key").await.unwrap();
        let url = url.replace(
            "options=",
            "options=-cdefault_transaction_read_only%3Don%20",
        );
        let reader = open(&parse(&url), &patient()).unwrap();
        let request = GetOrReserve {
            counters: &[],
            labels: &[],
            hold: Duration::from_secs(60),
            stale: Stale::None,
        };
        let hit = reader
            .get_or_reserve("space", "key", request)
            .settle()
            .await
            .unwrap();
        assert_eq!(hit.found.record.unwrap().value, value("key"));
        assert!(get(&*reader, "key").await.unwrap());
        let error = put(&*reader, "other").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied, "{error}");
        assert!(error.message.contains("read-only"), "{error}");
        let miss = reader
            .get_or_reserve("space", "other", request)
            .settle()
            .await;
        assert_eq!(miss.unwrap_err().kind, ErrorKind::Denied);
        assert!(!get(&*writer, "other").await.unwrap());
    });
}

/// The server reports that its disk is full (by a trigger: a full disk needs rights that tests do not have).
#[test]
fn postgres_without_space_is_reported_and_recovers() {
    let Some(server) = PostgresServer::shared() else {
        return;
    };
    let url = server.fresh_url();
    runtime().block_on(async {
        let store = open(&parse(&url), &patient()).unwrap();
        put(&*store, "key").await.unwrap();
        server.execute(
            &url,
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$; \
             CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON cachalot_records \
             FOR EACH ROW EXECUTE FUNCTION full_disk()",
        );
        let error = put(&*store, "other").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Full, "{error}");
        assert!(get(&*store, "key").await.unwrap());
        assert_eq!(store.usage("space").settle().await.unwrap().records, 1);
        server.execute(&url, "DROP TRIGGER full_disk ON cachalot_records");
        put(&*store, "other").await.unwrap();
        assert!(get(&*store, "other").await.unwrap());
        assert_eq!(store.usage("space").settle().await.unwrap().records, 2);
    });
}
