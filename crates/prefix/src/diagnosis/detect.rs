//! Detection of the likely cause of a difference, by patterns in the two pieces and their context.

use serde_json::Value;

use super::site::{DifferenceSite, text, value};
use super::snippet::member;
use super::spelling::{has_parts, is_reserialized, is_whitespace};
use super::tool_lists::{later_tools, listed_tools, tool_name};
use super::volatile_cause::volatile;
use super::{LikelyCause, RequestView, messages};
use cachalot_prompt::{Level, Node};

/// Maximum length of a routing key that providers accept, in characters.
const MAX_ROUTING_KEY_CHARS: usize = 64;

/// Returns the likely cause of a difference in bytes.
pub(super) fn cause(site: &DifferenceSite<'_>) -> Option<LikelyCause> {
    match site.level {
        Level::Tool => tools(site),
        Level::System => system(site),
        Level::Message => messages::cause(site),
    }
}

/// Parameter names by the cause that a change of them is.
const PARAMETERS: [(&[&str], LikelyCause); 10] = [
    (&["model"], LikelyCause::ModelSwitched),
    (
        &[
            "thinking",
            "reasoning",
            "reasoning_effort",
            "output_config",
            "effort",
            "thinking_budget",
            "enable_thinking",
            "include_reasoning",
        ],
        LikelyCause::ReasoningSetting,
    ),
    (
        &[
            "tool_choice",
            "parallel_tool_calls",
            "disable_parallel_tool_use",
        ],
        LikelyCause::ToolChoice,
    ),
    (
        &[
            "response_format",
            "output_format",
            "output",
            "text",
            "verbosity",
        ],
        LikelyCause::OutputSetting,
    ),
    (
        &[
            "speed",
            "web_search_options",
            "citations",
            "context_management",
            "plugins",
        ],
        LikelyCause::FeatureSetting,
    ),
    (
        &[
            "provider",
            "route",
            "models",
            "transforms",
            "service_tier",
            "inference_geo",
        ],
        LikelyCause::Routing,
    ),
    (
        &["prompt_cache_key", "cache_key"],
        LikelyCause::CacheKeyChanged,
    ),
    (&["prompt_cache_options"], LikelyCause::CacheOptions),
    (&["access_programs"], LikelyCause::AccessProgram),
    (&["thread"], LikelyCause::MessageThread),
];

/// Parameters that are not documented to change what the provider reads.
const UNREAD_PARAMETERS: [(&str, LikelyCause); 3] = [
    ("prompt_cache_options", LikelyCause::CacheOptions),
    ("access_programs", LikelyCause::AccessProgram),
    ("thread", LikelyCause::MessageThread),
];

/// Returns the cause of a difference in parameters that explains a loss only if nothing else does.
pub(super) fn unread_parameter(before: &[u8], after: &[u8]) -> Option<LikelyCause> {
    // Bodies that are not stored have no parameters.
    if before == b"}" || after == b"}" {
        return None;
    }
    let value = |tail: &[u8], name: &str| {
        let mut value = member(tail, name)?;
        if let Some(options) = value.as_object_mut() {
            // These differ from request to request.
            options.shift_remove("comparison_response_id");
            options.shift_remove("prewarm");
        }
        Some(value).filter(|value| !value.as_object().is_some_and(serde_json::Map::is_empty))
    };
    let is_same_thread =
        |name: &str| name == "thread" && continues_thread(after) && continues_thread(before);
    let changed = UNREAD_PARAMETERS
        .iter()
        .find(|(name, _)| !is_same_thread(name) && value(before, name) != value(after, name));
    changed.map(|(_, cause)| *cause)
}

/// True if a request adds messages to those that the provider has in a thread.
pub(super) fn continues_thread(tail: &[u8]) -> bool {
    let thread = member(tail, "thread");
    let kind = thread.as_ref().and_then(|thread| thread.get("type"));
    kind.and_then(Value::as_str) == Some("continue")
}

/// Returns the cause of a difference in a parameter.
pub(super) fn parameter(name: &str, next: &RequestView<'_>) -> LikelyCause {
    // Additional fields of our requests are named `extra.` plus their name.
    let name = name.strip_prefix("extra.").unwrap_or(name);
    let found = PARAMETERS.iter().find(|(names, _)| names.contains(&name));
    match found.map_or(LikelyCause::OtherParameter, |(_, cause)| *cause) {
        LikelyCause::CacheKeyChanged if has_long_key(next.tail) => LikelyCause::CacheKeyTooLong,
        cause => cause,
    }
}

/// True if the routing key in a body's other members is longer than providers accept.
pub(super) fn has_long_key(tail: &[u8]) -> bool {
    match member(tail, "prompt_cache_key") {
        Some(Value::String(key)) => key.chars().count() > MAX_ROUTING_KEY_CHARS,
        _ => false,
    }
}

fn tools(site: &DifferenceSite<'_>) -> Option<LikelyCause> {
    let of = |nodes: &[&Node]| -> Vec<Value> {
        let tools = nodes.iter().filter(|node| node.level == Level::Tool);
        tools.map(|node| value(text(node))).collect()
    };
    let (before, after) = (of(&site.previous), of(&site.next));
    if after.is_empty() {
        return Some(LikelyCause::ToolsOmitted);
    }
    let names = |tools: &[Value]| -> Vec<String> {
        tools
            .iter()
            .map(|tool| tool_name(tool).to_owned())
            .collect()
    };
    let found = listed_tools(&names(&before), &names(&after));
    Some(if let Some(cause) = found {
        cause
    } else if is_reserialized(&site.value_before(), &site.value_after()) {
        LikelyCause::Reserialized
    } else if is_whitespace(site.text_before(), site.text_after()) {
        LikelyCause::Whitespace
    } else {
        match volatile(site) {
            Some(LikelyCause::Counter) => LikelyCause::CounterInTool,
            Some(cause) => cause,
            None => LikelyCause::ToolRedefined,
        }
    })
}

fn system(site: &DifferenceSite<'_>) -> Option<LikelyCause> {
    if let Some(cause) = later_tools(&site.value_before(), &site.value_after()) {
        return Some(cause);
    }
    let is_web = |text: &str| {
        let kind = value(text);
        let kind = kind.get("type").and_then(Value::as_str).unwrap_or_default();
        kind.starts_with("web_search") || kind.starts_with("web_fetch")
    };
    if is_web(site.text_before()) || is_web(site.text_after()) {
        return Some(LikelyCause::WebTools);
    }
    if is_string(site.before) != is_string(site.after) && site.after.is_some() {
        return Some(LikelyCause::StringOrParts);
    }
    let (before, after) = (site.value_before(), site.value_after());
    if is_reserialized(&before, &after) {
        return Some(LikelyCause::Reserialized);
    }
    if has_parts(&before) != has_parts(&after) && site.after.is_some() {
        return Some(LikelyCause::StringOrParts);
    }
    if is_whitespace(site.text_before(), site.text_after()) {
        return Some(LikelyCause::Whitespace);
    }
    match volatile(site) {
        Some(LikelyCause::Counter) | None => section(site).or_else(|| volatile(site)),
        cause => cause,
    }
}

fn is_string(node: Option<&Node>) -> bool {
    node.is_some_and(|node| node.bytes.first() == Some(&b'"'))
}

/// Typical words of sections in system texts, by the cause that a change in such a section is.
const SECTIONS: [(LikelyCause, &[&str]); 8] = [
    (
        LikelyCause::GitStatus,
        &[
            "git status",
            "gitstatus",
            "git_status",
            "branch",
            "recent commits",
            "modified:",
            "uncommitted",
            "untracked",
        ],
    ),
    (
        LikelyCause::WorkingDirectory,
        &[
            "working directory",
            "cwd",
            "workspace",
            "directory structure",
            "file tree",
            "files in",
            "├──",
        ],
    ),
    (LikelyCause::SkillsIndex, &["skill"]),
    (
        LikelyCause::MemoryBlock,
        &[
            "memory",
            "memories",
            "remember",
            "recalled",
            "user profile",
            "facts about",
        ],
    ),
    (
        LikelyCause::ProjectFile,
        &[
            "agents.md",
            "claude.md",
            "gemini.md",
            ".cursorrules",
            ".hermes.md",
            "project instructions",
        ],
    ),
    (
        LikelyCause::GatewayContext,
        &[
            "chat_id",
            "channel",
            "sender",
            "message_id",
            "thread_id",
            "group chat",
            "chat id",
        ],
    ),
    (
        LikelyCause::ModelFooter,
        &[
            "model:",
            "provider:",
            "powered by",
            "model id",
            "model name",
        ],
    ),
    (
        LikelyCause::SurfaceSwitch,
        &[
            "platform:",
            "terminal",
            "interface",
            "desktop",
            "surface",
            "client:",
        ],
    ),
];

/// Maximum distance, in bytes, of a section's typical word before a difference.
const MAX_SECTION_DISTANCE: usize = 800;

/// Returns the cause for the section of a system text in which the difference is: by the last typical word
/// before it, or within the added or removed line.
fn section(site: &DifferenceSite<'_>) -> Option<LikelyCause> {
    let (before, after) = (site.text_before(), site.text_after());
    let longer = if before.len() > after.len() {
        before
    } else {
        after
    };
    let line = longer
        .get(site.offset..)
        .map_or(0, |rest| rest.find("\\n").unwrap_or(rest.len()));
    let end = longer.floor_char_boundary(site.offset + line.min(120));
    let start = longer.floor_char_boundary(site.offset.saturating_sub(MAX_SECTION_DISTANCE));
    let around = longer.get(start..end).unwrap_or_default().to_lowercase();
    let found = SECTIONS.iter().flat_map(|(cause, words)| {
        let around = &around;
        words
            .iter()
            .filter_map(move |word| Some((around.rfind(word)?, *cause)))
    });
    found.max_by_key(|(at, _)| *at).map(|(_, cause)| cause)
}
