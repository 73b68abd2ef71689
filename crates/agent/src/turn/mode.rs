//! Permission modes: plan mode refuses calls that may change something, and accept-edits mode allows edits.

use cachalot_hooks::input::PermissionMode;
use cachalot_tools::{Origin, Preparation};

use super::candidate::Candidate;
use crate::definition::{DELEGATION_TOOL, HANDOFF_TOOL};

/// The tools that edit files in the workspace and do nothing else.
const EDITING_TOOLS: [&str; 3] = ["edit_file", "write_file", "apply_patch"];

/// Returns the reason why a call must not be made in a mode: in plan mode, it is not known to be read-only. The
/// calls of a sub-agent or of another agent are judged one by one.
pub(super) fn refusal(mode: PermissionMode, candidate: &Candidate) -> Option<String> {
    if mode != PermissionMode::Plan {
        return None;
    }
    let operation = candidate.ready()?;
    let is_permitted =
        operation.read_only || [DELEGATION_TOOL, HANDOFF_TOOL].contains(&operation.tool);
    (!is_permitted).then(|| {
        format!(
            "The call of `{}` was not made: in plan mode, only tools that read are permitted. Finish the plan instead; it is carried out when the user has accepted it.",
            operation.tool
        )
    })
}

/// Returns true if the mode allows the call without a question: an edit of files by a built-in tool.
pub(super) fn accepts(mode: PermissionMode, candidate: &Candidate) -> bool {
    let is_built_in = matches!(
        candidate.prepared.preparation,
        Preparation::Ready {
            origin: Origin::BuiltIn,
            ..
        }
    );
    mode == PermissionMode::AcceptEdits
        && is_built_in
        && EDITING_TOOLS.contains(&candidate.prepared.call.name.as_str())
}
