//! What actions look at and what they would have announced to them: their witnesses and domains.

use std::path::{Path, PathBuf};

use cachalot_cache::Domain;
use serde_json::{Value, json};

use crate::world::World;

fn sorted(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths
}

#[test]
fn actions_that_read_local_paths_depend_on_them() {
    let world = World::new();
    for (action, argument) in [
        ("file.read", "path"),
        ("document.text", "path"),
        ("csv.parse", "path"),
        ("storage.hash", "path"),
        ("llamaextract.extract", "file"),
    ] {
        let looks = |path: &str| world.file_dependencies(action, json!({argument: path}));
        assert_eq!(looks("d/f.txt"), [world.path("d/f.txt")], "{action}");
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
            world.file_dependencies(action, arguments).is_empty(),
            "{action}"
        );
    }
}

#[test]
fn a_search_depends_on_every_visited_directory() {
    let world = World::new();
    for name in [
        "a/one.md",
        "a/deep/deeper/two.md",
        "b/three.txt",
        ".hidden/four.md",
    ] {
        world.file(name, "");
    }
    let looks = |arguments: Value| {
        let paths = world.file_dependencies("file.glob", arguments);
        assert_eq!(paths, sorted(paths.clone()));
        let below = |path: &PathBuf| path.strip_prefix(world.path("")).unwrap().to_owned();
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
fn a_search_depends_on_links_that_may_lead_to_files() {
    let world = World::new();
    world.file("d/target", "");
    std::os::unix::fs::symlink("d/target", world.path("link.md")).unwrap();
    std::os::unix::fs::symlink("d", world.path("other")).unwrap();
    let looks = world.file_dependencies("file.glob", json!({"pattern": "*.md"}));
    assert_eq!(looks, [world.path(""), world.path("link.md")]);
}

#[test]
fn actions_that_read_long_term_memory_depend_on_it() {
    let world = World::new();
    let domains = |action: &str| {
        let action = world.runtime.actions.get(action).unwrap();
        action.domains(&serde_json::Map::new(), &world.runtime)
    };
    assert_eq!(domains("ltm.retrieve"), [Domain::new("ltm")]);
    assert_eq!(domains("ltm.search"), [Domain::new("ltm")]);
    assert!(domains("file.read").is_empty());
}
