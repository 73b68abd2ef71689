//! The queue, the caller who carries it out, the thread behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use cachalot_core::SystemClock;
use cachalot_store::sqlite::{SqliteOptions, SqliteStore};
use cachalot_store::{
    ErrorKind, PageRequest, Recall, Record, RecordFilter, Store, StoreReply, space,
};
use rusqlite::Connection;

use crate::{open, record, run};

fn patient(path: &std::path::Path, patience: Duration) -> SqliteStore {
    SqliteStore::open(
        path,
        SqliteOptions {
            clock: Arc::new(SystemClock),
            busy_timeout: patience,
        },
    )
    .unwrap()
}

#[test]
fn failing_request_fails_alone_in_its_batch() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    let memory = Arc::new(open(&path).unwrap());
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "CREATE TRIGGER poison BEFORE INSERT ON records WHEN NEW.key LIKE 'poison%'
             BEGIN SELECT RAISE(ABORT, 'poisoned'); END",
        )
        .unwrap();
    run(async {
        for round in 0..20 {
            let tasks: Vec<_> = (0..16)
                .map(|task| {
                    let memory = Arc::clone(&memory);
                    let key = if task == 5 {
                        format!("poison {round}")
                    } else {
                        format!("key {round} {task}")
                    };
                    tokio::spawn(async move {
                        memory
                            .put("cache", record(&key, "x"), None, &[])
                            .settle()
                            .await
                    })
                })
                .collect();
            for (task, handle) in tasks.into_iter().enumerate() {
                assert_eq!(handle.await.unwrap().is_err(), task == 5);
            }
        }
        let usage = memory.usage("cache").settle().await.unwrap();
        assert_eq!(usage.records, 20 * 15);
    });
}

#[test]
fn lock_of_another_process_is_awaited_with_a_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    let memory = patient(&path, Duration::from_millis(300));
    let other = Connection::open(&path).unwrap();
    run(async {
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let start = Instant::now();
        let error = memory
            .put("cache", record("key", "x"), None, &[])
            .settle()
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Busy);
        assert!(error.is_retryable());
        assert!(start.elapsed() >= Duration::from_millis(250));
        let late = memory
            .put("cache", record("key", "x"), None, &[])
            .within(Duration::from_millis(20))
            .await;
        assert_eq!(late.unwrap_err().kind, ErrorKind::TimedOut);
        // Reads do not wait for writers.
        assert!(matches!(
            memory.get("cache", "key", &[]),
            StoreReply::Now(Ok(_))
        ));
        let waiting = memory
            .put("cache", record("other", "x"), None, &[])
            .settle();
        let release = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            other.execute_batch("ROLLBACK").unwrap();
        };
        let (stored, ()) = tokio::join!(waiting, release);
        stored.unwrap();
    });
}

#[test]
fn a_dropped_request_is_not_started() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    let memory = open(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    run(async {
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut first = std::pin::pin!(
            memory
                .put("cache", record("wanted", "x"), None, &[])
                .settle()
        );
        assert!(poll(first.as_mut()).is_pending());
        // The thread is waiting for the lock with the first one in hand.
        tokio::time::sleep(Duration::from_millis(50)).await;
        {
            let mut second = std::pin::pin!(
                memory
                    .put("cache", record("given up", "x"), None, &[])
                    .settle()
            );
            assert!(poll(second.as_mut()).is_pending());
        }
        other.execute_batch("ROLLBACK").unwrap();
        first.await.unwrap();
        memory
            .put("cache", record("third", "x"), None, &[])
            .settle()
            .await
            .unwrap();
        let StoreReply::Now(Ok(found)) = memory.get("cache", "given up", &[]) else {
            panic!("not at once")
        };
        assert_eq!(found.record, None);
        assert_eq!(memory.usage("cache").settle().await.unwrap().records, 2);
    });
}

fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn stored_record_is_found_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    for round in 0..30 {
        let memory = open(&path).unwrap();
        assert_eq!(run(memory.usage("cache").settle()).unwrap().records, round);
        run(memory
            .put(
                "cache",
                record(&format!("key {round}"), vec![1u8; 300_000]),
                None,
                &[],
            )
            .settle())
        .unwrap();
    }
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A minimal executor.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn store_works_without_a_runtime() {
    let directory = tempfile::tempdir().unwrap();
    let memory = open(&directory.path().join("memory.db")).unwrap();
    for number in 0..50 {
        block_on(
            memory
                .put(
                    space::USER,
                    record(&format!("key {number}"), "some words"),
                    None,
                    &[],
                )
                .settle(),
        )
        .unwrap();
    }
    block_on(
        memory
            .put(space::USER, record("large", vec![7u8; 1 << 20]), None, &[])
            .settle(),
    )
    .unwrap();
    let large = block_on(memory.get(space::USER, "large", &[]).settle()).unwrap();
    assert_eq!(large.record.unwrap().value.len(), 1 << 20);
    assert_eq!(
        block_on(memory.search("words", &[], 100).settle())
            .unwrap()
            .len(),
        50
    );
    let all = RecordFilter::default();
    let erased = memory.erase(space::USER, &all, PageRequest::keys(1000));
    assert_eq!(block_on(erased.settle()).unwrap().records.len(), 51);
}

#[test]
fn large_value_is_read_on_another_thread_and_a_small_one_inline() {
    let directory = tempfile::tempdir().unwrap();
    let memory = open(&directory.path().join("memory.db")).unwrap();
    run(async {
        for (key, size) in [("small", 256 << 10), ("large", (256 << 10) + 1)] {
            memory
                .put("cache", record(key, vec![7u8; size]), None, &[])
                .settle()
                .await
                .unwrap();
        }
        assert!(matches!(
            memory.get("cache", "small", &["counter"]),
            StoreReply::Now(Ok(_))
        ));
        let StoreReply::Later(answer) = memory.get("cache", "large", &["counter"]) else {
            panic!("read here")
        };
        assert_eq!(
            answer.await.unwrap().record.unwrap().value.len(),
            (256 << 10) + 1
        );
    });
}

#[test]
fn too_large_record_is_refused_alone() {
    let directory = tempfile::tempdir().unwrap();
    let memory = open(&directory.path().join("memory.db")).unwrap();
    let largest = memory.about().largest_value as usize;
    run(async {
        // Zeroed memory that is never touched.
        let value = bytes::Bytes::from(vec![0u8; largest + 1]);
        let error = memory
            .put("cache", record("key", value), None, &[])
            .settle()
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooLarge);
        assert!(
            error.message.contains("key") && error.message.contains(&largest.to_string()),
            "{}",
            error.message
        );
        memory
            .put("cache", record("key", "x"), None, &[])
            .settle()
            .await
            .unwrap();
    });
}

#[test]
fn write_ahead_log_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    let memory = Arc::new(open(&path).unwrap());
    run(async {
        for round in 0..40u32 {
            let tasks: Vec<_> = (0..8u32)
                .map(|task| {
                    let memory = Arc::clone(&memory);
                    let record = record(&format!("key {round} {task}"), vec![round as u8; 100_000]);
                    tokio::spawn(async move {
                        memory
                            .put("cache", record, None, &[])
                            .settle()
                            .await
                            .unwrap()
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        }
    });
    drop(memory);
    let length = |ending: &str| {
        std::fs::metadata(format!("{}{ending}", path.display()))
            .unwrap()
            .len()
    };
    assert!(
        length("") > 30_000_000,
        "checkpoints moved {} bytes",
        length("")
    );
    let connection = Connection::open(&path).unwrap();
    let left: i64 = connection
        .query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1))
        .unwrap();
    assert!(left < 256, "{left} pages were left in the log");
}

/// A log restarts only at a moment when all of it is in the database and no reader uses it. Under load, there may be
/// none by itself.
#[test]
fn write_ahead_log_restarts_under_uninterrupted_load() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    let memory = Arc::new(open(&path).unwrap());
    let is_done = Arc::new(AtomicBool::new(false));
    let watcher = std::thread::spawn({
        let (is_done, connection) = (Arc::clone(&is_done), Connection::open(&path).unwrap());
        move || {
            let log = "PRAGMA wal_checkpoint(NOOP)";
            let pages = || -> i64 { connection.query_row(log, [], |row| row.get(1)).unwrap() };
            let mut longest = 0;
            while !is_done.load(Ordering::SeqCst) {
                longest = longest.max(pages());
                std::thread::sleep(Duration::from_millis(2));
            }
            longest.max(pages())
        }
    });
    // One of these always reads.
    let readers = (0..4).map(|_| {
        let (is_done, connection) = (Arc::clone(&is_done), Connection::open(&path).unwrap());
        std::thread::spawn(move || {
            while !is_done.load(Ordering::SeqCst) {
                connection.execute_batch("BEGIN").unwrap();
                let tables = "SELECT count(*) FROM sqlite_master";
                let _: i64 = connection.query_row(tables, [], |row| row.get(0)).unwrap();
                std::thread::sleep(Duration::from_millis(5));
                connection.execute_batch("COMMIT").unwrap();
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    run(async {
        let tasks: Vec<_> = (0..8u32)
            .map(|task| {
                let memory = Arc::clone(&memory);
                tokio::spawn(async move {
                    for round in 0..1_000u32 {
                        let key = format!("key {task} {round}");
                        let record = record(&key, vec![round as u8; 20_000]);
                        let put = memory.put("cache", record, None, &[]);
                        put.settle().await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    is_done.store(true, Ordering::SeqCst);
    let longest = watcher.join().unwrap();
    for reader in readers {
        reader.join().unwrap();
    }
    // A log that never restarts has all pages at the end.
    let written = 8 * 1_000 * 20_000 / 4_096;
    assert!(longest < written, "the log grew to {longest} pages");
}

#[test]
fn many_tasks_on_one_thread_write_concurrently() {
    let directory = tempfile::tempdir().unwrap();
    let memory = Arc::new(open(&directory.path().join("memory.db")).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..200)
            .map(|task| {
                let memory = Arc::clone(&memory);
                tokio::spawn(async move {
                    for number in 0..5 {
                        let record: Record = record(&format!("{task} {number}"), "x");
                        memory
                            .put("cache", record, None, &[])
                            .settle()
                            .await
                            .unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(run(memory.usage("cache").settle()).unwrap().records, 1000);
}
