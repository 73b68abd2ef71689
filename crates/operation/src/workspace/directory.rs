//! An open directory of a workspace: listed and entered by its handle, independent of changes to its
//! path.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use cachalot_cache::{Observation, Witness};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::beneath;
use super::file::{FileStamp, READ_FLAGS, as_file};

/// An open directory.
#[derive(Debug)]
pub struct Directory {
    handle: OwnedFd,
    /// The path by which it was reached.
    requested: PathBuf,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name.
    pub name: OsString,
    /// The kind of file.
    pub kind: EntryKind,
}

/// The kind of a directory entry. Links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device.
    Special,
}

impl EntryKind {
    fn new(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            _ => Self::Special,
        }
    }
}

impl Directory {
    pub(super) fn new(handle: OwnedFd, requested: PathBuf) -> Self {
        Self { handle, requested }
    }

    /// The path by which it was reached.
    #[must_use]
    pub fn requested(&self) -> &Path {
        &self.requested
    }

    /// The open handle.
    #[must_use]
    pub fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Removes the file of this name.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    /// Returns the entries, sorted by the bytes of their names. The listing is recorded in `witness`
    /// before it is read. If it changes meanwhile, it is still returned, but the witness becomes
    /// invalid.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn entries(&self, witness: &Witness) -> io::Result<Vec<DirectoryEntry>> {
        let before = FileStamp::new(&self.handle)?;
        witness.observe(Observation::Listing(&self.requested));
        let entries = self.unwitnessed_entries()?;
        // The stamp contains the time of the last change; the path must still lead to this directory.
        if FileStamp::new(&self.handle)? != before || !before.is_at(&self.requested) {
            witness.mark_incomplete(format!(
                "{} changed while it was listed",
                self.requested.display()
            ));
        }
        Ok(entries)
    }

    /// Returns the entries without a witness, for messages that are not cached.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn unwitnessed_entries(&self) -> io::Result<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.handle)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name = OsStr::from_bytes(name).to_owned();
            let kind = match entry.file_type() {
                FileType::Unknown => self.kind_of(&name)?,
                known => Some(EntryKind::new(known)),
            };
            entries.extend(kind.map(|kind| DirectoryEntry { name, kind }));
        }
        // File systems return entries in any order, and the same directory must give the same result.
        entries.sort_unstable_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        Ok(entries)
    }

    /// The kind of an entry, for file systems that do not return it with the name. `None` if the entry
    /// is gone.
    fn kind_of(&self, name: &OsStr) -> io::Result<Option<EntryKind>> {
        match rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => Ok(Some(EntryKind::new(FileType::from_raw_mode(
                status.st_mode,
            )))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a subdirectory.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn directory(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let handle = beneath::open_from(self.handle(), Path::new(name), flags)?;
        Ok(Self::new(handle, self.requested.join(name)))
    }

    /// Opens a file in the directory for reading.
    ///
    /// # Errors
    /// Errors of the file system; `InvalidInput` if it is no regular file.
    pub fn file(&self, name: &OsStr) -> io::Result<File> {
        let flags = READ_FLAGS | OFlags::NOFOLLOW;
        as_file(beneath::open_from(self.handle(), Path::new(name), flags)?.into())
    }

    /// Creates a subdirectory, or opens the existing one; returns true if it is new.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn make(&self, name: &OsStr) -> io::Result<(Self, bool)> {
        let mode = Mode::RWXU | Mode::RWXG | Mode::RWXO;
        let is_new = match rustix::fs::mkdirat(&self.handle, name, mode) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        // An existing entry can also be a file or a link. To open it as a directory without following links rejects
        // both.
        Ok((self.directory(name)?, is_new))
    }
}
