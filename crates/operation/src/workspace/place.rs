//! What a path means: where it really is, and what is there.

use std::ffi::OsStr;
use std::fs::{File, FileType};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, OFlags, Stat};

use super::directory::Directory;
use super::follow::Followed;
use super::{beneath, names};

/// What a path means.
#[derive(Debug, Clone)]
pub struct Place {
    /// The path as it was asked for, absolute; links in it are not followed. What looks at it depends
    /// on these links as well: this is the path to witness.
    pub asked: PathBuf,
    /// Where it is: without links.
    pub real: PathBuf,
    /// What was there when it was followed.
    pub found: Found,
    /// The directory that it may not leave.
    base: PathBuf,
    /// So many names at its end do not exist.
    missing: usize,
}

/// What was found at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Something that reading may wait for, or that is no file at all: what it is.
    Special(&'static str),
}

impl Found {
    fn of(kind: FileType) -> Self {
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

impl Place {
    pub(super) fn new(asked: PathBuf, base: PathBuf, followed: Followed) -> Self {
        Self {
            asked,
            real: followed.real,
            found: followed.kind.map_or(Found::Nothing, Found::of),
            base,
            missing: followed.missing,
        }
    }

    /// Opens the file for reading. Nothing that a reader would have to wait for is opened.
    ///
    /// # Errors
    /// Those of the file system; `InvalidInput` for what is no file.
    pub fn open_file(&self) -> io::Result<File> {
        as_file(beneath::open(&self.base, self.relative(), READING)?.into())
    }

    /// Opens the directory.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open_directory(&self) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let handle = beneath::open(&self.base, self.relative(), flags)?;
        Ok(Directory::new(handle, self.asked.clone()))
    }

    /// The directory that it is in, with those on the way that do not exist: made if `make`. The
    /// paths of those that were made are added to `made`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open_parent(&self, made: &mut Vec<PathBuf>) -> io::Result<Directory> {
        let parent = self.relative().parent().unwrap_or(Path::new(""));
        let new = self.missing.saturating_sub(1);
        let old = parent.components().count().saturating_sub(new);
        let existing: PathBuf = parent.components().take(old).collect();
        let handle = beneath::open(&self.base, &existing, beneath::ENTER)?;
        let mut directory = Directory::new(handle, self.base.join(existing));
        for name in names(parent).skip(old) {
            let (next, is_new) = directory.make(name)?;
            directory = next;
            if is_new {
                made.push(directory.asked().to_owned());
            }
        }
        Ok(directory)
    }

    /// The directories that would have to be made for it.
    pub fn new_directories(&self) -> impl Iterator<Item = &Path> {
        self.real
            .ancestors()
            .skip(1)
            .take(self.missing.saturating_sub(1))
    }

    /// The nearest directory that exists, and the first name that does not; `None` if all of it is
    /// there.
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

    /// Whether links were followed on the way.
    #[must_use]
    pub fn is_behind_links(&self) -> bool {
        let mut literal = PathBuf::new();
        for component in self.asked.components() {
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

/// A pipe or a device that appears in the place of a file must not make the opening wait.
pub(super) const READING: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

pub(super) fn as_file(file: File) -> io::Result<File> {
    let kind = file.metadata()?.file_type();
    match Found::of(kind) {
        Found::File => Ok(file),
        Found::Directory => Err(io::ErrorKind::IsADirectory.into()),
        Found::Nothing | Found::Special(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Which file, in which state: as far as a status tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Of what a handle is open on.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn of(handle: impl AsFd) -> io::Result<Self> {
        Ok(Self::from(&rustix::fs::fstat(handle)?))
    }

    /// Of what has a name in a directory, be it a link; `None` if nothing has.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn at(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<Self>> {
        match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => Ok(Some(Self::from(&status))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a path leads to the same file, whatever its state.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == (self.device, self.inode))
    }
}

impl From<&Stat> for Stamp {
    // The types of the fields differ between systems.
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
