//! Permission modes: plan mode refuses calls that may change something, and accept-edits mode allows edits.

use cachalot_hooks::input::PermissionMode;
use cachalot_tools::{Origin, ReadyCall};

use crate::definition::{DELEGATION_TOOL, HANDOFF_TOOL};

/// The tools that edit files in the workspace and do nothing else.
const EDITING_TOOLS: [&str; 3] = ["edit_file", "write_file", "apply_patch"];

/// Returns the reason why a call must not be made in a mode: in plan mode, it is not known to be read-only. The
/// calls of a sub-agent or of another agent are judged one by one.
pub(super) fn refusal(mode: PermissionMode, ready: &ReadyCall) -> Option<String> {
    let tool = ready.call.name.as_str();
    // Work may be given away: the mode holds for the calls of the other agent, too.
    let is_permitted = ready.read_only || [DELEGATION_TOOL, HANDOFF_TOOL].contains(&tool);
    (mode == PermissionMode::Plan && !is_permitted).then(|| {
        format!(
            "The call of `{tool}` was not made: in plan mode, only tools that read are permitted. Finish the plan instead; it is carried out when the user has accepted it."
        )
    })
}

/// Returns true if the mode allows the call without a question: an edit of files by a built-in tool.
pub(super) fn accepts(mode: PermissionMode, ready: &ReadyCall) -> bool {
    mode == PermissionMode::AcceptEdits
        && ready.origin == Origin::BuiltIn
        && EDITING_TOOLS.contains(&ready.call.name.as_str())
}
