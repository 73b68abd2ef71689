//! Lookups on real servers on the loopback interface, as ratios to the bare lookup of the same value by the same
//! client, measured in turns. Medians.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use cachalot_backends::testing::{LibsqlServer, PostgresServer, RedisCluster, RedisServer};
use cachalot_backends::{OpenOptions, StoreUrl, open};
use cachalot_store::{Label, LabelMatch, PageRequest, PutResult, Record, RecordFilter, Store};
use redis::AsyncCommands as _;
use tokio::runtime::{Builder, Runtime};

const SIZES: [(usize, &str); 3] = [(100, "100 B"), (10_000, "10 kB"), (1_000_000, "1 MB")];
const ROUNDS: usize = 400;

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn store(url: &str) -> Arc<dyn Store> {
    open(&StoreUrl::recognize(url).unwrap(), &OpenOptions::default()).unwrap()
}

async fn put(store: &dyn Store, key: &str, value: Vec<u8>, labels: Vec<Label>) {
    let record = Record {
        key: key.to_owned(),
        value: value.into(),
        labels,
        expires: Some(i64::MAX),
        revision: 0,
        updated: 0,
    };
    let stored = store.put("cache", record, None, &[]).settle().await;
    assert!(matches!(stored, Ok(PutResult::Stored { .. })));
}

async fn get(store: &dyn Store, key: &str) {
    let counters = ["erased", "epoch:workspace"];
    let found = store.get("cache", key, &counters).settle().await.unwrap();
    assert!(found.record.is_some());
}

/// Prints the ratio of a lookup to the bare one, and of 16 lookups at a time to one at a time.
async fn lookups(name: &str, store: Arc<dyn Store>, bare: impl AsyncFn(&str)) {
    for (_, size) in SIZES {
        let (mut own, mut reference) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let began = Instant::now();
            get(store.as_ref(), size).await;
            own.push(began.elapsed());
            let began = Instant::now();
            bare(size).await;
            reference.push(began.elapsed());
        }
        let (own, reference) = (median(own), median(reference));
        println!(
            "{name} {size}: {own:.1?}, bare {reference:.1?}, ratio {:.2}",
            own.as_secs_f64() / reference.as_secs_f64()
        );
    }
    let began = Instant::now();
    for _ in 0..2_000 {
        get(store.as_ref(), "100 B").await;
    }
    let alone = began.elapsed();
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            for _ in 0..1_000 {
                get(store.as_ref(), "100 B").await;
            }
        });
    }
    tasks.join_all().await;
    let (one, several) = (
        2_000.0 / alone.as_secs_f64(),
        16_000.0 / began.elapsed().as_secs_f64(),
    );
    println!(
        "{name}: {one:.0} lookups per second one at a time, {several:.0} 16 at a time, ratio {:.1}",
        several / one
    );
}

/// Prints the cost of lookups, invalidations by label and sweeps, as the number of entries grows, each time after
/// `settle`.
async fn growth(name: &str, store: Arc<dyn Store>, settle: impl AsyncFn()) {
    let mut entries = 0;
    for maximum in [1_000, 10_000, 100_000, 1_000_000] {
        let mut tasks = tokio::task::JoinSet::new();
        for part in 0..16 {
            let store = Arc::clone(&store);
            tasks.spawn(async move {
                for number in (entries..maximum).filter(|number| number % 16 == part) {
                    let labels = vec![
                        Label::new("action", "http.get"),
                        Label::new("file", format!("{}", number / 10)),
                    ];
                    put(
                        store.as_ref(),
                        &format!("key-{number}"),
                        vec![7; 200],
                        labels,
                    )
                    .await;
                }
            });
        }
        tasks.join_all().await;
        entries = maximum;
        settle().await;
        let (mut found, mut erased, mut swept) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..50 {
            let number = (round * 997 + 13) % (maximum / 20) * 10 + 3;
            let began = Instant::now();
            get(
                store.as_ref(),
                &format!("key-{}", maximum / 2 + number / 10),
            )
            .await;
            found.push(began.elapsed());
            let value = format!("{}", (maximum / 2 + maximum / 4 + round * 17) / 10);
            let filter = RecordFilter {
                labels: &[LabelMatch::Is {
                    name: "file",
                    value: &value,
                }],
                ..RecordFilter::default()
            };
            let began = Instant::now();
            let page = store.erase("cache", &filter, PageRequest::keys(100));
            page.settle().await.unwrap();
            erased.push(began.elapsed());
            let filter = RecordFilter {
                expired_before: Some(1),
                order: cachalot_store::Order::Expiry,
                ..RecordFilter::default()
            };
            let began = Instant::now();
            let page = store.erase("cache", &filter, PageRequest::keys(100));
            assert!(page.settle().await.unwrap().records.is_empty());
            swept.push(began.elapsed());
        }
        println!(
            "{name}, {maximum} entries: lookup {:.1?}, invalidate by label {:.1?}, sweep of nothing {:.1?}",
            median(found),
            median(erased),
            median(swept)
        );
    }
}

async fn on_redis(server: &RedisServer) {
    let url = server.fresh_url();
    let store_here = store(&url);
    let client = redis::Client::open(url.as_str()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    for (bytes, size) in SIZES {
        put(store_here.as_ref(), size, vec![7; bytes], Vec::new()).await;
        let mut connection = connection.clone();
        let () = connection.set(size, vec![7_u8; bytes]).await.unwrap();
    }
    lookups("Redis", store_here, async |size: &str| {
        let value: Vec<u8> = connection.clone().get(size).await.unwrap();
        assert!(!value.is_empty());
    })
    .await;
    growth("Redis", store(&server.fresh_url()), async || {}).await;
}

async fn on_postgres(server: &PostgresServer) {
    let url = server.fresh_url();
    let store_here = store(&url);
    let bare_url = url + "&sslmode=disable";
    let connected = tokio_postgres::connect(&bare_url, tokio_postgres::NoTls);
    let (client, connection) = connected.await.unwrap();
    tokio::spawn(connection);
    let table = "CREATE TABLE bare (key bytea PRIMARY KEY, value bytea NOT NULL)";
    client.batch_execute(table).await.unwrap();
    for (bytes, size) in SIZES {
        put(store_here.as_ref(), size, vec![7; bytes], Vec::new()).await;
        let insert = "INSERT INTO bare VALUES ($1, $2)";
        let value = vec![7_u8; bytes];
        client
            .execute(insert, &[&size.as_bytes(), &value])
            .await
            .unwrap();
    }
    let select = client
        .prepare("SELECT value FROM bare WHERE key = $1")
        .await;
    let select = select.unwrap();
    lookups("Postgres", store_here, async |size: &str| {
        let row = client
            .query_one(&select, &[&size.as_bytes()])
            .await
            .unwrap();
        let value: Vec<u8> = row.get(0);
        assert!(!value.is_empty());
    })
    .await;
    // What the server does by itself in the minutes after so many writes.
    let settle = async || {
        for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
            client.batch_execute(statement).await.unwrap();
        }
    };
    growth("Postgres", store(&server.fresh_url()), settle).await;
}

/// Prints the times of a lookup and of a write, for stores without a bare equivalent.
async fn times(name: &str, store: Arc<dyn Store>) {
    let (mut found, mut stored) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let key = format!("key-{round}");
        let began = Instant::now();
        put(store.as_ref(), &key, vec![7; 10_000], Vec::new()).await;
        stored.push(began.elapsed());
        let began = Instant::now();
        get(store.as_ref(), &key).await;
        found.push(began.elapsed());
    }
    let (found, stored) = (median(found), median(stored));
    println!("{name}: lookup of 10 kB {found:.1?}, write {stored:.1?}");
}

/// Measures all servers, or those that the arguments name: `cargo bench -p cachalot-backends -- postgres`.
fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let is_chosen = |name: &str| {
        let names = chosen.iter().filter(|name| !name.starts_with('-'));
        let mut names = names.peekable();
        names.peek().is_none() || names.any(|chosen| chosen == name)
    };
    runtime().block_on(async {
        if let Some(cluster) = RedisCluster::shared().filter(|_| is_chosen("cluster")) {
            times("Redis cluster", store(&cluster.url())).await;
        }
        if let Some(server) = LibsqlServer::shared().filter(|_| is_chosen("libsql")) {
            times("libSQL", store(&server.url())).await;
        }
        if let Some(server) = RedisServer::shared().filter(|_| is_chosen("redis")) {
            on_redis(server).await;
        }
        if let Some(server) = PostgresServer::shared().filter(|_| is_chosen("postgres")) {
            on_postgres(server).await;
        }
    });
}
