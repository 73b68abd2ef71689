//! Witnesses and domains of actions.

use std::path::{Path, PathBuf};

use cachalot_cache::Domain;
use serde_json::{Value, json};

use crate::fixture::Fixture;

fn sorted(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths
}

#[test]
fn actions_depend_on_the_local_files_they_read() {
    let fixture = Fixture::new();
    for (action, argument) in [
        ("file.read", "path"),
        ("document.text", "path"),
        ("csv.parse", "path"),
        ("storage.hash", "path"),
        ("llamaextract.extract", "file"),
    ] {
        let looks = |path: &str| fixture.file_dependencies(action, json!({argument: path}));
        assert_eq!(looks("d/f.txt"), [fixture.path("d/f.txt")], "{action}");
        assert_eq!(looks("/x/f.txt"), [Path::new("/x/f.txt")], "{action}");
        assert_eq!(looks("file:///x/f%20g"), [Path::new("/x/f g")], "{action}");
        for nowhere in ["https://example.org/f", "s3://b/k", ""] {
            assert!(looks(nowhere).is_empty(), "{action} {nowhere}");
        }
    }
    for (action, arguments) in [
        ("csv.parse", json!({"text": "a.csv"})),
        ("http.get", json!({"url": "http://127.0.0.1/f"})),
        ("json.parse", json!({"text": "{}"})),
    ] {
        assert!(
            fixture.file_dependencies(action, arguments).is_empty(),
            "{action}"
        );
    }
}

#[test]
fn glob_depends_on_every_visited_directory() {
    let fixture = Fixture::new();
    for name in [
        "a/one.md",
        "a/deep/deeper/two.md",
        "b/three.txt",
        ".hidden/four.md",
    ] {
        fixture.file(name, "");
    }
    let looks = |arguments: Value| {
        let paths = fixture.file_dependencies("file.glob", arguments);
        assert_eq!(paths, sorted(paths.clone()));
        let below = |path: &PathBuf| path.strip_prefix(fixture.path("")).unwrap().to_owned();
        let below: Vec<PathBuf> = paths.iter().map(below).collect();
        below
            .iter()
            .map(|path| path.to_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(looks(json!({"pattern": "*.md"})), [""]);
    assert_eq!(looks(json!({"pattern": "*/*.md"})), ["", "a", "b"]);
    assert_eq!(
        looks(json!({"pattern": "**/*.md"})),
        ["", "a", "a/deep", "a/deep/deeper", "b"]
    );
    assert_eq!(
        looks(json!({"pattern": "**/.hidden/*.md"})),
        ["", ".hidden", "a", "a/deep", "a/deep/deeper", "b"]
    );
    assert_eq!(
        looks(json!({"pattern": "a/**", "directory": "."})),
        ["a", "a/deep", "a/deep/deeper"]
    );
    assert_eq!(
        looks(json!({"pattern": "absent/*"})),
        ["absent"],
        "it may come to be"
    );
    assert_eq!(
        looks(json!({"pattern": "*", "directory": "absent"})),
        [""; 0],
        "a failure"
    );
    assert_eq!(looks(json!({"pattern": "a["})), [""; 0], "a failure");
}

#[cfg(unix)]
#[test]
fn glob_depends_on_links_to_files() {
    let fixture = Fixture::new();
    fixture.file("d/target", "");
    std::os::unix::fs::symlink("d/target", fixture.path("link.md")).unwrap();
    std::os::unix::fs::symlink("d", fixture.path("other")).unwrap();
    let looks = fixture.file_dependencies("file.glob", json!({"pattern": "*.md"}));
    assert_eq!(looks, [fixture.path(""), fixture.path("link.md")]);
}

#[test]
fn ltm_actions_depend_on_long_term_memory() {
    let fixture = Fixture::new();
    let domains = |action: &str| {
        let action = fixture.runtime.actions.get(action).unwrap();
        action.domains(&serde_json::Map::new(), &fixture.runtime)
    };
    assert_eq!(domains("ltm.retrieve"), [Domain::new("ltm")]);
    assert_eq!(domains("ltm.search"), [Domain::new("ltm")]);
    assert!(domains("file.read").is_empty());
}
