//! The files that commands may write: protected ones are found in every spelling.

use std::path::{Path, PathBuf};

use cachalot_core::links::without_links;
use cachalot_operation::workspace::normalize;
use cachalot_operation::{
    Command, CommandText, UNKNOWN, Workspace, WrittenPaths, may_be, protected_name, written_paths,
};

use crate::attacks::lines;

/// Returns true if a command may write a file that is protected by its name, or one of `own`.
fn may_write_protected(written: &WrittenPaths, root: &Path, own: &[PathBuf]) -> bool {
    written.unclear.is_some()
        || written.paths.iter().any(|found| {
            let paths = [
                normalize(&found.path),
                normalize(&without_links(&found.path)),
            ];
            let is_own = own.iter().any(|own| {
                let mut paths = paths
                    .iter()
                    .map(|path| path.to_string_lossy().to_lowercase());
                let file = found.path.file_name().unwrap_or_default().to_string_lossy();
                let is_named = file.chars().any(|character| character != UNKNOWN)
                    && may_be(&file, &own.file_name().unwrap().to_string_lossy());
                paths.any(|path| Path::new(&path).starts_with(own.to_string_lossy().to_lowercase()))
                    || (is_named && (written.is_moved || file.contains(UNKNOWN)))
            });
            let relative = |path: &PathBuf| path.strip_prefix(root).unwrap_or(path).to_owned();
            let names: Vec<String> = paths
                .iter()
                .filter_map(|path| protected_name(&relative(path)))
                .collect();
            let is_only_a_name = found.may_be_name
                && !found.word.contains('/')
                && !found.path.exists()
                && names.iter().all(|name| name == "head");
            !is_only_a_name && (is_own || !names.is_empty())
        })
}

#[cfg(unix)]
#[test]
fn commands_that_may_write_protected_files_are_found() {
    use std::os::unix::fs::symlink;

    let directory = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(directory.path()).unwrap();
    let root = workspace.root();
    for name in ["q", "src", "present", ".git/hooks"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    for name in ["team.yaml", "q/team.yaml", "q/a"] {
        std::fs::write(root.join(name), "x").unwrap();
    }
    symlink(".git", root.join("innocent")).unwrap();
    symlink("../.git/hooks", root.join("src/deep")).unwrap();
    symlink("team.yaml", root.join("notes.txt")).unwrap();
    let own = ["team.yaml", "skills", "present"].map(|name| root.join(name));
    let mut wrong = Vec::new();
    for (text, is_protected) in [
        (include_str!("../data/commands/protected.txt"), true),
        (include_str!("../data/commands/unprotected.txt"), false),
    ] {
        for line in lines(text) {
            let command = Command {
                text: CommandText::Line(line.clone()),
                directory: None,
            };
            let written = written_paths(&command, &workspace);
            if may_write_protected(&written, root, &own) != is_protected {
                wrong.push(format!("{line}: {written:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "decided otherwise:\n{}", wrong.join("\n"));
}
