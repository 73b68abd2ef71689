//! The sandbox of programs that work in a workspace.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use cachalot_core::links::without_links;
use cachalot_operation::permissions::{Permissions, SearchFilter};
use cachalot_operation::{ToolContext, Workspace, protected_name};
use cachalot_sandbox::{Absent, CommandSandbox, Mechanism, Network, Policy, ReadOnly};
use serde_json::{Value, json};
use tokio::task::JoinError;

/// Maximum number of files and directories of a workspace: each is looked at before each command.
const MAXIMUM: usize = 500_000;

/// Protected files and directories at the top of a workspace, and what stands there while they do not exist. Git takes
/// no notice of an empty directory.
const AT_TOP: [(&str, Absent); 14] = [
    (".cachalot", Absent::Directory),
    (".claude", Absent::Directory),
    (".codex", Absent::Directory),
    (".cursor", Absent::Directory),
    (".docker-agent", Absent::Directory),
    (".gemini", Absent::Directory),
    (".git", Absent::Directory),
    (".gitmodules", Absent::Directory),
    (".mcp.json", Absent::Directory),
    ("AGENTS.md", Absent::Directory),
    ("CLAUDE.md", Absent::Directory),
    ("CLAUDE.local.md", Absent::Directory),
    ("GEMINI.md", Absent::Directory),
    ("hooks.d", Absent::Directory),
];

/// Protected files and directories of a git directory, with what stands there while they do not exist.
const IN_GIT: [(&str, Absent); 4] = [
    ("commondir", Absent::GitPointer),
    ("config", Absent::File),
    ("config.worktree", Absent::File),
    ("hooks", Absent::Directory),
];

/// The reason why the files that a sandbox has to protect cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum ProtectionError {
    /// The workspace is the root of the file system.
    #[error("the workspace is the root of the file system")]
    Root,
    /// A directory cannot be read.
    #[error("{} cannot be read: {error}", .directory.display())]
    Unreadable {
        /// The directory.
        directory: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The workspace has too many files to look at before each command.
    #[error("{} has more than {MAXIMUM} files; choose a smaller workspace", .0.display())]
    TooManyFiles(PathBuf),
    /// The thread that read the directories has ended early.
    #[error(transparent)]
    Thread(#[from] JoinError),
}

/// The sandbox of programs that work in a workspace: they write there, except to protected files, and do not read
/// files that the rules deny to `shell`.
#[derive(Debug, Clone)]
pub struct WorkspaceSandbox {
    /// What holds in every workspace.
    pub sandbox: Arc<CommandSandbox>,
    /// The workspace.
    pub workspace: Arc<Workspace>,
    /// The rules.
    pub rules: Arc<Permissions>,
    /// True if programs may write in the workspace. They cannot read what the rules deny only if they may.
    pub may_write: bool,
}

impl WorkspaceSandbox {
    /// Returns the sandbox of the commands of a call, if it has one.
    #[must_use]
    pub fn for_call(context: &ToolContext) -> Option<Self> {
        Some(Self {
            sandbox: Arc::clone(context.sandbox.as_ref()?),
            workspace: Arc::clone(&context.workspace),
            rules: Arc::clone(&context.rules),
            may_write: true,
        })
    }

    /// Returns the same sandbox, whose programs can also read and write these files outside of the workspace.
    #[must_use]
    pub fn with_files(&self, read: Option<PathBuf>, written: Option<PathBuf>) -> Self {
        let mut sandbox = CommandSandbox::clone(&self.sandbox);
        let followed = |path: Option<PathBuf>| path.map(|path| without_links(&path));
        sandbox.policy.visible.extend(followed(read));
        sandbox.policy.write.extend(followed(written));
        Self {
            sandbox: Arc::new(sandbox),
            ..self.clone()
        }
    }

    /// Returns the command that runs a program in the sandbox. Reads all directories of the workspace, unless nothing may
    /// be written there.
    ///
    /// # Errors
    /// The files that the sandbox has to protect cannot be found.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, ProtectionError> {
        let mut policy = self.sandbox.policy.clone();
        let root = self.workspace.root().to_owned();
        if self.may_write {
            policy.write.push(root);
            if self.sandbox.guards_files() {
                let filter = self.rules.denied_files("shell");
                add_files(&mut policy, &self.workspace, &filter)?;
            }
        } else {
            policy.visible.push(root);
        }
        Ok(policy.command(&self.sandbox.helper, program))
    }

    /// Like [`WorkspaceSandbox::command`], for asynchronous code: the directories are read on another thread.
    ///
    /// # Errors
    /// The same.
    pub async fn prepare(
        &self,
        program: impl Into<OsString>,
    ) -> Result<tokio::process::Command, ProtectionError> {
        let (sandbox, program) = (self.clone(), program.into());
        let made = tokio::task::spawn_blocking(move || sandbox.command(program)).await;
        Ok(made??.into())
    }

    /// Returns what decides what a program in the sandbox can do, for the key of its result: a result without network
    /// is no answer to a run with one. Directories of the session are not part of it.
    #[must_use]
    pub fn key(&self) -> Value {
        let Policy {
            mechanism,
            write,
            read_only,
            denied,
            visible: _,
            network,
            unix_sockets,
            records: _,
        } = &self.sandbox.policy;
        let network = match network {
            Network::None => json!(false),
            Network::Proxy(_) => json!(self.sandbox.hosts),
            Network::All => json!(true),
        };
        let texts = |paths: &mut dyn Iterator<Item = &PathBuf>| -> Value {
            paths
                .map(|path| path.to_string_lossy().into_owned())
                .collect()
        };
        json!({
            "mechanism": match mechanism {
                Mechanism::Namespaces => "namespaces",
                Mechanism::Landlock => "landlock",
                Mechanism::Seatbelt => "seatbelt",
            },
            "workspace": self.workspace.root().to_string_lossy(),
            "may_write": self.may_write,
            "write": texts(&mut write.iter().filter(|path| *path != &self.sandbox.temporary)),
            "read_only": texts(&mut read_only.iter().map(|file| &file.path)),
            "denied": texts(&mut denied.iter().filter(|path| *path != &self.sandbox.copies)),
            "rules": self.rules.denied(),
            "network": network,
            "unix_sockets": unix_sockets,
        })
    }

    /// Returns the directory for temporary files, which programs find by `TMPDIR`.
    #[must_use]
    pub fn temporary(&self) -> &Path {
        &self.sandbox.temporary
    }
}

/// Adds the files of a workspace that are protected or denied.
fn add_files(
    policy: &mut Policy,
    workspace: &Workspace,
    filter: &SearchFilter,
) -> Result<(), ProtectionError> {
    let root = workspace.root();
    if root.parent().is_none() {
        return Err(ProtectionError::Root);
    }
    let (read_only, denied) = (&mut policy.read_only, &mut policy.denied);
    let mut protect = |path: PathBuf, absent| read_only.push(ReadOnly { path, absent });
    for (name, absent) in AT_TOP {
        // Of a git directory, only parts are protected.
        if name != ".git" || !root.join(".git/HEAD").exists() {
            protect(root.join(name), absent);
        }
    }
    if let Some(hooks) = hooks_directory(root) {
        protect(hooks, Absent::Directory);
    }
    let mut seen = 0_usize;
    // With true for those that are protected with all below.
    let mut directories = vec![(root.to_owned(), false)];
    while let Some((directory, is_protected)) = directories.pop() {
        let unreadable = |error| ProtectionError::Unreadable {
            directory: directory.clone(),
            error,
        };
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries.collect::<Result<Vec<_>, _>>().map_err(unreadable)?,
            // Removed since.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            // A command of the owner could permit itself to read it.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && directory != root => {
                denied.push(directory);
                continue;
            }
            Err(error) => return Err(unreadable(error)),
        };
        seen += entries.len();
        if seen > MAXIMUM {
            return Err(ProtectionError::TooManyFiles(root.to_owned()));
        }
        let has = |name: &str| entries.iter().any(|entry| entry.file_name() == *name);
        // Recognized by its content: the directories of submodules and bare repositories have other names.
        let is_git = ["HEAD", "objects", "refs"].into_iter().all(has);
        if is_git && !is_protected {
            for (name, absent) in IN_GIT {
                protect(directory.join(name), absent);
            }
        }
        for entry in &entries {
            let path = entry.path();
            let kind = entry.file_type().map_err(unreadable)?;
            let target = kind.is_symlink().then(|| without_links(&path));
            let in_git = is_git && !IN_GIT.iter().any(|(name, _)| entry.file_name() == **name);
            if filter.hides(&path, workspace) {
                denied.extend(target.into_iter().chain([path]));
            } else if is_protected || is_protected_name(&path, root, kind.is_dir()) {
                if kind.is_dir() {
                    directories.push((path.clone(), true));
                }
                // A part of a protected directory is protected with it, but not what a link leads to.
                let own = (!is_protected).then_some(path);
                for path in target.into_iter().chain(own) {
                    protect(path, Absent::Nothing);
                }
            } else if kind.is_dir() && !in_git {
                let is_protected = is_git;
                directories.push((path, is_protected));
            }
        }
    }
    Ok(())
}

/// Returns the directory of hooks that git is configured to use, if it is another one than usual.
fn hooks_directory(root: &Path) -> Option<PathBuf> {
    let mut git = Command::new("git");
    git.args(["config", "--type=path", "--get", "core.hooksPath"]);
    let output = git.current_dir(root).stdin(Stdio::null()).output().ok()?;
    let path = std::str::from_utf8(&output.stdout)
        .ok()?
        .trim_end_matches('\n');
    // Husky's hooks run those in the directory above.
    let path = Path::new(path);
    let path = path
        .parent()
        .filter(|_| path.ends_with("_"))
        .unwrap_or(path);
    (path != Path::new("")).then(|| without_links(&root.join(path)))
}

/// Returns true for a file or directory that commands cannot change.
fn is_protected_name(path: &Path, root: &Path, is_directory: bool) -> bool {
    let Ok(path) = path.strip_prefix(root) else {
        return false;
    };
    // Of a directory of git, parts are protected; a file leads to one.
    let is_git_directory = is_directory && path.file_name().is_some_and(|name| name == ".git");
    !is_git_directory && protected_name(path).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_have_protected_names() {
        for (name, _) in AT_TOP {
            assert!(protected_name(Path::new(name)).is_some(), "{name}");
        }
        for (name, _) in IN_GIT {
            let path = Path::new(".git").join(name);
            assert!(protected_name(&path).is_some(), "{name}");
        }
    }
}
