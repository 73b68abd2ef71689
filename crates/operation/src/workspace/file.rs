//! Files as they are found and opened: kind, identity and state.

use std::ffi::OsStr;
use std::fs::{File, FileType};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, OFlags, Stat};

/// The kind of file at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// Nothing.
    Nothing,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A file that may block a reader, or no file at all: a description.
    Special(&'static str),
}

impl PathKind {
    pub(super) fn new(kind: FileType) -> Self {
        if kind.is_file() {
            Self::File
        } else if kind.is_dir() {
            Self::Directory
        } else if kind.is_fifo() {
            Self::Special("a named pipe")
        } else if kind.is_socket() {
            Self::Special("a socket")
        } else {
            Self::Special("a device")
        }
    }
}

/// Non-blocking: a pipe or a device that replaces the file must not block the call.
pub(super) const READ_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Returns an opened file, unless it is no regular file.
pub(super) fn as_file(file: File) -> io::Result<File> {
    let kind = file.metadata()?.file_type();
    match PathKind::new(kind) {
        PathKind::File => Ok(file),
        PathKind::Directory => Err(io::ErrorKind::IsADirectory.into()),
        PathKind::Nothing | PathKind::Special(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// The identity and the state of a file, according to its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    // A program can set the time of the modification back, but not the time of the change.
    changed: (i64, i64),
}

impl FileStamp {
    /// Returns the stamp of an open file.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn new(handle: impl AsFd) -> io::Result<Self> {
        Ok(Self::from(&rustix::fs::fstat(handle)?))
    }

    /// Returns the stamp of a directory entry, without following links; `None` if there is no such
    /// entry.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn at(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<Self>> {
        match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => Ok(Some(Self::from(&status))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// True if a path leads to the same file, in any state.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == (self.device, self.inode))
    }
}

impl From<&Stat> for FileStamp {
    // The types of the fields differ between platforms.
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
    fn from(status: &Stat) -> Self {
        Self {
            device: status.st_dev as u64,
            inode: status.st_ino as u64,
            size: status.st_size as u64,
            modified: (status.st_mtime as i64, status.st_mtime_nsec as i64),
            changed: (status.st_ctime as i64, status.st_ctime_nsec as i64),
        }
    }
}
