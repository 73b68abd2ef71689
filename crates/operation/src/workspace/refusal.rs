//! Why a path is refused.

use std::path::PathBuf;

/// Why a path is refused, in words for a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It leads outside.
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
        /// The path as it was given.
        path: String,
        /// The workspace.
        root: PathBuf,
        /// Whether it begins with a tilde.
        tilde: bool,
    },
    /// There is a file where a directory would have to be.
    #[error("`{path}` cannot be: `{file}` is not a directory")]
    NotADirectory {
        /// The path as it was given.
        path: String,
        /// The file.
        file: String,
    },
    /// `..` behind something that is not there.
    #[error(
        "`{path}` leads nowhere: `{missing}` does not exist, so that `..` behind it means nothing"
    )]
    Nowhere {
        /// The path as it was given.
        path: String,
        /// What does not exist.
        missing: String,
    },
    /// Links that lead in circles.
    #[error("`{path}` leads through too many symbolic links, or in circles")]
    Circle {
        /// The path as it was given.
        path: String,
    },
    /// No path holds a NUL.
    #[error("a path cannot hold a NUL character")]
    Nul,
    /// The file system refuses to tell.
    #[error("`{path}`: {reason}")]
    Unreadable {
        /// The path as it was given.
        path: String,
        /// The system's words.
        reason: String,
    },
}
