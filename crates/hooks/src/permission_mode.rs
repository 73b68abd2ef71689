//! Permission modes.

use strum::{IntoStaticStr, VariantNames};

/// The tool calls that need the user's approval, with the names of Claude Code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "camelCase")]
pub enum PermissionMode {
    /// According to the rules.
    #[default]
    Default,
    /// Read-only: the agent makes a plan.
    Plan,
    /// File edits need no approval.
    AcceptEdits,
    /// Calls that need approval are decided by another party than the user.
    Auto,
    /// No questions: a call that is not allowed is denied.
    DontAsk,
    /// No questions: a call that is not denied is allowed.
    BypassPermissions,
}

impl PermissionMode {
    /// All modes.
    pub const ALL: [Self; 6] = [
        Self::Default,
        Self::Plan,
        Self::AcceptEdits,
        Self::Auto,
        Self::DontAsk,
        Self::BypassPermissions,
    ];

    /// The names of the modes, in the order of [`PermissionMode::ALL`].
    pub const NAMES: &'static [&'static str] = Self::VARIANTS;

    /// The name: `acceptEdits`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}
