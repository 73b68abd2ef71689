//! Other names of read-only files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::error::Error;

/// Refuses read-only files that have another name below the roots, where they could be changed.
///
/// # Errors
/// If there is such a name.
pub(super) fn refuse(roots: &[PathBuf], read_only: &BTreeSet<PathBuf>) -> Result<(), Error> {
    let number = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    let linked: BTreeMap<_, _> = read_only
        .iter()
        .filter_map(|path| Some((path, fs::symlink_metadata(path).ok()?)))
        .filter(|(_, metadata)| metadata.is_file() && metadata.nlink() > 1)
        .map(|(path, metadata)| (number(&metadata), path))
        .collect();
    let mut directories: Vec<PathBuf> = match linked.is_empty() {
        true => Vec::new(),
        false => roots.to_vec(),
    };
    while let Some(directory) = directories.pop() {
        // What this user cannot read, the program cannot change.
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| !read_only.contains(&entry.path())) {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                directories.push(entry.path());
            } else if let Some(path) = linked.get(&number(&metadata)) {
                let shown = |path: &Path| path.display().to_string();
                return Err(Error::HardLinked {
                    path: shown(path),
                    other: shown(&entry.path()),
                });
            }
        }
    }
    Ok(())
}
