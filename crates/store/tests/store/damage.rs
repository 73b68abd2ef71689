//! Files that are not what they should be.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cachalot_store::sqlite::set_aside;
use cachalot_store::{ErrorKind, PageRequest, RecordFilter, Store};
use rusqlite::Connection;

use crate::{open, record, run};

/// A database with two hundred records, closed, everything in the one file.
fn database(directory: &Path) -> PathBuf {
    let path = directory.join("memory.db");
    let memory = open(&path).unwrap();
    run(async {
        for number in 0..200 {
            memory
                .put(
                    "cache",
                    record(&format!("key {number}"), vec![7u8; 500]),
                    None,
                    &[],
                )
                .settle()
                .await
                .unwrap();
        }
    });
    drop(memory);
    let connection = Connection::open(&path).unwrap();
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    path
}

/// Every file of the directory, by what its name ends in.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                fs::read(entry.path()).unwrap(),
            )
        })
        .collect()
}

#[test]
fn newer_database_version_is_refused_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = database(directory.path());
    Connection::open(&path)
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let before = fs::read(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooNew);
    for part in ["newer version", "99", "memory.db", "update Cachalot"] {
        assert!(error.message.contains(part), "{}", error.message);
    }
    assert!(!error.is_retryable());
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn foreign_database_is_refused_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.db");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch("CREATE TABLE theirs(x); INSERT INTO theirs VALUES (1);")
        .unwrap();
    drop(connection);
    let before = contents(directory.path());
    assert_eq!(open(&path).unwrap_err().kind, ErrorKind::Unsupported);
    let connection = Connection::open(&path).unwrap();
    connection
        .pragma_update(None, "application_id", 77)
        .unwrap();
    assert_eq!(open(&path).unwrap_err().kind, ErrorKind::Unsupported);
    connection.pragma_update(None, "application_id", 0).unwrap();
    drop(connection);
    assert_eq!(
        contents(directory.path()).keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>()
    );
}

#[test]
fn non_database_file_is_corrupt() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    for garbage in [
        &b"{\"not\": \"a database\"}"[..],
        &[0u8; 4096],
        &[0xFF; 10_000],
        b"SQLite format 3\0 and then nothing",
    ] {
        fs::write(&path, garbage).unwrap();
        let error = open(&path).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
        assert!(
            error.message.contains("memory.db") && error.message.contains("set it aside"),
            "{}",
            error.message
        );
        assert_eq!(fs::read(&path).unwrap(), garbage);
    }
}

#[test]
fn a_truncated_database_is_corrupt() {
    let directory = tempfile::tempdir().unwrap();
    let path = database(directory.path());
    let whole = fs::read(&path).unwrap();
    for length in [50, 512, 4096, 5000, whole.len() / 2, whole.len() - 4096] {
        for companion in ["-wal", "-shm"] {
            let _ = fs::remove_file(directory.path().join(format!("memory.db{companion}")));
        }
        fs::write(&path, &whole[..length]).unwrap();
        assert_eq!(
            open(&path).unwrap_err().kind,
            ErrorKind::Corrupt,
            "cut to {length} bytes"
        );
    }
    fs::write(&path, &whole).unwrap();
    open(&path).unwrap();
}

#[test]
fn a_database_without_its_tables_is_corrupt() {
    let directory = tempfile::tempdir().unwrap();
    let path = database(directory.path());
    Connection::open(&path)
        .unwrap()
        .execute_batch("DROP TABLE records")
        .unwrap();
    assert_eq!(open(&path).unwrap_err().kind, ErrorKind::Corrupt);
}

#[test]
fn damaged_page_is_reported_by_every_reader() {
    let directory = tempfile::tempdir().unwrap();
    let path = database(directory.path());
    let mut bytes = fs::read(&path).unwrap();
    // The first page holds the schema: opening goes well.
    bytes[4096 * 2..]
        .iter_mut()
        .for_each(|byte| *byte = byte.wrapping_mul(31).wrapping_add(17));
    fs::write(&path, &bytes).unwrap();
    let kinds: Vec<ErrorKind> = match open(&path) {
        Err(error) => vec![error.kind],
        Ok(memory) => run(async {
            let filter = RecordFilter::default();
            vec![
                memory
                    .get("cache", "key 7", &[])
                    .settle()
                    .await
                    .unwrap_err()
                    .kind,
                memory
                    .find("cache", &filter, PageRequest::first(100))
                    .settle()
                    .await
                    .unwrap_err()
                    .kind,
                memory
                    .erase("cache", &filter, PageRequest::first(10))
                    .settle()
                    .await
                    .unwrap_err()
                    .kind,
                memory
                    .put("cache", record("key 7", "x"), None, &[])
                    .settle()
                    .await
                    .unwrap_err()
                    .kind,
            ]
        }),
    };
    assert!(
        kinds.iter().all(|&kind| kind == ErrorKind::Corrupt),
        "{kinds:?}"
    );
}

#[test]
fn set_aside_renames_all_files_and_makes_room() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    let files = [
        ("", "garbage"),
        ("-wal", "a log"),
        ("-shm", "an index"),
        ("-stamp", "stamps"),
    ];
    for (ending, content) in files {
        fs::write(directory.path().join(format!("memory.db{ending}")), content).unwrap();
    }
    let aside = set_aside(&path, 1_795_228_920_123).unwrap();
    assert_eq!(
        aside,
        directory.path().join("memory.db.corrupt-1795228920123")
    );
    let kept = contents(directory.path());
    assert_eq!(kept.len(), files.len());
    for (ending, content) in files {
        assert_eq!(
            kept[&format!("memory.db.corrupt-1795228920123{ending}")],
            content.as_bytes()
        );
    }
    let memory = open(&path).unwrap();
    run(memory.put("cache", record("key", "x"), None, &[]).settle()).unwrap();
}

#[test]
fn set_aside_never_overwrites() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    let mut names = Vec::new();
    for round in 0..3 {
        fs::write(&path, format!("garbage {round}")).unwrap();
        names.push(set_aside(&path, 5).unwrap());
    }
    fs::write(
        directory.path().join("memory.db.corrupt-6-wal"),
        "somebody's",
    )
    .unwrap();
    fs::write(&path, "garbage 3").unwrap();
    names.push(set_aside(&path, 6).unwrap());
    for (round, name) in names.iter().enumerate() {
        assert_eq!(
            fs::read_to_string(name).unwrap(),
            format!("garbage {round}")
        );
    }
    assert_eq!(
        fs::read_to_string(directory.path().join("memory.db.corrupt-6-wal")).unwrap(),
        "somebody's"
    );
    assert_eq!(
        set_aside(&path, 7).unwrap_err().kind(),
        std::io::ErrorKind::NotFound
    );
    assert!(
        !directory.path().join("memory.db.corrupt-7").exists(),
        "nothing to set aside, nothing made"
    );
}

/// A view or a trigger can work without end.
#[test]
fn database_with_foreign_objects_is_refused() {
    const ENDLESS: &str = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)";
    for (change, part) in [
        (
            format!(
                "DROP TABLE records; CREATE VIEW records AS {ENDLESS} SELECT x AS id, 'cache' AS space, 'k' AS key, 1 AS revision, 1 AS updated, 1 AS used, NULL AS expires, x'' AS labels, x'' AS value FROM c WHERE x < 0"
            ),
            "view `records`",
        ),
        (
            format!(
                "CREATE TRIGGER t AFTER INSERT ON records BEGIN INSERT INTO labels {ENDLESS} SELECT 'a', 'b', 'c', x FROM c; END"
            ),
            "trigger `t`",
        ),
        ("CREATE VIEW v AS SELECT 1".to_owned(), "view `v`"),
        (
            "DROP TABLE counters; CREATE VIRTUAL TABLE counters USING fts5(space, name, value)"
                .to_owned(),
            "table `counters`",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = database(directory.path());
        Connection::open(&path)
            .unwrap()
            .execute_batch(&change)
            .unwrap();
        let error = open(&path).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}
