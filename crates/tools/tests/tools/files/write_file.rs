use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use serde_json::json;

use crate::tool_fixture::{ToolFixture, text};

#[tokio::test]
async fn write_file_creates_directories_and_overwrites() {
    let tool_fixture = ToolFixture::new();
    let said = tool_fixture
        .done(
            "write_file",
            json!({"path": "a/b/c.txt", "content": "one\ntwo\n"}),
        )
        .await;
    assert_eq!(said, "created `a/b/c.txt` (2 lines, 8 bytes)");
    assert_eq!(tool_fixture.read("a/b/c.txt"), "one\ntwo\n");
    let said = tool_fixture
        .done(
            "write_file",
            json!({"path": "a/b/c.txt", "content": "three"}),
        )
        .await;
    assert_eq!(
        said,
        "overwrote `a/b/c.txt` (1 line, 5 bytes; it had 2 lines)"
    );
    let before = fs::metadata(tool_fixture.path("a/b/c.txt")).unwrap();
    let said = tool_fixture
        .done(
            "write_file",
            json!({"path": "a/b/c.txt", "content": "three"}),
        )
        .await;
    assert_eq!(
        said,
        "`a/b/c.txt` holds exactly that already; nothing was written"
    );
    let after = fs::metadata(tool_fixture.path("a/b/c.txt")).unwrap();
    assert_eq!(
        (before.ino(), before.ctime_nsec()),
        (after.ino(), after.ctime_nsec())
    );
    tool_fixture
        .done("write_file", json!({"path": "empty", "content": ""}))
        .await;
    assert_eq!(tool_fixture.read("empty"), "");
    // Nothing else was left.
    assert_eq!(tool_fixture.tree().len(), 4, "{:?}", tool_fixture.tree());
}

#[tokio::test]
async fn write_file_keeps_permissions() {
    let tool_fixture = ToolFixture::holding(&[("run.sh", "old")]);
    let path = tool_fixture.path("run.sh");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o754)).unwrap();
    tool_fixture
        .done("write_file", json!({"path": "run.sh", "content": "new"}))
        .await;
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o754
    );
    tool_fixture
        .done(
            "edit_file",
            json!({"path": "run.sh", "old_text": "n", "new_text": "m"}),
        )
        .await;
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o754
    );
    let moved = "*** Begin Patch\n*** Update File: run.sh\n*** Move to: bin/go\n*** End Patch";
    tool_fixture
        .done("apply_patch", json!({"patch": moved}))
        .await;
    let mode = fs::metadata(tool_fixture.path("bin/go"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o754);
}

#[tokio::test]
async fn failed_write_changes_nothing() {
    let tool_fixture = ToolFixture::holding(&[("file", "content"), ("directory/x", "")]);
    let before = tool_fixture.tree();
    for (path, expected) in [
        (
            "directory",
            "`directory` is a directory; a file cannot take its place",
        ),
        (".", "`.` is a directory"),
        ("file/below", "`file` is not a directory"),
        ("../beside", "outside the workspace"),
        (&format!("new/{}", "x".repeat(300)), "cannot write `new/xxx"),
    ] {
        let said = tool_fixture
            .fails("write_file", json!({"path": path, "content": "x"}))
            .await;
        assert!(said.contains(expected), "{path}: {said}");
    }
    assert_eq!(tool_fixture.tree(), before);
}

#[tokio::test]
async fn write_to_a_read_only_file_is_refused() {
    let tool_fixture = ToolFixture::holding(&[("file", "content")]);
    let path = tool_fixture.path("file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let output = tool_fixture
        .call("write_file", json!({"path": "file", "content": "x"}))
        .await;
    // The superuser may write everything.
    if rustix::process::geteuid().is_root() {
        assert!(!output.is_error);
    } else {
        assert!(text(&output).contains("cannot write `file`: Permission denied"));
        assert_eq!(tool_fixture.read("file"), "content");
    }
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o444);
}
