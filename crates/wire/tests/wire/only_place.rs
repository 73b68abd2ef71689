//! Other crates ask the trait, and do not distinguish formats.

use std::fs;
use std::path::{Path, PathBuf};

/// Crates that may name formats: the one of formats, the one that shares nothing with it, and the one for tests.
const CRATES: [&str; 3] = ["simulator", "test-support", "wire"];

/// Files that may: the settings of users choose a format by its name, and a transcript is in the format of its agent.
const FILES: [&str; 3] = [
    "model/src/provider.rs",
    "model/src/provider/",
    "prefix/src/log/transcript.rs",
];

/// The names of formats in Rust.
const NAMES: [&str; 6] = [
    "Chat",
    "Responses",
    "Messages",
    "Gemini",
    "Interactions",
    "Converse",
];

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            rust_files(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

/// Returns the code of a file without its module of tests, which stands at its end.
fn without_tests(text: &str) -> &str {
    const MARK: &str = "\n#[cfg(test)]\n";
    let Some((code, tests)) = text.rsplit_once(MARK) else {
        return text;
    };
    let mut lines = tests.lines();
    let module = lines.find(|line| !line.starts_with("#["));
    if module.is_some_and(|module| module.ends_with('{')) {
        code
    } else {
        text
    }
}

#[test]
fn formats_are_named_here_only() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for entry in fs::read_dir(&crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        let name = source.parent().unwrap().file_name().unwrap();
        if source.is_dir() && !CRATES.iter().any(|known| name == *known) {
            rust_files(&source, &mut found);
        }
    }
    assert!(found.len() > 100, "{}", found.len());
    for path in found {
        let shown = path.strip_prefix(&crates).unwrap().to_string_lossy();
        let shown = shown.replace('\\', "/");
        if FILES.iter().any(|known| shown.starts_with(known)) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in without_tests(&text).lines().enumerate() {
            let is_named = NAMES.iter().any(|name| {
                let named = format!("Format::{name}");
                let mut ends = line.match_indices(named.as_str());
                ends.any(|(at, named)| {
                    let rest = &line[at + named.len()..];
                    !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_')
                })
            });
            assert!(
                !is_named || line.trim_start().starts_with("//"),
                "{shown}:{}: {line}",
                number + 1
            );
        }
    }
}
