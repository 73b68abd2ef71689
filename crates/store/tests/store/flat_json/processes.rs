//! Several processes on one file, and processes that die.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{answer, open, place, questions, store};

const ROLE: &str = "FLAT_JSON_TEST_ROLE";
const FILE: &str = "FLAT_JSON_TEST_FILE";
const NAME: &str = "FLAT_JSON_TEST_NAME";
const EACH: usize = 25;

/// Starts this test binary as another process that does nothing but [`child`].
fn start(role: &str, path: &Path, name: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "flat_json::processes::child", "--nocapture"])
        .env(ROLE, role)
        .env(FILE, path)
        .env(NAME, name.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The life of a child; as a test of its own, nothing.
#[test]
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let path = PathBuf::from(std::env::var_os(FILE).unwrap());
    let name = std::env::var(NAME).unwrap();
    // All children start when the parent has created this file.
    let go = path.with_extension("go");
    while !go.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let memory = open(&path).unwrap();
    let count = if role == "store" { EACH } else { usize::MAX };
    for number in 0..count {
        let question = format!("{name} {number}");
        store(&memory, &question, &format!("answer {question}")).unwrap();
        store(&memory, "shared", &question).unwrap();
        assert_eq!(
            answer(&memory, &question).unwrap(),
            format!("answer {question}")
        );
        println!("\n> {number}");
    }
}

#[test]
fn cross_process_concurrent_stores_preserve_all_entries() {
    let (_directory, path) = place();
    let standing = open(&path).unwrap();
    let mut children: Vec<Child> = (0..4).map(|name| start("store", &path, name)).collect();
    std::fs::write(path.with_extension("go"), "").unwrap();
    let mut seen = 0;
    let mut looks = 0;
    let mut running = true;
    while running {
        running = children
            .iter_mut()
            .any(|child| child.try_wait().unwrap().is_none());
        // What anybody reads is a whole file, and nothing that was in it is missing later.
        let there = if path.exists() {
            questions(&path)
        } else {
            Vec::new()
        };
        assert!(there.len() >= seen, "{} entries after {seen}", there.len());
        seen = there.len();
        for question in there {
            assert!(answer(&standing, &question).is_some(), "{question}");
        }
        looks += 1;
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert!(looks > 10, "{looks} looks");
    assert_eq!(questions(&path).len(), 4 * EACH + 1);
    for memory in [&standing, &open(&path).unwrap()] {
        for name in 0..4 {
            for number in 0..EACH {
                let question = format!("{name} {number}");
                assert_eq!(
                    answer(memory, &question).unwrap(),
                    format!("answer {question}")
                );
            }
        }
    }
}

#[test]
fn acknowledged_answers_survive_a_kill_and_release_the_lock() {
    let (_directory, path) = place();
    std::fs::write(path.with_extension("go"), "").unwrap();
    for round in 0..4 {
        let mut child = start("for ever", &path, round);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("> ").map(str::to_owned));
        let seen = said.nth(3 + 2 * round).unwrap();
        // Somewhere in the middle of a store, a different place each time.
        std::thread::sleep(Duration::from_micros(331 * round as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let last: usize = said.last().unwrap_or(seen).parse().unwrap();
        let memory = open(&path).unwrap();
        for number in 0..=last {
            let question = format!("{round} {number}");
            assert!(answer(&memory, &question).is_some(), "{question}");
        }
        store(&memory, &format!("after {round}"), "a").unwrap();
    }
}
