//! Mode of a chat, which the user changes while it runs.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_agent::{Approval, ApprovalRequest, Approver};
use cachalot_hooks::input::PermissionMode;
use parking_lot::Mutex;

/// The end of a message in plan mode.
const IN_PLAN_MODE: &str = "\n\n(Plan mode: only tools that read are permitted, and other calls are refused. Look at what is needed, then end with a plan that the user can accept: the steps, the files to change, and how to check the result. Do not begin to carry it out.)";
/// The end of the first message after plan mode.
const AFTER_PLAN_MODE: &str = "\n\n(Plan mode has ended: all tools are permitted again.)";

/// Mode of a chat. Clones share it.
#[derive(Clone, Default)]
pub(super) struct ChatMode(Arc<Mutex<ModeState>>);

#[derive(Default)]
struct ModeState {
    mode: PermissionMode,
    /// True if the model was informed of plan mode last.
    is_planning: bool,
}

impl ChatMode {
    pub(super) fn get(&self) -> PermissionMode {
        self.0.lock().mode
    }

    pub(super) fn set(&self, mode: PermissionMode) {
        self.0.lock().mode = mode;
    }

    /// Changes to the next mode: normal, accept edits, plan.
    pub(super) fn next(&self) {
        let mut state = self.0.lock();
        state.mode = match state.mode {
            PermissionMode::AcceptEdits => PermissionMode::Plan,
            PermissionMode::Plan => PermissionMode::Default,
            _ => PermissionMode::AcceptEdits,
        };
    }

    /// Returns the name of the mode in the status line; empty for the normal mode.
    pub(super) fn label(&self) -> &'static str {
        match self.get() {
            PermissionMode::Plan => "plan mode",
            PermissionMode::AcceptEdits => "accept edits",
            _ => "",
        }
    }

    /// Adds the mode to a message. The mode is part of no earlier message, of the instruction or of the list of
    /// tools, so that the provider's cache still reads what was sent before.
    pub(super) fn announce(&self, message: &str) -> String {
        let mut state = self.0.lock();
        let is_planning = state.mode == PermissionMode::Plan;
        let note = match (
            std::mem::replace(&mut state.is_planning, is_planning),
            is_planning,
        ) {
            (_, true) => IN_PLAN_MODE,
            (true, false) => AFTER_PLAN_MODE,
            (false, false) => "",
        };
        format!("{message}{note}")
    }

    /// Forgets what the model was informed of: another conversation begins.
    pub(super) fn forget_announcement(&self) {
        self.0.lock().is_planning = false;
    }
}

/// Removes the announcement of a mode from a message.
pub(super) fn without_announcement(message: &str) -> &str {
    let notes = [IN_PLAN_MODE, AFTER_PLAN_MODE];
    let stripped = notes
        .iter()
        .find_map(|note| message.strip_suffix(note.trim_end()));
    stripped.unwrap_or(message)
}

/// Approver of a chat with a mode.
pub(super) struct ModeApprover {
    pub(super) next: Arc<dyn Approver>,
    pub(super) mode: ChatMode,
}

#[async_trait]
impl Approver for ModeApprover {
    async fn approve(&self, question: &ApprovalRequest<'_>) -> Approval {
        self.next.approve(question).await
    }

    async fn before_commands(&self) {
        self.next.before_commands().await;
    }

    fn mode(&self) -> PermissionMode {
        match (self.mode.get(), self.next.mode()) {
            (PermissionMode::Plan, _) => PermissionMode::Plan,
            // Without a mode of the chat, and if more than edits is accepted.
            (PermissionMode::Default, mode) | (_, mode @ PermissionMode::BypassPermissions) => mode,
            (mode, _) => mode,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_announced_in_messages_only_while_they_matter() {
        let mode = ChatMode::default();
        assert_eq!(mode.announce("one"), "one");
        mode.next();
        assert_eq!(
            (mode.label(), mode.announce("two").as_str()),
            ("accept edits", "two")
        );
        mode.next();
        let planned = mode.announce("three");
        assert!(planned.starts_with("three\n\n(Plan mode:"), "{planned}");
        assert_eq!(without_announcement(&planned), "three");
        assert_eq!(mode.announce("four"), format!("four{IN_PLAN_MODE}"));
        mode.next();
        assert_eq!(mode.label(), "");
        assert_eq!(mode.announce("five"), format!("five{AFTER_PLAN_MODE}"));
        assert_eq!(mode.announce("six"), "six");
    }
}
