//! The reasons to refuse a path.

use std::path::PathBuf;

/// The reason to refuse a path, formatted for a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path leads outside.
    #[error(
        "`{path}` is outside the workspace {}; {}",
        .root.display(),
        if *.tilde {
            "`~` is not expanded: give a path relative to the workspace"
        } else {
            "only what lies in it can be used, and no link or `..` may lead out of it"
        }
    )]
    Outside {
        /// The path as given.
        path: String,
        /// The workspace.
        root: PathBuf,
        /// True if it begins with a tilde.
        tilde: bool,
    },
    /// A file is in the place of a directory.
    #[error("`{path}` cannot be: `{file}` is not a directory")]
    NotADirectory {
        /// The path as given.
        path: String,
        /// The file.
        file: String,
    },
    /// `..` after a missing component.
    #[error(
        "`{path}` leads nowhere: `{missing}` does not exist, so that `..` behind it means nothing"
    )]
    NotFound {
        /// The path as given.
        path: String,
        /// The missing component.
        missing: String,
    },
    /// Links that form a cycle, or too many of them.
    #[error("`{path}` leads through too many symbolic links, or in circles")]
    LinkCycle {
        /// The path as given.
        path: String,
    },
    /// A path cannot contain a NUL character.
    #[error("a path cannot hold a NUL character")]
    Nul,
    /// The file system returned an error.
    #[error("`{path}`: {reason}")]
    Unreadable {
        /// The path as given.
        path: String,
        /// The error of the system.
        reason: String,
    },
}
