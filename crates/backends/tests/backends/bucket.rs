//! The contract of a store, on an object of a server of S3's protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cachalot_backends::testing::{Fault, FaultProxy, ObjectServer};
use cachalot_backends::{OpenOptions, open};
use cachalot_core::{Clock, Millis, SystemClock};
use cachalot_storage::{HttpClient, HttpOptions, Storage, StorageOptions, VersionRead};
use cachalot_store::conformance::Subject;
use cachalot_store::conformance::layouts::ChangeLayout;
use cachalot_store::{
    ErrorKind, PageRequest, PutAllResult, PutCondition, PutResult, RecordFilter, Store, StoreReply,
    counter,
};

use crate::objects::through;
use crate::{parse, record, runtime};

mod s3 {
    cachalot_store::memory_conformance_checks! { checks, super::fresh(super::ObjectServer::shared()) }
}

mod azure {
    cachalot_store::memory_conformance_checks! { checks, super::fresh(super::ObjectServer::azure()) }
}

mod google {
    cachalot_store::memory_conformance_checks! { checks, super::fresh(super::ObjectServer::google()) }
}

/// Servers of all protocols, as far as this machine has them.
pub(crate) fn servers() -> impl Iterator<Item = &'static ObjectServer> {
    let all = [
        ObjectServer::shared(),
        ObjectServer::azure(),
        ObjectServer::google(),
    ];
    all.into_iter().flatten()
}

#[derive(Debug)]
pub(crate) struct Shifted(pub(crate) Arc<AtomicI64>);

impl Clock for Shifted {
    fn now(&self) -> Millis {
        SystemClock.now() + self.0.load(Ordering::Relaxed)
    }
}

fn store(server: &ObjectServer, url: &str, shift: Arc<AtomicI64>) -> Arc<dyn Store> {
    let options = OpenOptions {
        environment: server.environment(),
        clock: Arc::new(Shifted(shift)),
        ..OpenOptions::default()
    };
    open(&parse(url), &options).unwrap()
}

/// A store whose requests go through a proxy.
fn proxied(proxy: &FaultProxy, server: &ObjectServer, url: &str) -> (Arc<dyn Store>, Arc<Shifted>) {
    let clock = Arc::new(Shifted(Arc::default()));
    let options = OpenOptions {
        environment: through(proxy, server),
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..OpenOptions::default()
    };
    (open(&parse(url), &options).unwrap(), clock)
}

/// The object of a store.
struct Object {
    storage: Storage,
    url: String,
}

impl ChangeLayout for Object {
    fn set_newer_layout(&self, is_newer: bool) -> StoreReply<'_, ()> {
        /// The place of `user_version` in the file of a database.
        const USER_VERSION: std::ops::Range<usize> = 60..64;
        StoreReply::later(async move {
            let read = self.storage.read_version(&self.url, None, 64 << 20).await;
            let VersionRead::Found(bytes, version) = read.unwrap() else {
                panic!("no object");
            };
            let mut bytes = bytes.to_vec();
            let number = u32::from_be_bytes(bytes[USER_VERSION].try_into().unwrap());
            let number = if is_newer { number + 1 } else { number - 1 };
            bytes[USER_VERSION].copy_from_slice(&number.to_be_bytes());
            let written = self
                .storage
                .write_version(&self.url, bytes.into(), Some(&version));
            assert!(written.await.unwrap().is_some());
            Ok(())
        })
    }
}

fn storage(server: &ObjectServer) -> Storage {
    Storage::new(StorageOptions {
        directory: std::path::PathBuf::new(),
        environment: server.environment(),
        http: HttpClient::new(HttpOptions::default()).unwrap(),
    })
}

fn fresh(server: Option<&'static ObjectServer>) -> Option<Subject> {
    let server = server?;
    let url = server.fresh_url();
    let shift = Arc::new(AtomicI64::new(0));
    Some(Subject {
        store: store(server, &url, Arc::clone(&shift)),
        second: Some(store(server, &url, Arc::clone(&shift))),
        pass: Box::new(move |by| {
            let by = i64::try_from(by.as_millis()).unwrap();
            shift.fetch_add(by, Ordering::Relaxed);
        }),
        layout: Some(Arc::new(Object {
            storage: storage(server),
            url: url.clone(),
        })),
        keep: None,
    })
}

/// Writers of several stores, each of which loses races: all of their writes are there.
#[test]
fn concurrent_writers_lose_nothing() {
    for server in servers() {
        writers_lose_nothing(server);
    }
}

fn writers_lose_nothing(server: &ObjectServer) {
    let url = server.fresh_url();
    runtime().block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for writer in 0..3 {
            let store = store(server, &url, Arc::default());
            tasks.spawn(async move {
                for number in 0..8 {
                    let new = record(format!("{writer}-{number}"), vec![7; 100], Vec::new());
                    // A call that lost too many races says so, and may be repeated.
                    loop {
                        match store.put("space", new.clone(), None, &[]).settle().await {
                            Ok(PutResult::Stored { .. }) => break,
                            Ok(other) => panic!("{other:?}"),
                            Err(error) => assert_eq!(error.kind, ErrorKind::Busy, "{error}"),
                        }
                    }
                    store.add("space", &[("writes", 1)]).settle().await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        let store = store(server, &url, Arc::default());
        assert_eq!(store.usage("space").settle().await.unwrap().records, 24);
        let counts = store.get("space", "0-0", &["writes", counter::ERASED]);
        assert_eq!(counts.settle().await.unwrap().counters, [24, 0]);
    });
}

/// A write whose caller stops waiting leaves nothing behind that is read as if it were stored.
#[test]
fn dropped_writes_are_stored_or_not() {
    let Some(server) = ObjectServer::shared() else {
        return;
    };
    let url = server.fresh_url();
    runtime().block_on(async {
        let (one, other) = (
            store(server, &url, Arc::default()),
            store(server, &url, Arc::default()),
        );
        let first = record("first".to_owned(), Vec::new(), Vec::new());
        one.put("space", first, None, &[]).settle().await.unwrap();
        for microseconds in (0..30_000).step_by(1500) {
            let key = microseconds.to_string();
            let new = record(key.clone(), vec![7; 100], Vec::new());
            let limit = Duration::from_micros(microseconds);
            let _ = one.put("space", new, None, &[]).within(limit).await;
            let here = one.get("space", &key, &[]).settle().await.unwrap().record;
            let there = other.get("space", &key, &[]).settle().await.unwrap().record;
            assert!(
                here.is_none() || there.is_some(),
                "read before it was stored: {key}"
            );
        }
    });
}

#[test]
fn bucket_that_is_missing_or_no_database_is_reported() {
    let Some(server) = ObjectServer::shared() else {
        return;
    };
    runtime().block_on(async {
        let missing = store(server, "s3://no-such-bucket/x.db", Arc::default());
        let new = record("key".to_owned(), Vec::new(), Vec::new());
        let put = missing.put("space", new, None, &[]).settle().await;
        let error = put.unwrap_err();
        assert!(error.message.contains("s3://no-such-bucket"), "{error}");
        assert!(!error.to_string().contains("testing-secret"), "{error}");

        // Another program's object is not replaced.
        let url = server.fresh_url();
        let storage = storage(server);
        let junk = || Bytes::from_static(&[b'j'; 5000]);
        let written = storage.write_version(&url, junk(), None).await;
        assert!(written.unwrap().is_some());
        let store = store(server, &url, Arc::default());
        let new = record("key".to_owned(), Vec::new(), Vec::new());
        let put = store.put("space", new, None, &[]).settle().await;
        assert_eq!(put.unwrap_err().kind, ErrorKind::Corrupt);
        assert!(store.get("space", "key", &[]).settle().await.is_err());
        assert_eq!(storage.read(&url, 1 << 20).await.unwrap(), junk());
        assert_eq!(
            storage.write_version(&url, junk(), None).await.unwrap(),
            None
        );
    });
}

/// The size of a database whose download takes longer than a call waits.
const LARGE: usize = 800_000;

/// The time that a call waits for a slow server.
const SHORT: Duration = Duration::from_millis(200);

/// Stores a large record by a store without a proxy.
async fn store_large(server: &ObjectServer, url: &str) {
    let value: Vec<u8> = (0..LARGE).map(|byte| (byte % 251) as u8).collect();
    let put = store(server, url, Arc::default());
    let large = record("large".to_owned(), value, Vec::new());
    put.put("space", large, None, &[]).settle().await.unwrap();
}

/// Calls that each wait for less than the download takes share one that arrives.
#[test]
fn slow_download_arrives_for_later_calls() {
    for server in servers() {
        let url = server.fresh_url();
        let proxy = FaultProxy::start(server.port());
        runtime().block_on(async {
            store_large(server, &url).await;
            let (slow, _) = proxied(&proxy, server, &url);
            // 50 pieces of a reply.
            proxy.set(Fault::Delay(Duration::from_millis(30)));
            let mut failed = 0;
            loop {
                let calls = (0..4).map(|_| {
                    let slow = Arc::clone(&slow);
                    tokio::spawn(async move {
                        let found = slow.get("space", "large", &[]).within(SHORT).await;
                        found.map(|found| found.record.unwrap().value.len())
                    })
                });
                let calls: Vec<_> = calls.collect();
                let mut is_found = true;
                for call in calls {
                    match call.await.unwrap() {
                        Ok(length) => assert_eq!(length, LARGE),
                        Err(error) => {
                            assert_eq!(error.kind, ErrorKind::TimedOut, "{error}");
                            is_found = false;
                        }
                    }
                }
                if is_found {
                    break;
                }
                failed += 1;
                assert!(failed < 60, "the download never arrives");
            }
            assert!(failed > 0, "the server was not slow");
        });
        assert!(proxy.replied() < 2 * LARGE, "{}", proxy.replied());
    }
}

/// A write whose caller stops waiting while the database is uploaded arrives, and the copy remains usable.
#[test]
fn slow_upload_arrives_without_its_caller() {
    for server in servers() {
        let url = server.fresh_url();
        let proxy = FaultProxy::start(server.port());
        runtime().block_on(async {
            store_large(server, &url).await;
            let (slow, _) = proxied(&proxy, server, &url);
            slow.get("space", "", &[]).settle().await.unwrap();
            // The comparison may take this long, and the upload may take this long.
            proxy.set(Fault::Delay(SHORT * 2 / 3));
            let mut attempts = 0;
            loop {
                let new = record("new".to_owned(), vec![7; 100], Vec::new());
                let _ = slow.put("space", new, None, &[]).within(SHORT).await;
                let found = slow.get("space", "new", &[]).settle().await.unwrap();
                if found.record.is_some() {
                    break;
                }
                attempts += 1;
                assert!(attempts < 60, "the upload never arrives");
            }
            let there = store(server, &url, Arc::default());
            let there = there.get("space", "new", &[]).settle().await.unwrap();
            assert!(there.record.is_some());
        });
        assert!(proxy.replied() < 2 * LARGE, "{}", proxy.replied());
    }
}

/// A download ends with the store.
#[test]
fn dropped_store_ends_its_download() {
    let Some(server) = ObjectServer::shared() else {
        return;
    };
    let url = server.fresh_url();
    let proxy = FaultProxy::start(server.port());
    runtime().block_on(async {
        store_large(server, &url).await;
        let (slow, clock) = proxied(&proxy, server, &url);
        proxy.set(Fault::Hang);
        let found = slow.get("space", "large", &[]).within(SHORT).await;
        assert_eq!(found.unwrap_err().kind, ErrorKind::TimedOut);
        drop(slow);
        // The server hangs for as long as this test runs.
        let ended = async {
            while Arc::strong_count(&clock) > 1 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), ended)
            .await
            .expect("the download goes on");
    });
}

/// Nothing comes back on a connection that remains: the download goes on with another one.
#[test]
fn abandoned_connection_of_a_download_is_replaced() {
    for server in servers() {
        let url = server.fresh_url();
        let proxy = FaultProxy::start(server.port());
        runtime().block_on(async {
            store_large(server, &url).await;
            let (store, _) = proxied(&proxy, server, &url);
            proxy.set(Fault::Delay(Duration::from_millis(30)));
            let found = store.get("space", "large", &[]).within(SHORT).await;
            assert_eq!(found.unwrap_err().kind, ErrorKind::TimedOut);
            proxy.set(Fault::Abandon);
            proxy.set(Fault::None);
            let found = store.get("space", "large", &[]);
            let found = found.within(Duration::from_secs(15)).await.unwrap();
            assert_eq!(found.record.unwrap().value.len(), LARGE);
        });
    }
}

/// A write whose reply is lost was done once, and its result is that of the first attempt.
#[test]
fn writes_whose_replies_are_lost_are_done_once() {
    for server in servers() {
        let url = server.fresh_url();
        let proxy = FaultProxy::start(server.port());
        let (store, _) = proxied(&proxy, server, &url);
        let lose = || proxy.set(Fault::LoseReply("PUT"));
        runtime().block_on(async {
            let new = |value: &[u8]| record("key".to_owned(), value.to_vec(), Vec::new());
            lose();
            let put = store.put("space", new(b"first"), None, &[]).settle().await;
            assert_eq!(put.unwrap(), PutResult::Stored { revision: 1 }, "{url}");
            lose();
            let added = store.add("space", &[("count", 2)]).settle().await;
            assert_eq!(added.unwrap(), [2], "{url}");
            lose();
            let condition = PutCondition {
                space: "space",
                key: "key",
                value: Some(Bytes::from_static(b"first")),
            };
            let put = store.put_all(condition, vec![("space", new(b"second"))]);
            assert_eq!(put.settle().await.unwrap(), PutAllResult::Stored, "{url}");
            lose();
            let all = RecordFilter::default();
            let erased = store.erase("space", &all, PageRequest::first(10));
            let erased = erased.settle().await.unwrap();
            assert_eq!(erased.records.len(), 1, "{url}");
        });
    }
}

/// Writers of several stores whose replies are lost: each write is done once, although others write on top of it.
#[test]
fn concurrent_writes_whose_replies_are_lost_are_done_once() {
    const WRITES: u64 = 6;
    for server in servers() {
        let url = server.fresh_url();
        runtime().block_on(async {
            let mut writers = tokio::task::JoinSet::new();
            for _ in 0..3 {
                let proxy = FaultProxy::start(server.port());
                let (store, _) = proxied(&proxy, server, &url);
                writers.spawn(async move {
                    let mut counts = Vec::new();
                    for _ in 0..WRITES {
                        proxy.set(Fault::LoseReply("PUT"));
                        let added = store.add("space", &[("count", 1)]).settle().await;
                        counts.extend(added.unwrap());
                    }
                    counts
                });
            }
            let mut counts = writers.join_all().await.concat();
            counts.sort_unstable();
            assert_eq!(counts, (1..=3 * WRITES).collect::<Vec<_>>(), "{url}");
        });
    }
}
