//! The turn loop dispatches tools and contains no caching code.

use std::path::{Path, PathBuf};

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns true if a line of code names a cache. The name of the project begins like the word.
fn names_a_cache(line: &str) -> bool {
    let line = line.to_lowercase().replace("cachalot", "");
    line.contains("cach") || line.contains("replay")
}

#[test]
fn source_of_the_crate_names_no_cache() {
    let mut found = Vec::new();
    files(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut found,
    );
    assert!(found.len() > 15);
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            let code = line.split_once("//").map_or(line, |(code, _)| code);
            assert!(
                !names_a_cache(code),
                "{}:{}: {line}",
                path.display(),
                number + 1
            );
        }
    }
}

#[test]
fn check_finds_a_mention_of_a_cache() {
    assert!(names_a_cache("let cached = 1;") && names_a_cache("CacheClass::Never"));
    assert!(
        names_a_cache("use cachalot_cache::Key;")
            && names_a_cache("fn replay()")
            && !names_a_cache("use cachalot_tools::Tool;")
    );
}
