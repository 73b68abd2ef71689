//! Tests of the state after a request panics.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use cachalot_core::SystemClock;

use crate::sqlite::{SqliteOptions, SqliteStore};
use crate::{ErrorKind, Record, Store, StoreReply};

use super::JobSize;

fn record(key: &str) -> Record {
    Record {
        key: key.into(),
        value: bytes::Bytes::new(),
        labels: Vec::new(),
        expires: None,
        revision: 0,
        updated: 0,
    }
}

fn run(size: JobSize) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    let store =
        Arc::new(SqliteStore::open(&path, SqliteOptions::new(Arc::new(SystemClock))).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        store
            .put("cache", record("before"), None, &[])
            .settle()
            .await
            .unwrap();
        let stamp = store.stamp("cache", "before");
        let dying = Arc::clone(&store);
        let dead = tokio::spawn(async move {
            dying
                .writer
                .submit(size, |transaction| -> rusqlite::Result<()> {
                    transaction.put("cache", &record("half-way"), None, &[])?;
                    panic!("a mistake of ours");
                })
                .await
        });
        // A caller that executed the request panics with it; one that waited for it gets an error.
        if let Ok(answer) = dead.await {
            assert_eq!(answer.unwrap_err().kind, ErrorKind::Unavailable);
        }
        for _ in 0..3 {
            let error = store
                .put("cache", record("after"), None, &[])
                .settle()
                .await
                .unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unavailable);
            assert!(error.message.contains("writer has stopped"), "{error}");
        }
        // Reads continue, and no partial write is visible.
        for (key, there) in [("before", true), ("half-way", false), ("after", false)] {
            let StoreReply::Now(Ok(found)) = store.get("cache", key, &[]) else {
                panic!("not at once")
            };
            assert_eq!(found.record.is_some(), there, "{key}");
        }
        assert_eq!(store.stamp("cache", "before"), stamp);
    });
    drop(store);
    let again = SqliteStore::open(&path, SqliteOptions::new(Arc::new(SystemClock))).unwrap();
    runtime
        .block_on(again.put("cache", record("after"), None, &[]).settle())
        .unwrap();
}

#[test]
fn panic_of_a_request_in_its_caller_ends_the_writer() {
    run(JobSize::SMALL);
}

#[test]
fn panic_of_a_request_in_the_thread_ends_the_writer() {
    run(JobSize::LARGE);
}
