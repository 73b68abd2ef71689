//! Symbolic links in paths.

use std::path::{Path, PathBuf};

/// The maximum number of symbolic links that are followed in a row, as on Linux.
const MAX_LINKS: u32 = 40;

/// Returns the path without symbolic links, as far as it exists. A dangling link is followed too, because a
/// file that is created through it is created at its target.
#[must_use]
pub fn without_links(path: &Path) -> PathBuf {
    fn follow(path: &Path, links: u32) -> PathBuf {
        if let Ok(whole) = std::fs::canonicalize(path) {
            return whole;
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return path.to_owned();
        };
        match std::fs::read_link(path) {
            Ok(target) if links > 0 => follow(&parent.join(target), links - 1),
            _ => follow(parent, links).join(name),
        }
    }
    follow(path, MAX_LINKS)
}
