//! The contract of a store, on an object of a server of S3's protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use cachalot_backends::testing::ObjectServer;
use cachalot_backends::{OpenOptions, open};
use cachalot_core::{Clock, Millis, SystemClock};
use cachalot_storage::{HttpClient, HttpOptions, Storage, StorageOptions};
use cachalot_store::conformance::Subject;
use cachalot_store::{ErrorKind, PutResult, Store, counter};

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
            let limit = std::time::Duration::from_micros(microseconds);
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
        let storage = Storage::new(StorageOptions {
            directory: std::path::PathBuf::new(),
            environment: server.environment(),
            http: HttpClient::new(HttpOptions::default()).unwrap(),
        });
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
