//! `/rewind`: brings back files that a turn has changed: those that tools have written, and those that commands without a
//! question have changed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use cachalot_process::{git_output, without_filters};
use cachalot_tools::Workspace;
use cachalot_tools::builtin::files::{FileCopies, RestoredFiles, revert};
use cachalot_tools::workspace::ChangedFile;
use tempfile::TempDir;
use tokio::sync::Mutex;

/// Number of turns that can be undone; what is known of older ones is removed.
const MAX_TURNS: usize = 10;
/// Maximum size of the copies of all turns but the newest one in bytes.
const MAX_BYTES: u64 = 512 << 20;
/// Maximum size of a list of files of git in bytes.
const MAX_LIST_BYTES: usize = 16 << 20;
/// Maximum number of entries of a workspace without git that are looked at.
const MAX_ENTRIES: usize = 20_000;

/// The changes of files by the turns of a chat. Before commands without a question, files are copied that git could not
/// bring back. The copies are removed with it.
pub(super) struct Rewind {
    workspace: Arc<Workspace>,
    environment: Arc<BTreeMap<String, String>>,
    /// The directory for copies, which commands can neither read nor write; `None` without a sandbox.
    folder: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The newest last.
    turns: Vec<Arc<Turn>>,
    /// The result for the current turn, once it has had a command.
    current: Option<Result<(), NotCopied>>,
}

/// The reason why files could not be copied; what commands do to them could not be undone.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotCopied(String);

/// A turn.
#[derive(Default)]
struct Turn {
    /// The number of messages of the conversation before it.
    messages: usize,
    /// The files that tools have written.
    changed: Vec<ChangedFile>,
    /// The copies from before its first command.
    copies: Option<Copies>,
    /// True once a command without a question was to run in it.
    has_commands: bool,
    has_ended: bool,
    /// True if not all of its files could be brought back.
    is_incomplete: bool,
}

struct Copies {
    files: FileCopies,
    _folder: TempDir,
}

/// A turn whose files were brought back.
pub(super) struct RewoundTurn {
    /// The number of messages of the conversation before it.
    pub(super) messages: usize,
    files: RestoredFiles,
    commands: Commands,
}

/// The effect of the commands of a turn, as far as copies can undo it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Commands {
    /// No command is known.
    None,
    Copied,
    NotCopied,
}

impl Rewind {
    pub(super) fn new(
        workspace: Arc<Workspace>,
        environment: Arc<BTreeMap<String, String>>,
        folder: Option<PathBuf>,
    ) -> Self {
        Self {
            workspace,
            environment,
            folder,
            state: Mutex::default(),
        }
    }

    /// Begins a turn, before which the conversation has this number of messages, or continues the one that has not ended.
    /// The next command of a new turn copies the files again.
    pub(super) async fn begin_turn(&self, messages: usize) {
        let mut state = self.state.lock().await;
        self.collect_changes(&mut state);
        if state.turns.last().is_some_and(|turn| !turn.has_ended) {
            return;
        }
        state.current = None;
        let last = state.turns.last_mut().and_then(Arc::get_mut);
        // The message of such a turn was not sent.
        if let Some(unused) = last.filter(|turn| turn.is_unused(messages)) {
            unused.has_ended = false;
            return;
        }
        state.turns.push(Arc::new(Turn {
            messages,
            ..Turn::default()
        }));
        state.limit();
    }

    /// Ends the turn: what changes its files from now on is something else. No effect on a turn that has ended.
    pub(super) async fn end_turn(&self) {
        let mut state = self.state.lock().await;
        let Some(turn) = state.turns.last().map(Arc::clone) else {
            return;
        };
        let workspace = Arc::clone(&self.workspace);
        let noting = tokio::task::spawn_blocking(move || {
            if let Some(copies) = turn.copies.as_ref().filter(|_| !turn.has_ended) {
                copies.files.note_end(&workspace);
            }
        });
        // Without a note, the files stay as they are.
        let _ = noting.await;
        if let Some(turn) = state.turns.last_mut().and_then(Arc::get_mut) {
            turn.has_ended = true;
        }
    }

    /// Forgets all turns: another conversation begins.
    pub(super) async fn forget(&self) {
        let mut state = self.state.lock().await;
        self.collect_changes(&mut state);
        *state = State::default();
    }

    /// Adds the changes of tools to the turn that has made them.
    fn collect_changes(&self, state: &mut State) {
        let changed = self.workspace.change_log().map(|log| log.take());
        let turn = state.turns.last_mut().and_then(Arc::get_mut);
        if let (Some(turn), Some(changed)) = (turn, changed) {
            turn.changed.extend(changed);
        }
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
        let copied = self.copy().await;
        if let Some(turn) = state.turns.last_mut().and_then(Arc::get_mut) {
            turn.has_commands = true;
        }
        let copied = copied.map(|copies| {
            let turn = state.turns.last_mut().and_then(Arc::get_mut);
            // A command in the background may run after the turn, whose own copies stay.
            if let Some(turn) = turn.filter(|turn| turn.copies.is_none()) {
                turn.copies = Some(copies);
            }
            state.limit();
        });
        state.current = Some(copied.clone());
        copied
    }

    /// Lets the commands of the current turn run although what they do could not be undone.
    pub(super) async fn permit_turn(&self) {
        self.state.lock().await.current = Some(Ok(()));
    }

    async fn copy(&self) -> Result<Copies, NotCopied> {
        let folder = self.folder.clone();
        let folder = folder.ok_or_else(|| NotCopied("there is no sandbox".to_owned()))?;
        let paths = self.files_without_git().await?;
        let workspace = Arc::clone(&self.workspace);
        let copying = tokio::task::spawn_blocking(move || {
            let folder = tempfile::tempdir_in(folder);
            let folder =
                folder.map_err(|error| NotCopied(format!("no place for copies: {error}")))?;
            let files = FileCopies::make(&workspace, paths, folder.path());
            Ok(Copies {
                files: files.map_err(|error| NotCopied(error.to_string()))?,
                _folder: folder,
            })
        });
        let copied = copying.await;
        copied.map_err(|error| NotCopied(error.to_string()))?
    }

    /// Brings back the files from before the last turn; `None` if no turn of the conversation is known. The next call
    /// brings back those of the turn before; first it repeats once what has failed.
    pub(super) async fn undo(&self) -> Option<RewoundTurn> {
        let mut state = self.state.lock().await;
        self.collect_changes(&mut state);
        // The files are as before the commands, so that the next command needs new copies.
        state.current = None;
        // The turn stays in the list until all of its files are back.
        let turn = Arc::clone(state.turns.last()?);
        let (messages, is_repeated) = (turn.messages, turn.is_incomplete);
        let commands = match (turn.has_commands, &turn.copies) {
            (false, _) => Commands::None,
            (true, Some(_)) => Commands::Copied,
            (true, None) => Commands::NotCopied,
        };
        let workspace = Arc::clone(&self.workspace);
        let restoring = tokio::task::spawn_blocking(move || turn.restore(&workspace));
        let files = restoring.await.unwrap_or_else(|error| RestoredFiles {
            failures: vec![error.to_string()],
            ..RestoredFiles::default()
        });
        match state.turns.last_mut().and_then(Arc::get_mut) {
            Some(turn) if !files.failures.is_empty() && !is_repeated => turn.is_incomplete = true,
            _ => drop(state.turns.pop()),
        }
        Some(RewoundTurn {
            messages,
            files,
            commands,
        })
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

impl State {
    /// Forgets old turns.
    fn limit(&mut self) {
        let is_too_much = |turns: &[Arc<Turn>]| {
            let older = turns.iter().rev().skip(1);
            let copies = older.filter_map(|turn| turn.copies.as_ref());
            let bytes: u64 = copies.map(|copies| copies.files.bytes()).sum();
            turns.len() > MAX_TURNS || bytes > MAX_BYTES
        };
        while is_too_much(&self.turns) {
            self.turns.remove(0);
        }
    }
}

impl Turn {
    /// Returns true if the turn before which the conversation has `messages` messages has changed nothing.
    fn is_unused(&self, messages: usize) -> bool {
        self.messages == messages && self.changed.is_empty() && !self.has_commands
    }

    /// Brings the files back. A copy precedes the record of a tool: a command of the turn may have changed the file, too,
    /// and the copy is of the content before both.
    fn restore(&self, workspace: &Workspace) -> RestoredFiles {
        let copies = self.copies.as_ref().map(|copies| &copies.files);
        let is_covered = |file: &&ChangedFile| {
            let path = file.path.strip_prefix(workspace.root());
            copies.is_some_and(|copies| path.is_ok_and(|path| copies.covers(path)))
        };
        let changed = self.changed.iter().filter(|file| !is_covered(file));
        let mut restored = revert(workspace, &changed.cloned().collect::<Vec<_>>());
        if let Some(copies) = copies {
            let copied = copies.restore(workspace);
            restored.restored.extend(copied.restored);
            restored.failures.extend(copied.failures);
        }
        restored
    }
}

/// Describes the files that were brought back, and what stays.
pub(super) fn describe(turn: &RewoundTurn) -> String {
    let RestoredFiles {
        restored,
        removed,
        failures,
    } = &turn.files;
    let mut lines = Vec::new();
    for (what, paths) in [
        ("brought back", restored),
        ("removed, because it was new", removed),
    ] {
        let paths = paths.iter();
        lines.extend(paths.map(|path| format!("{what}: {}", path.display())));
    }
    lines.extend(
        failures
            .iter()
            .map(|why| format!("not brought back: {why}")),
    );
    if lines.is_empty() {
        lines.push("no file that file tools have changed had to be brought back".to_owned());
    }
    match turn.commands {
        Commands::None => {}
        Commands::Copied => lines.push(
            "what commands changed in files that git could bring back stays (`git diff` shows it), and so do files that they created".to_owned(),
        ),
        Commands::NotCopied => lines.push("what commands changed stays".to_owned()),
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use cachalot_tools::workspace::ChangeLog;

    use super::*;

    fn rewind(root: &TempDir, folder: &TempDir) -> Rewind {
        let workspace = Workspace::open(root.path()).unwrap();
        let workspace = Arc::new(workspace.with_change_log(Arc::new(ChangeLog::default())));
        let environment = std::env::vars().collect();
        let folder = Some(folder.path().to_owned());
        Rewind::new(workspace, Arc::new(environment), folder)
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
        assert!(rewind.undo().await.is_none());
        for (messages, turn) in ["2", "3"].into_iter().enumerate() {
            rewind.begin_turn(messages).await;
            rewind.before_command().await.unwrap();
            fs::write(at("a"), "between").unwrap();
            // A second command of the turn copies nothing.
            rewind.before_command().await.unwrap();
            fs::write(at("a"), turn).unwrap();
            rewind.end_turn().await;
        }
        for (messages, before) in [(1, "2"), (0, "1")] {
            let rewound = rewind.undo().await.unwrap();
            assert_eq!(rewound.messages, messages);
            assert_eq!(rewound.files.restored, [PathBuf::from("a")]);
            assert_eq!(read("a"), before);
        }
        assert!(rewind.undo().await.is_none());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn copies_stay_until_everything_is_back() {
        let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |path: &str| root.path().join(path);
        fs::write(at("a"), "1").unwrap();
        let rewind = rewind(&root, &folder);
        rewind.begin_turn(0).await;
        rewind.before_command().await.unwrap();
        fs::remove_file(at("a")).unwrap();
        fs::create_dir(at("a")).unwrap();
        rewind.end_turn().await;
        let files = rewind.undo().await.unwrap().files;
        assert_eq!(files.failures.len(), 1, "{files:?}");
        fs::remove_dir(at("a")).unwrap();
        let files = rewind.undo().await.unwrap().files;
        assert_eq!(files.restored, [PathBuf::from("a")]);
        assert!(rewind.undo().await.is_none());
    }

    #[tokio::test]
    async fn a_turn_that_cannot_be_undone_blocks_no_earlier_one() {
        let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |path: &str| root.path().join(path);
        fs::write(at("a"), "1").unwrap();
        let rewind = rewind(&root, &folder);
        for messages in [0, 0, 2] {
            // The second call continues the unused turn.
            rewind.begin_turn(messages).await;
            if messages == 0 {
                rewind.end_turn().await;
            }
        }
        rewind.before_command().await.unwrap();
        fs::remove_file(at("a")).unwrap();
        fs::create_dir(at("a")).unwrap();
        rewind.end_turn().await;
        for messages in [2, 2, 0] {
            assert_eq!(rewind.undo().await.unwrap().messages, messages);
        }
        assert!(rewind.undo().await.is_none());
    }

    /// What `/rewind` writes is no change of the turn before, which would remove the file.
    #[tokio::test]
    async fn what_is_brought_back_stays_when_the_turn_before_is_undone() {
        let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let notes = root.path().join("notes");
        fs::write(&notes, "mine").unwrap();
        let rewind = rewind(&root, &folder);
        rewind.begin_turn(0).await;
        rewind.end_turn().await;
        rewind.begin_turn(2).await;
        rewind.before_command().await.unwrap();
        fs::remove_file(&notes).unwrap();
        rewind.end_turn().await;
        let files = rewind.undo().await.unwrap().files;
        assert_eq!(files.restored, [PathBuf::from("notes")]);
        let files = rewind.undo().await.unwrap().files;
        assert_eq!(files, RestoredFiles::default());
        assert_eq!(fs::read_to_string(&notes).unwrap(), "mine");
    }

    #[tokio::test]
    async fn what_the_user_changes_after_the_turn_stays() {
        let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |path: &str| root.path().join(path);
        for path in ["mine", "both", "theirs"] {
            fs::write(at(path), "before").unwrap();
        }
        let rewind = rewind(&root, &folder);
        rewind.begin_turn(0).await;
        rewind.before_command().await.unwrap();
        for path in ["both", "theirs"] {
            fs::write(at(path), "command").unwrap();
        }
        rewind.end_turn().await;
        for path in ["mine", "both"] {
            fs::write(at(path), "user").unwrap();
        }
        // A command in the background copies nothing of this turn.
        rewind.before_command().await.unwrap();
        let files = rewind.undo().await.unwrap().files;
        assert_eq!(files.restored, [PathBuf::from("theirs")]);
        assert_eq!(files.failures.len(), 1, "{files:?}");
        assert!(files.failures[0].contains("`both`"), "{files:?}");
        for path in ["mine", "both"] {
            assert_eq!(fs::read_to_string(at(path)).unwrap(), "user", "{path}");
        }
    }

    #[tokio::test]
    async fn what_tools_change_before_the_first_command_is_brought_back() {
        let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |path: &str| root.path().join(path);
        let rewind = rewind(&root, &folder);
        let log = rewind.workspace.change_log().unwrap();
        let edit = |path: &str, before: Option<&[u8]>| {
            fs::write(at(path), "tool").unwrap();
            let before = before.map(|before| (before, 0o644));
            log.record(&rewind.workspace.root().join(path), before, Some(b"tool"));
        };
        rewind.begin_turn(0).await;
        edit("edited", Some(b"before"));
        edit("formatted", Some(b"before"));
        edit("new", None);
        edit("appended", None);
        edit("theirs", Some(b"before"));
        fs::write(at("theirs"), "user").unwrap();
        rewind.before_command().await.unwrap();
        for path in ["formatted", "appended"] {
            fs::write(at(path), "command").unwrap();
        }
        rewind.end_turn().await;
        let files = rewind.undo().await.unwrap().files;
        assert_eq!(files.restored, ["edited", "formatted"].map(PathBuf::from));
        assert_eq!(files.removed, [PathBuf::from("new")]);
        assert_eq!(files.failures.len(), 2, "{files:?}");
        assert!(files.failures[0].contains("`appended`"), "{files:?}");
        assert!(files.failures[1].contains("`theirs`"), "{files:?}");
        assert_eq!(fs::read_to_string(at("theirs")).unwrap(), "user");
        for path in ["edited", "formatted"] {
            assert_eq!(fs::read_to_string(at(path)).unwrap(), "before", "{path}");
        }
        assert!(!at("new").exists() && at("appended").exists());
    }

    #[tokio::test]
    async fn what_stays_is_told() {
        let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let tracked = root.path().join("tracked");
        fs::write(&tracked, "before").unwrap();
        git(&root, &["init", "-q"]);
        git(&root, &["add", "."]);
        git(&root, &["commit", "-q", "-m", "first"]);
        let rewind = rewind(&root, &folder);
        for (has_command, told) in [(true, "`git diff` shows it"), (false, "no file that file")] {
            rewind.begin_turn(0).await;
            if has_command {
                rewind.before_command().await.unwrap();
                fs::write(&tracked, "command").unwrap();
            }
            rewind.end_turn().await;
            let rewound = describe(&rewind.undo().await.unwrap());
            assert!(rewound.contains(told), "{rewound}");
            assert_eq!(rewound.contains("what commands changed"), has_command);
        }
        assert_eq!(fs::read_to_string(&tracked).unwrap(), "command");
    }

    #[tokio::test]
    async fn a_turn_that_has_not_ended_continues() {
        let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = root.path().join("a");
        fs::write(&file, "before").unwrap();
        let rewind = rewind(&root, &folder);
        rewind.begin_turn(0).await;
        rewind.before_command().await.unwrap();
        fs::write(&file, "first").unwrap();
        rewind.begin_turn(1).await;
        rewind.before_command().await.unwrap();
        fs::write(&file, "second").unwrap();
        rewind.end_turn().await;
        let rewound = rewind.undo().await.unwrap();
        assert_eq!(rewound.messages, 0);
        assert_eq!(fs::read_to_string(&file).unwrap(), "before");
        assert!(rewind.undo().await.is_none());
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
        rewind.end_turn().await;
        rewind.begin_turn(1).await;
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
