//! Law 1 of the house: the turn loop dispatches tools and knows no cache.

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

/// The words that would give it away. Our own name begins like one.
fn gives_away(line: &str) -> bool {
    let line = line.to_lowercase().replace("cachalot", "");
    line.contains("cach") || line.contains("replay")
}

#[test]
fn no_word_for_it_is_in_the_code() {
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
                !gives_away(code),
                "{}:{}: {line}",
                path.display(),
                number + 1
            );
        }
    }
}

#[test]
fn it_would_be_noticed() {
    assert!(gives_away("let cached = 1;") && gives_away("CacheClass::Never"));
    assert!(gives_away("fn replay()") && !gives_away("use cachalot_tools::Tool;"));
}
