//! Takes back changes of file tools.

use cachalot_core::Digest;
use cachalot_operation::ToolOutput;
use tokio_util::sync::CancellationToken;

use super::commit::{FileChange, commit_unlogged};
use super::copies::{CHANGED_SINCE, RestoredFiles, text};
use super::snapshot::read_if_exists;
use crate::workspace::{ChangedFile, Workspace};

/// Brings files back as they were before these changes. A file that is not as the changes left it was changed by
/// something else since: it stays, and is one of the failures. The changes that are made here are not logged.
#[must_use]
pub fn revert(workspace: &Workspace, changed: &[ChangedFile]) -> RestoredFiles {
    let mut restored = RestoredFiles::default();
    for file in changed {
        let relative = file.path.strip_prefix(workspace.root());
        let path = relative.unwrap_or(&file.path).to_owned();
        match revert_file(workspace, file) {
            Ok(Reverted::Restored) => restored.restored.push(path),
            Ok(Reverted::Removed) => restored.removed.push(path),
            Ok(Reverted::Same) => {}
            Err(output) => restored.failures.push(text(&output)),
        }
    }
    restored
}

enum Reverted {
    Restored,
    Removed,
    Same,
}

fn revert_file(workspace: &Workspace, file: &ChangedFile) -> Result<Reverted, ToolOutput> {
    let path = workspace.shown(&file.path);
    let failed = |why: &str| ToolOutput::error(format!("`{path}`: {why}"));
    let resolved = workspace.resolved(&file.path)?;
    if resolved.real != file.path {
        return Err(failed("it is a link now, or below one"));
    }
    let now = read_if_exists(&resolved, &path)?;
    let before = file.before.as_ref().map_err(|why| failed(why))?.as_ref();
    if now.as_ref().map(|now| &now.bytes[..]) == before.map(|before| &before.bytes[..]) {
        return Ok(Reverted::Same);
    }
    if now.as_ref().map(|now| Digest::sha256(&now.bytes)) != file.after {
        return Err(failed(CHANGED_SINCE));
    }
    let change = FileChange {
        resolved: &resolved,
        before: now.as_ref(),
        after: before.map(|before| before.bytes.as_slice()),
        mode: before.map(|before| before.mode),
    };
    commit_unlogged(workspace, &[change], &CancellationToken::new())?;
    Ok(match before {
        Some(_) => Reverted::Restored,
        None => Reverted::Removed,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use crate::builtin::files::commit::commit;
    use crate::workspace::ChangeLog;

    /// Makes a change as tools do.
    fn write(workspace: &Workspace, path: &str, after: Option<&[u8]>) {
        let resolved = workspace.resolved(path).unwrap();
        let before = read_if_exists(&resolved, path).unwrap();
        let change = FileChange {
            resolved: &resolved,
            before: before.as_ref(),
            after,
            mode: None,
        };
        commit(workspace, &[change], &CancellationToken::new()).unwrap();
    }

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn changes_are_taken_back_unless_something_else_has_changed_the_file() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |path: &str| root.path().join(path);
        let log = Arc::new(ChangeLog::default());
        let workspace = Workspace::open(root.path()).unwrap();
        let workspace = workspace.with_change_log(Arc::clone(&log));
        for path in [
            "changed", "twice", "deleted", "theirs", "gone", "linked", "back",
        ] {
            fs::write(at(path), "before").unwrap();
        }
        for path in [
            "changed", "twice", "twice", "new", "theirs", "gone", "linked", "back",
        ] {
            write(&workspace, path, Some(b"after"));
        }
        write(&workspace, "deleted", None);
        fs::write(at("theirs"), "theirs").unwrap();
        fs::remove_file(at("gone")).unwrap();
        fs::remove_file(at("linked")).unwrap();
        fs::write(outside.path().join("file"), "after").unwrap();
        symlink(outside.path().join("file"), at("linked")).unwrap();
        fs::write(at("back"), "before").unwrap();
        let restored = revert(&workspace, &log.take());
        assert_eq!(restored.restored, paths(&["changed", "twice", "deleted"]));
        assert_eq!(restored.removed, paths(&["new"]));
        assert_eq!(restored.failures.len(), 3, "{restored:?}");
        for (failure, path) in restored.failures.iter().zip(["theirs", "gone", "linked"]) {
            assert!(failure.contains(path), "{failure}");
        }
        for path in ["changed", "twice", "deleted", "back"] {
            assert_eq!(fs::read_to_string(at(path)).unwrap(), "before", "{path}");
        }
        assert_eq!(fs::read_to_string(at("theirs")).unwrap(), "theirs");
        assert!(!at("new").exists() && !at("gone").exists());
        assert_eq!(
            fs::read_to_string(outside.path().join("file")).unwrap(),
            "after"
        );
        assert_eq!(log.take(), []);
    }
}
