//! Four processes on one file.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::SystemClock;
use cachalot_store::sqlite::{SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::fixture::{Fixture, Setup};
use crate::test_actions::TestAction;

/// The directory of a child of this test; unset in the test itself.
const PLACE: &str = "CACHALOT_STORY_PLACE";
const PROCESSES: usize = 4;
const TASKS: usize = 16;
const KEYS: usize = 25;

fn start(place: &Path, part: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", part, "--nocapture"])
        .env(PLACE, place)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

fn place() -> Option<PathBuf> {
    std::env::var_os(PLACE).map(PathBuf::from)
}

/// A run in `place` whose action notes in a file that it ran.
fn run_in(place: &Path, takes: Duration) -> Fixture {
    let log = place.join("runs");
    let test_action = TestAction::new().takes(takes).answers(move |_, given| {
        let mut log = std::fs::File::options()
            .append(true)
            .create(true)
            .open(&log)
            .unwrap();
        writeln!(log, "{}", given["x"]).unwrap();
        Ok(json!({"made by": std::process::id(), "x": given["x"]}))
    });
    let clock = Arc::new(SystemClock);
    let store =
        SqliteStore::open(&place.join("memory.db"), SqliteOptions::new(clock.clone())).unwrap();
    Setup::default()
        .store(Arc::new(store))
        .clock(clock)
        .with(test_action)
        .start()
}

fn runs(place: &Path) -> Vec<String> {
    let log = std::fs::read_to_string(place.join("runs")).unwrap();
    log.lines().map(ToOwned::to_owned).collect()
}

/// Waits until all processes are here, so that they begin at once.
fn meet(place: &Path) {
    std::fs::write(place.join(format!("here-{}", std::process::id())), "").unwrap();
    let here = || {
        let entries = std::fs::read_dir(place).unwrap().flatten();
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("here-"))
            .count()
    };
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while here() < PROCESSES {
        assert!(std::time::Instant::now() < until, "the others did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

async fn ask_at_once(fixture: Fixture, call: impl Fn(usize) -> Value) {
    let fixture = Arc::new(fixture);
    let mut asking = JoinSet::new();
    for task in 0..TASKS {
        let (fixture, with) = (Arc::clone(&fixture), call(task));
        asking.spawn(async move { fixture.wrap(with).await });
    }
    for answer in asking.join_all().await {
        assert_eq!(answer["_cache_stored"], true, "{answer}");
    }
}

fn all_succeed(children: Vec<Child>) {
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn sixteen_tasks_in_four_processes_run_one_key_once() {
    let place = tempfile::tempdir().unwrap();
    let part = "processes::part_one_key";
    let children = (0..PROCESSES).map(|_| start(place.path(), part)).collect();
    all_succeed(children);
    assert_eq!(runs(place.path()), ["1"]);
}

#[test]
fn part_one_key() {
    let Some(place) = place() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let fixture = run_in(&place, Duration::from_millis(200));
        meet(&place);
        ask_at_once(fixture, |_| json!({"action": "test.act", "args": {"x": 1}})).await;
    });
}

#[test]
fn many_keys_in_four_processes_run_once_and_are_stored() {
    let place = tempfile::tempdir().unwrap();
    let part = "processes::part_many_keys";
    all_succeed((0..PROCESSES).map(|_| start(place.path(), part)).collect());
    let mut ran = runs(place.path());
    ran.sort_by_key(|x| x.parse::<usize>().unwrap());
    let expected: Vec<String> = (0..KEYS).map(|x| x.to_string()).collect();
    assert_eq!(ran, expected);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let fixture = run_in(place.path(), Duration::ZERO);
        assert_eq!(fixture.entries().await.len(), KEYS);
    });
}

#[test]
fn part_many_keys() {
    let Some(place) = place() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let fixture = Arc::new(run_in(&place, Duration::from_millis(5)));
        meet(&place);
        for x in 0..KEYS {
            let answer = fixture.wrapped("test.act", json!({"x": x})).await;
            assert_eq!(answer["_cache_stored"], true, "{answer}");
            assert_eq!(answer["result"]["x"], x);
        }
    });
}

#[test]
fn run_of_a_killed_process_is_taken_over() {
    let place = tempfile::tempdir().unwrap();
    let mut child = start(place.path(), "processes::part_that_is_killed");
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while !place.path().join("begun").exists() {
        assert!(std::time::Instant::now() < until, "it did not begin");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let fixture = run_in(place.path(), Duration::ZERO);
        let answer = fixture.wrapped("test.act", json!({"x": 1})).await;
        assert_eq!(answer["_cache_stored"], true, "{answer}");
        assert_eq!(answer["result"]["made by"], std::process::id());
    });
}

#[test]
fn part_that_is_killed() {
    let Some(place) = place() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let begun = place.join("begun");
        let test_action = TestAction::new().takes(Duration::from_secs(60));
        let clock = Arc::new(SystemClock);
        let store =
            SqliteStore::open(&place.join("memory.db"), SqliteOptions::new(clock.clone())).unwrap();
        let fixture = Setup::default()
            .store(Arc::new(store))
            .clock(clock)
            .with(test_action.clone())
            .start();
        let watching = tokio::spawn(async move {
            while test_action.runs() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            std::fs::write(begun, "").unwrap();
        });
        fixture.wrapped("test.act", json!({"x": 1})).await;
        watching.await.unwrap();
    });
}
