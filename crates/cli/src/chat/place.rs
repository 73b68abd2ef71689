//! Place of a chat: its directory, and the branch that git has there.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::render::visible::on_one_line;
use crate::wiring::ProcessEnvironment;

/// The maximum size of a file of git that is read.
const MAX_BYTES: u64 = 4_096;
/// The number of digits that name a commit without a branch.
const COMMIT_DIGITS: usize = 7;

/// Describes a directory: `~/project (main)`.
pub(super) fn describe(directory: &Path, process_environment: &ProcessEnvironment) -> String {
    let home = process_environment.environment.get("HOME");
    let home = home.filter(|home| !home.is_empty()).map(PathBuf::from);
    // The directory is canonical.
    let home = home.and_then(|home| home.canonicalize().ok());
    let shown = match home.and_then(|home| directory.strip_prefix(home).ok().map(Path::to_owned)) {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => directory.display().to_string(),
    };
    match branch(directory) {
        Some(branch) => on_one_line(&format!("{shown} ({branch})")),
        None => on_one_line(&shown),
    }
}

/// Returns the branch of the repository around a directory, or the beginning of its commit. Only files are read: git
/// itself runs what the configuration of the repository names.
fn branch(directory: &Path) -> Option<String> {
    let found = directory.ancestors().map(|above| above.join(".git"));
    let git = found.into_iter().find(|git| git.exists())?;
    let git = match read(&git) {
        // A further working tree, or a submodule.
        Some(link) => git.parent()?.join(link.strip_prefix("gitdir:")?.trim()),
        None => git,
    };
    let head = read(&git.join("HEAD"))?;
    match head.trim().strip_prefix("ref:") {
        Some(name) => {
            let name = name.trim();
            Some(name.strip_prefix("refs/heads/").unwrap_or(name).to_owned())
        }
        None => {
            let commit = head.get(..COMMIT_DIGITS)?;
            let is_commit = commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_commit.then(|| commit.to_owned())
        }
    }
}

/// Reads the beginning of a regular file.
fn read(path: &Path) -> Option<String> {
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn branch_is_that_of_the_repository_around() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let inside = root.join("a/b");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::create_dir_all(root.join(".git/worktrees/other")).unwrap();
        assert_eq!(branch(&inside), None);
        std::fs::write(root.join(".git/HEAD"), "ref: refs/heads/feature/x\n").unwrap();
        assert_eq!(branch(&inside).as_deref(), Some("feature/x"));
        std::fs::write(root.join(".git/HEAD"), "0123456789abcdef\n").unwrap();
        assert_eq!(branch(&inside).as_deref(), Some("0123456"));
        std::fs::write(root.join(".git/HEAD"), "no commit\n").unwrap();
        assert_eq!(branch(&inside), None);
        // A further working tree.
        std::fs::write(root.join("a/.git"), "gitdir: ../.git/worktrees/other\n").unwrap();
        std::fs::write(
            root.join(".git/worktrees/other/HEAD"),
            "ref: refs/heads/other\n",
        )
        .unwrap();
        assert_eq!(branch(&inside).as_deref(), Some("other"));
    }
}
