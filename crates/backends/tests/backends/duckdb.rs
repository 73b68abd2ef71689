//! The contract of a store, on files of DuckDB.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use cachalot_backends::duckdb::DuckdbStore;
use cachalot_core::SystemClock;
use cachalot_store::conformance::Subject;
use cachalot_store::{ErrorKind, PutResult, Store as _};

use crate::bucket::Shifted;
use crate::{record, runtime};

cachalot_store::memory_conformance_checks! { checks, Some(fresh()) }

fn fresh() -> Subject {
    let directory = tempfile::tempdir().unwrap();
    let shift = Arc::new(AtomicI64::new(0));
    let clock = Arc::new(Shifted(Arc::clone(&shift)));
    let store = DuckdbStore::open(&directory.path().join("store.duckdb"), clock);
    let subject = Subject {
        store: Arc::new(store),
        second: None,
        pass: Box::new(move |by| {
            let by = i64::try_from(by.as_millis()).unwrap();
            shift.fetch_add(by, Ordering::Relaxed);
        }),
        keep: None,
    };
    subject.keeping(directory)
}

#[test]
fn records_are_there_when_the_file_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.duckdb");
    runtime().block_on(async {
        for revision in 1..=3 {
            let store = DuckdbStore::open(&path, Arc::new(SystemClock));
            let new = record("key".to_owned(), b"value".to_vec(), Vec::new());
            let stored = store.put("space", new, None, &[]).settle().await.unwrap();
            assert_eq!(stored, PutResult::Stored { revision });
        }
        std::fs::write(&path, "this is not a database").unwrap();
        let store = DuckdbStore::open(&path, Arc::new(SystemClock));
        let error = store.usage("space").settle().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
        let store = DuckdbStore::open(&directory.path().join("no/file"), Arc::new(SystemClock));
        let error = store.usage("space").settle().await.unwrap_err();
        assert!(error.message.contains("no/file"), "{error}");
    });
}
