//! Files that are replaced atomically.
#![cfg(unix)]

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use cachalot_core::atomic_file::{Access, AtomicFile, replace};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The names of all files of a directory.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn file_is_replaced_on_persist_only() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a");
    fs::write(&path, "old").unwrap();

    let mut file = AtomicFile::new(&path, Access::Kept).unwrap();
    file.write_all(b"new").unwrap();
    file.flush().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    file.persist().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");

    let mut file = AtomicFile::new(&path, Access::Kept).unwrap();
    file.write_all(b"dropped").unwrap();
    drop(file);
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(names(root.path()), ["a"]);
}

#[test]
fn permissions_are_kept_or_private() {
    let root = tempfile::tempdir().unwrap();
    let (old, new, plain) = (
        root.path().join("old"),
        root.path().join("new"),
        root.path().join("plain"),
    );
    fs::write(&old, "old").unwrap();
    set_mode(&old, 0o751);
    replace(&old, b"x", Access::Kept).unwrap();
    assert_eq!(mode(&old), 0o751);
    replace(&old, b"y", Access::Private).unwrap();
    assert_eq!(mode(&old), 0o600);
    // A new file gets those that any new file gets.
    fs::write(&plain, "").unwrap();
    replace(&new, b"x", Access::Kept).unwrap();
    assert_eq!(mode(&new), mode(&plain));
}

#[test]
fn links_are_followed_and_kept() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("folder")).unwrap();
    symlink("folder/target", root.path().join("inner")).unwrap();
    symlink("inner", root.path().join("outer")).unwrap();
    for content in ["created", "replaced"] {
        replace(
            &root.path().join("outer"),
            content.as_bytes(),
            Access::Private,
        )
        .unwrap();
        let target = root.path().join("folder/target");
        assert_eq!(fs::read_to_string(target).unwrap(), content);
        assert_eq!(names(root.path()), ["folder", "inner", "outer"]);
        assert_eq!(names(&root.path().join("folder")), ["target"]);
    }
}

#[test]
fn a_directory_is_refused_and_a_missing_one_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let error = replace(root.path(), b"x", Access::Kept).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IsADirectory);
    let error = replace(&root.path().join("none/a"), b"x", Access::Kept).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(names(root.path()).is_empty());
}

#[test]
fn directory_without_list_permission_is_writable() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("box");
    fs::create_dir(&directory).unwrap();
    set_mode(&directory, 0o300);
    let replaced = replace(&directory.join("a"), b"x", Access::Kept);
    set_mode(&directory, 0o700);
    replaced.unwrap();
    assert_eq!(names(&directory), ["a"]);
}
