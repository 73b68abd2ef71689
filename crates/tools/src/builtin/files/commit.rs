//! Commits changes of files: all of them, or none.
//!
//! New content is first written to a temporary file in the same directory, and then renamed to its path. No
//! reader sees partial content, neither now nor after a crash. If a change fails, the earlier ones are rolled
//! back.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use cachalot_operation::ToolOutput;
use rustix::fs::{Access, AtFlags};
use tokio_util::sync::CancellationToken;

use super::temporary_file::TemporaryFile;
use crate::workspace::{Directory, FileStamp, ResolvedPath, Workspace};

/// The state of a file before the change.
#[derive(Debug, Clone)]
pub(super) struct FileSnapshot {
    pub(super) stamp: FileStamp,
    pub(super) bytes: Bytes,
    /// The permissions.
    pub(super) mode: u32,
}

/// A change of one file.
pub(super) struct FileChange<'a> {
    pub(super) resolved: &'a ResolvedPath,
    /// The previous state; the file must not have changed since.
    pub(super) before: Option<&'a FileSnapshot>,
    /// The new content; `None` deletes the file.
    pub(super) after: Option<&'a [u8]>,
    /// The new permissions; by default those of the old file, or those of new files.
    pub(super) mode: Option<u32>,
}

/// The reason why changes were not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommitError {
    #[error("the caller was canceled")]
    Canceled,
    #[error("`{0}` was changed by another process in the meantime; read it again")]
    Changed(String),
    /// A file could not be written; with the earlier changes that could not be rolled back.
    #[error("cannot write `{path}`: {error}{}", describe_unreverted(.unreverted))]
    Write {
        path: String,
        error: io::Error,
        unreverted: Vec<(String, io::Error)>,
    },
}

impl CommitError {
    fn write(path: String, error: io::Error) -> Self {
        Self::Write {
            path,
            error,
            unreverted: Vec::new(),
        }
    }
}

impl From<CommitError> for ToolOutput {
    fn from(error: CommitError) -> Self {
        Self::error(error.to_string())
    }
}

fn describe_unreverted(files: &[(String, io::Error)]) -> String {
    let files = files.iter().map(|(path, error)| {
        format!("; `{path}` is changed already and could not be changed back: {error}")
    });
    files.collect()
}

/// Makes all changes and logs them. If one fails, none is made, unless the error reports a failed rollback.
pub(super) fn commit(
    workspace: &Workspace,
    changes: &[FileChange<'_>],
    abandoned: &CancellationToken,
) -> Result<(), CommitError> {
    commit_unlogged(workspace, changes, abandoned)?;
    if let Some(change_log) = workspace.change_log() {
        for change in changes {
            let before = change
                .before
                .map(|before| (before.bytes.as_ref(), before.mode));
            change_log.record(&change.resolved.real, before, change.after);
        }
    }
    Ok(())
}

/// Makes all changes like [`commit`], but logs none: they take changes back.
pub(super) fn commit_unlogged(
    workspace: &Workspace,
    changes: &[FileChange<'_>],
    abandoned: &CancellationToken,
) -> Result<(), CommitError> {
    let mut made = Vec::new();
    let result = stage_all(workspace, changes, &mut made).and_then(|mut staged| {
        // The last check. From here on, a caller that leaves does not stop the changes, which would be made in part
        // then.
        if abandoned.is_cancelled() {
            return Err(CommitError::Canceled);
        }
        apply_all(workspace, &mut staged)
    });
    // All temporary files are deleted by now, so that the new directories are empty again.
    if result.is_err() {
        // Innermost first; directories that are not empty stay.
        for directory in made.iter().rev() {
            let _ = std::fs::remove_dir(directory);
        }
    }
    result
}

fn stage_all<'a>(
    workspace: &Workspace,
    changes: &'a [FileChange<'a>],
    made: &mut Vec<PathBuf>,
) -> Result<Vec<Staged<'a>>, CommitError> {
    changes
        .iter()
        .map(|change| {
            Staged::new(change, made)
                .map_err(|error| CommitError::write(workspace.shown(&change.resolved.real), error))
        })
        .collect()
}

fn apply_all(workspace: &Workspace, staged: &mut [Staged<'_>]) -> Result<(), CommitError> {
    let shown = |staged: &Staged<'_>| workspace.shown(&staged.change.resolved.real);
    // All files are checked before the first one is replaced: after a usual conflict there is nothing to roll back.
    for one in staged.iter() {
        match one.is_unchanged() {
            Ok(true) => {}
            Ok(false) => return Err(CommitError::Changed(shown(one))),
            Err(error) => return Err(CommitError::write(shown(one), error)),
        }
    }
    for index in 0..staged.len() {
        if let Err(error) = staged[index].apply() {
            let made = staged[..index].iter().rev();
            let unreverted = made.filter_map(|done| Some((shown(done), done.roll_back().err()?)));
            return Err(CommitError::Write {
                path: shown(&staged[index]),
                error,
                unreverted: unreverted.collect(),
            });
        }
    }
    Ok(())
}

/// A change whose new content is written to a temporary file.
struct Staged<'a> {
    change: &'a FileChange<'a>,
    parent: Directory,
    name: &'a OsStr,
    /// The temporary file with the new content.
    temporary: Option<TemporaryFile>,
}

impl<'a> Staged<'a> {
    fn new(change: &'a FileChange<'a>, made: &mut Vec<PathBuf>) -> io::Result<Self> {
        let name = change
            .resolved
            .real
            .file_name()
            .ok_or(io::ErrorKind::IsADirectory)?;
        let parent = change.resolved.open_parent(made)?;
        if change.before.is_some() {
            // Checked because renaming over a file does not require permission to write to it.
            rustix::fs::accessat(parent.handle(), name, Access::WRITE_OK, AtFlags::EACCESS)?;
        }
        let temporary = match change.after {
            Some(bytes) => {
                let mode = change.mode.or(change.before.map(|before| before.mode));
                Some(TemporaryFile::write(&parent, name, bytes, mode)?)
            }
            None => None,
        };
        Ok(Self {
            change,
            parent,
            name,
            temporary,
        })
    }

    /// True if the file is in its previous state.
    fn is_unchanged(&self) -> io::Result<bool> {
        let now = FileStamp::at(self.parent.handle(), self.name)?;
        Ok(now == self.change.before.map(|before| before.stamp))
    }

    fn apply(&mut self) -> io::Result<()> {
        match &mut self.temporary {
            Some(temporary) => {
                temporary.rename(&self.parent, self.name, self.change.before.is_none())
            }
            None => self.parent.remove_file(self.name),
        }
    }

    /// Rolls an applied change back.
    fn roll_back(&self) -> io::Result<()> {
        match (self.change.before, self.change.after) {
            (None, None) => Ok(()),
            (None, Some(_)) => self.parent.remove_file(self.name),
            (Some(before), after) => {
                let mode = Some(before.mode);
                let mut old = TemporaryFile::write(&self.parent, self.name, &before.bytes, mode)?;
                old.rename(&self.parent, self.name, after.is_none())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::*;
    use crate::builtin::files::snapshot::read_if_exists;

    /// Replaces `a`, deletes `b`, creates `new/c`, and then fails: the last file does not exist and cannot be
    /// deleted.
    #[test]
    fn failed_commit_is_rolled_back() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), "a").unwrap();
        fs::write(root.path().join("b"), "b").unwrap();
        let workspace = Workspace::open(root.path()).unwrap();
        let places = ["a", "b", "new/c", "none"].map(|path| workspace.resolved(path).unwrap());
        let before = places
            .each_ref()
            .map(|resolved| read_if_exists(resolved, "it").unwrap());
        let after: [Option<&[u8]>; 4] = [Some(b"A"), None, Some(b"c"), None];
        let changes: Vec<FileChange<'_>> = (0..4)
            .map(|index| FileChange {
                resolved: &places[index],
                before: before[index].as_ref(),
                after: after[index],
                mode: None,
            })
            .collect();
        let error = commit(&workspace, &changes, &CancellationToken::default()).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("cannot write `none`: "), "{error}");
        assert!(!error.contains("could not be changed back"), "{error}");
        assert_eq!(fs::read_to_string(root.path().join("a")).unwrap(), "a");
        assert_eq!(fs::read_to_string(root.path().join("b")).unwrap(), "b");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
        commit(&workspace, &changes[..1], &CancellationToken::default()).unwrap_err();
    }

    #[test]
    fn concurrent_changes_are_not_overwritten_by_a_rollback() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), "a").unwrap();
        let workspace = Workspace::open(root.path()).unwrap();
        let resolved = workspace.resolved("a").unwrap();
        let before = read_if_exists(&resolved, "a").unwrap();
        fs::write(root.path().join("a"), "theirs").unwrap();
        let change = FileChange {
            resolved: &resolved,
            before: before.as_ref(),
            after: Some(b"ours"),
            mode: None,
        };
        let error = commit(&workspace, &[change], &CancellationToken::default()).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("was changed by another process in the meantime"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(root.path().join("a")).unwrap(), "theirs");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
