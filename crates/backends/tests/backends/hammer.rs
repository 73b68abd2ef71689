//! Many readers and writers, with a server that is restarted, and with one that ends idle connections: nothing that was
//! acknowledged is lost, no call fails, and no sum is wrong. `CACHALOT_TEST_HAMMER_ROUNDS` sets the number of rounds (3).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cachalot_backends::open;
use cachalot_backends::testing::{PostgresServer, RedisServer};
use cachalot_store::{GetOrReserve, Lease, PutResult, Record, ReserveResult, Stale, Store, space};
use tokio::task::JoinSet;

use crate::{parse, patient, record, runtime};

const WORKERS: u64 = 8;
const STEPS: u64 = 12;

/// Calls until the server answers, for a minute at most. A server that is there answers the first time.
macro_rules! insist {
    ($is_restarted:expr, $call:expr) => {{
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            match $call.settle().await {
                Ok(done) => break done,
                // A server that is not there refuses connections.
                Err(error) if $is_restarted && error.is_retryable() && Instant::now() < end => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("a call has failed: {error:?}"),
            }
        }
    }};
}

/// What a worker knows of the store.
#[derive(Default)]
struct Known {
    /// The last acknowledged value of each key in long-term memory.
    kept: BTreeMap<String, u64>,
    /// Sums that were acknowledged, and those whose fate is unknown.
    spent: u64,
    unknown: u64,
}

async fn store_answer(
    store: &dyn Store,
    answer: Record,
    lease: &Lease,
    counters: &[(&str, u64)],
    is_restarted: bool,
) -> PutResult {
    insist!(
        is_restarted,
        store.put(space::CACHE, answer.clone(), Some(lease), counters)
    )
}

/// Stores and looks up answers, keeps values in long-term memory, and counts money.
async fn work(store: Arc<dyn Store>, worker: u64, round: u64, is_restarted: bool) -> Known {
    let store = &*store;
    let mut known = Known::default();
    for step in 0..STEPS {
        let number = (round * STEPS + step) * WORKERS + worker;
        let key = format!("answer-{number}");
        let new = || record(key.clone(), number.to_be_bytes().to_vec(), Vec::new());
        let request = GetOrReserve {
            counters: &["epoch"],
            labels: &[],
            hold: Duration::from_secs(60),
            stale: Stale::None,
        };
        let missed = insist!(
            is_restarted,
            store.get_or_reserve(space::CACHE, &key, request)
        );
        match missed.reserved {
            Some(ReserveResult::Held(lease)) => {
                let counters = [("epoch", missed.found.counters[0])];
                let put = store_answer(store, new(), &lease, &counters, is_restarted).await;
                match put {
                    PutResult::Stored { .. } => {
                        let found =
                            insist!(is_restarted, store.get(space::CACHE, &key, &["epoch"]));
                        let found = found.record.map(|record| record.value.to_vec());
                        let value = number.to_be_bytes().to_vec();
                        assert!(found == Some(value) || is_restarted && found.is_none());
                    }
                    // A restart of Redis ends leases and changes epochs.
                    refused => assert!(is_restarted, "{refused:?}"),
                }
            }
            // That of a call before the restart whose reply was lost.
            other => assert!(is_restarted, "nobody else asks for it: {other:?}"),
        }
        // As `ltm.store` does.
        let key = format!("fact-{worker}-{}", step % 3);
        let fact = || record(key.clone(), number.to_be_bytes().to_vec(), Vec::new());
        let kept = insist!(is_restarted, store.put(space::USER, fact(), None, &[]));
        assert!(matches!(kept, PutResult::Stored { .. }));
        known.kept.insert(key, number);
        match store.add(space::GATEWAY, &[("spent", 1)]).settle().await {
            Ok(_) => known.spent += 1,
            Err(_) => known.unknown += 1,
        }
    }
    known
}

/// Lets workers work in rounds; `disturb` is called before each round, or meanwhile if the server is restarted.
fn hammer(url: &str, is_restarted: bool, mut disturb: impl FnMut()) {
    let rounds = std::env::var("CACHALOT_TEST_HAMMER_ROUNDS");
    let rounds: u64 = rounds.map_or(3, |rounds| rounds.parse().unwrap());
    let open = || open(&parse(url), &patient()).unwrap();
    runtime().block_on(async {
        let stores = [open(), open()];
        let (mut kept, mut spent, mut unknown) = (BTreeMap::new(), 0, 0);
        for round in 0..rounds {
            if !is_restarted {
                disturb();
            }
            let mut workers = JoinSet::new();
            for worker in 0..WORKERS {
                let store = Arc::clone(&stores[worker as usize % 2]);
                workers.spawn(work(store, worker, round, is_restarted));
            }
            if is_restarted {
                disturb();
            }
            for known in workers.join_all().await {
                kept.extend(known.kept);
                spent += known.spent;
                unknown += known.unknown;
            }
        }
        let store = open();
        for (key, number) in kept {
            let found = store.get(space::USER, &key, &[]).settle().await.unwrap();
            let value = found.record.map(|record| record.value.to_vec());
            assert_eq!(value, Some(number.to_be_bytes().to_vec()), "{key} is lost");
        }
        let found = store.get(space::GATEWAY, "", &["spent"]).settle().await;
        let found = found.unwrap().counters[0];
        assert!(
            (spent..=spent + unknown).contains(&found),
            "{found}: {spent}, {unknown}"
        );
        assert!(
            is_restarted || unknown == 0 || spent > unknown,
            "{spent}, {unknown}"
        );
    });
}

/// Waits until a server has ended all connections of clients, which are idle.
fn wait_for_no_client(clients: impl Fn() -> u64) {
    let end = Instant::now() + Duration::from_secs(60);
    while clients() > 0 {
        assert!(Instant::now() < end, "the connections stay");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn redis_that_is_restarted() {
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    if let Some(mut server) = RedisServer::start(&durable) {
        let url = server.fresh_url();
        hammer(&url, true, || server.restart());
    }
}

#[test]
fn postgres_that_is_restarted() {
    if let Some(mut server) = PostgresServer::start(&["-c", "fsync=on"]) {
        let url = server.fresh_url();
        hammer(&url, true, || server.restart());
    }
}

#[test]
fn redis_that_ends_idle_connections() {
    if let Some(server) = RedisServer::start(&["--timeout", "5"]) {
        let url = server.fresh_url();
        hammer(&url, false, || wait_for_no_client(|| server.clients()));
    }
}

#[test]
fn postgres_that_ends_idle_connections() {
    let idle = ["-c", "fsync=off", "-c", "idle_session_timeout=5s"];
    if let Some(server) = PostgresServer::start(&idle) {
        let url = server.fresh_url();
        hammer(&url, false, || wait_for_no_client(|| server.clients()));
    }
}
