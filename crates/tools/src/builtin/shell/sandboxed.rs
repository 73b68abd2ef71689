//! Programs in the sandbox of a call.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use cachalot_core::links::without_links;
use cachalot_operation::permissions::SearchFilter;
use cachalot_operation::{ToolContext, Workspace, protected_name};
use cachalot_process::shell_command;
use cachalot_sandbox::{Absent, Policy, ReadOnly};
use tokio::process::Command;

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

/// Returns the command of a program, in the sandbox of a call if it has one.
///
/// # Errors
/// If the files that the sandbox has to protect cannot be found.
pub(in crate::builtin) fn command(program: &str, context: &ToolContext) -> Result<Command, String> {
    let Some(sandbox) = &context.sandbox else {
        return Ok(Command::new(program));
    };
    let workspace = &context.workspace;
    let filter = context.rules.denied_files("shell");
    let mut policy = sandbox.policy.clone();
    policy.write.push(workspace.root().to_owned());
    add_files(&mut policy, workspace, &filter).map_err(|why| {
        format!("the command did not run, because its sandbox cannot be made: {why}")
    })?;
    Ok(policy.command(&sandbox.helper, program).into())
}

/// Returns the command of a line of the system's shell, in the sandbox of a call if it has one.
///
/// # Errors
/// If the files that the sandbox has to protect cannot be found.
pub(in crate::builtin) fn line(line: &str, context: &ToolContext) -> Result<Command, String> {
    if context.sandbox.is_none() {
        return Ok(shell_command(line));
    }
    let mut command = command("/bin/sh", context)?;
    command.args(["-c", line]);
    Ok(command)
}

/// Adds the files of a workspace that are protected or denied.
fn add_files(
    policy: &mut Policy,
    workspace: &Workspace,
    filter: &SearchFilter,
) -> Result<(), String> {
    let root = workspace.root();
    let (read_only, denied) = (&mut policy.read_only, &mut policy.denied);
    let mut protect = |path: PathBuf, absent| read_only.push(ReadOnly { path, absent });
    for (name, absent) in AT_TOP {
        let path = root.join(name);
        // A git directory is written; only parts of it are protected.
        if name != ".git" || !path.exists() {
            protect(path, absent);
        }
    }
    if let Some(hooks) = hooks_directory(root) {
        protect(hooks, Absent::Directory);
    }
    let mut seen = 0_usize;
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let is_git = directory.file_name().is_some_and(|name| name == ".git");
        if is_git {
            IN_GIT
                .iter()
                .for_each(|(name, absent)| protect(directory.join(name), *absent));
        }
        let unreadable = |error| format!("{} cannot be read: {error}", directory.display());
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            // Removed since, or not for this user, and then not for the command.
            Err(error) if is_out_of_reach(&error) => continue,
            Err(error) => return Err(unreadable(error)),
        };
        for entry in entries {
            let entry = entry.map_err(unreadable)?;
            let path = entry.path();
            seen += 1;
            if seen > MAXIMUM {
                return Err(format!(
                    "{} has more than {MAXIMUM} files; choose a smaller workspace",
                    root.display()
                ));
            }
            let kind = entry.file_type().map_err(unreadable)?;
            let is_directory = kind.is_dir();
            let target = kind.is_symlink().then(|| without_links(&path));
            if filter.hides(&path, workspace) {
                denied.extend(target.into_iter().chain([path]));
            } else if is_protected(&path, root, is_directory) {
                for path in target.into_iter().chain([path]) {
                    protect(path, Absent::Directory);
                }
            } else if is_directory && !is_git {
                directories.push(path);
            }
        }
    }
    Ok(())
}

/// Returns the directory of hooks that git is configured to use, if it is another one than usual.
fn hooks_directory(root: &Path) -> Option<PathBuf> {
    let mut git = std::process::Command::new("git");
    git.args(["config", "--type=path", "--get", "core.hooksPath"]);
    let output = git.current_dir(root).stdin(Stdio::null()).output().ok()?;
    let path = std::str::from_utf8(&output.stdout)
        .ok()?
        .trim_end_matches('\n');
    (!path.is_empty()).then(|| without_links(&root.join(path)))
}

fn is_out_of_reach(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | PermissionDenied)
}

/// Returns true for a file or directory that commands cannot change.
fn is_protected(path: &Path, root: &Path, is_directory: bool) -> bool {
    let Ok(path) = path.strip_prefix(root) else {
        return false;
    };
    // Of a directory of git, parts are protected; a file leads to one.
    let is_git_directory = is_directory && path.file_name().is_some_and(|name| name == ".git");
    !is_git_directory && protected_name(path).is_some()
}
