//! Witnesses of reading tools: everything that their result depends on, and nothing else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::tool_fixture::{ToolFixture, text};

fn tree() -> ToolFixture {
    let tool_fixture = ToolFixture::holding(&[
        ("src/a.rs", "alpha\n"),
        ("src/b.rs", "beta\n"),
        ("src/deep/c.rs", "alpha\n"),
        ("docs/d.md", "alpha\n"),
        ("empty/.keep", ""),
    ]);
    symlink("src", tool_fixture.path("link")).unwrap();
    symlink("src/a.rs", tool_fixture.path("file-link")).unwrap();
    tool_fixture
}

type Change = fn(&Path);

/// Each change, on a tree of its own: whether what was noted still holds.
async fn noticed(tool: &str, arguments: Value, changes: &[(&str, Change, bool)]) {
    for (name, change, expected) in changes {
        let tool_fixture = tree();
        let (output, witness) = tool_fixture.witnessed(tool, arguments.clone()).await;
        assert!(!output.is_error, "{}", text(&output));
        let snapshot = witness.snapshot();
        assert_eq!(snapshot.holds().await, Ok(()), "{tool} {arguments}");
        change(tool_fixture.context.workspace.root());
        let holds = snapshot.holds().await;
        assert_eq!(
            holds.is_err(),
            *expected,
            "{tool} {arguments}: {name}: {holds:?}"
        );
        // A result that no longer holds need not be another; one that holds must be the same.
        let again = tool_fixture.witnessed(tool, arguments.clone()).await.0;
        if holds.is_ok() {
            assert_eq!(again, output, "{tool} {arguments}: {name}");
        }
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn read_file_depends_on_the_file_and_its_links() {
    let changes: &[(&str, Change, bool)] = &[
        (
            "another file",
            |root| write(&root.join("src/b.rs"), "x"),
            false,
        ),
        (
            "a new file",
            |root| write(&root.join("src/new"), "x"),
            false,
        ),
        (
            "its content",
            |root| write(&root.join("src/a.rs"), "gamma\n"),
            true,
        ),
        (
            "its absence",
            |root| fs::remove_file(root.join("src/a.rs")).unwrap(),
            true,
        ),
        (
            "the same content again",
            |root| {
                write(&root.join("src/a.rs"), "x");
                write(&root.join("src/a.rs"), "alpha\n");
            },
            false,
        ),
    ];
    for path in ["src/a.rs", "link/a.rs", "file-link", "link/deep/../a.rs"] {
        noticed("read_file", json!({"path": path}), changes).await;
    }
    let retargeted: &[(&str, Change, bool)] = &[
        (
            "another target of the link to it",
            |root| {
                fs::remove_file(root.join("file-link")).unwrap();
                symlink("src/b.rs", root.join("file-link")).unwrap();
            },
            true,
        ),
        (
            "a file in the place of the link",
            |root| {
                fs::remove_file(root.join("file-link")).unwrap();
                write(&root.join("file-link"), "other");
            },
            true,
        ),
    ];
    noticed("read_file", json!({"path": "file-link"}), retargeted).await;
    let retargeted: &[(&str, Change, bool)] = &[(
        "another target of a link on the way",
        |root| {
            fs::remove_file(root.join("link")).unwrap();
            symlink("docs", root.join("link")).unwrap();
        },
        true,
    )];
    noticed("read_file", json!({"path": "link/a.rs"}), retargeted).await;
    noticed("list_dir", json!({"path": "link"}), retargeted).await;
}

/// The rules around it are those of the directory that the link leads to, and where a link leads is
/// nothing that can be noted.
#[tokio::test]
async fn walk_through_a_link_is_not_cacheable() {
    let tool_fixture = tree();
    for (path, kept) in [
        ("link", false),
        ("link/deep", false),
        ("docs/../link", false),
        ("docs/../src", true),
        ("src", true),
    ] {
        for tool in ["glob", "grep"] {
            let arguments = json!({"pattern": "a", "path": path});
            let (output, witness) = tool_fixture.witnessed(tool, arguments).await;
            assert!(!output.is_error, "{}", text(&output));
            assert_eq!(
                witness.snapshot().holds().await.is_ok(),
                kept,
                "{tool} {path}"
            );
        }
    }
}

#[tokio::test]
async fn list_dir_depends_on_names_and_kinds_only() {
    let changes: &[(&str, Change, bool)] = &[
        ("content", |root| write(&root.join("src/a.rs"), "x"), false),
        (
            "a name elsewhere",
            |root| write(&root.join("docs/new"), "x"),
            false,
        ),
        (
            "a name below",
            |root| write(&root.join("src/deep/new"), "x"),
            false,
        ),
        ("a new name", |root| write(&root.join("src/new"), "x"), true),
        (
            "another kind",
            |root| {
                fs::remove_file(root.join("src/a.rs")).unwrap();
                fs::create_dir(root.join("src/a.rs")).unwrap();
            },
            true,
        ),
        (
            "its absence",
            |root| fs::remove_dir_all(root.join("src")).unwrap(),
            true,
        ),
    ];
    noticed("list_dir", json!({"path": "src"}), changes).await;
    noticed(
        "list_dir",
        json!({"path": "src", "depth": 2}),
        &[
            (
                "a name below",
                |root| write(&root.join("src/deep/new"), "x"),
                true,
            ),
            (
                "content",
                |root| write(&root.join("src/deep/c.rs"), "x"),
                false,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn glob_depends_on_visited_directories_and_ignore_files() {
    let arguments = json!({"pattern": "src/**/*.rs"});
    let changes: &[(&str, Change, bool)] = &[
        ("content", |root| write(&root.join("src/a.rs"), "x"), false),
        (
            "where nothing can match",
            |root| write(&root.join("docs/new.rs"), "x"),
            false,
        ),
        (
            "a new name",
            |root| write(&root.join("src/deep/new.rs"), "x"),
            true,
        ),
        (
            "rules at the root",
            |root| write(&root.join(".gitignore"), "*.rs"),
            true,
        ),
        (
            "rules below",
            |root| write(&root.join("src/deep/.ignore"), "*"),
            true,
        ),
    ];
    noticed("glob", arguments, changes).await;
    // From a directory below: the rules around it count, present or absent.
    let changes: &[(&str, Change, bool)] = &[
        (
            "rules at the root",
            |root| write(&root.join(".gitignore"), "*.rs"),
            true,
        ),
        (
            "other rules at the root",
            |root| write(&root.join(".ignore"), "x"),
            true,
        ),
        (
            "rules between",
            |root| write(&root.join("src/.gitignore"), "c.rs"),
            true,
        ),
        (
            "a name at the root",
            |root| write(&root.join("new"), ""),
            false,
        ),
        (
            "a name between",
            |root| write(&root.join("src/new"), ""),
            false,
        ),
    ];
    noticed("glob", json!({"pattern": "*", "path": "src/deep"}), changes).await;
    noticed("grep", json!({"pattern": "a", "path": "src/deep"}), changes).await;
}

#[tokio::test]
async fn changed_ignore_file_is_detected() {
    let tool_fixture = tree();
    tool_fixture.write(".gitignore", "b.rs\n");
    let arguments = json!({"pattern": "*", "path": "src"});
    let (before, witness) = tool_fixture.witnessed("glob", arguments.clone()).await;
    assert_eq!(text(&before), "src/a.rs\n");
    tool_fixture.write(".gitignore", "a.rs\n");
    assert!(witness.snapshot().holds().await.is_err());
    assert_eq!(
        text(&tool_fixture.witnessed("glob", arguments).await.0),
        "src/b.rs\n"
    );
}

#[tokio::test]
async fn grep_depends_on_every_searched_file() {
    let changes: &[(&str, Change, bool)] = &[
        (
            "a file without a match",
            |root| write(&root.join("src/b.rs"), "x"),
            true,
        ),
        (
            "a file with one",
            |root| write(&root.join("src/deep/c.rs"), "x"),
            true,
        ),
        ("a new file", |root| write(&root.join("src/new"), "x"), true),
        (
            "a file elsewhere",
            |root| write(&root.join("docs/d.md"), "x"),
            false,
        ),
    ];
    noticed("grep", json!({"pattern": "alpha", "path": "src"}), changes).await;
    noticed(
        "grep",
        json!({"pattern": "alpha", "glob": "*.rs"}),
        &[
            (
                "a file that the filter leaves out",
                |root| write(&root.join("docs/d.md"), "x"),
                false,
            ),
            (
                "a file that it takes",
                |root| write(&root.join("src/b.rs"), "alpha"),
                true,
            ),
        ],
    )
    .await;
    // A search that ended early did not look at the rest.
    noticed(
        "grep",
        json!({"pattern": "alpha", "output": "files", "limit": 1}),
        &[
            (
                "a file behind the end",
                |root| write(&root.join("src/deep/c.rs"), "alpha"),
                false,
            ),
            (
                "the file that ended it",
                |root| write(&root.join("src/a.rs"), "x"),
                true,
            ),
            (
                "a file before it",
                |root| write(&root.join("docs/d.md"), "x"),
                true,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn more_files_than_can_be_checked_are_not_cacheable() {
    let tool_fixture = ToolFixture::new();
    for directory in 0..101 {
        fs::create_dir(tool_fixture.path(&directory.to_string())).unwrap();
        for file in 0..100 {
            fs::write(tool_fixture.path(&format!("{directory}/{file}")), "x").unwrap();
        }
    }
    let (output, witness) = tool_fixture
        .witnessed("grep", json!({"pattern": "y", "output": "files"}))
        .await;
    assert_eq!(text(&output), "[no match in 10,100 files]\n");
    let why = witness.snapshot().holds().await.unwrap_err().to_string();
    assert!(why.contains("more than 10000 files"), "{why}");
}
