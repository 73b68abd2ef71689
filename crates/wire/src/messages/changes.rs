//! Tools and effort that change within a conversation: a `system` message after a message of the user.
//!
//! Sources: @anthropic-ai/sdk 1.14.0 (`BetaSystemMessageParam`, `BetaRequestToolAdditionBlock`,
//! `BetaRequestToolRemovalBlock`);
//! <https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages> (2026-10): such a message
//! follows a message of the user, and an answer or nothing follows it;
//! <https://platform.claude.com/docs/en/build-with-claude/effort-per-message> (2026-11).

use memchr::memmem;

use super::json::Json;
use super::{COMPACT_BETA, COMPACT_EDIT, request};
use crate::{Rendered, SettingChanges};

/// Value of `anthropic-beta` for changes of tools.
const TOOLS_BETA: &str = "inline-tools-2026-09-15";

/// Value of `anthropic-beta` for changes of the effort.
const EFFORT_BETA: &str = "mid-conversation-output-config-2026-07-01";

/// The models for which changes of tools are documented. Newer ones may accept them, too.
const TOOLS_MODELS: [&str; 7] = [
    "claude-fable-5",
    "claude-fable-5-1",
    "claude-mythos-5",
    "claude-mythos-5-1",
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-opus-5-5",
];

/// The models for which changes of the effort are documented.
const EFFORT_MODELS: [&str; 8] = [
    "claude-fable-5-1",
    "claude-fable-5-2",
    "claude-haiku-5-5",
    "claude-mythos-5-1",
    "claude-mythos-5-2",
    "claude-opus-5",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
];

const ADDITION: &str = r#"{"type":"tool_addition","tool":{"type":"tool_definition","definition":"#;
const REMOVAL: &str = r#"{"type":"tool_removal","tool":{"type":"tool_reference","name":"#;
const EFFORT: &str = r#"{"role":"system","output_config":{"effort":"#;

/// Returns true if a model of Anthropic accepts changes of tools.
pub(super) fn accepts_tools(model: &str) -> bool {
    TOOLS_MODELS.contains(&model)
}

/// Returns true if a model of Anthropic accepts changes of the effort.
pub(super) fn accepts_effort(model: &str) -> bool {
    EFFORT_MODELS.contains(&model)
}

/// Renders the message.
pub(super) fn rendered(changes: &SettingChanges) -> Rendered {
    let mut json = Json::default();
    match &changes.effort {
        Some(effort) => json.raw(EFFORT).string(effort).raw("},"),
        None => json.raw(r#"{"role":"system","#),
    };
    json.raw(r#""content":["#);
    let mut mark_at = None;
    for name in &changes.removed {
        json.raw(if mark_at.is_some() { "," } else { "" })
            .raw(REMOVAL)
            .string(name)
            .raw("}}");
        mark_at = json.before_brace();
    }
    for tool in &changes.added {
        json.raw(if mark_at.is_some() { "," } else { "" })
            .raw(ADDITION);
        request::write_tool(&mut json, tool);
        json.raw("}}");
        mark_at = json.before_brace();
    }
    json.raw("]}");
    json.rendered(mark_at)
}

/// Returns the values of `anthropic-beta` that a body needs. Quotes are escaped within the texts of a body, so only
/// the arguments of a call could look like a change; an unneeded value has no effect.
pub(super) fn betas(body: &[u8]) -> Vec<&'static str> {
    let has = |part: &str| memmem::find(body, part.as_bytes()).is_some();
    let tools = (has(ADDITION) || has(REMOVAL)).then_some(TOOLS_BETA);
    let effort = has(EFFORT).then_some(EFFORT_BETA);
    let compacts = has(&format!("\"{COMPACT_EDIT}\"")) || has(r#""type":"compaction""#);
    let summaries = compacts.then_some(COMPACT_BETA);
    tools.into_iter().chain(effort).chain(summaries).collect()
}
