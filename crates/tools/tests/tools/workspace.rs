//! Confinement of tools to their directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cachalot_tools::workspace::PathError;
use cachalot_tools::{ToolOutput, Workspace};
use rustix::fs::CWD;
use serde_json::json;
use tempfile::TempDir;

use crate::tool_fixture::{ToolFixture, context, text};

/// A workspace with a file and a directory, beside a directory with a secret.
struct WorkspaceFixture {
    #[allow(dead_code)]
    directory: TempDir,
    tool_fixture: ToolFixture,
    outside: std::path::PathBuf,
}

fn workspace_fixture() -> WorkspaceFixture {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().canonicalize().unwrap();
    let outside = base.join("outside");
    fs::create_dir_all(outside.join("sub")).unwrap();
    fs::write(outside.join("secret"), "the secret\n").unwrap();
    fs::write(outside.join("sub/secret"), "the secret\n").unwrap();
    let root = base.join("root");
    fs::create_dir_all(root.join("src/deep")).unwrap();
    fs::write(root.join("src/file"), "inside\n").unwrap();
    let mut tool_fixture = ToolFixture::new();
    tool_fixture.context = context(Workspace::open(&root).unwrap());
    WorkspaceFixture {
        directory,
        tool_fixture,
        outside,
    }
}

impl WorkspaceFixture {
    fn workspace(&self) -> &Workspace {
        &self.tool_fixture.context.workspace
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.tool_fixture.path(name)).unwrap();
    }

    fn refused(&self, path: &str) -> PathError {
        self.workspace().resolve(path).unwrap_err()
    }
}

#[test]
fn workspace_root_is_resolved_without_links() {
    let workspace_fixture = workspace_fixture();
    let alias = workspace_fixture.outside.join("alias");
    symlink(workspace_fixture.workspace().root(), &alias).unwrap();
    let again = Workspace::open(&alias).unwrap();
    assert_eq!(again.root(), workspace_fixture.workspace().root());
    // The path that a user knows it by means the same.
    let by_alias = alias.join("src/file").display().to_string();
    assert_eq!(again.resolve(&by_alias), Ok(again.root().join("src/file")));
    assert!(Workspace::open(workspace_fixture.outside.join("secret")).is_err());
    assert!(Workspace::open(workspace_fixture.outside.join("none")).is_err());
}

/// The temporary files of commands are confined like those of the workspace.
#[test]
fn a_directory_for_temporary_files_can_be_used_by_its_path() {
    let fixture = workspace_fixture();
    let temporary = fixture.outside.join("sub");
    let workspace = fixture.workspace().clone();
    let workspace = workspace.with_temporary(&temporary).unwrap();
    let at = |path: &str| temporary.join(path).display().to_string();
    assert_eq!(
        workspace.resolve(at("secret")),
        Ok(temporary.join("secret"))
    );
    assert_eq!(workspace.resolve(at("new/x")), Ok(temporary.join("new/x")));
    assert_eq!(
        workspace.resolve("src/file"),
        Ok(workspace.root().join("src/file"))
    );
    let resolved = workspace.resolved(at("secret")).unwrap();
    assert_eq!(resolved.base(), temporary);
    assert!(resolved.open_file().is_ok());
    symlink("../secret", temporary.join("up")).unwrap();
    symlink(workspace.root().join("src/file"), temporary.join("across")).unwrap();
    for path in [at("../secret"), at("up"), "../outside/secret".to_owned()] {
        let refused = workspace.resolve(&path).unwrap_err();
        assert!(
            matches!(refused, PathError::Outside { .. }),
            "{path}: {refused}"
        );
    }
    assert_eq!(
        workspace.resolve(at("across")),
        Ok(workspace.root().join("src/file"))
    );
    // Without it, all of these are outside.
    fixture.refused(&at("secret"));
}

#[test]
fn paths_resolve_as_by_the_operating_system() {
    let workspace_fixture = workspace_fixture();
    let root = workspace_fixture.workspace().root().to_owned();
    workspace_fixture.link("src", "also");
    workspace_fixture.link(root.join("src/file"), "absolute");
    workspace_fixture.link("nothing-yet", "dangling");
    for (path, expected) in [
        ("", ""),
        (".", ""),
        ("./src//file", "src/file"),
        ("src/../src/deep/../file", "src/file"),
        ("also/deep/..", "src"),
        ("also/file", "src/file"),
        ("absolute", "src/file"),
        ("dangling", "nothing-yet"),
        ("new/directory/file", "new/directory/file"),
        ("~", "~"),
        ("../root/src", "src"),
    ] {
        assert_eq!(
            workspace_fixture.workspace().resolve(path),
            Ok(root.join(expected)),
            "{path}"
        );
    }
    let absolute = root.join("src/new").display().to_string();
    assert_eq!(
        workspace_fixture.workspace().resolve(&absolute),
        Ok(root.join("src/new"))
    );
}

#[test]
fn path_outside_of_the_workspace_is_refused() {
    let workspace_fixture = workspace_fixture();
    workspace_fixture.link(&workspace_fixture.outside, "out");
    workspace_fixture.link("../outside/secret", "secret");
    workspace_fixture.link("../outside/not-there", "dangling");
    workspace_fixture.link("out/sub", "twice");
    fs::create_dir(workspace_fixture.outside.join("closed")).unwrap();
    for path in [
        "..",
        "../outside/secret",
        "../outside/not-there",
        "../outside/secret/below",
        "src/../../outside",
        "/etc/passwd",
        "/no/such/thing",
        "/",
        "out",
        "out/secret",
        "out/not-there",
        "out/not-there/below",
        "out/secret/below",
        "secret",
        "dangling",
        "twice/secret",
        "out/../root-beside",
    ] {
        let refusal = workspace_fixture.refused(path);
        assert!(
            matches!(refusal, PathError::Outside { .. }),
            "{path}: {refusal}"
        );
        let said = text(&ToolOutput::from(refusal));
        assert!(said.contains("outside the workspace"), "{said}");
        // Nothing tells whether it exists.
        assert!(
            !said.contains("exist") && !said.contains("not a directory"),
            "{said}"
        );
    }
    // A link that leads out and back in is fine in the end.
    assert!(
        workspace_fixture
            .workspace()
            .resolve("out/../root/src")
            .is_ok()
    );
}

#[test]
fn unresolvable_path_is_refused_with_the_place() {
    let workspace_fixture = workspace_fixture();
    workspace_fixture.link("b", "a");
    workspace_fixture.link("a", "b");
    assert!(matches!(
        workspace_fixture.refused("a"),
        PathError::LinkCycle { .. }
    ));
    assert!(matches!(
        workspace_fixture.refused("nul\0l"),
        PathError::Nul
    ));
    let said = workspace_fixture.refused("src/file/below").to_string();
    assert!(said.contains("`src/file` is not a directory"), "{said}");
    let said = workspace_fixture.refused("src/file/..").to_string();
    assert!(said.contains("`src/file` is not a directory"), "{said}");
    let said = workspace_fixture.refused("none/../src/file").to_string();
    assert!(said.contains("`none` does not exist"), "{said}");
    let said = workspace_fixture.refused("~/../../x").to_string();
    assert!(said.contains("`~` does not exist"), "{said}");
    assert_eq!(
        workspace_fixture.workspace().resolve("no\u{301}rmal"),
        Ok(workspace_fixture.workspace().root().join("no\u{301}rmal"))
    );
}

/// Every tool, for a path that leads outside.
#[tokio::test]
async fn no_tool_leaves_the_workspace_through_a_link() {
    let workspace_fixture = workspace_fixture();
    workspace_fixture.link(&workspace_fixture.outside, "out");
    workspace_fixture.link(workspace_fixture.outside.join("secret"), "link");
    workspace_fixture.link(workspace_fixture.outside.join("new"), "dangling");
    let patch = |body: &str| json!({"patch": format!("*** Begin Patch\n{body}\n*** End Patch")});
    for (tool, arguments) in [
        ("read_file", json!({"path": "link"})),
        ("read_file", json!({"path": "out/secret"})),
        ("list_dir", json!({"path": "out"})),
        ("glob", json!({"pattern": "**", "path": "out"})),
        ("grep", json!({"pattern": "secret", "path": "out"})),
        ("grep", json!({"pattern": "secret", "path": "link"})),
        ("write_file", json!({"path": "link", "content": "x"})),
        ("write_file", json!({"path": "dangling", "content": "x"})),
        ("write_file", json!({"path": "out/new", "content": "x"})),
        (
            "write_file",
            json!({"path": "out/new/deeper", "content": "x"}),
        ),
        (
            "edit_file",
            json!({"path": "link", "old_text": "the", "new_text": "a"}),
        ),
        ("apply_patch", patch("*** Add File: out/new\n+x")),
        ("apply_patch", patch("*** Add File: dangling\n+x")),
        ("apply_patch", patch("*** Delete File: out/secret")),
        (
            "apply_patch",
            patch("*** Update File: link\n-the secret\n+a secret"),
        ),
        (
            "apply_patch",
            patch("*** Update File: src/file\n*** Move to: out/file"),
        ),
    ] {
        let said = workspace_fixture
            .tool_fixture
            .fails(tool, arguments.clone())
            .await;
        assert!(
            said.contains("outside the workspace"),
            "{tool} {arguments}: {said}"
        );
    }
    // Links are listed as such, and not followed.
    let listed = workspace_fixture
        .tool_fixture
        .done("list_dir", json!({"depth": 5}))
        .await;
    assert_eq!(
        listed,
        "dangling@\nlink@\nout@\nsrc/\nsrc/deep/\nsrc/file\n"
    );
    let found = workspace_fixture
        .tool_fixture
        .done("glob", json!({"pattern": "**"}))
        .await;
    assert_eq!(found, "dangling\nlink\nout\nsrc/file\n");
    let found = workspace_fixture
        .tool_fixture
        .done("grep", json!({"pattern": "secret"}))
        .await;
    assert!(found.contains("no match in 1 file"), "{found}");
    assert_eq!(fs::read_dir(&workspace_fixture.outside).unwrap().count(), 2);
    assert_eq!(
        fs::read_to_string(workspace_fixture.outside.join("secret")).unwrap(),
        "the secret\n"
    );
}

#[tokio::test]
async fn links_inside_of_the_workspace_are_followed_and_kept() {
    let workspace_fixture = workspace_fixture();
    workspace_fixture.link("src", "also");
    workspace_fixture.link("../../src/file", "src/deep/up");
    let tool_fixture = &workspace_fixture.tool_fixture;
    assert!(
        tool_fixture
            .done("read_file", json!({"path": "also/deep/up"}))
            .await
            .contains("inside")
    );
    tool_fixture
        .done(
            "write_file",
            json!({"path": "also/deep/up", "content": "new\n"}),
        )
        .await;
    assert_eq!(tool_fixture.read("src/file"), "new\n");
    assert!(
        fs::symlink_metadata(tool_fixture.path("src/deep/up"))
            .unwrap()
            .is_symlink()
    );
    tool_fixture
        .done(
            "write_file",
            json!({"path": "also/made/here", "content": "x"}),
        )
        .await;
    assert_eq!(tool_fixture.read("src/made/here"), "x");
}

#[tokio::test]
async fn special_files_are_not_opened() {
    let workspace_fixture = workspace_fixture();
    let pipe = workspace_fixture.tool_fixture.path("pipe");
    rustix::fs::mkfifoat(CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let _socket =
        std::os::unix::net::UnixListener::bind(workspace_fixture.tool_fixture.path("socket"))
            .unwrap();
    for (path, what) in [("pipe", "a named pipe"), ("socket", "a socket")] {
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("grep", json!({"pattern": "x", "path": path})),
            (
                "edit_file",
                json!({"path": path, "old_text": "a", "new_text": "b"}),
            ),
            ("write_file", json!({"path": path, "content": "x"})),
            ("list_dir", json!({"path": path})),
        ] {
            let said = workspace_fixture.tool_fixture.fails(tool, arguments).await;
            assert!(said.contains(what), "{tool}: {said}");
        }
    }
    assert!(
        workspace_fixture
            .tool_fixture
            .done("list_dir", json!({}))
            .await
            .starts_with("pipe|\nsocket|\n")
    );
    // A search passes by.
    let found = workspace_fixture
        .tool_fixture
        .done("grep", json!({"pattern": "inside"}))
        .await;
    assert!(found.starts_with("src/file\n"), "{found}");
}

/// Swaps a directory and a link to the outside, as fast as possible.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn swapped_link_between_check_and_open_is_not_followed() {
    let workspace_fixture = workspace_fixture();
    let root = workspace_fixture.workspace().root().to_owned();
    fs::write(root.join("src/secret"), "inside\n").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapping = {
        let (root, outside, stop) = (
            root.clone(),
            workspace_fixture.outside.clone(),
            Arc::clone(&stop),
        );
        symlink(&outside, root.join("evil")).unwrap();
        std::thread::spawn(move || {
            let (source, evil) = (root.join("src"), root.join("evil"));
            let exchange = rustix::fs::RenameFlags::EXCHANGE;
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..2 {
                    rustix::fs::renameat_with(CWD, &source, CWD, &evil, exchange).unwrap();
                }
            }
        })
    };
    let mut read = 0;
    for index in 0..400 {
        let output = workspace_fixture
            .tool_fixture
            .call("read_file", json!({"path": "src/secret"}))
            .await;
        assert!(!text(&output).contains("the secret"), "{}", text(&output));
        read += usize::from(!output.is_error);
        let output = workspace_fixture
            .tool_fixture
            .call("grep", json!({"pattern": "secret", "path": "src"}))
            .await;
        assert!(!text(&output).contains("the secret"), "{}", text(&output));
        let content = json!({"path": format!("src/made/{index}"), "content": "x"});
        workspace_fixture
            .tool_fixture
            .call("write_file", content)
            .await;
        let gone =
            json!({"patch": "*** Begin Patch\n*** Delete File: src/sub/secret\n*** End Patch"});
        workspace_fixture
            .tool_fixture
            .call("apply_patch", gone)
            .await;
    }
    stop.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    assert!(read > 0, "nothing was ever read");
    let mut left: Vec<_> = fs::read_dir(&workspace_fixture.outside)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["secret", "sub"]);
    assert_eq!(
        fs::read_to_string(workspace_fixture.outside.join("sub/secret")).unwrap(),
        "the secret\n"
    );
}
