//! Copies of files of a workspace, so that what commands do to them can be undone.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cachalot_core::text::grouped;
use cachalot_model::Block;
use cachalot_operation::ToolOutput;
use tokio_util::sync::CancellationToken;

use super::MAX_IN_MEMORY_BYTES;
use super::commit::{FileChange, commit};
use super::snapshot::read_if_exists;
use crate::workspace::{PathKind, Workspace};

/// Maximum number of files.
const MAX_FILES: usize = 10_000;
/// Maximum size of all files in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// The reason why files cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// There are too many files.
    #[error("more than {} files would have to be copied", grouped(MAX_FILES as u64))]
    TooManyFiles,
    /// The files are too large together.
    #[error("more than {} MiB would have to be copied", MAX_BYTES >> 20)]
    TooMuch,
    /// A file cannot be copied.
    #[error("{} cannot be copied: {error}", .path.display())]
    File {
        /// Its path, relative to the workspace.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

/// Copies of files of a workspace.
#[derive(Debug)]
pub struct FileCopies {
    folder: PathBuf,
    /// The file with number N in `folder` is the copy of the Nth.
    files: Vec<CopiedFile>,
    /// The size of all copies.
    bytes: u64,
}

#[derive(Debug)]
struct CopiedFile {
    /// Its path, relative to the workspace, without links.
    path: PathBuf,
    /// Its permissions.
    mode: u32,
}

/// The files that were brought back.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RestoredFiles {
    /// The paths of files that had changed or were missing, relative to the workspace.
    pub restored: Vec<PathBuf>,
    /// Messages about files that could not be brought back.
    pub failures: Vec<String>,
}

impl FileCopies {
    /// Copies files of a workspace to an empty folder, in which they get numbers for names. Links, directories and files
    /// that do not exist are left out. The system copies no content where the file system shares it.
    ///
    /// # Errors
    /// There are more than 10,000 files, or more than 256 MiB, or one of more than 32 MiB; or a file cannot be copied.
    pub fn make(
        workspace: &Workspace,
        paths: Vec<PathBuf>,
        folder: &Path,
    ) -> Result<Self, CopyError> {
        let mut copies = Self {
            folder: folder.to_owned(),
            files: Vec::new(),
            bytes: 0,
        };
        // Looked at before anything is copied.
        let mut found = Vec::new();
        let mut size = 0_u64;
        for path in paths {
            let Ok(resolved) = workspace.resolved(&path) else {
                continue;
            };
            let is_link = resolved.real != workspace.root().join(&path);
            if is_link || resolved.found != PathKind::File {
                continue;
            }
            let metadata = fs::symlink_metadata(&resolved.real);
            size = size.saturating_add(metadata.map_or(0, |metadata| metadata.len()));
            found.push((path, resolved));
            if found.len() > MAX_FILES {
                return Err(CopyError::TooManyFiles);
            }
            if size > MAX_BYTES {
                return Err(CopyError::TooMuch);
            }
        }
        for (path, resolved) in found {
            let copied = resolved
                .open_file()
                .and_then(|file| copies.add(path.clone(), file));
            match copied {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(CopyError::File { path, error }),
                Ok(()) if copies.bytes > MAX_BYTES => return Err(CopyError::TooMuch),
                Ok(()) => {}
            }
        }
        Ok(copies)
    }

    fn add(&mut self, path: PathBuf, file: File) -> io::Result<()> {
        let metadata = file.metadata()?;
        let mut copy = File::create_new(self.copy_of(self.files.len()))?;
        // It may grow while it is read.
        let bytes = io::copy(&mut file.take(MAX_IN_MEMORY_BYTES + 1), &mut copy)?;
        if bytes > MAX_IN_MEMORY_BYTES {
            return Err(io::Error::other(format!(
                "it has more than {} MiB",
                MAX_IN_MEMORY_BYTES >> 20
            )));
        }
        self.bytes += bytes;
        self.files.push(CopiedFile {
            path,
            mode: metadata.permissions().mode() & 0o7777,
        });
        Ok(())
    }

    /// Returns the size of all copies in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn copy_of(&self, number: usize) -> PathBuf {
        self.folder.join(number.to_string())
    }

    /// Brings back the files that have changed or are missing. Nothing is written through links; files that are new stay.
    #[must_use]
    pub fn restore(&self, workspace: &Workspace) -> RestoredFiles {
        let mut restored = RestoredFiles::default();
        for (number, file) in self.files.iter().enumerate() {
            match self.restore_file(workspace, number, file) {
                Ok(true) => restored.restored.push(file.path.clone()),
                Ok(false) => {}
                Err(output) => restored.failures.push(text(&output)),
            }
        }
        restored
    }

    /// Returns true if the file had changed.
    fn restore_file(
        &self,
        workspace: &Workspace,
        number: usize,
        file: &CopiedFile,
    ) -> Result<bool, ToolOutput> {
        let path = file.path.display().to_string();
        let resolved = workspace.resolved(&file.path)?;
        if resolved.real != workspace.root().join(&file.path) {
            let why = format!("`{path}` is a link now, or below one");
            return Err(ToolOutput::error(why));
        }
        let content = fs::read(self.copy_of(number))
            .map_err(|error| ToolOutput::error(format!("the copy of `{path}`: {error}")))?;
        let before = read_if_exists(&resolved, &path)?;
        let is_same = before
            .as_ref()
            .is_some_and(|before| before.bytes == content && before.mode == file.mode);
        if is_same {
            return Ok(false);
        }
        let change = FileChange {
            resolved: &resolved,
            before: before.as_ref(),
            after: Some(&content),
            mode: Some(file.mode),
        };
        commit(workspace, &[change], &CancellationToken::new())?;
        Ok(true)
    }
}

fn text(output: &ToolOutput) -> String {
    output.content.iter().filter_map(Block::as_text).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::symlink;

    use super::*;

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn changed_and_missing_files_are_brought_back() {
        let root = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(root.path()).unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir(at("sub")).unwrap();
        for path in ["same", "changed", "sub/missing", "mode"] {
            fs::write(at(path), path).unwrap();
        }
        fs::set_permissions(at("mode"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("same", at("link")).unwrap();
        let listed = paths(&[
            "same",
            "changed",
            "sub/missing",
            "mode",
            "link",
            "none",
            "sub",
        ]);
        let copies = FileCopies::make(&workspace, listed, folder.path()).unwrap();
        assert_eq!(copies.files.len(), 4);
        fs::write(at("changed"), "other").unwrap();
        fs::remove_dir_all(at("sub")).unwrap();
        fs::set_permissions(at("mode"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(at("new"), "new").unwrap();
        let restored = copies.restore(&workspace);
        assert_eq!(
            restored.restored,
            paths(&["changed", "sub/missing", "mode"])
        );
        assert_eq!(restored.failures, Vec::<String>::new());
        for path in ["same", "changed", "sub/missing", "mode", "new"] {
            assert_eq!(fs::read_to_string(at(path)).unwrap(), path);
        }
        let mode = fs::metadata(at("mode")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(copies.restore(&workspace), RestoredFiles::default());
    }

    #[test]
    fn nothing_is_written_through_links() {
        let root = tempfile::tempdir().unwrap();
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let workspace = Workspace::open(root.path()).unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("a")).unwrap();
        fs::create_dir_all(at("b")).unwrap();
        for path in ["a/f", "b/f", "c"] {
            fs::write(at(path), "before").unwrap();
        }
        let copies =
            FileCopies::make(&workspace, paths(&["a/f", "b/f", "c"]), folder.path()).unwrap();
        fs::remove_dir_all(at("a")).unwrap();
        symlink(outside.path(), at("a")).unwrap();
        fs::remove_dir_all(at("b")).unwrap();
        fs::create_dir(at("other")).unwrap();
        symlink("other", at("b")).unwrap();
        fs::remove_file(at("c")).unwrap();
        fs::create_dir(at("c")).unwrap();
        let restored = copies.restore(&workspace);
        assert_eq!(restored.restored, Vec::<PathBuf>::new());
        assert_eq!(restored.failures.len(), 3, "{restored:?}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        assert_eq!(fs::read_dir(at("other")).unwrap().count(), 0);
    }

    #[test]
    fn too_large_a_file_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(root.path()).unwrap();
        let large = File::create(root.path().join("large")).unwrap();
        large.set_len(MAX_IN_MEMORY_BYTES + 1).unwrap();
        let error = FileCopies::make(&workspace, paths(&["large"]), folder.path()).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("large cannot be copied: it has more than 32 MiB"),
            "{error}"
        );
    }
}
