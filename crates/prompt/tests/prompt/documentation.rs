//! The names of tests in `tests/checks.md`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The functions of the Rust files below a folder.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let names = text.lines().filter_map(|line| {
                let (_, rest) = line.split_once("fn ")?;
                rest.split_once('(').map(|(name, _)| name.to_owned())
            });
            found.extend(names);
        }
    }
}

#[test]
fn tests_named_in_the_list_of_checks_exist() {
    let document = root().join("crates/prompt/tests/checks.md");
    let document = std::fs::read_to_string(document).unwrap();
    let (_, rows) = document.split_once("\n| check | test |\n").unwrap();
    let (rows, _) = rows.split_once("\n\n").unwrap();
    let mut known = BTreeSet::new();
    for folder in [
        "agent/tests",
        "prompt/tests",
        "prefix/tests",
        "model/tests",
        "model/src",
        "wire/src",
        "wire/tests",
    ] {
        functions(&root().join("crates").join(folder), &mut known);
    }
    let tests: Vec<&str> = rows
        .lines()
        .skip(1)
        .flat_map(|row| row.split('`').skip(1).step_by(2))
        .collect();
    assert!(tests.len() > 30, "{}", tests.len());
    for test in tests {
        assert!(known.contains(test), "there is no test `{test}`");
    }
}
