//! Temporary files that replace files of the workspace.
//!
//! `cachalot_core::atomic_file` does the same by paths. Here, all steps are relative to a directory that is
//! held open, so that a directory that is replaced by a link meanwhile leads nowhere else.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

use crate::workspace::Directory;

/// A temporary file, deleted on drop unless it was renamed.
pub(in crate::builtin) struct TemporaryFile {
    directory: std::os::fd::OwnedFd,
    name: Option<OsString>,
}

impl TemporaryFile {
    /// Writes a new file in a directory, with these permissions, and with the owner of the existing file of
    /// that name, as far as this process may set it.
    pub(in crate::builtin) fn write(
        parent: &Directory,
        name: &OsStr,
        bytes: &[u8],
        mode: Option<u32>,
    ) -> io::Result<Self> {
        let (file, temporary) = Self::create(parent)?;
        // Owner and permissions are set before the content is written, which others must not read in between. The owner
        // comes first, because its change clears the set-user-ID bits of the permissions.
        if let Ok(old) = rustix::fs::statat(parent.handle(), name, AtFlags::SYMLINK_NOFOLLOW) {
            inherit_owner(&file, &old)?;
        }
        if let Some(mode) = mode {
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        }
        (&file).write_all(bytes)?;
        // Before the rename: after a crash, the path must not lead to a file whose content was never written.
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
    pub(in crate::builtin) fn rename(
        &mut self,
        parent: &Directory,
        name: &OsStr,
        is_new: bool,
    ) -> io::Result<()> {
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

impl Drop for TemporaryFile {
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
