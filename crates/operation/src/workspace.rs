//! The directory that tools work in, and what keeps them there.
//!
//! A path is followed by hand, link by link, to where it really is; what lies outside is refused,
//! whether it exists or not. What is then opened is opened from the root's handle downwards without
//! following any link, so that swapping a component for a link in between leads nowhere.

mod beneath;
mod directory;
mod follow;
mod place;
mod refusal;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

pub use refusal::Refusal;

pub use directory::{Directory, Entry, Kind};
pub use place::{Found, Place, Stamp};

/// The directory that relative paths are relative to, and that nothing may leave. Further directories
/// may be named that can be read, and not written to.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: PathBuf,
    readable: Vec<PathBuf>,
    variables: BTreeMap<String, String>,
}

impl Workspace {
    /// The workspace in this directory.
    ///
    /// # Errors
    /// Those of the file system, and `NotADirectory`.
    pub fn open(root: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self {
            root: directory(root.as_ref())?,
            readable: Vec::new(),
            variables: BTreeMap::new(),
        })
    }

    /// The same workspace, where this directory can be read, too.
    ///
    /// # Errors
    /// Those of the file system, and `NotADirectory`.
    pub fn also_readable(mut self, root: impl AsRef<Path>) -> io::Result<Self> {
        self.readable.push(directory(root.as_ref())?);
        Ok(self)
    }

    /// The same workspace, with variables of the environment that commands run in: what `~` and
    /// `$HOME` stand for in them.
    #[must_use]
    pub fn with_variables(mut self, variables: BTreeMap<String, String>) -> Self {
        self.variables = variables;
        self
    }

    /// The variables that are known of the environment that commands run in.
    #[must_use]
    pub fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    /// The directory, without symbolic links in its path.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The further directories that can be read.
    #[must_use]
    pub fn readable(&self) -> &[PathBuf] {
        &self.readable
    }

    /// Where a path really is, links followed, if that is in the workspace. The path is relative to
    /// the root, or absolute; `~` means nothing. What is not there yet is fine: what there is of its
    /// path decides.
    ///
    /// # Errors
    /// A path that leads outside, through a file, or in circles.
    pub fn resolve(&self, path: &str) -> Result<PathBuf, Refusal> {
        self.place(path).map(|place| place.real)
    }

    /// Like [`Workspace::resolve`], for reading: it may also lie in one of the other directories that
    /// can be read.
    ///
    /// # Errors
    /// A path that leads outside, through a file, or in circles.
    pub fn resolve_readable(&self, path: &str) -> Result<PathBuf, Refusal> {
        self.readable_place(path).map(|place| place.real)
    }

    /// How to name a path to a model: relative to the root where it lies in the workspace.
    #[must_use]
    pub fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(&self.root) {
            Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
            Ok(relative) => relative.display().to_string(),
            Err(_) => path.display().to_string(),
        }
    }

    /// What a path means, for writing.
    ///
    /// # Errors
    /// A path that leads outside, through a file, or in circles.
    pub fn place(&self, path: &str) -> Result<Place, Refusal> {
        self.place_in(path.as_ref(), &[])
    }

    /// What a path means, for reading.
    ///
    /// # Errors
    /// A path that leads outside, through a file, or in circles.
    pub fn readable_place(&self, path: impl AsRef<Path>) -> Result<Place, Refusal> {
        self.place_in(path.as_ref(), &self.readable)
    }

    fn place_in(&self, path: &Path, further: &[PathBuf]) -> Result<Place, Refusal> {
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(Refusal::Nul);
        }
        // Only `.` and doubled separators go; `..` depends on what lies before it.
        let asked: PathBuf = self.root.join(path).components().collect();
        let roots = || std::iter::once(&self.root).chain(further);
        let start = roots().find(|root| asked.starts_with(root));
        let followed = follow::follow(start.map_or(Path::new("/"), |root| root), &asked);
        let real = match &followed {
            Ok(followed) => &followed.real,
            Err(stopped) => &stopped.at,
        };
        let Some(base) = roots().find(|root| real.starts_with(root)) else {
            // Whatever went wrong out there is nobody's business in here.
            return Err(Refusal::Outside {
                path: path.display().to_string(),
                root: self.root.clone(),
                tilde: path.as_os_str().as_encoded_bytes().starts_with(b"~"),
            });
        };
        match followed {
            Ok(followed) => Ok(Place::new(asked, base.clone(), followed)),
            Err(stopped) => Err(stopped.refusal(path, self)),
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

/// The names that a relative path consists of, if it has no `..`.
fn names(relative: &Path) -> impl Iterator<Item = &OsStr> {
    relative
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        })
}
