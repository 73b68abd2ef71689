//! The memory keeps the contract of memories, and what it was told.

use std::sync::Arc;

use cachalot_core::ManualClock;
use cachalot_store::conformance::Subject;
use cachalot_store::{
    ErrorKind, Label, PageRequest, PutResult, Record, RecordFilter, Store, space,
};
use third_party::JournalMemory;

fn fresh() -> Subject {
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let directory = tempfile::tempdir().unwrap();
    let memory =
        JournalMemory::open(&directory.path().join("memory.jsonl"), clock.clone()).unwrap();
    Subject::new(Arc::new(memory), clock).keeping(directory)
}

mod conformance {
    cachalot_store::memory_conformance!(super::fresh());
}

fn record(key: &str) -> Record {
    Record {
        key: key.to_owned(),
        value: vec![0, 255, b'\n', b'"'].into(),
        labels: vec![Label::new("tag", "x\ny")],
        expires: Some(7),
        revision: 0,
        updated: 0,
    }
}

async fn stored(memory: &JournalMemory, key: &str) -> Option<Record> {
    memory
        .get(space::USER, key, &[])
        .settle()
        .await
        .unwrap()
        .record
}

#[tokio::test]
async fn records_are_restored_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.jsonl");
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let memory = JournalMemory::open(&path, clock.clone()).unwrap();
    for key in ["a", "b", "b", "c"] {
        memory
            .put(space::USER, record(key), None, &[])
            .settle()
            .await
            .unwrap();
    }
    memory
        .add(space::USER, &[("counter", 1)])
        .settle()
        .await
        .unwrap();
    memory
        .erase(
            space::USER,
            &RecordFilter {
                prefix: "c",
                ..RecordFilter::default()
            },
            PageRequest::keys(9),
        )
        .settle()
        .await
        .unwrap();
    let before = stored(&memory, "b").await;
    drop(memory);

    let again = JournalMemory::open(&path, clock).unwrap();
    assert_eq!(stored(&again, "b").await, before);
    assert_eq!(stored(&again, "b").await.unwrap().revision, 2);
    assert_eq!(stored(&again, "c").await, None);
    let found = again
        .get(space::USER, "a", &["counter"])
        .settle()
        .await
        .unwrap();
    assert_eq!(
        (found.record.unwrap().value, found.counters),
        (record("a").value, vec![1])
    );
    let put = again
        .put(space::USER, record("b"), None, &[])
        .settle()
        .await
        .unwrap();
    assert_eq!(put, PutResult::Stored { revision: 3 });
}

#[tokio::test]
async fn truncated_last_line_is_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.jsonl");
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let memory = JournalMemory::open(&path, clock.clone()).unwrap();
    for key in ["a", "b"] {
        memory
            .put(space::USER, record(key), None, &[])
            .settle()
            .await
            .unwrap();
    }
    drop(memory);
    let whole = std::fs::read(&path).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for cut in first..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let again = JournalMemory::open(&path, clock.clone()).unwrap();
        assert!(stored(&again, "a").await.is_some());
        assert!(stored(&again, "b").await.is_none(), "cut at {cut}");
        again
            .put(space::USER, record("c"), None, &[])
            .settle()
            .await
            .unwrap();
        drop(again);
        let once_more = JournalMemory::open(&path, clock.clone()).unwrap();
        assert!(stored(&once_more, "c").await.is_some(), "cut at {cut}");
    }
}

#[test]
fn foreign_file_is_refused_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.jsonl");
    std::fs::write(&path, "dear diary\n").unwrap();
    let refused = JournalMemory::open(&path, Arc::new(ManualClock::at(0)))
        .map(|_| ())
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Corrupt);
    assert!(refused.message.contains("line 1"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear diary\n");
}

#[test]
fn file_is_locked_by_one_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.jsonl");
    let clock = Arc::new(ManualClock::at(0));
    let first = JournalMemory::open(&path, clock.clone()).unwrap();
    let refused = JournalMemory::open(&path, clock.clone())
        .map(|_| ())
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Busy);
    drop(first);
    assert!(JournalMemory::open(&path, clock).is_ok());
}
