//! A standby takes over that lacks the last writes of its primary.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cachalot_backends::testing::{FaultProxy, PASSWORD, PgBouncer, PostgresServer};
use cachalot_backends::{OpenOptions, open};
use cachalot_store::{
    ErrorKind, PageRequest, PutResult, RecordFilter, ReserveResult, Store, counter, space,
};

use crate::{parse, record, runtime, spent};

fn wait_until(is_done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_done() {
        assert!(Instant::now() < end, "it does not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

async fn put(store: &dyn Store, space: &str, key: &str) {
    let new = record(key.to_owned(), key.as_bytes().to_vec(), Vec::new());
    let put = store.put(space, new, None, &[]).settle().await;
    assert!(matches!(put, Ok(PutResult::Stored { .. })), "{put:?}");
}

async fn is_found(store: &dyn Store, space: &str, key: &str) -> bool {
    let found = store.get(space, key, &[]).settle().await;
    found.unwrap().record.is_some()
}

/// A primary, its standby, and a proxy that leads to the one that is in use.
struct Servers {
    primary: PostgresServer,
    standby: PostgresServer,
    proxy: FaultProxy,
}

impl Servers {
    fn start() -> Option<Self> {
        let primary = PostgresServer::start(&["-c", "fsync=off"])?;
        let standby = primary.start_standby();
        let proxy = FaultProxy::start(primary.port());
        Some(Self {
            primary,
            standby,
            proxy,
        })
    }

    /// Waits until the standby has all writes, and ends the replication.
    fn part(&self) {
        let written = self.primary.query("SELECT pg_current_wal_lsn()");
        let has_all = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
        wait_until(|| self.standby.query(&has_all) == "t");
        let _ = self.standby.query("ALTER SYSTEM SET primary_conninfo = ''");
        let _ = self.standby.query("SELECT pg_reload_conf()");
        wait_until(|| {
            self.primary
                .query("SELECT count(*) FROM pg_stat_replication")
                == "0"
        });
    }

    fn fail_over(&mut self) {
        self.primary.stop();
        self.standby.promote();
        self.proxy.lead_to(self.standby.port());
        self.proxy.end_connections();
    }
}

/// Nothing that was invalidated is served again, and what is no cache stays as the standby has it.
async fn assert_invalidations_survive(mut servers: Servers, url: String) {
    let store = open(&parse(&url), &OpenOptions::default()).unwrap();
    let store: &dyn Store = &*store;
    for key in ["kept", "erased"] {
        put(store, space::CACHE, key).await;
    }
    put(store, space::USER, "fact").await;
    let sums = [("spent", 70)];
    store.add(space::GATEWAY, &sums).settle().await.unwrap();
    let raised = store.add(space::CACHE, &[("epoch", 3)]).settle().await;
    assert_eq!(raised.unwrap(), [3]);
    let lease = store.reserve(space::CACHE, "leased", &[], Duration::from_secs(3_600));
    let ReserveResult::Held(lease) = lease.settle().await.unwrap() else {
        panic!("it is free");
    };
    let findings = store.inspect().settle().await.unwrap();
    let standbys = findings
        .iter()
        .find(|finding| finding.topic == "standbys")
        .unwrap();
    assert!(standbys.state.contains("1 asynchronous"), "{standbys:?}");

    servers.part();
    let before = store.add(space::CACHE, &[("epoch", 1), ("new", 1)]);
    let before = before.settle().await.unwrap();
    let only = RecordFilter {
        prefix: "erased",
        ..RecordFilter::default()
    };
    let erased = store.erase(space::CACHE, &only, PageRequest::keys(9));
    assert_eq!(erased.settle().await.unwrap().records.len(), 1);
    let names = ["epoch", "new", counter::ERASED];
    let counters = store.get(space::CACHE, "kept", &names).settle().await;
    let counters = counters.unwrap().counters;
    assert_eq!(counters[..2], before[..]);
    servers.fail_over();

    let late = async || {
        let late = record("leased".to_owned(), Vec::new(), Vec::new());
        store
            .put(space::CACHE, late, Some(&lease), &[])
            .settle()
            .await
    };
    // A pooler refuses calls for a while after a login that failed.
    let end = Instant::now() + Duration::from_secs(60);
    let late = loop {
        match late().await {
            Err(error) if error.kind == ErrorKind::Unavailable && Instant::now() < end => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            done => break done,
        }
    };
    assert_eq!(late.unwrap(), PutResult::LeaseLost);
    let other = open(&parse(&url), &OpenOptions::default()).unwrap();
    for store in [store, &*other] {
        for key in ["kept", "erased"] {
            assert!(!is_found(store, space::CACHE, key).await, "{key}");
        }
        assert!(is_found(store, space::USER, "fact").await);
        let found = store.get(space::CACHE, "kept", &names).settle().await;
        let found = found.unwrap().counters;
        assert!(
            found[0] > counters[0] && found[2] > counters[2],
            "{found:?}"
        );
        assert_eq!(spent(store).await, 70);
    }
    // That is once for all clients.
    put(store, space::CACHE, "kept").await;
    let third = open(&parse(&url), &OpenOptions::default()).unwrap();
    for store in [store, &*other, &*third] {
        assert!(is_found(store, space::CACHE, "kept").await);
    }
}

#[test]
fn invalidations_that_a_standby_lacks_count() {
    let Some(servers) = Servers::start() else {
        return;
    };
    let url = servers.primary.fresh_url();
    let url = servers.proxy.url(&url, servers.primary.port());
    runtime().block_on(assert_invalidations_survive(servers, url));
}

/// Connections of clients to a pooler outlive those of the pooler to the server.
#[test]
fn invalidations_that_a_standby_lacks_count_behind_a_pooler() {
    let Some(servers) = Servers::start() else {
        return;
    };
    let Some(pooler) = PgBouncer::start(servers.proxy.port()) else {
        return;
    };
    let url = format!(
        "postgres://cachalot:{PASSWORD}@127.0.0.1:{}/postgres",
        pooler.port()
    );
    runtime().block_on(assert_invalidations_survive(servers, url));
}

/// A restart of the same server changes nothing.
#[test]
fn restarts_keep_the_cache() {
    let Some(mut server) = PostgresServer::start(&["-c", "fsync=off"]) else {
        return;
    };
    let url = server.fresh_url();
    runtime().block_on(async {
        let store: Arc<dyn Store> = open(&parse(&url), &OpenOptions::default()).unwrap();
        put(&*store, space::CACHE, "kept").await;
        server.restart();
        let other = open(&parse(&url), &OpenOptions::default()).unwrap();
        assert!(is_found(&*other, space::CACHE, "kept").await);
        assert!(is_found(&*store, space::CACHE, "kept").await);
    });
}

/// Servers that report no timeline are used without it, also if several first connections find this out at once.
#[test]
fn servers_without_a_timeline_are_used() {
    let Some(server) = PostgresServer::start(&["-c", "fsync=off"]) else {
        return;
    };
    server.execute(
        &server.fresh_url(),
        &format!(
            "CREATE ROLE plain LOGIN PASSWORD '{PASSWORD}'; \
             REVOKE EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) FROM PUBLIC"
        ),
    );
    runtime().block_on(async {
        for _ in 0..8 {
            let url = server.fresh_url();
            let schema = url.rsplit("%3D").next().unwrap();
            server.execute(
                &url,
                &format!("GRANT USAGE, CREATE ON SCHEMA {schema} TO plain"),
            );
            let url = url.replace("//cachalot:", "//plain:");
            let store = open(&parse(&url), &OpenOptions::default()).unwrap();
            let all = RecordFilter::default();
            let (got, found, added) = tokio::join!(
                store.get(space::CACHE, "key", &[]).settle(),
                store.find(space::USER, &all, PageRequest::keys(1)).settle(),
                store.raise_to(space::CACHE, "epoch", 1).settle(),
            );
            got.unwrap();
            found.unwrap();
            assert_eq!(added.unwrap(), 1);
        }
    });
}
