//! Files and directories.

use std::fs;
use std::sync::{Arc, Barrier};

use cachalot_store::{ErrorKind, PageRequest, RecordFilter, Store, StoreReply};

use crate::{open, record, run};

#[cfg(unix)]
#[test]
fn files_and_directories_are_private_to_the_owner() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/er/memory.db");
    let memory = open(&path).unwrap();
    run(memory.put("cache", record("key", "x"), None, &[]).settle()).unwrap();
    let mut seen = Vec::new();
    for entry in fs::read_dir(path.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(
            entry.metadata().unwrap().permissions().mode() & 0o7777,
            0o600,
            "{entry:?}"
        );
        seen.push(entry.file_name().into_string().unwrap());
    }
    seen.sort();
    assert_eq!(
        seen,
        [
            "memory.db",
            "memory.db-shm",
            "memory.db-stamp",
            "memory.db-wal"
        ]
    );
    for made in ["deep", "deep/er"] {
        let mode = fs::metadata(directory.path().join(made))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o700, "{made}");
    }
}

#[cfg(unix)]
#[test]
fn unwritable_directory_is_denied() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let probe = fs::write(directory.path().join("probe"), "");
    let answer = open(&directory.path().join("memory.db")).map(drop);
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
    if probe.is_ok() {
        // Nothing is denied to the superuser.
        return;
    }
    let error = answer.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.message.contains("memory.db"), "{}", error.message);
}

#[test]
fn obstructing_path_is_named_in_the_error() {
    let directory = tempfile::tempdir().unwrap();
    let error = open(directory.path()).unwrap_err();
    assert!(
        matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Denied),
        "{error}"
    );
    fs::write(directory.path().join("file"), "").unwrap();
    let error = open(&directory.path().join("file/memory.db")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("memory.db"), "{}", error.message);
}

#[test]
fn special_sqlite_names_are_plain_file_names() {
    let directory = tempfile::tempdir().unwrap();
    for name in [
        ":memory:",
        "file:x?mode=memory",
        "a b%20c",
        "ü.db",
        "x.db?cache=shared#1",
    ] {
        let path = directory.path().join(name);
        let memory = open(&path).unwrap();
        run(memory.put("cache", record("key", "x"), None, &[]).settle()).unwrap();
        drop(memory);
        assert!(fs::metadata(&path).unwrap().len() > 0, "{name}");
        let memory = open(&path).unwrap();
        let StoreReply::Now(Ok(found)) = memory.get("cache", "key", &[]) else {
            panic!("{name}")
        };
        assert!(found.record.is_some(), "{name}");
    }
}

#[test]
fn eight_threads_create_one_database() {
    for _ in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let barrier = Arc::new(Barrier::new(8));
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let (path, barrier) =
                    (directory.path().join("new/memory.db"), Arc::clone(&barrier));
                std::thread::spawn(move || {
                    barrier.wait();
                    let memory = open(&path).unwrap();
                    run(memory
                        .put("cache", record(&format!("key {thread}"), "x"), None, &[])
                        .settle())
                    .unwrap();
                    run(memory.add("cache", &[("counter", 1)]).settle()).unwrap()[0]
                })
            })
            .collect();
        let mut counts: Vec<u64> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        counts.sort_unstable();
        assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7, 8]);
        let memory = open(&directory.path().join("new/memory.db")).unwrap();
        assert_eq!(run(memory.usage("cache").settle()).unwrap().records, 8);
        assert!(memory.stamp("cache", "key 1").is_some());
    }
}

#[test]
fn store_without_a_stamp_file_works_without_stamps() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    // A link to nowhere: there is no such file, and it cannot be created.
    #[cfg(unix)]
    std::os::unix::fs::symlink(
        directory.path().join("no/where"),
        directory.path().join("memory.db-stamp"),
    )
    .unwrap();
    #[cfg(not(unix))]
    return;
    let memory = open(&path).unwrap();
    assert_eq!(memory.stamp("cache", "key"), None);
    run(memory.put("cache", record("key", "x"), None, &[]).settle()).unwrap();
    assert_eq!(memory.stamp("cache", "key"), None);
    let StoreReply::Now(Ok(found)) = memory.get("cache", "key", &[]) else {
        panic!("not found")
    };
    assert!(found.record.is_some());
}

#[test]
fn unusable_stamp_file_prevents_writing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    fs::create_dir(directory.path().join("memory.db-stamp")).unwrap();
    let memory = open(&path).unwrap();
    let error = run(memory.put("cache", record("key", "x"), None, &[]).settle()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(
        error.message.contains("memory.db-stamp"),
        "{}",
        error.message
    );
    // Who can use it again writes again.
    fs::remove_dir(directory.path().join("memory.db-stamp")).unwrap();
    run(memory.put("cache", record("key", "x"), None, &[]).settle()).unwrap();
}

#[test]
fn stamp_file_created_later_is_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    #[cfg(unix)]
    std::os::unix::fs::symlink(
        directory.path().join("later/stamp"),
        directory.path().join("memory.db-stamp"),
    )
    .unwrap();
    #[cfg(not(unix))]
    return;
    let early = open(&path).unwrap();
    run(early.put("cache", record("key", "x"), None, &[]).settle()).unwrap();
    fs::create_dir(directory.path().join("later")).unwrap();
    let late = open(&path).unwrap();
    let before = late.stamp("cache", "key").unwrap();
    run(early.put("cache", record("key", "y"), None, &[]).settle()).unwrap();
    assert_ne!(late.stamp("cache", "key"), Some(before));
}

#[cfg(unix)]
#[test]
fn database_opened_by_a_link_is_the_same_store() {
    let directory = tempfile::tempdir().unwrap();
    let (real, folder) = (directory.path().join("real"), directory.path().join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &folder).unwrap();
    std::os::unix::fs::symlink(real.join("memory.db"), real.join("other.db")).unwrap();
    // The link is there before the file that it leads to.
    let names = [
        real.join("other.db"),
        real.join("memory.db"),
        folder.join("memory.db"),
        folder.join("other.db"),
    ];
    let memories = names.map(|name| open(&name).unwrap());
    let mut seen = std::collections::HashSet::new();
    for eraser in &memories {
        run(eraser.put("cache", record("key", "x"), None, &[]).settle()).unwrap();
        let everything = RecordFilter::default();
        run(eraser
            .erase("cache", &everything, PageRequest::keys(9))
            .settle())
        .unwrap();
        let stamps = memories
            .each_ref()
            .map(|memory| memory.stamp("cache", "key"));
        assert!(stamps[0].is_some(), "stamps are kept here");
        assert_eq!(stamps, [stamps[0]; 4]);
        assert!(seen.insert(stamps[0]), "erasing changes the stamp for all");
    }
    drop(memories);
    let mut left: Vec<_> = fs::read_dir(&real)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with("-wal") && !name.ends_with("-shm"))
        .collect();
    left.sort();
    assert_eq!(left, ["memory.db", "memory.db-stamp", "other.db"]);
}

#[cfg(unix)]
#[test]
fn database_opened_by_a_link_is_set_aside_with_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let (real, link) = (
        directory.path().join("real.db"),
        directory.path().join("link.db"),
    );
    std::os::unix::fs::symlink(&real, &link).unwrap();
    fs::write(&real, "damaged").unwrap();
    fs::write(directory.path().join("real.db-wal"), "log").unwrap();
    let aside = cachalot_store::sqlite::set_aside(&link, 7).unwrap();
    assert_eq!(fs::read(&aside).unwrap(), b"damaged");
    assert!(aside.ends_with("real.db.corrupt-7"), "{}", aside.display());
    assert!(directory.path().join("real.db.corrupt-7-wal").exists());
    assert!(!real.exists() && link.is_symlink());
}

/// The size of the database file after the memory is closed.
fn closed_size(path: &std::path::Path, memory: impl Store) -> u64 {
    drop(memory);
    fs::metadata(path).unwrap().len()
}

/// Stores so many values of 100 kB, in transactions of their own.
fn fill(memory: &impl Store, keys: std::ops::Range<usize>) {
    run(async {
        for number in keys {
            let large = record(&format!("{number:04}"), vec![7u8; 100_000]);
            memory
                .put("cache", large, None, &[])
                .settle()
                .await
                .unwrap();
        }
    });
}

fn erase(memory: &impl Store, prefix: &str) -> usize {
    let filter = RecordFilter {
        prefix,
        ..RecordFilter::default()
    };
    run(memory
        .erase("cache", &filter, PageRequest::keys(1_000))
        .settle())
    .unwrap()
    .records
    .len()
}

#[test]
fn file_shrinks_after_a_large_erase() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    let memory = open(&path).unwrap();
    fill(&memory, 0..300);
    assert!(closed_size(&path, memory) > 29_000_000);
    // Two thirds of it go: more stays than would be written anew.
    let memory = open(&path).unwrap();
    assert_eq!(erase(&memory, "00") + erase(&memory, "02"), 200);
    assert_eq!(run(memory.usage("cache").settle()).unwrap().records, 100);
    let size = closed_size(&path, memory);
    assert!((10_000_000..16_000_000).contains(&size), "{size}");
    let memory = open(&path).unwrap();
    for number in [100, 150, 199] {
        let key = format!("{number:04}");
        let found = memory.get("cache", &key, &[]).settle();
        assert_eq!(run(found).unwrap().record.unwrap().value.len(), 100_000);
    }
    assert_eq!(erase(&memory, ""), 100);
    let size = closed_size(&path, memory);
    assert!(size < 200_000, "{size}");
}

#[test]
fn open_file_shrinks_after_a_large_erase() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    let memory = open(&path).unwrap();
    let reader = open(&path).unwrap();
    fill(&memory, 0..100);
    assert_eq!(erase(&memory, ""), 100);
    let began = std::time::Instant::now();
    loop {
        // Any writing goes on; the background follows.
        fill(&memory, 0..1);
        let found = run(reader.get("cache", "0000", &[]).settle()).unwrap();
        assert_eq!(found.record.unwrap().value.len(), 100_000);
        let size = fs::metadata(&path).unwrap().len();
        if size < 5_000_000 {
            break;
        }
        assert!(began.elapsed().as_secs() < 120, "{size}");
    }
}

#[test]
fn file_of_layout_1_is_migrated_and_can_shrink() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    let memory = open(&path).unwrap();
    fill(&memory, 0..100);
    run(memory.add("cache", &[("counter", 7)]).settle()).unwrap();
    drop(memory);
    // The tables are those of the first layout.
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch("PRAGMA auto_vacuum=NONE; VACUUM; PRAGMA user_version=1")
        .unwrap();
    drop(old);
    let pragma = |name: &str| -> i64 {
        let database = rusqlite::Connection::open(&path).unwrap();
        let mut statement = database.prepare(&format!("PRAGMA {name}")).unwrap();
        statement.query_row([], |row| row.get(0)).unwrap()
    };
    assert_eq!((pragma("user_version"), pragma("auto_vacuum")), (1, 0));
    let memory = open(&path).unwrap();
    assert_eq!((pragma("user_version"), pragma("auto_vacuum")), (3, 0));
    let found = run(memory.get("cache", "0042", &["counter"]).settle()).unwrap();
    assert_eq!(found.counters, [7]);
    assert_eq!(found.record.unwrap().value.len(), 100_000);
    assert_eq!(erase(&memory, "00"), 100);
    let size = closed_size(&path, memory);
    assert!(size < 200_000, "{size}");
    assert_eq!((pragma("user_version"), pragma("auto_vacuum")), (3, 2));
}
