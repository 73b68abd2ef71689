//! Approval of commands that run in a sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_agent::{Approval, ApprovalRequest, Approver, CommandPlace, Concern, ConcernKind};
use cachalot_hooks::input::PermissionMode;
use cachalot_operation::permissions::CommandPattern;
use cachalot_operation::{Command, protected_name};
use cachalot_process::untrusting_git;

use super::rewind::Rewind;

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
/// would leave that file as it is. A turn whose commands could not be undone is asked about once. Everything else goes to
/// `next`.
pub(super) struct SandboxedCommands {
    pub(super) next: Arc<dyn Approver>,
    /// The copies of files for `/rewind`; `None` if the user cannot undo anything.
    pub(super) rewind: Option<Arc<Rewind>>,
    pub(super) workspace: PathBuf,
    pub(super) environment: Arc<BTreeMap<String, String>>,
}

#[async_trait]
impl Approver for SandboxedCommands {
    async fn approve(&self, question: &ApprovalRequest<'_>) -> Approval {
        let is_asked_about = question.rule.is_some()
            || question.why.is_some()
            || question.doubt.is_some()
            || question.concern.is_some();
        let is_in_sandbox = question.place == Some(CommandPlace::Sandbox);
        if !is_in_sandbox || is_asked_about || self.may_rewrite_protected(question).await {
            return self.next.approve(question).await;
        }
        let Some(rewind) = &self.rewind else {
            return Approval::Yes;
        };
        let Err(why) = rewind.before_command().await else {
            return Approval::Yes;
        };
        let concern = Concern {
            kind: ConcernKind::CannotBeUndone,
            text: format!("can change files that `/rewind` could not bring back: {why}"),
        };
        let question = ApprovalRequest {
            concern: Some(&concern),
            // No pattern: the answer holds for this turn only (`permit_turn`).
            pattern: None,
            ..*question
        };
        let approval = self.next.approve(&question).await;
        if !matches!(approval, Approval::No(_)) {
            rewind.permit_turn().await;
        }
        approval
    }

    async fn before_commands(&self) {
        if let Some(rewind) = &self.rewind {
            // These were approved, by the user or a rule.
            let _ = rewind.before_command().await;
        }
    }

    fn mode(&self) -> PermissionMode {
        self.next.mode()
    }
}

impl SandboxedCommands {
    async fn may_rewrite_protected(&self, question: &ApprovalRequest<'_>) -> bool {
        let commands = &question.resource_access.commands;
        commands.iter().any(may_rewrite_work_tree)
            && tracks_protected(&self.workspace, &self.environment).await
    }
}

/// Returns true if a command may run a subcommand of git that rewrites the work tree.
fn may_rewrite_work_tree(command: &Command) -> bool {
    REWRITING.iter().any(|subcommand| {
        let pattern = CommandPattern::new(&format!("git {subcommand} *"));
        pattern.is_none_or(|pattern| pattern.may_run(command))
    })
}

/// Returns true if git tracks a protected file of the workspace, or cannot say.
async fn tracks_protected(workspace: &Path, environment: &BTreeMap<String, String>) -> bool {
    let mut git = untrusting_git(workspace, environment);
    git.args(["ls-files", "-z"]).stdin(Stdio::null());
    match git.kill_on_drop(true).output().await {
        Ok(listed) if listed.status.success() => {
            let listed = String::from_utf8_lossy(&listed.stdout);
            let mut files = listed.split('\0');
            files.any(|file| protected_name(Path::new(file)).is_some())
        }
        // Without a repository, nothing is rewritten. With one, git cannot say: it may be damaged, or belong to another user.
        Ok(_) => workspace
            .ancestors()
            .any(|folder| folder.join(".git").exists()),
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use cachalot_operation::CommandText;

    use super::*;

    #[test]
    fn commands_of_git_that_rewrite_are_found() {
        let line = |line: &str| {
            may_rewrite_work_tree(&Command {
                text: CommandText::Line(line.to_owned()),
                directory: None,
            })
        };
        for rewriting in [
            "git checkout main",
            "cd x && /usr/bin/git -C y stash",
            "sh -c 'git pull'",
            "g''it re\\set --hard",
            "$X checkout main",
        ] {
            assert!(line(rewriting), "{rewriting}");
        }
        for other in [
            "git status",
            "git log --merges",
            "echo merge",
            "cargo test reset",
        ] {
            assert!(!line(other), "{other}");
        }
    }
}
