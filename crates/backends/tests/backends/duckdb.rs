//! The contract of a store, on files of DuckDB.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use cachalot_backends::duckdb::{DuckdbStore, csv_to_parquet};
use cachalot_backends::testing::ObjectServer;
use cachalot_backends::{OpenOptions, StoreUrlError, open};
use cachalot_core::{Clock, Millis, SystemClock};
use cachalot_store::conformance::Subject;
use cachalot_store::{
    ErrorKind, GetOrReserve, PageRequest, PutAllResult, PutCondition, PutResult, Record,
    RecordFilter, ReserveResult, Stale, Store, StoreReply, ValuePart,
};
use duckdb::Connection;

use crate::bucket::Shifted;
use crate::{parse, record, runtime};

cachalot_store::memory_conformance_checks! { checks, Some(fresh()) }

/// The contract, with large values in a directory.
mod in_directory {
    cachalot_store::memory_conformance_checks! { checks, Some(super::fresh_with("?values=")) }
}

fn fresh() -> Subject {
    fresh_with("")
}

/// A store whose large values are in a directory beside it, if the URL has parameters.
fn fresh_with(parameters: &str) -> Subject {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let parameters = match parameters {
        "" => String::new(),
        parameters => format!("{parameters}file://{path}/large/values/"),
    };
    let url = format!("duckdb:{path}/store.duckdb{parameters}");
    subject_at(&url, BTreeMap::new()).keeping(directory)
}

fn subject_at(url: &str, environment: BTreeMap<String, String>) -> Subject {
    let shift = Arc::new(AtomicI64::new(0));
    let options = OpenOptions {
        environment,
        clock: Arc::new(Shifted(Arc::clone(&shift))),
        ..OpenOptions::default()
    };
    Subject {
        store: open(&parse(url), &options).unwrap(),
        second: None,
        pass: Box::new(move |by| {
            let by = i64::try_from(by.as_millis()).unwrap();
            shift.fetch_add(by, Ordering::Relaxed);
        }),
        layout: None,
        keep: None,
    }
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
fn other_places_are_refused() {
    for url in [
        "duckdb:md:x",
        "duckdb:sqlite:x.db",
        "duckdb:ducklake:x",
        "duckdb:s3://bucket/x.db",
        "duckdb:",
        "duckdb::memory:",
        "duckdb:x.db?value=x",
        "duckdb:x.db?values=",
        "duckdb:x.db?values=s3:///x",
        "duckdb:x.db?values=https://host/x",
        "duckdb:x.db?values=ftp://host/x",
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

/// A store whose large values are files in a directory.
struct WithFiles {
    store: Arc<dyn Store>,
    directory: tempfile::TempDir,
}

impl WithFiles {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Self::open_in(&directory);
        Self { store, directory }
    }

    fn open_in(directory: &tempfile::TempDir) -> Arc<dyn Store> {
        let path = directory.path().display();
        let url = format!("duckdb:{path}/store.duckdb?values={path}/values");
        open(&parse(&url), &OpenOptions::default()).unwrap()
    }

    fn files(&self) -> Vec<PathBuf> {
        match std::fs::read_dir(self.directory.path().join("values")) {
            Ok(files) => files.map(|file| file.unwrap().path()).collect(),
            Err(_) => Vec::new(),
        }
    }

    async fn put(&self, key: &str, byte: u8, size: usize) {
        let new = record(key.to_owned(), vec![byte; size], Vec::new());
        let put = self.store.put("space", new, None, &[]).settle().await;
        assert!(matches!(put, Ok(PutResult::Stored { .. })), "{put:?}");
    }

    async fn get(&self, key: &str) -> Option<Record> {
        let found = self.store.get("space", key, &[]).settle().await;
        found.unwrap().record
    }
}

const LARGE: usize = 100_000;

#[test]
fn large_values_are_files_of_their_own() {
    runtime().block_on(async {
        let mut with = WithFiles::new();
        with.put("small", 1, 64 << 10).await;
        assert!(matches!(
            with.store.get("space", "small", &[]),
            StoreReply::Now(_)
        ));
        assert_eq!(with.files().len(), 0);
        with.put("key", 2, LARGE).await;
        assert!(matches!(
            with.store.get("space", "key", &[]),
            StoreReply::Later(_)
        ));
        let first = with.files();
        assert_eq!(first.len(), 1);
        // Each revision has a file of its own.
        with.put("key", 2, LARGE).await;
        assert_eq!(with.files().len(), 1);
        assert_ne!(with.files(), first);
        drop(with.store);
        with.store = WithFiles::open_in(&with.directory);
        assert_eq!(with.get("key").await.unwrap().value, vec![2; LARGE]);
        // A list needs no file.
        let request = PageRequest {
            values: ValuePart::First(4096),
            ..PageRequest::keys(9)
        };
        let all = RecordFilter::default();
        let StoreReply::Now(Ok(page)) = with.store.find("space", &all, request) else {
            panic!("later");
        };
        assert_eq!(page.sizes, [LARGE as u64, 64 << 10]);
        assert_eq!(page.records[0].value, vec![2; 4096]);
        // Neither does a change of use, and a change of the value has another file.
        let found = with.get("key").await.unwrap();
        let amended = Record {
            value: vec![3; LARGE].into(),
            ..found
        };
        let revision = with.store.amend("space", amended.clone()).settle().await;
        assert_eq!(revision.unwrap(), Some(3));
        assert_eq!(with.get("key").await.unwrap().value, amended.value);
        assert_eq!(with.files().len(), 1);
        // A refused write leaves nothing behind.
        let again = with.store.amend("space", amended).settle().await;
        assert_eq!(again.unwrap(), None);
        let new = record("key".to_owned(), vec![4; LARGE], Vec::new());
        let put = with.store.put("space", new, None, &[("counter", 1)]);
        let refused = put.settle().await.unwrap();
        assert_eq!(refused, PutResult::CounterChanged { counter: 0 });
        assert_eq!(with.files().len(), 1);
        let erased = with.store.erase("space", &all, PageRequest::first(9));
        let erased = erased.settle().await.unwrap();
        assert_eq!(erased.records[0].value, vec![3; LARGE]);
        assert_eq!(with.files().len(), 0);
    });
}

#[test]
fn records_stored_at_once_keep_the_files_that_are_the_same() {
    runtime().block_on(async {
        let with = WithFiles::new();
        let put = async |bytes: [u8; 2], expected: Option<u8>| {
            let new =
                |(key, byte): (&str, u8)| record(key.to_owned(), vec![byte; LARGE], Vec::new());
            let records = [("a", bytes[0]), ("b", bytes[1])].map(new);
            let condition = PutCondition {
                space: "space",
                key: "a",
                value: expected.map(|byte| vec![byte; LARGE].into()),
            };
            let records = records.map(|record| ("space", record)).into();
            with.store
                .put_all(condition, records)
                .settle()
                .await
                .unwrap()
        };
        assert_eq!(put([1, 1], None).await, PutAllResult::Stored);
        let before = with.files();
        assert_eq!(put([1, 2], Some(2)).await, PutAllResult::Changed);
        assert_eq!(with.files(), before);
        assert_eq!(put([1, 2], Some(1)).await, PutAllResult::Stored);
        let after = with.files();
        assert_eq!(after.iter().filter(|file| before.contains(file)).count(), 1);
        assert_eq!(after.len(), 2);
        assert_eq!(with.get("a").await.unwrap().revision, 1);
        assert_eq!(with.get("b").await.unwrap().value, vec![2; LARGE]);
    });
}

#[test]
fn damaged_files_are_named() {
    runtime().block_on(async {
        for damage in [
            (|file| std::fs::remove_file(file).unwrap()) as fn(&Path),
            |file| std::fs::write(file, vec![1; LARGE - 1]).unwrap(),
            |file| std::fs::write(file, vec![1; LARGE + 1]).unwrap(),
            |file| std::fs::write(file, vec![2; LARGE]).unwrap(),
        ] {
            let with = WithFiles::new();
            with.put("key", 1, LARGE).await;
            let file = with.files().remove(0);
            damage(&file);
            let name = file.file_name().unwrap().to_str().unwrap();
            let all = RecordFilter::default();
            let request = GetOrReserve {
                counters: &[],
                labels: &[],
                hold: Duration::from_secs(60),
                stale: Stale::Any,
            };
            let store = &with.store;
            let get = store.get("space", "key", &[]).settle().await.err();
            let reserve = store.get_or_reserve("space", "key", request);
            let reserve = reserve.settle().await.err();
            let find = store.find("space", &all, PageRequest::first(9));
            for error in [get, reserve, find.settle().await.err()] {
                let error = error.unwrap();
                assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
                assert!(error.message.contains(name), "{error}");
            }
            // The lease does not stay.
            let reserved = store.reserve("space", "key", &[], Duration::from_secs(60));
            let reserved = reserved.settle().await.unwrap();
            assert!(matches!(reserved, ReserveResult::Held(_)));
            // The record can be replaced and erased.
            let erased = store.erase("space", &all, PageRequest::labels(9));
            assert_eq!(erased.settle().await.unwrap().records.len(), 1);
            with.put("key", 3, LARGE).await;
            assert_eq!(with.get("key").await.unwrap().value, vec![3; LARGE]);
        }
        // A store that does not know the place.
        let with = WithFiles::new();
        with.put("key", 1, LARGE).await;
        let WithFiles { store, directory } = with;
        drop(store);
        let store = DuckdbStore::open(
            &directory.path().join("store.duckdb"),
            Arc::new(SystemClock),
        );
        let error = store.get("space", "key", &[]).settle().await.unwrap_err();
        assert!(error.message.contains("values="), "{error}");
    });
}

/// A write whose place does not answer stores nothing; a reader never sees a file that is not there.
#[test]
fn readers_and_writers_of_large_values_do_not_meet() {
    runtime().block_on(async {
        let with = Arc::new(WithFiles::new());
        with.put("key", 0, LARGE).await;
        let mut tasks = tokio::task::JoinSet::new();
        for writer in 0..2_u8 {
            let with = Arc::clone(&with);
            tasks.spawn(async move {
                for round in 0..40 {
                    with.put("key", writer * 40 + round, LARGE).await;
                }
            });
        }
        for _ in 0..2 {
            let with = Arc::clone(&with);
            tasks.spawn(async move {
                for _ in 0..60 {
                    let value = with.get("key").await.unwrap().value;
                    assert!(value.len() == LARGE && value.iter().all(|byte| *byte == value[0]));
                    let all = RecordFilter::default();
                    let found = with.store.find("space", &all, PageRequest::first(9));
                    assert_eq!(found.settle().await.unwrap().records.len(), 1);
                }
            });
        }
        tasks.join_all().await;
        assert_eq!(with.files().len(), 1);
        // Writes that are not waited for.
        for microseconds in (0..3000).step_by(100) {
            let new = record("key".to_owned(), vec![7; LARGE], Vec::new());
            let limit = Duration::from_micros(microseconds);
            let put = with.store.put("space", new, None, &[]);
            let _ = put.within(limit).await;
            assert_eq!(with.get("key").await.unwrap().value.len(), LARGE);
        }
        // The folder is a file.
        let place = with.directory.path().join("values");
        std::fs::remove_dir_all(&place).unwrap();
        std::fs::write(&place, "").unwrap();
        let new = record("new".to_owned(), vec![7; LARGE], Vec::new());
        let put = with.store.put("space", new, None, &[]).settle().await;
        assert_eq!(put.unwrap_err().kind, ErrorKind::Unavailable);
        assert_eq!(with.get("new").await, None);
    });
}

#[test]
fn large_values_are_objects_in_a_bucket() {
    let Some(server) = ObjectServer::shared() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.duckdb");
    let bucket = server.fresh_url();
    let bucket = bucket.strip_suffix("/store.db").unwrap();
    let url = format!("duckdb:{}?values={bucket}", path.display());
    runtime().block_on(async {
        for round in 1..=3_u8 {
            let subject = subject_at(&url, server.environment());
            let store = &*subject.store;
            let new = record("key".to_owned(), vec![round; 3 << 20], Vec::new());
            let put = store.put("space", new, None, &[]).settle().await.unwrap();
            let revision = u64::from(round);
            assert_eq!(put, PutResult::Stored { revision });
            let found = store.get("space", "key", &[]).settle().await.unwrap();
            assert_eq!(found.record.unwrap().value, vec![round; 3 << 20]);
            let all = RecordFilter::default();
            let page = store.find("space", &all, PageRequest::first(9));
            assert_eq!(page.settle().await.unwrap().records[0].value.len(), 3 << 20);
        }
        let subject = subject_at(&url, server.environment());
        let request = PageRequest::first(9);
        let all = RecordFilter::default();
        let erased = subject.store.erase("space", &all, request).settle().await;
        assert_eq!(erased.unwrap().records[0].value, vec![3; 3 << 20]);
        let found = subject.store.get("space", "key", &[]).settle().await;
        assert_eq!(found.unwrap().record, None);
    });
}
