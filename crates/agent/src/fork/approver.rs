//! Answers to the approval requests of a fork.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_hooks::input::PermissionMode;

use crate::event::{Approval, ApprovalRequest, Approver, ConcernKind, DenyAll};

/// Answers the approval requests of a fork: calls of the listed tools are approved, unless a rule or a hook
/// requires the user's approval, or the call writes a protected file or leaves the sandbox. `skill_manage` may write
/// protected files, because that is its purpose. In plan mode, no fork may change anything either.
pub(super) struct ForkApprover {
    pub(super) listed: Vec<String>,
    /// The approver of the chat or turn to which the fork belongs.
    pub(super) parent: Arc<dyn Approver>,
}

#[async_trait]
impl Approver for ForkApprover {
    async fn approve(&self, question: &ApprovalRequest<'_>) -> Approval {
        let is_listed = self.listed.contains(&question.call.name);
        let needs_user = match question.concern.map(|concern| concern.kind) {
            // Skills are protected, and writing them is the purpose of this tool.
            Some(ConcernKind::WritesProtected) => question.call.name != "skill_manage",
            Some(ConcernKind::LeavesSandbox) => true,
            Some(ConcernKind::SendsData | ConcernKind::CannotBeUndone) | None => false,
        };
        let is_free = question.rule.is_none() && question.why.is_none() && !needs_user;
        if is_listed && is_free {
            Approval::Yes
        } else {
            DenyAll.approve(question).await
        }
    }

    async fn before_commands(&self) {
        self.parent.before_commands().await;
    }

    fn mode(&self) -> PermissionMode {
        match self.parent.mode() {
            PermissionMode::Plan => PermissionMode::Plan,
            _ => DenyAll.mode(),
        }
    }
}
