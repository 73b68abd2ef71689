//! Resolves a path to its real location.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::{PathError, Workspace};

/// Maximum number of links, as in Linux.
const MAX_LINKS: usize = 40;

/// The result of resolving a path.
pub(super) struct Resolution {
    /// The path without links; its last `missing` components do not exist.
    pub(super) real: PathBuf,
    pub(super) missing: usize,
    /// The kind of file, if nothing is missing.
    pub(super) kind: Option<FileType>,
}

/// The location at which the resolution failed, and the reason.
pub(super) struct ResolutionFailure {
    pub(super) at: PathBuf,
    why: FailureKind,
}

enum FailureKind {
    NotADirectory,
    NotFound,
    LinkCycle,
    Unreadable(io::Error),
}

impl ResolutionFailure {
    pub(super) fn path_error(self, path: &Path, workspace: &Workspace) -> PathError {
        let path = path.display().to_string();
        let at = workspace.shown(&self.at);
        match self.why {
            FailureKind::NotADirectory => PathError::NotADirectory { path, file: at },
            FailureKind::NotFound => PathError::NotFound { path, missing: at },
            FailureKind::LinkCycle => PathError::LinkCycle { path },
            FailureKind::Unreadable(error) => PathError::Unreadable {
                path,
                reason: error.to_string(),
            },
        }
    }
}

/// Resolves the absolute `path` from its prefix `start`, which contains no links.
pub(super) fn resolve_links(start: &Path, path: &Path) -> Result<Resolution, ResolutionFailure> {
    let mut way = PathResolution {
        real: start.to_owned(),
        missing: 0,
        kind: None,
        pending: VecDeque::new(),
        links: 0,
    };
    way.pending
        .extend(steps(path.strip_prefix(start).unwrap_or(path)));
    while let Some(step) = way.pending.pop_front() {
        if let Err(why) = way.take(step) {
            return Err(ResolutionFailure { at: way.real, why });
        }
    }
    if way.missing == 0 && way.kind.is_none() {
        way.kind = fs::symlink_metadata(&way.real).ok().map(|m| m.file_type());
    }
    Ok(Resolution {
        real: way.real,
        missing: way.missing,
        kind: way.kind,
    })
}

enum Step {
    Root,
    Up,
    Into(OsString),
}

fn steps(path: &Path) -> Vec<Step> {
    path.components()
        .filter_map(|component| match component {
            Component::RootDir => Some(Step::Root),
            Component::ParentDir => Some(Step::Up),
            Component::Normal(name) => Some(Step::Into(name.to_owned())),
            Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

struct PathResolution {
    real: PathBuf,
    missing: usize,
    /// The kind of `real`, if known.
    kind: Option<FileType>,
    pending: VecDeque<Step>,
    links: usize,
}

impl PathResolution {
    fn take(&mut self, step: Step) -> Result<(), FailureKind> {
        match step {
            Step::Root => {
                self.real = PathBuf::from("/");
                self.kind = None;
                Ok(())
            }
            Step::Up if self.missing > 0 => Err(FailureKind::NotFound),
            Step::Up if self.is_no_directory() => Err(FailureKind::NotADirectory),
            Step::Up => {
                self.real.pop();
                self.kind = None;
                Ok(())
            }
            Step::Into(name) if self.missing > 0 => {
                self.real.push(name);
                self.missing += 1;
                Ok(())
            }
            Step::Into(_) if self.is_no_directory() => Err(FailureKind::NotADirectory),
            Step::Into(name) => self.enter(&name),
        }
    }

    fn is_no_directory(&self) -> bool {
        self.kind.is_some_and(|kind| !kind.is_dir())
    }

    fn enter(&mut self, name: &OsStr) -> Result<(), FailureKind> {
        let next = self.real.join(name);
        match fs::symlink_metadata(&next) {
            Ok(metadata) if metadata.is_symlink() => {
                self.links += 1;
                if self.links > MAX_LINKS {
                    return Err(FailureKind::LinkCycle);
                }
                let target = fs::read_link(&next).map_err(FailureKind::Unreadable)?;
                // `real` stays the directory of the link, to which a relative target refers. An absolute target begins
                // with `Step::Root`.
                for step in steps(&target).into_iter().rev() {
                    self.pending.push_front(step);
                }
                Ok(())
            }
            Ok(metadata) => {
                self.real = next;
                self.kind = Some(metadata.file_type());
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.real = next;
                self.missing = 1;
                self.kind = None;
                Ok(())
            }
            Err(error) => Err(FailureKind::Unreadable(error)),
        }
    }
}
