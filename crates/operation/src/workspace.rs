//! The workspace: the directory that tools work in, and the confinement of their paths to it.
//!
//! A path is resolved link by link to its real location; a location outside is refused, whether it
//! exists or not. Files are then opened relative to the root's handle, without following any link, so
//! that a component that is replaced by a link in the meantime cannot lead outside.

mod beneath;
mod change_log;
mod directory;
mod file;
mod path_error;
mod resolve_links;
mod resolved_path;

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

pub use change_log::{ChangeLog, ChangedFile, KeptFile};
pub use path_error::PathError;

pub use directory::{Directory, DirectoryEntry, EntryKind};
pub use file::{FileStamp, PathKind};
pub use resolved_path::ResolvedPath;

/// Resolves `.` and `..` in a path lexically, without following links.
#[must_use]
pub fn normalize(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normalized.pop();
            }
            other => normalized.push(other),
        }
    }
    normalized
}

/// The root directory of relative paths, which no path may leave, except for a directory for temporary files.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: PathBuf,
    temporary: Option<PathBuf>,
    change_log: Option<Arc<ChangeLog>>,
}

impl Workspace {
    /// Opens the workspace in this directory.
    ///
    /// # Errors
    /// Errors of the file system, and `NotADirectory`.
    pub fn open(root: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self {
            root: directory(root.as_ref())?,
            temporary: None,
            change_log: None,
        })
    }

    /// Records the changes that file tools make in the workspace.
    #[must_use]
    pub fn with_change_log(self, change_log: Arc<ChangeLog>) -> Self {
        Self {
            change_log: Some(change_log),
            ..self
        }
    }

    /// The log of changes, if one is kept.
    #[must_use]
    pub fn change_log(&self) -> Option<&ChangeLog> {
        self.change_log.as_deref()
    }

    /// Permits absolute paths below a directory for temporary files, too.
    ///
    /// # Errors
    /// Errors of the file system, and `NotADirectory`.
    pub fn with_temporary(self, temporary: &Path) -> io::Result<Self> {
        Ok(Self {
            temporary: Some(directory(temporary)?),
            ..self
        })
    }

    /// The directory, without symbolic links in its path.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the real location of a path, with links resolved, if it is in the workspace. The path is
    /// relative to the root or absolute; `~` is not expanded. The path need not exist: its existing part
    /// decides.
    ///
    /// # Errors
    /// The path leads outside, through a file, or in circles.
    pub fn resolve(&self, path: impl AsRef<Path>) -> Result<PathBuf, PathError> {
        self.resolved(path).map(|resolved| resolved.real)
    }

    /// Formats a path for a model: relative to the root if it is in the workspace.
    #[must_use]
    pub fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(&self.root) {
            Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
            Ok(relative) => relative.display().to_string(),
            Err(_) => path.display().to_string(),
        }
    }

    /// Resolves a path like [`Workspace::resolve`], to open the file there.
    ///
    /// # Errors
    /// The path leads outside, through a file, or in circles.
    pub fn resolved(&self, path: impl AsRef<Path>) -> Result<ResolvedPath, PathError> {
        let path = path.as_ref();
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(PathError::Nul);
        }
        // Removes only `.` and repeated separators; the meaning of `..` depends on the links before it.
        let requested: PathBuf = self.root.join(path).components().collect();
        // The root has no links in its path, so that the resolution can begin there.
        let is_beneath = requested.starts_with(&self.root);
        let start = if is_beneath {
            self.root()
        } else {
            Path::new("/")
        };
        let followed = resolve_links::resolve_links(start, &requested);
        // A resolution that failed outside the workspace is refused like any path outside, without its own error.
        let real = match &followed {
            Ok(followed) => &followed.real,
            Err(stopped) => &stopped.at,
        };
        let mut bases = std::iter::once(&self.root).chain(&self.temporary);
        let Some(base) = bases.find(|base| real.starts_with(base)) else {
            // The error does not reveal anything about the location outside.
            return Err(PathError::Outside {
                path: path.display().to_string(),
                root: self.root.clone(),
                tilde: path.as_os_str().as_encoded_bytes().starts_with(b"~"),
            });
        };
        match followed {
            Ok(followed) => Ok(ResolvedPath::new(requested, base.clone(), followed)),
            Err(stopped) => Err(stopped.path_error(path, self)),
        }
    }
}

fn directory(path: &Path) -> io::Result<PathBuf> {
    let real = path.canonicalize()?;
    if real.is_dir() {
        return Ok(real);
    }
    Err(io::Error::new(
        io::ErrorKind::NotADirectory,
        format!("{} is not a directory", real.display()),
    ))
}

/// The components of a relative path without `..`.
fn names(relative: &Path) -> impl Iterator<Item = &OsStr> {
    relative
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        })
}
