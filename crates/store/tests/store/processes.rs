//! Several processes on one file, and processes that die.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use cachalot_store::{Label, ReserveResult, Store};

use crate::{open, record, run};

const ROLE: &str = "MEMORY_TEST_ROLE";
const FILE: &str = "MEMORY_TEST_FILE";
const NAME: &str = "MEMORY_TEST_NAME";

/// Starts this test binary as another process that does nothing but [`child`].
fn start(role: &str, path: &Path, name: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "processes::child",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ROLE, role)
        .env(FILE, path)
        .env(NAME, name.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The output of the child, without that of the test runner.
fn said(stdout: ChildStdout) -> impl Iterator<Item = String> {
    BufReader::new(stdout)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("> ").map(str::to_owned))
}

/// On a line of its own: the test runner leaves one unfinished.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn say(what: impl std::fmt::Display) {
    println!("\n> {what}");
}

/// The life of a child; as a test of its own, nothing.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let path = PathBuf::from(std::env::var_os(FILE).unwrap());
    let name = std::env::var(NAME).unwrap();
    // All children start when the parent has created this file.
    let go = path.with_extension("go");
    while !go.exists() {
        std::thread::yield_now();
    }
    let memory = open(&path).unwrap();
    run(async {
        match role.as_str() {
            "count" => count(&memory, &name).await,
            "reserve" => reserve(&memory).await,
            "store" => store(&memory, &name).await,
            "once" => drop(
                memory
                    .put("cache", record("shared", name), None, &[])
                    .settle()
                    .await
                    .unwrap(),
            ),
            "replace" => replace(&memory).await,
            other => panic!("no role {other}"),
        }
    });
}

async fn count(memory: &dyn Store, name: &str) {
    for number in 0..100 {
        memory
            .add("cache", &[("counter", 1)])
            .settle()
            .await
            .unwrap();
        memory
            .put("cache", record("shared", name.to_owned()), None, &[])
            .settle()
            .await
            .unwrap();
        memory
            .put(
                "cache",
                record(&format!("own {name} {number}"), "x"),
                None,
                &[],
            )
            .settle()
            .await
            .unwrap();
    }
}

async fn reserve(memory: &dyn Store) {
    for number in 0..100 {
        let hold = Duration::from_secs(600);
        let label = [Label::new("tag", "x")];
        let key = format!("key {number}");
        if let ReserveResult::Held(lease) = memory
            .reserve("cache", &key, &label, hold)
            .settle()
            .await
            .unwrap()
        {
            say(lease.key);
        }
    }
}

/// Stores until killed, and says what was stored.
async fn store(memory: &dyn Store, name: &str) {
    for number in 0.. {
        let mut stored = record(&format!("{name} {number}"), vec![7u8; 700]);
        stored.labels = vec![
            Label::new("tag", "x"),
            Label::new("number", number.to_string()),
        ];
        stored.expires = Some(number);
        memory
            .put("user", stored, None, &[])
            .settle()
            .await
            .unwrap();
        say(number);
    }
}

/// Replaces one record until killed.
async fn replace(memory: &dyn Store) {
    for number in 0u64.. {
        memory
            .put("cache", record("shared", number.to_string()), None, &[])
            .settle()
            .await
            .unwrap();
        if number % 50 == 0 {
            say(number);
        }
    }
}

struct KilledProcess(Child);

impl Drop for KilledProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn concurrent_processes_lose_no_write() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    let children: Vec<Child> = (0..4).map(|name| start("count", &path, name)).collect();
    std::fs::write(path.with_extension("go"), "").unwrap();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let memory = open(&path).unwrap();
    run(async {
        let found = memory
            .get("cache", "shared", &["counter"])
            .settle()
            .await
            .unwrap();
        assert_eq!(found.counters, [400]);
        assert_eq!(found.record.unwrap().revision, 400);
        assert_eq!(memory.usage("cache").settle().await.unwrap().records, 401);
        for name in 0..4 {
            for number in 0..100 {
                let key = format!("own {name} {number}");
                assert!(
                    memory
                        .get("cache", &key, &[])
                        .settle()
                        .await
                        .unwrap()
                        .record
                        .is_some(),
                    "{key}"
                );
            }
        }
    });
}

#[test]
fn exactly_one_process_gets_the_lease() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    let mut children: Vec<Child> = (0..4).map(|name| start("reserve", &path, name)).collect();
    std::fs::write(path.with_extension("go"), "").unwrap();
    let mut held: Vec<String> = Vec::new();
    for child in &mut children {
        held.extend(said(child.stdout.take().unwrap()));
        assert!(child.wait().unwrap().success());
    }
    held.sort();
    let mut expected: Vec<String> = (0..100).map(|number| format!("key {number}")).collect();
    expected.sort();
    assert_eq!(held, expected);
}

#[test]
fn acknowledged_writes_survive_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    std::fs::write(path.with_extension("go"), "").unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..6 {
        let mut child = KilledProcess(start("store", &path, round));
        let stdout = child.0.stdout.take().unwrap();
        let mut lines = said(stdout);
        let seen = lines.nth(20 + round * 37).unwrap();
        // Somewhere in the middle of a store, a different place each time.
        std::thread::sleep(Duration::from_micros(137 * round as u64));
        drop(child);
        let last = lines.last().unwrap_or(seen);
        acknowledged.push(last.parse::<i64>().unwrap());
        check_after_kill(&path, &acknowledged);
    }
}

fn check_after_kill(path: &Path, acknowledged: &[i64]) {
    let memory = open(path).unwrap();
    assert!(
        memory.stamp("user", "key").is_some(),
        "whoever opens clears what the dead left"
    );
    run(async {
        for (round, last) in acknowledged.iter().enumerate() {
            for number in 0..=*last {
                let key = format!("{round} {number}");
                let found = memory.get("user", &key, &[]).settle().await.unwrap();
                assert_eq!(found.record.unwrap().value.len(), 700, "{key}");
            }
        }
    });
    let connection = rusqlite::Connection::open(path).unwrap();
    let sound: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sound, "ok");
    connection
        .execute_batch("INSERT INTO texts(texts) VALUES ('integrity-check')")
        .unwrap();
    let count = |sql: &str| {
        connection
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    let records = count("SELECT count(*) FROM records");
    assert_eq!(
        run(memory.usage("user").settle()).unwrap().records as i64,
        records
    );
    assert_eq!(count("SELECT count(*) FROM labels"), 2 * records);
}

#[test]
fn store_in_another_process_changes_the_stamp() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    std::fs::write(path.with_extension("go"), "").unwrap();
    let memory = open(&path).unwrap();
    for name in 0..3 {
        let before = memory.stamp("cache", "shared").unwrap();
        assert!(start("once", &path, name).wait().unwrap().success());
        assert_ne!(memory.stamp("cache", "shared"), Some(before));
    }
}

/// The whole point of stamps, while writers in other processes work and die: what was read under a stamp
/// is what is there as long as the stamp is the same.
#[test]
fn unchanged_stamp_implies_an_unchanged_record() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    std::fs::write(path.with_extension("go"), "").unwrap();
    let memory = open(&path).unwrap();
    run(memory
        .put("cache", record("shared", "first"), None, &[])
        .settle())
    .unwrap();
    let value = || run_now(&memory);
    let mut kept = (memory.stamp("cache", "shared").unwrap(), value());
    let (mut compared, mut moved) = (0, 0);
    for round in 0..6u64 {
        let mut child = KilledProcess(start("replace", &path, 0));
        let mut lines = said(child.0.stdout.take().unwrap());
        lines.next().unwrap();
        let begun = std::time::Instant::now();
        let minimum = Duration::from_micros(40_000 + 1_313 * round);
        // On a busy machine, the other process needs longer to write as often.
        let has_seen = |count: u64| count > 2 * (round + 1);
        while begun.elapsed() < minimum || !has_seen(compared) || !has_seen(moved) {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "compared {compared} times, moved {moved} times"
            );
            let before = memory.stamp("cache", "shared");
            let now = value();
            let after = memory.stamp("cache", "shared");
            if let (Some(before), true) = (before, before == after) {
                if before == kept.0 {
                    assert_eq!(now, kept.1);
                    compared += 1;
                } else {
                    kept = (before, now);
                    moved += 1;
                }
            }
        }
        drop(child);
        // The writer is dead, maybe between its commit and the move of the stamp.
        match memory.stamp("cache", "shared") {
            Some(stamp) if stamp == kept.0 => assert_eq!(value(), kept.1),
            Some(_) | None => {}
        }
        // The next writer clears what it left.
        run(memory.add("cache", &[("another", 1)]).settle()).unwrap();
        assert!(memory.stamp("cache", "shared").is_some());
    }
}

fn run_now(memory: &dyn Store) -> bytes::Bytes {
    match memory.get("cache", "shared", &[]) {
        cachalot_store::StoreReply::Now(found) => found.unwrap().record.unwrap().value,
        cachalot_store::StoreReply::Later(_) => panic!("not answered at once"),
    }
}
