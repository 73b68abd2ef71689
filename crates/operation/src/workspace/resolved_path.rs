//! A resolved path: its real location and the file that was found there.

use std::ffi::OsStr;
use std::fs::{File, FileType};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, OFlags, Stat};

use super::directory::Directory;
use super::resolve_links::Resolution;
use super::{beneath, names};

/// A resolved path.
#[derive(Debug, Clone)]
pub struct ResolvedPath {
    /// The requested path, absolute; links in it are not resolved. The result of an access depends on
    /// these links, too, so this is the path to witness.
    pub requested: PathBuf,
    /// The real location, without links.
    pub real: PathBuf,
    /// The file that was found when the path was resolved.
    pub found: PathKind,
    /// The directory that confines it.
    base: PathBuf,
    /// The number of components at its end that do not exist.
    missing: usize,
}

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
    fn new(kind: FileType) -> Self {
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

impl ResolvedPath {
    pub(super) fn new(requested: PathBuf, base: PathBuf, followed: Resolution) -> Self {
        Self {
            requested,
            real: followed.real,
            found: followed.kind.map_or(PathKind::Nothing, PathKind::new),
            base,
            missing: followed.missing,
        }
    }

    /// Opens the file for reading. Never blocks, for example on a pipe.
    ///
    /// # Errors
    /// Errors of the file system; `InvalidInput` if it is no regular file.
    pub fn open_file(&self) -> io::Result<File> {
        as_file(beneath::open(&self.base, self.relative(), READ_FLAGS)?.into())
    }

    /// Opens the directory.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn open_directory(&self) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let handle = beneath::open(&self.base, self.relative(), flags)?;
        Ok(Directory::new(handle, self.requested.clone()))
    }

    /// Opens the parent directory. Missing directories are created, and their paths are added to `made`.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn open_parent(&self, made: &mut Vec<PathBuf>) -> io::Result<Directory> {
        let parent = self.relative().parent().unwrap_or(Path::new(""));
        let new = self.missing.saturating_sub(1);
        let old = parent.components().count().saturating_sub(new);
        let existing: PathBuf = parent.components().take(old).collect();
        let handle = beneath::open(&self.base, &existing, beneath::ENTER_FLAGS)?;
        let mut directory = Directory::new(handle, self.base.join(existing));
        for name in names(parent).skip(old) {
            let (next, is_new) = directory.make(name)?;
            directory = next;
            if is_new {
                made.push(directory.requested().to_owned());
            }
        }
        Ok(directory)
    }

    /// The directories that would have to be created for it.
    pub fn new_directories(&self) -> impl Iterator<Item = &Path> {
        self.real
            .ancestors()
            .skip(1)
            .take(self.missing.saturating_sub(1))
    }

    /// Opens the nearest existing directory, and returns it with the first missing name; `None` if
    /// nothing is missing.
    #[must_use]
    pub fn first_missing(&self) -> Option<io::Result<(Directory, &OsStr)>> {
        let missing = self.real.ancestors().nth(self.missing.checked_sub(1)?)?;
        let directory = missing.parent()?;
        let relative = directory.strip_prefix(&self.base).unwrap_or(Path::new(""));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = beneath::open(&self.base, relative, flags);
        let name = missing.file_name()?;
        Some(opened.map(|handle| (Directory::new(handle, directory.to_owned()), name)))
    }

    /// True if the path was reached through links.
    #[must_use]
    pub fn is_behind_links(&self) -> bool {
        let mut literal = PathBuf::new();
        for component in self.requested.components() {
            match component {
                Component::ParentDir => {
                    literal.pop();
                }
                other => literal.push(other),
            }
        }
        literal != self.real
    }

    /// The directory that confines it.
    #[must_use]
    pub fn base(&self) -> &Path {
        &self.base
    }

    fn relative(&self) -> &Path {
        self.real.strip_prefix(&self.base).unwrap_or(Path::new(""))
    }
}

/// Non-blocking: a pipe or a device that replaces the file must not block the call.
pub(super) const READ_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

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
