//! The contract of a store, on files of DuckDB.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use cachalot_backends::duckdb::{DuckdbStore, csv_to_parquet};
use cachalot_backends::{OpenOptions, StoreUrlError, open};
use cachalot_core::{Clock, Millis, SystemClock};
use cachalot_store::conformance::Subject;
use cachalot_store::{ErrorKind, PutResult, Store as _, StoreReply};
use duckdb::Connection;

use crate::bucket::Shifted;
use crate::{parse, record, runtime};

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

/// The lock of DuckDB does not keep the process that holds it from opening the file again.
#[test]
fn file_is_opened_once_in_a_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.duckdb");
    let open = |path: &Path| DuckdbStore::open(path, Arc::new(SystemClock));
    runtime().block_on(async {
        let put = async |store: &DuckdbStore| {
            let new = record("key".to_owned(), b"value".to_vec(), Vec::new());
            store.put("space", new, None, &[]).settle().await
        };
        // The file does not exist yet.
        let early = directory.path().join("early");
        std::os::unix::fs::symlink(&path, &early).unwrap();
        let first = open(&early);
        put(&first).await.unwrap();
        let symbolic = directory.path().join("symbolic");
        std::os::unix::fs::symlink(&path, &symbolic).unwrap();
        let hard = directory.path().join("hard");
        std::fs::hard_link(&path, &hard).unwrap();
        let indirect = directory.path().join(".").join("store.duckdb");
        for path in [&path, &early, &symbolic, &hard, &indirect] {
            let error = put(&open(path)).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Busy, "{}: {error}", path.display());
        }
        drop(first);
        let stored = put(&open(&path)).await.unwrap();
        assert_eq!(stored, PutResult::Stored { revision: 2 });
    });
}

/// DuckDB loads an extension for such a name, from a server if it has to.
#[test]
fn names_of_other_databases_are_refused() {
    for url in [
        "duckdb:md:x",
        "duckdb:sqlite:x.db",
        "duckdb:ducklake:x",
        "duckdb:s3://bucket/x.db",
        "duckdb:",
        "duckdb::memory:",
    ] {
        let opened = open(&parse(url), &OpenOptions::default());
        let error = opened.err();
        assert!(
            matches!(error, Some(StoreUrlError::Invalid(_))),
            "{url}: {error:?}"
        );
    }
    // A file of another engine, for which there is an extension.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("md:x");
    let store = DuckdbStore::open(&path, Arc::new(SystemClock));
    runtime().block_on(async { store.usage("space").settle().await.unwrap() });
    assert!(path.exists());
}

/// The tables of version 1.
const FIRST_LAYOUT: &str = "
    CREATE TABLE cachalot_layout(version BIGINT NOT NULL);
    INSERT INTO cachalot_layout VALUES (1);
    CREATE SEQUENCE cachalot_writes;
    CREATE TABLE cachalot_records(
        space VARCHAR NOT NULL, key VARCHAR NOT NULL, id BIGINT NOT NULL, revision BIGINT NOT NULL,
        updated BIGINT NOT NULL, used BIGINT NOT NULL, expires BIGINT, labels VARCHAR NOT NULL, size BIGINT NOT NULL,
        weight BIGINT NOT NULL, value BLOB NOT NULL);
    CREATE INDEX cachalot_records_key ON cachalot_records(key);
    CREATE TABLE cachalot_labels(
        space VARCHAR NOT NULL, name VARCHAR NOT NULL, value VARCHAR NOT NULL, key VARCHAR NOT NULL);
    CREATE INDEX cachalot_labels_value ON cachalot_labels(value);
    CREATE INDEX cachalot_labels_key ON cachalot_labels(key);
    CREATE TABLE cachalot_counters(space VARCHAR NOT NULL, name VARCHAR NOT NULL, value BIGINT NOT NULL);
    CREATE INDEX cachalot_counters_name ON cachalot_counters(name);
    CREATE TABLE cachalot_leases(
        space VARCHAR NOT NULL, key VARCHAR NOT NULL, fence BIGINT NOT NULL, until BIGINT NOT NULL,
        is_current BOOLEAN NOT NULL, labels VARCHAR NOT NULL);
    CREATE INDEX cachalot_leases_key ON cachalot_leases(key);
    INSERT INTO cachalot_records VALUES
        ('space', 'key', nextval('cachalot_writes'), 3, 0, 0, NULL, '[]', 5, 8, 'value'::BLOB);";

#[test]
fn files_of_the_first_version_are_upgraded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.duckdb");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(FIRST_LAYOUT).unwrap();
    drop(connection);
    runtime().block_on(async {
        for revision in 4..=5 {
            let store = DuckdbStore::open(&path, Arc::new(SystemClock));
            let found = store.get("space", "key", &[]).settle().await.unwrap();
            assert_eq!(found.record.unwrap().value, "value");
            let new = record("key".to_owned(), b"value".to_vec(), Vec::new());
            let stored = store.put("space", new, None, &[]).settle().await.unwrap();
            assert_eq!(stored, PutResult::Stored { revision });
        }
    });
}

#[test]
fn files_of_a_newer_version_are_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.duckdb");
    let tables = |statement: &str| {
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(statement).unwrap();
        let count = "SELECT count(*) FROM duckdb_tables()";
        connection
            .query_row(count, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    let newer = "CREATE TABLE cachalot_layout AS SELECT 99 AS version;
                 CREATE TABLE cachalot_records(name VARCHAR);";
    assert_eq!(tables(newer), 2);
    runtime().block_on(async {
        let store = DuckdbStore::open(&path, Arc::new(SystemClock));
        let error = store.usage("space").settle().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooNew, "{error}");
    });
    assert_eq!(tables(""), 2);
}

/// A clock that a call waits for while it uses the file.
#[derive(Debug)]
struct SlowClock(Arc<Barrier>);

impl Clock for SlowClock {
    fn now(&self) -> Millis {
        self.0.wait();
        self.0.wait();
        SystemClock.now()
    }
}

#[test]
fn calls_wait_for_others_without_blocking() {
    let directory = tempfile::tempdir().unwrap();
    let barrier = Arc::new(Barrier::new(2));
    let clock = Arc::new(SlowClock(Arc::clone(&barrier)));
    let store = DuckdbStore::open(&directory.path().join("store.duckdb"), clock);
    let store = Arc::new(store);
    let slow = std::thread::spawn({
        let store = Arc::clone(&store);
        move || runtime().block_on(async { store.usage("space").settle().await.unwrap() })
    });
    barrier.wait();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn({
        let store = Arc::clone(&store);
        move || {
            let reply = store.get("space", "key", &[]);
            sender.send(matches!(reply, StoreReply::Later(_))).unwrap();
        }
    });
    let is_later = receiver.recv_timeout(Duration::from_secs(10));
    barrier.wait();
    assert_eq!(is_later, Ok(true));
    slow.join().unwrap();
}

#[test]
fn tables_are_converted_to_parquet() {
    let directory = tempfile::tempdir().unwrap();
    let (csv, parquet) = (
        directory.path().join("it's.csv"),
        directory.path().join("it's.parquet"),
    );
    std::fs::write(&csv, "name,count\n\"a,b\",1\n\"c\",\n").unwrap();
    csv_to_parquet(&csv, &[("name", "VARCHAR"), ("count", "BIGINT")], &parquet).unwrap();
    let connection = Connection::open_in_memory().unwrap();
    let parquet = parquet.to_str().unwrap().replace('\'', "''");
    let read = format!("SELECT sum(count)::BIGINT FROM '{parquet}' WHERE name = 'a,b'");
    let sum = connection.query_row(&read, [], |row| row.get::<_, i64>(0));
    assert_eq!(sum.unwrap(), 1);
}
