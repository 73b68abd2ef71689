//! Commits changes of files: all of them, or none.
//!
//! New content is first written to a temporary file in the same directory, and then renamed to its path. No
//! reader sees partial content, neither now nor after a crash. If a change fails, the earlier ones are rolled
//! back.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;

use bytes::Bytes;
use rustix::fs::{Access, AtFlags, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

use crate::run_blocking::AbandonFlag;
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

/// Makes all changes. The error names the one that failed; then none is made, unless the error reports a
/// failed rollback.
pub(super) fn commit(
    workspace: &Workspace,
    changes: &[FileChange<'_>],
    abandoned: &AbandonFlag,
) -> Result<(), String> {
    let mut made = Vec::new();
    let result = stage_all(workspace, changes, &mut made).and_then(|mut staged| {
        if abandoned.is() {
            return Err("the caller was canceled".to_owned());
        }
        apply_all(workspace, &mut staged)
    });
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
) -> Result<Vec<Staged<'a>>, String> {
    changes
        .iter()
        .map(|change| {
            Staged::new(change, made).map_err(|error| {
                let path = workspace.shown(&change.resolved.real);
                format!("cannot write `{path}`: {error}")
            })
        })
        .collect()
}

fn apply_all(workspace: &Workspace, staged: &mut [Staged<'_>]) -> Result<(), String> {
    let shown = |staged: &Staged<'_>| workspace.shown(&staged.change.resolved.real);
    for one in staged.iter() {
        match one.is_unchanged() {
            Ok(true) => {}
            Ok(false) => {
                return Err(format!(
                    "`{}` was changed by another process in the meantime; read it again",
                    shown(one)
                ));
            }
            Err(error) => return Err(format!("cannot write `{}`: {error}", shown(one))),
        }
    }
    for index in 0..staged.len() {
        if let Err(error) = staged[index].apply() {
            let mut said = format!("cannot write `{}`: {error}", shown(&staged[index]));
            for done in staged[..index].iter().rev() {
                if let Err(error) = done.roll_back() {
                    said.push_str(&format!(
                        "; `{}` is changed already and could not be changed back: {error}",
                        shown(done)
                    ));
                }
            }
            return Err(said);
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
    temporary: Option<Temporary>,
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
                Some(Temporary::write(&parent, name, bytes, mode)?)
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
            None => Ok(rustix::fs::unlinkat(
                self.parent.handle(),
                self.name,
                AtFlags::empty(),
            )?),
        }
    }

    /// Rolls an applied change back.
    fn roll_back(&self) -> io::Result<()> {
        match (self.change.before, self.change.after) {
            (None, None) => Ok(()),
            (None, Some(_)) => Ok(rustix::fs::unlinkat(
                self.parent.handle(),
                self.name,
                AtFlags::empty(),
            )?),
            (Some(before), after) => {
                let mode = Some(before.mode);
                let mut old = Temporary::write(&self.parent, self.name, &before.bytes, mode)?;
                old.rename(&self.parent, self.name, after.is_none())
            }
        }
    }
}

/// A temporary file, deleted on drop unless it was renamed.
struct Temporary {
    directory: std::os::fd::OwnedFd,
    name: Option<OsString>,
}

impl Temporary {
    /// Writes a new file in a directory, with these permissions, and with the owner of the existing file of
    /// that name, as far as this process may set it.
    fn write(
        parent: &Directory,
        name: &OsStr,
        bytes: &[u8],
        mode: Option<u32>,
    ) -> io::Result<Self> {
        let (file, temporary) = Self::create(parent)?;
        if let Ok(old) = rustix::fs::statat(parent.handle(), name, AtFlags::SYMLINK_NOFOLLOW) {
            inherit_owner(&file, &old)?;
        }
        if let Some(mode) = mode {
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        }
        (&file).write_all(bytes)?;
        file.sync_data()?;
        Ok(temporary)
    }

    fn create(parent: &Directory) -> io::Result<(File, Self)> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
        let process = std::process::id();
        let mut number = 0_u32;
        loop {
            let name = OsString::from(format!(".cachalot-{process}-{number}.part"));
            match rustix::fs::openat(parent.handle(), &name, flags, mode) {
                Ok(handle) => {
                    let directory = parent.handle().try_clone_to_owned()?;
                    let temporary = Self {
                        directory,
                        name: Some(name),
                    };
                    return Ok((handle.into(), temporary));
                }
                Err(Errno::EXIST) if number < 10_000 => number += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Renames it to its path. If `is_new`, a file that has appeared there is not replaced, where the file
    /// system supports that.
    fn rename(&mut self, parent: &Directory, name: &OsStr, is_new: bool) -> io::Result<()> {
        let Some(temporary) = self.name.take() else {
            return Ok(());
        };
        let renamed = rename(&self.directory, &temporary, parent, name, is_new);
        if renamed.is_err() {
            self.name = Some(temporary);
        }
        Ok(renamed?)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
        }
    }
}

fn rename(
    from: &std::os::fd::OwnedFd,
    temporary: &OsStr,
    parent: &Directory,
    name: &OsStr,
    is_new: bool,
) -> rustix::io::Result<()> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    if is_new {
        use rustix::fs::RenameFlags;
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(from, temporary, parent.handle(), name, flags) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            other => return other,
        }
    }
    let _ = is_new;
    rustix::fs::renameat(from, temporary, parent.handle(), name)
}

/// Gives a file the owner and the group of another, as far as this process may set them.
fn inherit_owner(file: &File, old: &Stat) -> io::Result<()> {
    let new = rustix::fs::fstat(file)?;
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid) {
        let owner = Some(Uid::from_raw(old.st_uid));
        let group = Some(Gid::from_raw(old.st_gid));
        let _ = rustix::fs::fchown(file, owner, group)
            .or_else(|_| rustix::fs::fchown(file, None, group));
    }
    Ok(())
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
    fn what_fails_half_way_is_taken_back() {
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
        let error = commit(&workspace, &changes, &AbandonFlag::default()).unwrap_err();
        assert!(error.starts_with("cannot write `none`: "), "{error}");
        assert!(!error.contains("could not be changed back"), "{error}");
        assert_eq!(fs::read_to_string(root.path().join("a")).unwrap(), "a");
        assert_eq!(fs::read_to_string(root.path().join("b")).unwrap(), "b");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
        commit(&workspace, &changes[..1], &AbandonFlag::default()).unwrap_err();
    }

    #[test]
    fn concurrent_changes_are_not_overwritten() {
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
        let error = commit(&workspace, &[change], &AbandonFlag::default()).unwrap_err();
        assert!(
            error.contains("was changed by another process in the meantime"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(root.path().join("a")).unwrap(), "theirs");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
