//! `file.glob`.

use serde_json::{Value, json};

use crate::fixture::Fixture;

fn tree() -> Fixture {
    let fixture = Fixture::new();
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
        fixture.file(name, "");
    }
    fixture
}

async fn files(fixture: &Fixture, arguments: Value) -> Vec<String> {
    let found = fixture.ok("file.glob", arguments).await;
    assert_eq!(found["success"], true);
    let files: Vec<String> = serde_json::from_value(found["files"].clone()).unwrap();
    assert_eq!(found["count"], files.len());
    files
}

#[tokio::test]
async fn patterns_match_within_and_across_directories_in_order() {
    let fixture = tree();
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
            files(&fixture, json!({"pattern": pattern})).await,
            expected,
            "{pattern}"
        );
    }
}

#[tokio::test]
async fn hidden_names_need_a_pattern_with_a_dot() {
    let fixture = tree();
    assert_eq!(
        files(&fixture, json!({"pattern": ".hidden/*.md"})).await,
        [".hidden/h.md"]
    );
    assert_eq!(
        files(&fixture, json!({"pattern": "docs/.*.md"})).await,
        ["docs/.h.md"]
    );
}

#[tokio::test]
async fn listed_paths_can_be_passed_to_file_read() {
    let fixture = tree();
    let found = files(&fixture, json!({"pattern": "*.md", "directory": "docs"})).await;
    assert_eq!(found, ["docs/x.md"]);
    fixture.ok("file.read", json!({"path": found[0]})).await;
    let elsewhere = tree();
    let found = files(
        &fixture,
        json!({"pattern": "*.txt", "directory": elsewhere.path("").to_str()}),
    )
    .await;
    assert_eq!(found, [elsewhere.path("c.txt").to_str().unwrap()]);
    let absolute = format!("{}*.txt", elsewhere.path("").to_str().unwrap());
    assert_eq!(files(&fixture, json!({"pattern": absolute})).await, found);
}

#[tokio::test]
async fn invalid_patterns_and_directories_are_reported() {
    let fixture = tree();
    assert_eq!(
        fixture
            .fails("file.glob", json!({"pattern": "[a"}))
            .await
            .kind,
        "validation_error"
    );
    assert_eq!(
        fixture
            .fails("file.glob", json!({"pattern": ""}))
            .await
            .kind,
        "validation_error"
    );
    assert_eq!(
        fixture
            .fails("file.glob", json!({"pattern": "*", "directory": "absent"}))
            .await
            .kind,
        "not_found"
    );
    let failure = fixture.fails("file.glob", json!({"patern": "*"})).await;
    assert!(
        failure.message.contains("did you mean `pattern`?"),
        "{failure}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn links_to_files_match_and_links_to_directories_are_not_followed() {
    use std::os::unix::fs::symlink;
    let fixture = tree();
    symlink(fixture.path("a.md"), fixture.path("link.md")).unwrap();
    symlink(fixture.path(""), fixture.path("docs/loop")).unwrap();
    symlink(fixture.path("gone"), fixture.path("dangling.md")).unwrap();
    assert_eq!(
        files(&fixture, json!({"pattern": "*.md"})).await,
        ["a.md", "b.md", "link.md"]
    );
    assert_eq!(
        files(&fixture, json!({"pattern": "docs/**/*.md"})).await,
        ["docs/deep/y.md", "docs/x.md"]
    );
}
