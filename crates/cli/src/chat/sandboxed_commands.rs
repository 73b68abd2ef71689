//! Approval of commands that run in a sandbox.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_agent::{Approval, ApprovalRequest, Approver, CommandPlace};
use cachalot_hooks::input::PermissionMode;
use cachalot_operation::{CommandText, protected_name};

/// Subcommands of git that replace files of the work tree.
const REWRITING: [&str; 12] = [
    "am",
    "checkout",
    "cherry-pick",
    "merge",
    "pull",
    "read-tree",
    "rebase",
    "reset",
    "restore",
    "revert",
    "stash",
    "switch",
];

/// Approver for `--sandbox=auto`: commands in the sandbox run without a question, except those that a rule, a hook or
/// a concern asks about, and those of git that rewrite the work tree while git tracks a protected file: the sandbox
/// would leave that file as it is. Everything else goes to `next`.
pub(super) struct SandboxedCommands {
    pub(super) next: Arc<dyn Approver>,
    pub(super) workspace: PathBuf,
}

#[async_trait]
impl Approver for SandboxedCommands {
    async fn approve(&self, question: &ApprovalRequest<'_>) -> Approval {
        let is_asked_about = question.rule.is_some()
            || question.why.is_some()
            || question.doubt.is_some()
            || question.concern.is_some();
        let is_in_sandbox = question.place == Some(CommandPlace::Sandbox);
        if is_in_sandbox && !is_asked_about && !self.may_rewrite_protected(question) {
            return Approval::Yes;
        }
        self.next.approve(question).await
    }

    fn mode(&self) -> PermissionMode {
        self.next.mode()
    }
}

impl SandboxedCommands {
    fn may_rewrite_protected(&self, question: &ApprovalRequest<'_>) -> bool {
        let commands = &question.resource_access.commands;
        commands
            .iter()
            .any(|command| rewrites_work_tree(&command.text))
            && tracks_protected(&self.workspace)
    }
}

/// Returns true if the words of a command name git and a subcommand that rewrites the work tree, wherever they are.
fn rewrites_work_tree(text: &CommandText) -> bool {
    let lines = match text {
        CommandText::Line(line) => std::slice::from_ref(line),
        CommandText::Program(words) => words,
    };
    let is_part = |c: char| c.is_alphanumeric() || c == '-';
    let has = |names: &[&str]| {
        let mut words = lines.iter().flat_map(|line| line.split(|c| !is_part(c)));
        words.any(|word| names.contains(&word))
    };
    has(&["git"]) && has(&REWRITING)
}

/// Returns true if git tracks a protected file of the workspace, or cannot say.
fn tracks_protected(workspace: &Path) -> bool {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z"]).current_dir(workspace);
    match git.stdin(Stdio::null()).output() {
        Ok(listed) if listed.status.success() => {
            let listed = String::from_utf8_lossy(&listed.stdout);
            let mut files = listed.split('\0');
            files.any(|file| protected_name(Path::new(file)).is_some())
        }
        // Without a repository, nothing is rewritten.
        Ok(_) => false,
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_git_that_rewrite_are_found() {
        let line = |line: &str| rewrites_work_tree(&CommandText::Line(line.to_owned()));
        for rewriting in [
            "git checkout main",
            "cd x && /usr/bin/git -C y stash",
            "sh -c 'git pull'",
        ] {
            assert!(line(rewriting), "{rewriting}");
        }
        for other in [
            "git status",
            "git log --merges",
            "echo merge",
            "gitk checkout",
        ] {
            assert!(!line(other), "{other}");
        }
        let words = ["git", "reset", "--hard"].map(str::to_owned);
        assert!(rewrites_work_tree(&CommandText::Program(words.to_vec())));
    }
}
