//! `/rewind`: brings back files that commands without a question have changed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use cachalot_process::{git_output, without_filters};
use cachalot_tools::Workspace;
use cachalot_tools::builtin::files::{FileCopies, RestoredFiles};
use tempfile::TempDir;
use tokio::sync::Mutex;

/// Number of turns that can be undone; the copies of older ones are removed.
const MAX_TURNS: usize = 10;
/// Maximum size of the copies of all turns but the newest one in bytes.
const MAX_BYTES: u64 = 512 << 20;
/// Maximum size of a list of files of git in bytes.
const MAX_LIST_BYTES: usize = 16 << 20;
/// Maximum number of entries of a workspace without git that are looked at.
const MAX_ENTRIES: usize = 20_000;

/// Copies of the files that git could not bring back, from before the commands of turns. They are removed with it.
pub(super) struct Rewind {
    workspace: Arc<Workspace>,
    environment: Arc<BTreeMap<String, String>>,
    /// The directory for copies, which commands can neither read nor write.
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The copies of each turn with commands, the newest last.
    turns: Vec<Arc<Turn>>,
    /// The result for the current turn, once it has had a command.
    current: Option<Result<(), NotCopied>>,
}

/// The reason why files could not be copied; what commands do to them could not be undone.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotCopied(String);

struct Turn {
    copies: FileCopies,
    _folder: TempDir,
}

impl Rewind {
    pub(super) fn new(
        workspace: Arc<Workspace>,
        environment: Arc<BTreeMap<String, String>>,
        folder: PathBuf,
    ) -> Self {
        Self {
            workspace,
            environment,
            folder,
            state: Mutex::default(),
        }
    }

    /// Lets the next command copy the files again.
    pub(super) async fn begin_turn(&self) {
        self.state.lock().await.current = None;
    }

    /// Copies the files before the first command of a turn.
    ///
    /// # Errors
    /// The reason why what commands do to files could not be undone; the same for all commands of the turn.
    pub(super) async fn before_command(&self) -> Result<(), NotCopied> {
        // Held while the files are copied: concurrent commands of the turn wait for the copies.
        let mut state = self.state.lock().await;
        if let Some(known) = &state.current {
            return known.clone();
        }
        let copied = self.copy().await.map(|turn| {
            state.turns.push(Arc::new(turn));
            let is_too_much = |turns: &[Arc<Turn>]| {
                let older = turns.iter().rev().skip(1);
                let bytes: u64 = older.map(|turn| turn.copies.bytes()).sum();
                turns.len() > MAX_TURNS || bytes > MAX_BYTES
            };
            while is_too_much(&state.turns) {
                state.turns.remove(0);
            }
        });
        state.current = Some(copied.clone());
        copied
    }

    /// Lets the commands of the current turn run although what they do could not be undone.
    pub(super) async fn permit_turn(&self) {
        self.state.lock().await.current = Some(Ok(()));
    }

    async fn copy(&self) -> Result<Turn, NotCopied> {
        let paths = self.files_without_git().await?;
        let (workspace, folder) = (Arc::clone(&self.workspace), self.folder.clone());
        let copying = tokio::task::spawn_blocking(move || {
            let folder = tempfile::tempdir_in(folder);
            let folder =
                folder.map_err(|error| NotCopied(format!("no place for copies: {error}")))?;
            let copies = FileCopies::make(&workspace, paths, folder.path());
            Ok(Turn {
                copies: copies.map_err(|error| NotCopied(error.to_string()))?,
                _folder: folder,
            })
        });
        let copied = copying.await;
        copied.map_err(|error| NotCopied(error.to_string()))?
    }

    /// Brings back the files from before the last turn with commands; `None` if there is none. If all are back, the next
    /// call brings back those of the turn before.
    pub(super) async fn undo(&self) -> Option<RestoredFiles> {
        let mut state = self.state.lock().await;
        // The turn stays in the list until all of its files are back.
        let turn = Arc::clone(state.turns.last()?);
        // The files are as before the commands, so that the next command needs new copies.
        state.current = None;
        let workspace = Arc::clone(&self.workspace);
        let restoring = tokio::task::spawn_blocking(move || turn.copies.restore(&workspace));
        let restored = restoring.await.unwrap_or_else(|error| RestoredFiles {
            restored: Vec::new(),
            removed: Vec::new(),
            failures: vec![error.to_string()],
        });
        if restored.failures.is_empty() {
            state.turns.pop();
        }
        Some(restored)
    }

    /// Returns the files that git could not bring back: those that it does not track, that differ from its index, or whose
    /// entry in the index differs from the last commit. Of what it ignores, single files, but not whole directories, which
    /// programs can make again. Without git, all files.
    async fn files_without_git(&self) -> Result<Vec<PathBuf>, NotCopied> {
        let others = ["ls-files", "-z", "--others", "--exclude-standard"];
        let Some(mut files) = self.listed(&others).await? else {
            return self.all_files();
        };
        let ignored = [&others[..], &["--ignored", "--directory"]].concat();
        let names = ["-z", "--name-only", "--relative", "--ignore-submodules=all"];
        let changed = [&["diff-files"], &names[..]].concat();
        let staged = [&["diff-index", "--cached"], &names[..], &["HEAD"]].concat();
        let staged = match self.listed(&staged).await? {
            // There is no commit yet.
            None => self.listed(&["ls-files", "-z", "--cached"]).await?,
            staged => staged,
        };
        for listed in [
            self.listed(&ignored).await?,
            self.listed(&changed).await?,
            staged,
        ] {
            files.extend(listed.into_iter().flatten());
        }
        // Directories that git does not look into: repositories of their own, and those that are ignored.
        files.retain(|path| !path.as_os_str().as_bytes().ends_with(b"/"));
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// Returns the files that a command of git lists; `None` if it fails, as without a repository. Git runs no program that
    /// the repository configures.
    async fn listed(&self, arguments: &[&str]) -> Result<Option<Vec<PathBuf>>, NotCopied> {
        let root = self.workspace.root();
        let Some(mut git) = without_filters(root, &self.environment).await else {
            return Ok(None);
        };
        git.args(arguments);
        let output = match git_output(git, MAX_LIST_BYTES).await {
            Some((output, Some(0))) => output,
            Some((_, None)) => return Err(NotCopied("git lists too many files".to_owned())),
            Some(_) | None => return Ok(None),
        };
        let paths = output.split(|byte| *byte == 0);
        let paths = paths.filter(|path| !path.is_empty());
        Ok(Some(
            paths.map(|path| OsStr::from_bytes(path).into()).collect(),
        ))
    }

    fn all_files(&self) -> Result<Vec<PathBuf>, NotCopied> {
        let root = self.workspace.root();
        let mut files = Vec::new();
        let mut directories = vec![root.to_owned()];
        let mut seen = 0_usize;
        while let Some(directory) = directories.pop() {
            // Not readable, or removed since.
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                seen += 1;
                if seen > MAX_ENTRIES {
                    return Err(NotCopied(
                        "the workspace has many files and no git repository".to_owned(),
                    ));
                }
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => directories.push(entry.path()),
                    Ok(kind) if kind.is_file() => {
                        files.extend(entry.path().strip_prefix(root).map(PathBuf::from));
                    }
                    _ => {}
                }
            }
        }
        Ok(files)
    }
}

/// Describes what `/rewind` has done.
pub(super) fn describe(restored: Option<&RestoredFiles>) -> String {
    let Some(restored) = restored else {
        return "there is nothing to bring back: no command has run without a question (`--sandbox=auto`), or all copies are used up".to_owned();
    };
    let mut lines = match restored.restored.len() {
        0 => vec!["no file has changed that git does not have".to_owned()],
        count => {
            let mut lines = vec![format!(
                "brought back, {count} of the files that git does not have:"
            )];
            let paths = restored.restored.iter();
            lines.extend(paths.map(|path| format!("  {}", path.display())));
            lines
        }
    };
    lines.extend(
        restored
            .failures
            .iter()
            .map(|why| format!("not brought back: {why}")),
    );
    lines.push("what else has changed, git has: see `git status`; new files stay".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::*;

    fn rewind(root: &TempDir, folder: &TempDir) -> Rewind {
        let workspace = Arc::new(Workspace::open(root.path()).unwrap());
        let environment = std::env::vars().collect();
        Rewind::new(workspace, Arc::new(environment), folder.path().to_owned())
    }

    fn git(root: &TempDir, arguments: &[&str]) {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=n", "-c", "user.email=e@example.com"]);
        let status = git.args(arguments).current_dir(root.path()).status();
        assert!(status.unwrap().success(), "{arguments:?}");
    }

    #[tokio::test]
    async fn turns_are_undone_one_by_one() {
        let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |path: &str| root.path().join(path);
        let read = |path: &str| fs::read_to_string(at(path)).unwrap();
        fs::write(at("a"), "1").unwrap();
        let rewind = rewind(&root, &folder);
        assert_eq!(rewind.undo().await, None);
        for turn in ["2", "3"] {
            rewind.begin_turn().await;
            rewind.before_command().await.unwrap();
            fs::write(at("a"), "between").unwrap();
            // A second command of the turn copies nothing.
            rewind.before_command().await.unwrap();
            fs::write(at("a"), turn).unwrap();
        }
        for before in ["2", "1"] {
            let restored = rewind.undo().await.unwrap();
            assert_eq!(restored.restored, [PathBuf::from("a")]);
            assert_eq!(read("a"), before);
        }
        assert_eq!(rewind.undo().await, None);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn copies_stay_until_everything_is_back() {
        let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |path: &str| root.path().join(path);
        fs::write(at("a"), "1").unwrap();
        let rewind = rewind(&root, &folder);
        rewind.before_command().await.unwrap();
        fs::remove_file(at("a")).unwrap();
        fs::create_dir(at("a")).unwrap();
        let restored = rewind.undo().await.unwrap();
        assert_eq!(restored.failures.len(), 1, "{restored:?}");
        fs::remove_dir(at("a")).unwrap();
        let restored = rewind.undo().await.unwrap();
        assert_eq!(restored.restored, [PathBuf::from("a")]);
    }

    #[tokio::test]
    async fn an_error_holds_for_the_turn_unless_it_is_permitted() {
        let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let large = fs::File::create(root.path().join("large")).unwrap();
        large.set_len(1 << 30).unwrap();
        let rewind = rewind(&root, &folder);
        rewind.before_command().await.unwrap_err();
        large.set_len(0).unwrap();
        rewind.before_command().await.unwrap_err();
        rewind.permit_turn().await;
        rewind.before_command().await.unwrap();
        rewind.begin_turn().await;
        rewind.before_command().await.unwrap();
    }

    #[tokio::test]
    async fn git_runs_no_filter_of_the_repository() {
        let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |path: &str| root.path().join(path);
        git(&root, &["init", "-q"]);
        fs::write(at("tracked"), "1").unwrap();
        git(&root, &["add", "."]);
        git(&root, &["commit", "-q", "-m", "first"]);
        git(&root, &["config", "filter.x.clean", "touch ran; cat"]);
        fs::write(at(".gitattributes"), "* filter=x\n").unwrap();
        fs::write(at("tracked"), "2").unwrap();
        let rewind = rewind(&root, &folder);
        let files = rewind.files_without_git().await.unwrap();
        assert_eq!(files, [".gitattributes", "tracked"].map(PathBuf::from));
        assert!(!at("ran").exists());
        // The control.
        git(&root, &["status", "-s"]);
        assert!(at("ran").exists());
    }

    #[tokio::test]
    async fn what_git_has_is_not_copied() {
        let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |path: &str| root.path().join(path);
        let git = |arguments: &[&str]| git(&root, arguments);
        git(&["init", "-q"]);
        for directory in ["built", "sub"] {
            fs::create_dir(at(directory)).unwrap();
        }
        for (path, content) in [
            (".gitignore", "built/\n*.db\n"),
            ("kept", "1"),
            ("changed", "1"),
            ("sub/data.db", "1"),
            ("built/output", "1"),
        ] {
            fs::write(at(path), content).unwrap();
        }
        git(&["add", "."]);
        let listed = async || {
            let rewind = rewind(&root, &folder);
            let files = rewind.files_without_git().await.unwrap();
            files
                .iter()
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            listed().await,
            [".gitignore", "changed", "kept", "sub/data.db"]
        );
        git(&["commit", "-q", "-m", "first"]);
        assert_eq!(listed().await, ["sub/data.db"]);
        fs::write(at("changed"), "2").unwrap();
        fs::write(at("sub/new"), "1").unwrap();
        fs::write(at("staged"), "1").unwrap();
        git(&["add", "staged"]);
        assert_eq!(
            listed().await,
            ["changed", "staged", "sub/data.db", "sub/new"]
        );
    }
}
