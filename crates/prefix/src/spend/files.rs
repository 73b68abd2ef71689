//! The files of transcripts below directories.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

/// Files to read, and directories that cannot be read.
#[derive(Debug, Default)]
pub struct Files {
    /// Each file once, by its path without links, sorted.
    pub paths: Vec<PathBuf>,
    /// Directories and files that cannot be read, and why.
    pub unreadable: Vec<(PathBuf, io::Error)>,
}

/// Folders of the kernel, which have no transcripts. A link in `/proc` leads to the whole file system.
const KERNEL_FOLDERS: [&str; 2] = ["/proc", "/sys"];

/// Finds the files below directories that may be transcripts: `.jsonl`, `.json`, compressed (`.jsonl.zst`) where the file
/// itself is absent, and databases of opencode (`opencode*.db`). A given file is taken with any name.
#[must_use]
pub fn find_files(places: &[PathBuf]) -> Files {
    let mut found = Files::default();
    let mut seen = HashSet::new();
    for place in places {
        visit(place, true, &mut seen, &mut found);
    }
    let plain: HashSet<PathBuf> = found.paths.iter().cloned().collect();
    found.paths.retain(|path| {
        let is_compressed = path.extension().is_some_and(|extension| extension == "zst");
        !(is_compressed && plain.contains(&path.with_extension("")))
    });
    found.paths.sort();
    found
}

fn visit(path: &Path, is_given: bool, seen: &mut HashSet<PathBuf>, found: &mut Files) {
    let place = match path.canonicalize() {
        Ok(place) => place,
        // Files may be removed at any time.
        Err(error) if !is_given && error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => return found.unreadable.push((path.to_owned(), error)),
    };
    if KERNEL_FOLDERS
        .iter()
        .any(|folder| place.starts_with(folder))
    {
        if is_given || is_transcript(path) {
            let error = io::Error::other("it is a file of the kernel");
            found.unreadable.push((path.to_owned(), error));
        }
    } else if place.is_dir() {
        // A link can lead back to a directory above it. The path without links is visited only once.
        if !seen.insert(place.clone()) {
            return;
        }
        match std::fs::read_dir(&place) {
            Ok(entries) => {
                for entry in entries.flatten() {
                    visit(&entry.path(), false, seen, found);
                }
            }
            Err(error) => found.unreadable.push((place, error)),
        }
    } else if (is_given || is_transcript(&place)) && seen.insert(place.clone()) {
        found.paths.push(place);
    }
}

/// True for the name of a database of opencode; each of its channels has one.
#[must_use]
pub fn is_opencode_database(name: &str) -> bool {
    name.starts_with("opencode") && name.ends_with(".db")
}

fn is_transcript(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [".jsonl", ".json", ".jsonl.zst"]
        .iter()
        .any(|ending| name.ends_with(ending))
        || is_opencode_database(&name)
}
