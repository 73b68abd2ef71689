//! Whatever happens to a tree of files, an answer from the cache is the answer of the work itself.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use cachalot_cache::{Observation, Policy, Witness};
use proptest::prelude::*;
use serde_json::json;

use crate::test_engine::{Question, TestEngine, product, reported, test_engine};

const NAMES: [&str; 6] = ["a", "b", "d", "d/x", "d/y", "link"];
const TEXTS: [&str; 4] = ["", "one", "two", "three"];

#[derive(Debug, Clone, Copy)]
enum Step {
    Write(usize, usize),
    Remove(usize),
    Rename(usize, usize),
    MakeDirectory(usize),
    Link(usize),
    SetTime(usize, u64),
    Ask(Look),
}

#[derive(Debug, Clone, Copy)]
enum Look {
    Read(usize),
    List(usize),
    Exists(usize),
    /// Lists a directory and reads all that is in it.
    ReadAll(usize),
}

impl Step {
    fn happen(self, root: &Path) {
        let path = |name: usize| root.join(NAMES[name]);
        // What cannot happen does not.
        match self {
            Self::Write(name, text) => drop(fs::write(path(name), TEXTS[text])),
            Self::Remove(name) => {
                let _ = fs::remove_file(path(name)).or_else(|_| fs::remove_dir_all(path(name)));
            }
            Self::Rename(from, to) => drop(fs::rename(path(from), path(to))),
            Self::MakeDirectory(name) => drop(fs::create_dir(path(name))),
            Self::Link(to) => {
                #[cfg(unix)]
                drop(std::os::unix::fs::symlink(NAMES[to], path(5)));
                #[cfg(not(unix))]
                let _ = to;
            }
            Self::SetTime(name, seconds) => {
                if let Ok(file) = fs::File::options().write(true).open(path(name)) {
                    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
                        .unwrap();
                }
            }
            Self::Ask(_) => {}
        }
    }
}

/// The visible state; every look is observed before it is made.
fn see(look: Look, root: &Path, witness: &Witness) -> String {
    let list = |path: &Path| {
        witness.observe(Observation::Listing(path));
        let Ok(entries) = fs::read_dir(path) else {
            return Vec::new();
        };
        let mut found: Vec<_> = entries.map(|entry| entry.unwrap()).collect();
        found.sort_by_key(fs::DirEntry::file_name);
        found
            .iter()
            .map(|entry| (entry.path(), format!("{:?}", entry.file_type().unwrap())))
            .collect()
    };
    let read = |path: &Path| match witness.read(path) {
        Ok(bytes) => format!("{bytes:?}"),
        Err(error) => format!("{:?}", error.kind()),
    };
    match look {
        Look::Read(name) => read(&root.join(NAMES[name])),
        Look::List(name) => format!("{:?}", list(&root.join(NAMES[name]))),
        Look::Exists(name) => {
            let path = root.join(NAMES[name]);
            witness.observe(Observation::Existence(&path));
            format!("{} {}", path.exists(), path.is_dir())
        }
        Look::ReadAll(name) => {
            let found = list(&root.join(NAMES[name]));
            found
                .iter()
                .map(|(path, kind)| format!("{kind} {}\n", read(path)))
                .collect()
        }
    }
}

async fn ask(here: &TestEngine, look: Look, root: &Path) -> String {
    let question = Question::of(json!(format!("{look:?}")));
    let root = root.to_owned();
    let work = move |ticket: cachalot_cache::Ticket| async move {
        let seen = see(look, &root, ticket.witness());
        ticket.finish(product(&seen)).await;
    };
    reported(here.through(&question, &Policy::default(), work).await)
        .await
        .text()
        .to_owned()
}

fn look() -> impl Strategy<Value = Look> {
    let name = 0..NAMES.len();
    prop_oneof![
        3 => name.clone().prop_map(Look::Read),
        2 => name.clone().prop_map(Look::List),
        1 => name.clone().prop_map(Look::Exists),
        2 => name.prop_map(Look::ReadAll),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    prop_oneof![
        4 => (name(), 0..TEXTS.len()).prop_map(|(name, text)| Step::Write(name, text)),
        1 => name().prop_map(Step::Remove),
        2 => (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => name().prop_map(Step::MakeDirectory),
        1 => (0..5_usize).prop_map(Step::Link),
        2 => (name(), 0..3_u64).prop_map(|(name, time)| Step::SetTime(name, time)),
        8 => look().prop_map(Step::Ask),
    ]
}

/// A link that leads to itself can be seen, but not noted: such an answer is not stored.
fn holds_a_loop(root: &Path) -> bool {
    let is_loop = |error: std::io::Error| format!("{:?}", error.kind()) == "FilesystemLoop";
    NAMES
        .iter()
        .any(|name| fs::metadata(root.join(name)).is_err_and(is_loop))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn cached_reads_of_a_changing_tree_equal_uncached_reads(steps in proptest::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let home = tempfile::tempdir().unwrap();
            fs::create_dir(home.path().join("d")).unwrap();
            let here = test_engine();
            let mut asked = 0;
            for step in steps {
                step.happen(home.path());
                if let Step::Ask(look) = step {
                    let plain = see(look, home.path(), &Witness::default());
                    asked += 1 + usize::from(holds_a_loop(home.path()));
                    assert_eq!(ask(&here, look, home.path()).await, plain, "{look:?}");
                    assert_eq!(ask(&here, look, home.path()).await, plain, "{look:?}, again");
                }
            }
            assert!(here.runs() <= asked, "what has not changed is not looked at twice");
        });
    }
}
