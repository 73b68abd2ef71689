//! Copies of files of a workspace, so that what commands do to them can be undone.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cachalot_core::Digest;
use cachalot_core::text::grouped;
use cachalot_model::Block;
use cachalot_operation::ToolOutput;
use tokio_util::sync::CancellationToken;

use super::MAX_IN_MEMORY_BYTES;
use super::commit::{FileChange, FileSnapshot, commit_unlogged};
use super::snapshot::read_if_exists;
use crate::workspace::{ChangedFile, PathKind, ResolvedPath, Workspace};

/// Maximum number of files.
const MAX_FILES: usize = 10_000;
/// Maximum size of all files in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// The reason why a file is not brought back.
pub(super) const CHANGED_SINCE: &str = "it was changed by something else since, and stays as it is";

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
    /// The states of the files when the commands had ended, in the order of `files`.
    at_end: OnceLock<Vec<AtEnd>>,
}

#[derive(Debug)]
struct CopiedFile {
    /// Its path, relative to the workspace, without links.
    path: PathBuf,
    /// Its permissions.
    mode: u32,
}

/// The state of a copied file when the commands had ended.
#[derive(Debug)]
enum AtEnd {
    /// As in the copy.
    Same,
    Changed {
        content: Digest,
        mode: u32,
    },
    /// There was no file at the path; perhaps a directory or a link.
    NoFile,
    Unknown,
}

/// The files that were brought back.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RestoredFiles {
    /// The paths of files that had changed or were missing, relative to the workspace.
    pub restored: Vec<PathBuf>,
    /// The paths of files that were new, and are removed.
    pub removed: Vec<PathBuf>,
    /// Messages about files that could not be brought back.
    pub failures: Vec<String>,
}

impl FileCopies {
    /// Copies files of a workspace to an empty folder, in which they get numbers for names. Links, directories and files
    /// that do not exist are left out. The system copies no content where the file system shares it. Of files that the
    /// change log has, the copies are of the content before the logged change. Those that were new then, or that something else
    /// has changed since, are left out: [`super::revert()`] decides about them.
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
            at_end: OnceLock::new(),
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
            let logged = workspace
                .change_log()
                .and_then(|log| log.get(&resolved.real));
            let copied = match logged {
                None => resolved
                    .open_file()
                    .and_then(|file| copies.add_file(path.clone(), &file)),
                Some(changed) => match &changed.before {
                    Ok(Some(before)) if is_as_logged(&resolved, &changed) => {
                        copies.add(path.clone(), before.mode, &before.bytes[..])
                    }
                    _ => continue,
                },
            };
            match copied {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(CopyError::File { path, error }),
                Ok(()) if copies.bytes > MAX_BYTES => return Err(CopyError::TooMuch),
                Ok(()) => {}
            }
        }
        Ok(copies)
    }

    fn add_file(&mut self, path: PathBuf, file: &File) -> io::Result<()> {
        let mode = file.metadata()?.permissions().mode() & 0o7777;
        self.add(path, mode, file)
    }

    fn add(&mut self, path: PathBuf, mode: u32, content: impl io::Read) -> io::Result<()> {
        let mut copy = File::create_new(self.copy_of(self.files.len()))?;
        // It may grow while it is read.
        let bytes = io::copy(&mut content.take(MAX_IN_MEMORY_BYTES + 1), &mut copy)?;
        if bytes > MAX_IN_MEMORY_BYTES {
            return Err(io::Error::other(format!(
                "it has more than {} MiB",
                MAX_IN_MEMORY_BYTES >> 20
            )));
        }
        self.bytes += bytes;
        self.files.push(CopiedFile { path, mode });
        Ok(())
    }

    /// Returns the size of all copies in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns true if there is a copy of the file at this path, relative to the workspace.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        self.files.iter().any(|file| file.path == path)
    }

    /// Notes the states of the files when the commands have ended: [`Self::restore`] changes no others. Further calls have
    /// no effect.
    pub fn note_end(&self, workspace: &Workspace) {
        let files = self.files.iter().enumerate();
        self.at_end.get_or_init(|| {
            files
                .map(|(number, file)| self.state(workspace, number, file))
                .collect()
        });
    }

    fn state(&self, workspace: &Workspace, number: usize, file: &CopiedFile) -> AtEnd {
        let Ok(resolved) = workspace.resolved(&file.path) else {
            return AtEnd::NoFile;
        };
        let is_link = resolved.real != workspace.root().join(&file.path);
        if is_link || resolved.found != PathKind::File {
            return AtEnd::NoFile;
        }
        let now = read_if_exists(&resolved, &file.path.display().to_string());
        match (now, fs::read(self.copy_of(number))) {
            (Ok(Some(now)), Ok(copy)) if file.is_same(&now, &copy) => AtEnd::Same,
            (Ok(Some(now)), _) => AtEnd::Changed {
                content: Digest::sha256(&now.bytes),
                mode: now.mode,
            },
            (Ok(None), _) => AtEnd::NoFile,
            (Err(_), _) => AtEnd::Unknown,
        }
    }

    fn copy_of(&self, number: usize) -> PathBuf {
        self.folder.join(number.to_string())
    }

    /// Brings back the files that had changed or were missing when the commands ended. A file that has changed since, or
    /// of which this is not known, stays, and is one of the failures. Nothing is written through links; files that are new
    /// stay. The changes that are made here are not logged.
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

    /// Returns true if the file was brought back.
    fn restore_file(
        &self,
        workspace: &Workspace,
        number: usize,
        file: &CopiedFile,
    ) -> Result<bool, ToolOutput> {
        let at_end = self.at_end.get().and_then(|states| states.get(number));
        if matches!(at_end, Some(AtEnd::Same)) {
            return Ok(false);
        }
        let path = file.path.display().to_string();
        let resolved = workspace.resolved(&file.path)?;
        if resolved.real != workspace.root().join(&file.path) {
            let why = format!("`{path}` is a link now, or below one");
            return Err(ToolOutput::error(why));
        }
        let content = fs::read(self.copy_of(number))
            .map_err(|error| ToolOutput::error(format!("the copy of `{path}`: {error}")))?;
        let before = read_if_exists(&resolved, &path)?;
        let is_same = |before: &FileSnapshot| file.is_same(before, &content);
        if before.as_ref().is_some_and(is_same) {
            return Ok(false);
        }
        let is_as_left = match (at_end, &before) {
            (Some(AtEnd::NoFile), None) => true,
            (Some(AtEnd::Changed { content, mode }), Some(before)) => {
                *mode == before.mode && *content == Digest::sha256(&before.bytes)
            }
            _ => false,
        };
        if !is_as_left {
            return Err(ToolOutput::error(format!("`{path}`: {CHANGED_SINCE}")));
        }
        let change = FileChange {
            resolved: &resolved,
            before: before.as_ref(),
            after: Some(&content),
            mode: Some(file.mode),
        };
        commit_unlogged(workspace, &[change], &CancellationToken::new())?;
        Ok(true)
    }
}

impl CopiedFile {
    /// Returns true if a file is as it was when it was copied.
    fn is_same(&self, file: &FileSnapshot, copy: &[u8]) -> bool {
        file.bytes == copy && file.mode == self.mode
    }
}

/// Returns true if a file is as the logged change left it.
fn is_as_logged(resolved: &ResolvedPath, changed: &ChangedFile) -> bool {
    let now = read_if_exists(resolved, "");
    now.is_ok_and(|now| now.map(|now| Digest::sha256(&now.bytes)) == changed.after)
}

pub(super) fn text(output: &ToolOutput) -> String {
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
        copies.note_end(&workspace);
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
    fn files_that_something_else_has_changed_since_the_end_stay() {
        let root = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(root.path()).unwrap();
        let at = |path: &str| root.path().join(path);
        let all = [
            "untouched",
            "edited",
            "mode",
            "removed",
            "back",
            "unread",
            "turned",
        ];
        for path in all {
            fs::write(at(path), "before").unwrap();
        }
        let copies = FileCopies::make(&workspace, paths(&all), folder.path()).unwrap();
        for path in ["edited", "mode", "removed", "turned"] {
            fs::write(at(path), "command").unwrap();
        }
        fs::remove_file(at("back")).unwrap();
        let too_large = File::create(at("unread")).unwrap();
        too_large.set_len(MAX_IN_MEMORY_BYTES + 1).unwrap();
        copies.note_end(&workspace);
        for path in ["untouched", "edited", "back", "unread"] {
            fs::write(at(path), "theirs").unwrap();
        }
        fs::set_permissions(at("mode"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::remove_file(at("removed")).unwrap();
        // The first call counts.
        copies.note_end(&workspace);
        let restored = copies.restore(&workspace);
        assert_eq!(restored.restored, paths(&["turned"]));
        let since = |path| format!("`{path}`: {CHANGED_SINCE}");
        let expected = ["edited", "mode", "removed", "back", "unread"].map(since);
        assert_eq!(restored.failures, expected);
        for path in ["untouched", "edited", "back", "unread"] {
            assert_eq!(fs::read_to_string(at(path)).unwrap(), "theirs", "{path}");
        }
        assert_eq!(fs::read_to_string(at("mode")).unwrap(), "command");
        assert!(!at("removed").exists());
    }

    #[test]
    fn nothing_is_brought_back_without_an_end() {
        let root = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(root.path()).unwrap();
        let file = root.path().join("a");
        fs::write(&file, "before").unwrap();
        let copies = FileCopies::make(&workspace, paths(&["a"]), folder.path()).unwrap();
        fs::write(&file, "after").unwrap();
        assert_eq!(copies.restore(&workspace).failures.len(), 1);
        assert_eq!(fs::read_to_string(&file).unwrap(), "after");
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
        copies.note_end(&workspace);
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
