//! What keeps tools in their directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cachalot_tools::workspace::PathError;
use cachalot_tools::{Arguments, ToolOutput, Workspace};
use rustix::fs::CWD;
use serde_json::json;
use tempfile::TempDir;

use crate::workshop::{Workshop, context, text};

/// A workspace with a file and a directory, beside a directory with a secret.
struct Yard {
    #[allow(dead_code)]
    directory: TempDir,
    workshop: Workshop,
    outside: std::path::PathBuf,
}

fn yard() -> Yard {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().canonicalize().unwrap();
    let outside = base.join("outside");
    fs::create_dir_all(outside.join("sub")).unwrap();
    fs::write(outside.join("secret"), "the secret\n").unwrap();
    fs::write(outside.join("sub/secret"), "the secret\n").unwrap();
    let root = base.join("root");
    fs::create_dir_all(root.join("src/deep")).unwrap();
    fs::write(root.join("src/file"), "inside\n").unwrap();
    let mut workshop = Workshop::new();
    workshop.context = context(Workspace::open(&root).unwrap());
    Yard {
        directory,
        workshop,
        outside,
    }
}

impl Yard {
    fn workspace(&self) -> &Workspace {
        &self.workshop.context.workspace
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.workshop.path(name)).unwrap();
    }

    fn refused(&self, path: &str) -> PathError {
        self.workspace().resolve(path).unwrap_err()
    }
}

#[test]
fn a_workspace_is_a_directory_without_links_in_its_path() {
    let yard = yard();
    let alias = yard.outside.join("alias");
    symlink(yard.workspace().root(), &alias).unwrap();
    let again = Workspace::open(&alias).unwrap();
    assert_eq!(again.root(), yard.workspace().root());
    // The path that a user knows it by means the same.
    let by_alias = alias.join("src/file").display().to_string();
    assert_eq!(again.resolve(&by_alias), Ok(again.root().join("src/file")));
    assert!(Workspace::open(yard.outside.join("secret")).is_err());
    assert!(Workspace::open(yard.outside.join("none")).is_err());
}

#[test]
fn paths_mean_what_the_system_means_by_them() {
    let yard = yard();
    let root = yard.workspace().root().to_owned();
    yard.link("src", "also");
    yard.link(root.join("src/file"), "absolute");
    yard.link("nothing-yet", "dangling");
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
            yard.workspace().resolve(path),
            Ok(root.join(expected)),
            "{path}"
        );
    }
    let absolute = root.join("src/new").display().to_string();
    assert_eq!(
        yard.workspace().resolve(&absolute),
        Ok(root.join("src/new"))
    );
}

#[test]
fn what_leads_outside_is_refused_whether_it_exists_or_not() {
    let yard = yard();
    yard.link(&yard.outside, "out");
    yard.link("../outside/secret", "secret");
    yard.link("../outside/not-there", "dangling");
    yard.link("out/sub", "twice");
    fs::create_dir(yard.outside.join("closed")).unwrap();
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
        let refusal = yard.refused(path);
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
    assert!(yard.workspace().resolve("out/../root/src").is_ok());
}

#[test]
fn what_leads_nowhere_is_refused_with_the_place() {
    let yard = yard();
    yard.link("b", "a");
    yard.link("a", "b");
    assert!(matches!(yard.refused("a"), PathError::LinkCycle { .. }));
    assert!(matches!(yard.refused("nul\0l"), PathError::Nul));
    let said = yard.refused("src/file/below").to_string();
    assert!(said.contains("`src/file` is not a directory"), "{said}");
    let said = yard.refused("src/file/..").to_string();
    assert!(said.contains("`src/file` is not a directory"), "{said}");
    let said = yard.refused("none/../src/file").to_string();
    assert!(said.contains("`none` does not exist"), "{said}");
    let said = yard.refused("~/../../x").to_string();
    assert!(said.contains("`~` does not exist"), "{said}");
    assert_eq!(
        yard.workspace().resolve("no\u{301}rmal"),
        Ok(yard.workspace().root().join("no\u{301}rmal"))
    );
}

#[tokio::test]
async fn further_directories_can_be_read_and_not_written() {
    let mut yard = yard();
    let workspace = yard
        .workspace()
        .clone()
        .also_readable(&yard.outside)
        .unwrap();
    yard.workshop.context = context(workspace);
    let secret = yard.outside.join("secret").display().to_string();
    assert!(yard.workspace().resolve(&secret).is_err());
    assert_eq!(
        yard.workspace().resolve_readable(&secret),
        Ok(yard.outside.join("secret"))
    );
    let shown = yard
        .workshop
        .done("read_file", json!({"path": secret}))
        .await;
    assert!(shown.contains("the secret"), "{shown}");
    // Whoever may read other directories shares no answers with those who may not.
    let reads = yard.workshop.registry.tool("read_file").unwrap();
    assert_eq!(
        reads
            .implicit_inputs(&Arguments::new(), &yard.workshop.context)
            .unwrap(),
        json!([yard.outside])
    );
    let found = yard
        .workshop
        .done(
            "glob",
            json!({"pattern": "**/secret", "path": yard.outside}),
        )
        .await;
    assert_eq!(found.lines().count(), 2, "{found}");
    for (tool, arguments) in [
        ("write_file", json!({"path": secret, "content": "x"})),
        (
            "edit_file",
            json!({"path": secret, "old_text": "the", "new_text": "a"}),
        ),
        (
            "apply_patch",
            json!({"patch": format!("*** Begin Patch\n*** Delete File: {secret}\n*** End Patch")}),
        ),
    ] {
        let said = yard.workshop.fails(tool, arguments).await;
        assert!(said.contains("outside the workspace"), "{said}");
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "the secret\n");
}

/// Every tool, for a path that leads outside.
#[tokio::test]
async fn no_tool_leaves_the_workspace_through_a_link() {
    let yard = yard();
    yard.link(&yard.outside, "out");
    yard.link(yard.outside.join("secret"), "link");
    yard.link(yard.outside.join("new"), "dangling");
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
        let said = yard.workshop.fails(tool, arguments.clone()).await;
        assert!(
            said.contains("outside the workspace"),
            "{tool} {arguments}: {said}"
        );
    }
    // Links are listed as such, and not followed.
    let listed = yard.workshop.done("list_dir", json!({"depth": 5})).await;
    assert_eq!(
        listed,
        "dangling@\nlink@\nout@\nsrc/\nsrc/deep/\nsrc/file\n"
    );
    let found = yard.workshop.done("glob", json!({"pattern": "**"})).await;
    assert_eq!(found, "dangling\nlink\nout\nsrc/file\n");
    let found = yard
        .workshop
        .done("grep", json!({"pattern": "secret"}))
        .await;
    assert!(found.contains("no match in 1 file"), "{found}");
    assert_eq!(fs::read_dir(&yard.outside).unwrap().count(), 2);
    assert_eq!(
        fs::read_to_string(yard.outside.join("secret")).unwrap(),
        "the secret\n"
    );
}

#[tokio::test]
async fn links_that_stay_inside_are_followed_and_kept() {
    let yard = yard();
    yard.link("src", "also");
    yard.link("../../src/file", "src/deep/up");
    let workshop = &yard.workshop;
    assert!(
        workshop
            .done("read_file", json!({"path": "also/deep/up"}))
            .await
            .contains("inside")
    );
    workshop
        .done(
            "write_file",
            json!({"path": "also/deep/up", "content": "new\n"}),
        )
        .await;
    assert_eq!(workshop.read("src/file"), "new\n");
    assert!(
        fs::symlink_metadata(workshop.path("src/deep/up"))
            .unwrap()
            .is_symlink()
    );
    workshop
        .done(
            "write_file",
            json!({"path": "also/made/here", "content": "x"}),
        )
        .await;
    assert_eq!(workshop.read("src/made/here"), "x");
}

#[tokio::test]
async fn what_is_no_file_is_not_opened() {
    let yard = yard();
    let pipe = yard.workshop.path("pipe");
    rustix::fs::mkfifoat(CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(yard.workshop.path("socket")).unwrap();
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
            let said = yard.workshop.fails(tool, arguments).await;
            assert!(said.contains(what), "{tool}: {said}");
        }
    }
    assert!(
        yard.workshop
            .done("list_dir", json!({}))
            .await
            .starts_with("pipe|\nsocket|\n")
    );
    // A search passes by.
    let found = yard
        .workshop
        .done("grep", json!({"pattern": "inside"}))
        .await;
    assert!(found.starts_with("src/file\n"), "{found}");
}

/// Somebody swaps a directory for a link to the outside, and back, as fast as they can.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_swap_between_looking_and_opening_leads_nowhere() {
    let yard = yard();
    let root = yard.workspace().root().to_owned();
    fs::write(root.join("src/secret"), "inside\n").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapping = {
        let (root, outside, stop) = (root.clone(), yard.outside.clone(), Arc::clone(&stop));
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
        let output = yard
            .workshop
            .call("read_file", json!({"path": "src/secret"}))
            .await;
        assert!(!text(&output).contains("the secret"), "{}", text(&output));
        read += usize::from(!output.is_error);
        let output = yard
            .workshop
            .call("grep", json!({"pattern": "secret", "path": "src"}))
            .await;
        assert!(!text(&output).contains("the secret"), "{}", text(&output));
        let content = json!({"path": format!("src/made/{index}"), "content": "x"});
        yard.workshop.call("write_file", content).await;
        let gone =
            json!({"patch": "*** Begin Patch\n*** Delete File: src/sub/secret\n*** End Patch"});
        yard.workshop.call("apply_patch", gone).await;
    }
    stop.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    assert!(read > 0, "nothing was ever read");
    let mut left: Vec<_> = fs::read_dir(&yard.outside)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["secret", "sub"]);
    assert_eq!(
        fs::read_to_string(yard.outside.join("sub/secret")).unwrap(),
        "the secret\n"
    );
}
