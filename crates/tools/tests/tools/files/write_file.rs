use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use serde_json::json;

use crate::workshop::{Workshop, text};

#[tokio::test]
async fn files_are_created_with_their_directories_and_overwritten() {
    let workshop = Workshop::new();
    let said = workshop
        .done(
            "write_file",
            json!({"path": "a/b/c.txt", "content": "one\ntwo\n"}),
        )
        .await;
    assert_eq!(said, "created `a/b/c.txt` (2 lines, 8 bytes)");
    assert_eq!(workshop.read("a/b/c.txt"), "one\ntwo\n");
    let said = workshop
        .done(
            "write_file",
            json!({"path": "a/b/c.txt", "content": "three"}),
        )
        .await;
    assert_eq!(
        said,
        "overwrote `a/b/c.txt` (1 line, 5 bytes; it had 2 lines)"
    );
    let before = fs::metadata(workshop.path("a/b/c.txt")).unwrap();
    let said = workshop
        .done(
            "write_file",
            json!({"path": "a/b/c.txt", "content": "three"}),
        )
        .await;
    assert_eq!(
        said,
        "`a/b/c.txt` holds exactly that already; nothing was written"
    );
    let after = fs::metadata(workshop.path("a/b/c.txt")).unwrap();
    assert_eq!(
        (before.ino(), before.ctime_nsec()),
        (after.ino(), after.ctime_nsec())
    );
    workshop
        .done("write_file", json!({"path": "empty", "content": ""}))
        .await;
    assert_eq!(workshop.read("empty"), "");
    // Nothing else was left.
    assert_eq!(workshop.tree().len(), 4, "{:?}", workshop.tree());
}

#[tokio::test]
async fn permissions_are_kept() {
    let workshop = Workshop::holding(&[("run.sh", "old")]);
    let path = workshop.path("run.sh");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o754)).unwrap();
    workshop
        .done("write_file", json!({"path": "run.sh", "content": "new"}))
        .await;
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o754
    );
    workshop
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
    workshop.done("apply_patch", json!({"patch": moved})).await;
    let mode = fs::metadata(workshop.path("bin/go"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o754);
}

#[tokio::test]
async fn what_cannot_be_written_is_refused_and_leaves_nothing() {
    let workshop = Workshop::holding(&[("file", "content"), ("directory/x", "")]);
    let before = workshop.tree();
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
        let said = workshop
            .fails("write_file", json!({"path": path, "content": "x"}))
            .await;
        assert!(said.contains(expected), "{path}: {said}");
    }
    assert_eq!(workshop.tree(), before);
}

#[tokio::test]
async fn a_file_that_must_not_be_written_is_not() {
    let workshop = Workshop::holding(&[("file", "content")]);
    let path = workshop.path("file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let output = workshop
        .call("write_file", json!({"path": "file", "content": "x"}))
        .await;
    // The superuser may write everything.
    if rustix::process::geteuid().is_root() {
        assert!(!output.is_error);
    } else {
        assert!(text(&output).contains("cannot write `file`: Permission denied"));
        assert_eq!(workshop.read("file"), "content");
    }
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o444);
}
