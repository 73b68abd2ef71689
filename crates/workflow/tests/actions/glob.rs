//! `file.glob`.

use serde_json::{Value, json};

use crate::world::World;

fn tree() -> World {
    let world = World::new();
    for name in [
        "b.md",
        "a.md",
        "c.txt",
        "docs/x.md",
        "docs/deep/y.md",
        "docs/deep/z.pdf",
        ".hidden/h.md",
        "docs/.h.md",
    ] {
        world.file(name, "");
    }
    world
}

async fn files(world: &World, arguments: Value) -> Vec<String> {
    let found = world.ok("file.glob", arguments).await;
    assert_eq!(found["success"], true);
    let files: Vec<String> = serde_json::from_value(found["files"].clone()).unwrap();
    assert_eq!(found["count"], files.len());
    files
}

#[tokio::test]
async fn patterns_match_within_and_across_directories_in_order() {
    let world = tree();
    for (pattern, expected) in [
        ("*.md", vec!["a.md", "b.md"]),
        (
            "**/*.md",
            vec!["a.md", "b.md", "docs/deep/y.md", "docs/x.md"],
        ),
        ("docs/*", vec!["docs/x.md"]),
        (
            "docs/**",
            vec!["docs/deep/y.md", "docs/deep/z.pdf", "docs/x.md"],
        ),
        (
            "docs/*/*.{md,pdf}",
            vec!["docs/deep/y.md", "docs/deep/z.pdf"],
        ),
        ("[ab].md", vec!["a.md", "b.md"]),
        ("?.txt", vec!["c.txt"]),
        ("./a.md", vec!["a.md"]),
        ("a.md", vec!["a.md"]),
        ("docs", vec![]),
        ("nowhere/*.md", vec![]),
        ("docs/../c.*", vec!["c.txt"]),
    ] {
        assert_eq!(
            files(&world, json!({"pattern": pattern})).await,
            expected,
            "{pattern}"
        );
    }
}

#[tokio::test]
async fn names_with_a_dot_need_a_pattern_with_one() {
    let world = tree();
    assert_eq!(
        files(&world, json!({"pattern": ".hidden/*.md"})).await,
        [".hidden/h.md"]
    );
    assert_eq!(
        files(&world, json!({"pattern": "docs/.*.md"})).await,
        ["docs/.h.md"]
    );
}

#[tokio::test]
async fn files_are_named_so_that_they_can_be_read() {
    let world = tree();
    let found = files(&world, json!({"pattern": "*.md", "directory": "docs"})).await;
    assert_eq!(found, ["docs/x.md"]);
    world.ok("file.read", json!({"path": found[0]})).await;
    let elsewhere = tree();
    let found = files(
        &world,
        json!({"pattern": "*.txt", "directory": elsewhere.path("").to_str()}),
    )
    .await;
    assert_eq!(found, [elsewhere.path("c.txt").to_str().unwrap()]);
    let absolute = format!("{}*.txt", elsewhere.path("").to_str().unwrap());
    assert_eq!(files(&world, json!({"pattern": absolute})).await, found);
}

#[tokio::test]
async fn invalid_patterns_and_directories_are_reported() {
    let world = tree();
    assert_eq!(
        world
            .fails("file.glob", json!({"pattern": "[a"}))
            .await
            .kind,
        "validation_error"
    );
    assert_eq!(
        world.fails("file.glob", json!({"pattern": ""})).await.kind,
        "validation_error"
    );
    assert_eq!(
        world
            .fails("file.glob", json!({"pattern": "*", "directory": "absent"}))
            .await
            .kind,
        "not_found"
    );
    let failure = world.fails("file.glob", json!({"patern": "*"})).await;
    assert!(
        failure.message.contains("did you mean `pattern`?"),
        "{failure}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn links_to_files_count_and_links_to_directories_are_not_followed() {
    use std::os::unix::fs::symlink;
    let world = tree();
    symlink(world.path("a.md"), world.path("link.md")).unwrap();
    symlink(world.path(""), world.path("docs/loop")).unwrap();
    symlink(world.path("gone"), world.path("dangling.md")).unwrap();
    assert_eq!(
        files(&world, json!({"pattern": "*.md"})).await,
        ["a.md", "b.md", "link.md"]
    );
    assert_eq!(
        files(&world, json!({"pattern": "docs/**/*.md"})).await,
        ["docs/deep/y.md", "docs/x.md"]
    );
}
