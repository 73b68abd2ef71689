//! Links from documents to the source code.

use crate::files;

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

#[test]
fn linked_names_are_in_their_files() {
    let mut count = 0;
    let mut absent = Vec::new();
    for document in ["ARCHITECTURE.md", "AGENTS.md", "CONTRIBUTING.md"] {
        let text = files::text(document);
        for (name, path) in links(&text) {
            count += 1;
            if path.ends_with(name) {
                continue;
            }
            let source = files::text(path);
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
    assert!(count > 200, "{count} links");
    assert!(absent.is_empty(), "{}", absent.join("\n"));
}
