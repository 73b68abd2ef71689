//! Unit tests of `src/sqlite/stamps.rs`.

use super::*;
use crate::slots::slot;

fn open(directory: &tempfile::TempDir) -> Stamps {
    let stamps = Stamps::open(directory.path().join("memory.db-stamp"));
    stamps.begin();
    stamps
}

fn all(stamps: &Stamps) -> Vec<u64> {
    stamps.stamp_file.get().unwrap().words()[HEADER..]
        .iter()
        .map(|word| word.load(Ordering::SeqCst))
        .collect()
}

/// The process dies here: its locks go with it, what it wrote stays.
fn die(stamps: Stamps, hold: impl FnOnce(&Stamps) -> CommitGuard<'_>) {
    std::mem::forget(hold(&stamps));
    drop(stamps);
}

#[test]
fn writer_killed_before_its_commit_changes_no_stamp() {
    let directory = tempfile::tempdir().unwrap();
    let reader = open(&directory);
    let before = all(&reader);
    die(open(&directory), |stamps| {
        stamps.hold(Duration::ZERO).unwrap()
    });
    assert_eq!(reader.read(slot("cache", "key")), Some(0));
    reader.hold(Duration::ZERO).unwrap().settle(&[]);
    assert_eq!(all(&reader), before);
}

#[test]
fn writer_killed_at_its_commit_changes_every_stamp() {
    for moved in [false, true] {
        for (what, recover) in [("opening", true), ("writing", false)] {
            let directory = tempfile::tempdir().unwrap();
            let reader = open(&directory);
            let before = all(&reader);
            die(open(&directory), |stamps| {
                let mut hold = stamps.hold(Duration::ZERO).unwrap();
                hold.announce();
                // It may have come to this.
                if moved {
                    let words = hold.stamp_file.unwrap().words();
                    words[HEADER + slot("cache", "key")].fetch_add(1, Ordering::SeqCst);
                }
                hold
            });
            assert_eq!(reader.read(slot("cache", "key")), None);
            assert_eq!(reader.read(slot("cache", "other")), None);
            if recover {
                drop(open(&directory));
            } else {
                reader.hold(Duration::ZERO).unwrap().settle(&[]);
            }
            assert!(
                all(&reader)
                    .iter()
                    .zip(&before)
                    .all(|(now, before)| now > before),
                "{what}"
            );
            assert!(reader.read(slot("cache", "key")).is_some());
        }
    }
}

#[test]
fn opening_does_not_affect_a_live_writer() {
    let directory = tempfile::tempdir().unwrap();
    let writer = open(&directory);
    let mut hold = writer.hold(Duration::ZERO).unwrap();
    hold.announce();
    let other = open(&directory);
    assert_eq!(other.read(slot("cache", "key")), None);
    assert_eq!(
        other.hold(Duration::from_millis(20)).unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
    hold.settle(&[slot("cache", "key")]);
    assert_eq!(
        (
            other.read(slot("cache", "key")),
            other.read(slot("cache", "other"))
        ),
        (Some(1), Some(0))
    );
}

#[test]
fn unknown_outcome_changes_every_stamp() {
    let directory = tempfile::tempdir().unwrap();
    let stamps = open(&directory);
    let mut hold = stamps.hold(Duration::ZERO).unwrap();
    hold.announce();
    drop(hold);
    assert!(all(&stamps).iter().all(|&stamp| stamp == 1));
    assert_eq!(stamps.read(slot("cache", "key")), Some(1));
}

#[test]
fn new_file_has_no_stamps_before_the_first_connection() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db-stamp");
    let first = Stamps::open(path.clone());
    let second = Stamps::open(path);
    assert!(first.is_new() && second.is_new());
    assert_eq!(second.read(slot("cache", "key")), None);
    first.begin();
    assert_eq!(second.read(slot("cache", "key")), Some(0));
}

#[test]
fn a_reader_without_a_stamp_file_detects_a_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("later/memory.db-stamp");
    let early = Stamps::open(path.clone());
    let hold = early.hold(Duration::ZERO).unwrap();
    assert!(!early.was_created_since(&hold));
    std::fs::create_dir(directory.path().join("later")).unwrap();
    let late = Stamps::open(path);
    assert!(early.was_created_since(&hold));
    late.begin();
    let hold = early.hold(Duration::ZERO).unwrap();
    assert!(!early.was_created_since(&hold));
    assert_eq!(early.read(slot("cache", "key")), Some(0));
    assert!(late.hold(Duration::ZERO).is_err());
    drop(hold);
}

#[test]
fn too_short_file_is_extended_and_keeps_its_values() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db-stamp");
    let mut bytes = vec![0u8; 100];
    bytes[..8].copy_from_slice(&MAGIC.to_ne_bytes());
    bytes[8] = CLEAN as u8;
    bytes[64] = 9;
    std::fs::write(&path, bytes).unwrap();
    let stamps = Stamps::open(path.clone());
    assert_eq!(all(&stamps)[..2], [9, 0]);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), BYTES as u64);
}
