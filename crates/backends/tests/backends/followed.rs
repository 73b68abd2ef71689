//! Stores whose entries may be served for a while without asking the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cachalot_backends::changes::{Changes, Subscribe, Subscription};
use cachalot_backends::followed::FollowedStore;
use cachalot_backends::postgres::{self, PostgresStore};
use cachalot_backends::redis::{self, RedisStore};
use cachalot_backends::testing::{Fault, FaultProxy, PgBouncer, PostgresServer, RedisServer};
use cachalot_core::ManualClock;
use cachalot_store::conformance::Subject;
use cachalot_store::in_process::InProcessStore;
use cachalot_store::intercepted::{Interceptor, StoreOperation};
use cachalot_store::{
    Error, Label, LabelMatch, PageRequest, RecordFilter, Store, StoreReply, counter,
};

use crate::{CONNECT_TIMEOUT, parse, record, runtime, subject};

const STALENESS: Duration = Duration::from_millis(400);

mod on_postgres {
    cachalot_store::memory_conformance_checks! { checks, super::postgres_subject() }
}

mod on_redis {
    cachalot_store::memory_conformance_checks! { checks, super::redis_subject() }
}

fn postgres_subject() -> Option<Subject> {
    let url = parse(&PostgresServer::shared()?.fresh_url());
    Some(subject(|shift| {
        let server = postgres::Server::new(&url, None)
            .unwrap()
            .connecting_within(CONNECT_TIMEOUT);
        FollowedStore::new(PostgresStore::with_shift(server, shift), STALENESS)
    }))
}

fn redis_subject() -> Option<Subject> {
    let url = parse(&RedisServer::shared()?.fresh_url());
    Some(subject(|shift| {
        let server = redis::Server::new(&url, None)
            .unwrap()
            .connecting_within(CONNECT_TIMEOUT);
        FollowedStore::new(RedisStore::with_shift(server, shift), STALENESS)
    }))
}

fn postgres_store(url: &str) -> PostgresStore {
    PostgresStore::new(
        postgres::Server::new(&parse(url), None)
            .unwrap()
            .connecting_within(CONNECT_TIMEOUT),
    )
}

fn redis_store(url: &str) -> RedisStore {
    RedisStore::new(
        redis::Server::new(&parse(url), None)
            .unwrap()
            .connecting_within(CONNECT_TIMEOUT),
    )
}

/// Waits until a store has a stamp.
async fn stamp<S: Store>(store: &S, name: &str) -> u64 {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let found = store.get("cache", name, &[]);
        let _ = found.within(STALENESS).await;
        if let Some(stamp) = store.stamp("cache", name) {
            return stamp;
        }
        assert!(Instant::now() < end, "no stamp");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Fails if a stamp that was read before a change of another process is valid after the staleness.
async fn assert_stamp_ends<S: Store>(store: &S, name: &str, before: u64, what: &str) {
    tokio::time::sleep(STALENESS).await;
    let end = Instant::now() + STALENESS * 2;
    while Instant::now() < end {
        assert_ne!(store.stamp("cache", name), Some(before), "{what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn put(store: &dyn Store, key: &str) {
    let new = record(
        key.to_owned(),
        b"value".to_vec(),
        vec![Label::new("tag", key)],
    );
    store.put("cache", new, None, &[]).settle().await.unwrap();
}

async fn erase(store: &dyn Store, key: &str) {
    let labels = [LabelMatch::Is {
        name: "tag",
        value: key,
    }];
    let filter = RecordFilter {
        labels: &labels,
        ..RecordFilter::default()
    };
    let erased = store.erase("cache", &filter, PageRequest::keys(10));
    assert_eq!(erased.settle().await.unwrap().records.len(), 1);
}

/// Every kind of change by another process ends the stamps that were read before it, within the staleness; those of
/// other names stay.
async fn changes_are_seen<S: Store + Subscribe>(here: S, there: S) {
    let here = FollowedStore::new(here, STALENESS);
    for name in ["one", "two", "counter", "other"] {
        put(&there, name).await;
    }
    let before = stamp(&here, "one").await;
    put(&there, "one").await;
    assert_stamp_ends(&here, "one", before, "replaced").await;
    let before = stamp(&here, "one").await;
    let found = there
        .get("cache", "one", &[])
        .settle()
        .await
        .unwrap()
        .record
        .unwrap();
    there.amend("cache", found).settle().await.unwrap().unwrap();
    assert_stamp_ends(&here, "one", before, "amended").await;
    let before = stamp(&here, "two").await;
    erase(&there, "two").await;
    assert_stamp_ends(&here, "two", before, "erased").await;
    // Longer than what a report of Postgres contains.
    let long = "l".repeat(9000);
    put(&there, &long).await;
    let before = stamp(&here, &long).await;
    put(&there, &long).await;
    assert_stamp_ends(&here, &long, before, "replaced").await;
    let before = stamp(&here, &long).await;
    there.add("cache", &[(&long, 1)]).settle().await.unwrap();
    assert_stamp_ends(&here, &long, before, "raised").await;
    for what in ["new", "added", "raised"] {
        let before = stamp(&here, "counter").await;
        match what {
            "raised" => drop(
                there
                    .raise_to("cache", "counter", 99)
                    .settle()
                    .await
                    .unwrap(),
            ),
            _ => drop(
                there
                    .add("cache", &[("counter", 1)])
                    .settle()
                    .await
                    .unwrap(),
            ),
        }
        assert_stamp_ends(&here, "counter", before, what).await;
    }
    // Uses are not changes. On a busy machine the connection may be replaced meanwhile, which changes all stamps.
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let other = stamp(&here, "other").await;
        let used = [("other", i64::MAX / 4)];
        there.touch("cache", &used).settle().await.unwrap();
        put(&there, "other in another place").await;
        there.add("user", &[("other", 1)]).settle().await.unwrap();
        tokio::time::sleep(STALENESS).await;
        if stamp(&here, "other").await == other {
            break;
        }
        assert!(Instant::now() < end, "uses change stamps");
    }
    // Its own changes count at once.
    let before = stamp(&here, "one").await;
    put(&here, "one").await;
    assert_ne!(here.stamp("cache", "one"), Some(before));
    let before = stamp(&here, "one").await;
    here.add("cache", &[("one", 1)]).settle().await.unwrap();
    assert_ne!(here.stamp("cache", "one"), Some(before));
    assert!(
        here.inspect()
            .settle()
            .await
            .unwrap()
            .iter()
            .any(|finding| { finding.topic == "staleness" && finding.remedy.is_none() })
    );
}

#[test]
fn changes_of_other_processes_are_seen() {
    runtime().block_on(async {
        if let Some(server) = PostgresServer::shared() {
            let url = server.fresh_url();
            changes_are_seen(postgres_store(&url), postgres_store(&url)).await;
        }
        if let Some(server) = RedisServer::shared() {
            let url = server.fresh_url();
            changes_are_seen(redis_store(&url), redis_store(&url)).await;
        }
    });
}

/// The reports are delayed, cut, refused or lost, and come back: no stamp outlives a change for longer than the
/// staleness, and stamps come back.
async fn faults_end_stamps<S: Store + Subscribe>(proxy: &FaultProxy, through: S, direct: S) {
    let here = FollowedStore::new(through, STALENESS);
    put(&direct, "one").await;
    for fault in [
        Fault::Hang,
        Fault::Abandon,
        Fault::Cut(1),
        Fault::Refuse,
        Fault::Delay(Duration::from_millis(150)),
        Fault::Delay(Duration::from_millis(600)),
    ] {
        let before = stamp(&here, "one").await;
        proxy.set(fault);
        direct.add("cache", &[("one", 1)]).settle().await.unwrap();
        assert_stamp_ends(&here, "one", before, &format!("{fault:?}")).await;
        proxy.set(Fault::None);
    }
    stamp(&here, "one").await;
}

#[test]
fn lost_reports_end_stamps() {
    runtime().block_on(async {
        if let Some(server) = PostgresServer::shared() {
            let url = server.fresh_url();
            let proxy = FaultProxy::start(server.port());
            let through = url.replace(
                &format!(":{}", server.port()),
                &format!(":{}", proxy.port()),
            );
            assert_ne!(through, url);
            faults_end_stamps(&proxy, postgres_store(&through), postgres_store(&url)).await;
        }
        if let Some(server) = RedisServer::shared() {
            let url = server.fresh_url();
            let proxy = FaultProxy::start(server.port());
            let through = url.replace(
                &format!(":{}", server.port()),
                &format!(":{}", proxy.port()),
            );
            assert_ne!(through, url);
            faults_end_stamps(&proxy, redis_store(&through), redis_store(&url)).await;
        }
    });
}

/// Writers in other processes, at any time: what is served after a change is at most as old as the staleness.
async fn race<S: Store + Subscribe>(here: S, there: S) {
    let here = Arc::new(FollowedStore::new(here, STALENESS));
    put(&there, "one").await;
    stamp(&*here, "one").await;
    let end = Instant::now() + Duration::from_secs(4);
    // What a front does: a stamp is read before the counter, and the counter is served while the stamp is the same.
    let reader = tokio::spawn(async move {
        let mut served = Vec::new();
        while Instant::now() < end {
            let before = here.stamp("cache", "counter");
            let read = here
                .get("cache", "one", &["counter"])
                .settle()
                .await
                .unwrap();
            for _ in 0..50 {
                // Before the stamp is read: afterwards, this thread may be paused for long.
                let asked = Instant::now();
                if before.is_none() || here.stamp("cache", "counter") != before {
                    break;
                }
                served.push((asked, read.counters[0]));
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        served
    });
    let mut changes = Vec::new();
    while Instant::now() < end {
        let raised = there
            .add("cache", &[("counter", 1)])
            .settle()
            .await
            .unwrap();
        changes.push((Instant::now(), raised[0]));
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let served = reader.await.unwrap();
    assert!(served.len() > 300, "{}", served.len());
    for (at, count) in served {
        let next = changes.iter().find(|(_, raised)| *raised > count);
        let is_old = next.is_some_and(|(returned, _)| at > *returned + STALENESS);
        assert!(!is_old, "{count} was served for too long");
    }
}

#[test]
fn nothing_is_served_for_longer_than_the_staleness() {
    runtime().block_on(async {
        if let Some(server) = PostgresServer::shared() {
            let url = server.fresh_url();
            race(postgres_store(&url), postgres_store(&url)).await;
        }
        if let Some(server) = RedisServer::shared() {
            let url = server.fresh_url();
            race(redis_store(&url), redis_store(&url)).await;
        }
    });
}

/// A server that has become a replica answers, but does not report the changes of the new primary.
#[test]
fn replica_confirms_no_stamps() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    runtime().block_on(async {
        let url = server.fresh_url();
        let store = FollowedStore::new(redis_store(&url), STALENESS);
        put(&store, "one").await;
        let before = stamp(&store, "one").await;
        // Of a server that does not exist, so that nothing is replicated.
        server.execute(&["REPLICAOF", "127.0.0.1", "1"]);
        tokio::time::sleep(STALENESS).await;
        let end = Instant::now() + STALENESS * 3;
        while Instant::now() < end {
            assert_eq!(store.stamp("cache", "one"), None);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let findings = store.inspect().settle().await.unwrap();
        let finding = findings.iter().find(|finding| finding.topic == "staleness");
        assert!(finding.unwrap().remedy.is_some(), "{findings:?}");
        server.execute(&["REPLICAOF", "NO", "ONE"]);
        assert_ne!(stamp(&store, "one").await, before);
        // It was a replica between two questions.
        let before = stamp(&store, "one").await;
        server.execute(&["REPLICAOF", "127.0.0.1", "1"]);
        server.execute(&["REPLICAOF", "NO", "ONE"]);
        assert_stamp_ends(&store, "one", before, "was a replica").await;
    });
}

/// A name leads to another server than before: lookups go there, and the old one goes on to answer.
#[test]
fn server_that_is_not_looked_up_confirms_no_stamps() {
    let (Some(old), Some(new)) = (RedisServer::start(&[]), RedisServer::start(&[])) else {
        return;
    };
    runtime().block_on(async {
        let url = old.fresh_url();
        let proxy = FaultProxy::start(old.port());
        let store = FollowedStore::new(redis_store(&proxy.url(&url, old.port())), STALENESS);
        put(&store, "one").await;
        let before = stamp(&store, "one").await;
        proxy.lead_to(new.port());
        // Ends all connections but the one that tracks changes.
        for client in old.execute(&["CLIENT", "LIST"]).lines() {
            if client.contains(" flags=N ") {
                let id = client.split([' ', '=']).nth(1).unwrap();
                old.execute(&["CLIENT", "KILL", "ID", id]);
            }
        }
        let direct = redis_store(&url.replace(&old.port().to_string(), &new.port().to_string()));
        // The first lookup finds its connection closed, the second one another server than before.
        for _ in 0..2 {
            let _ = store.get("cache", "one", &[]).settle().await;
        }
        put(&direct, "one").await;
        let found = store.get("cache", "one", &[]).settle().await;
        assert!(found.unwrap().record.is_some());
        tokio::time::sleep(STALENESS).await;
        let after = stamp(&store, "one").await;
        put(&direct, "one").await;
        assert_stamp_ends(&store, "one", after, "changed on the new server").await;
        assert_ne!(stamp(&store, "one").await, before);
    });
}

/// A pooler does not pass reports on: every hit asks the server.
#[test]
fn poolers_are_recognized() {
    let Some(pooler) = PgBouncer::shared() else {
        return;
    };
    runtime().block_on(async {
        let store = FollowedStore::new(postgres_store(&pooler.fresh_url()), STALENESS);
        put(&store, "one").await;
        for _ in 0..100 {
            store.get("cache", "one", &[]).settle().await.unwrap();
            assert_eq!(store.stamp("cache", "one"), None);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let findings = store.inspect().settle().await.unwrap();
        let finding = findings.iter().find(|finding| finding.topic == "staleness");
        let finding = finding.unwrap();
        assert!(finding.remedy.is_some(), "{finding:?}");
    });
}

/// A store on a server that always answers, and reports no change.
struct Unreported {
    store: InProcessStore,
    /// Set if replies are lost after the work is done.
    loses_replies: Arc<AtomicBool>,
    /// Cloned by each subscription.
    subscriptions: Arc<()>,
}

impl Interceptor for Unreported {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    fn intercept<'a, T: Send + 'static>(
        &'a self,
        _operation: StoreOperation,
        pass: impl FnOnce() -> StoreReply<'a, T> + Send + 'a,
    ) -> StoreReply<'a, T> {
        StoreReply::later(async move {
            let done = pass().settle().await;
            if self.loses_replies.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            done
        })
    }
}

struct AlwaysAnswers {
    _counted: Arc<()>,
}

impl Subscription for AlwaysAnswers {
    async fn ping(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl Subscribe for Unreported {
    type Subscription = AlwaysAnswers;

    async fn subscribe(&self, _changes: &Arc<Changes>) -> Result<AlwaysAnswers, Error> {
        let counted = Arc::clone(&self.subscriptions);
        Ok(AlwaysAnswers { _counted: counted })
    }
}

fn unreported() -> Unreported {
    Unreported {
        store: InProcessStore::new(Arc::new(ManualClock::at(0))),
        loses_replies: Arc::default(),
        subscriptions: Arc::default(),
    }
}

/// Changes of the same process end stamps at once: those of an erase, and those whose reply is not waited for.
#[test]
fn own_changes_end_stamps_without_a_report() {
    runtime().block_on(async {
        let server = unreported();
        let loses_replies = Arc::clone(&server.loses_replies);
        let here = FollowedStore::new(server, STALENESS);
        put(&here, "one").await;
        let before = stamp(&here, counter::ERASED).await;
        erase(&here, "one").await;
        assert_ne!(here.stamp("cache", counter::ERASED), Some(before));

        let before = stamp(&here, "one").await;
        loses_replies.store(true, Ordering::Relaxed);
        let new = record("one".to_owned(), Vec::new(), Vec::new());
        let lost = here.put("cache", new, None, &[]);
        assert!(lost.within(STALENESS / 8).await.is_err());
        assert_ne!(here.stamp("cache", "one"), Some(before));
    });
}

/// The subscription ends with the store.
#[test]
fn dropped_stores_are_not_followed() {
    runtime().block_on(async {
        let server = unreported();
        let subscriptions = Arc::clone(&server.subscriptions);
        let here = FollowedStore::new(server, STALENESS);
        stamp(&here, "one").await;
        assert_eq!(Arc::strong_count(&subscriptions), 3);
        drop(here);
        let end = Instant::now() + Duration::from_secs(60);
        while Arc::strong_count(&subscriptions) > 1 {
            assert!(Instant::now() < end, "the subscription did not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}
