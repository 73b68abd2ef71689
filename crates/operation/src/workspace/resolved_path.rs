//! A resolved path: its real location and the file that was found there.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::directory::Directory;
use super::file::{PathKind, READ_FLAGS, as_file};
use super::resolve_links::Resolution;
use super::{beneath, names, normalize};

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
        // The last of the missing components is the file itself, which the caller creates.
        let new = self.missing.saturating_sub(1);
        let old = parent.components().count().saturating_sub(new);
        let existing: PathBuf = parent.components().take(old).collect();
        let handle = beneath::open(&self.base, &existing, beneath::ENTER_FLAGS)?;
        let mut directory = Directory::new(handle, self.base.join(existing));
        // Made and entered one by one, by handle: a link that another process creates in the meantime is not followed.
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
        normalize(&self.requested) != self.real
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
