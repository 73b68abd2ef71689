//! The documents and examples of this repository.

use std::path::{Path, PathBuf};

use crate::program_file;

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("the crate lies in crates/cli")
        .to_owned()
}

/// The documents: Markdown in the root, in `docs/` and in `examples/`, by their paths below the root.
pub(crate) fn documents() -> Vec<String> {
    let mut found = in_folder("", "md", false);
    found.extend(in_folder("docs", "md", true));
    found.extend(in_folder("examples", "md", true));
    found
}

/// The agent files of the examples.
pub(crate) fn examples() -> Vec<String> {
    in_folder("examples", "yaml", true)
}

/// The text of a file below the root.
pub(crate) fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Copies a folder of the repository.
pub(crate) fn copy(folder: &str, to: &Path) {
    for path in in_folder(folder, "", true) {
        let target = to.join(
            Path::new(&path)
                .strip_prefix(folder)
                .expect("it lies in the folder"),
        );
        std::fs::create_dir_all(target.parent().expect("it lies in a folder")).unwrap();
        program_file::copy(&root().join(&path), &target);
    }
}

/// Links a file of the repository into a folder, under the same path.
pub(crate) fn link(path: &str, folder: &Path) {
    let target = folder.join(path);
    std::fs::create_dir_all(target.parent().expect("it lies in a folder")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(root().join(path), &target).unwrap();
    #[cfg(not(unix))]
    std::fs::copy(root().join(path), &target).unwrap();
}

/// The files with this extension (with any, if it is empty), sorted. What Cargo builds is left out.
pub(crate) fn in_folder(folder: &str, extension: &str, deep: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(root().join(&folder)) else {
            continue;
        };
        for entry in entries {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                if deep && entry.file_name() != "target" {
                    folders.push(path);
                }
            } else if extension.is_empty()
                || path.extension().is_some_and(|found| found == extension)
            {
                found.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    found.sort();
    found
}
