//! Detection of the likely cause of a difference, by patterns in the two pieces and their context.

use std::collections::BTreeSet;

use cachalot_core::secret::find_credentials;
use serde_json::Value;

use super::volatile::{VolatileKind, is_part_of_date, kind, trimmed, word_at};
use super::{LikelyCause, RequestView, messages};
use cachalot_prompt::continuation::{self, PrefixBreak, sent_pieces};
use cachalot_prompt::{Level, Node, Prompt};

/// Maximum length of a routing key that providers accept, in characters.
const MAX_ROUTING_KEY_CHARS: usize = 64;

/// The first place where two prompts differ.
pub(super) struct DifferenceSite<'a> {
    pub(super) level: Level,
    /// The pieces of the previous request that have bytes.
    pub(super) previous: Vec<&'a Node>,
    /// The pieces of the next request that have bytes.
    pub(super) next: Vec<&'a Node>,
    /// The index in both lists of the first piece that differs.
    pub(super) at: usize,
    /// The pieces of this level at that index, before and after.
    pub(super) before: Option<&'a Node>,
    pub(super) after: Option<&'a Node>,
    /// The first byte within these pieces that differs.
    pub(super) offset: usize,
    /// Number of bytes before these pieces.
    pub(super) bytes_before: u64,
    /// The last piece of the common prefix.
    pub(super) last_common: Option<&'a Node>,
}

impl<'a> DifferenceSite<'a> {
    pub(super) fn of(broken: &PrefixBreak, previous: &'a Prompt, next: &'a Prompt) -> Self {
        let (previous, next) = (sent_pieces(previous), sent_pieces(next));
        let both = previous.iter().zip(&next);
        let same =
            |(one, other): &(&&Node, &&Node)| one.level == other.level && one.bytes == other.bytes;
        let at = both.take_while(same).count();
        let of_level = |node: &&Node| node.level == broken.level;
        let last_common = at.checked_sub(1).and_then(|at| next.get(at).copied());
        Self {
            level: broken.level,
            at,
            before: previous.get(at).copied().filter(of_level),
            after: next.get(at).copied().filter(of_level),
            offset: match broken.cause {
                continuation::BreakCause::Changed { offset } => offset,
                _ => 0,
            },
            bytes_before: last_common.map_or(0, |node| node.total),
            last_common,
            previous,
            next,
        }
    }

    /// The text of the piece before; empty if there was none.
    pub(super) fn text_before(&self) -> &'a str {
        self.before.map_or("", text)
    }

    /// The text of the piece after; empty if there is none.
    pub(super) fn text_after(&self) -> &'a str {
        self.after.map_or("", text)
    }

    pub(super) fn value_before(&self) -> Value {
        value(self.text_before())
    }

    pub(super) fn value_after(&self) -> Value {
        value(self.text_after())
    }
}

/// The text of a piece.
pub(super) fn text(node: &Node) -> &str {
    std::str::from_utf8(&node.bytes).unwrap_or_default()
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// Returns the likely cause of a difference in bytes.
pub(super) fn cause(site: &DifferenceSite<'_>) -> Option<LikelyCause> {
    match site.level {
        Level::Tool => tools(site),
        Level::System => system(site),
        Level::Message => messages::cause(site),
    }
}

/// Parameter names by the cause that a change of them is.
const PARAMETERS: [(&[&str], LikelyCause); 7] = [
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
];

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
    match super::snippet::member(tail, "prompt_cache_key") {
        Some(Value::String(key)) => key.chars().count() > MAX_ROUTING_KEY_CHARS,
        _ => false,
    }
}

/// The name of a tool; tools that a provider runs are named by their type.
fn tool_name(tool: &Value) -> &str {
    let name = tool
        .get("name")
        .or_else(|| tool.get("function")?.get("name"));
    let name = name.or_else(|| tool.get("type"));
    name.and_then(Value::as_str).unwrap_or_default()
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
    let (names_before, names_after) = (names(&before), names(&after));
    let (had, has): (BTreeSet<_>, BTreeSet<_>) =
        (names_before.iter().collect(), names_after.iter().collect());
    let of_web = |name: &&&String| {
        ["web_search", "web_fetch"]
            .iter()
            .any(|web| name.starts_with(web))
    };
    Some(
        if had.symmetric_difference(&has).any(|name| of_web(&name)) {
            LikelyCause::WebTools
        } else if had.difference(&has).next().is_some() {
            LikelyCause::ToolRemoved
        } else if has.difference(&had).next().is_some() {
            LikelyCause::ToolAdded
        } else if names_before != names_after {
            LikelyCause::ToolsReordered
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
        },
    )
}

fn system(site: &DifferenceSite<'_>) -> Option<LikelyCause> {
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

/// True if the content of a message is a list.
pub(super) fn has_parts(message: &Value) -> bool {
    message.get("content").is_some_and(Value::is_array)
}

/// True if two pieces contain the same JSON value in different spellings.
pub(super) fn is_reserialized(before: &Value, after: &Value) -> bool {
    !before.is_null()
        && (before == after || with_parsed_arguments(before) == with_parsed_arguments(after))
}

/// True if two pieces differ only in white space within their strings.
pub(super) fn is_whitespace(before: &str, after: &str) -> bool {
    fn seen(text: &str) -> String {
        let mut seen = String::with_capacity(text.len());
        let mut signs = text.chars();
        while let Some(sign) = signs.next() {
            match sign {
                '\\' => match signs.next() {
                    Some('n' | 't' | 'r') | None => {}
                    Some(other) => seen.extend(['\\', other]),
                },
                sign if sign.is_whitespace() => {}
                sign => seen.push(sign),
            }
        }
        seen
    }
    !before.is_empty() && !after.is_empty() && seen(before) == seen(after)
}

/// Returns the value with the JSON text in `arguments` members parsed.
fn with_parsed_arguments(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| match value {
                Value::String(text) if name == "arguments" => {
                    let read = serde_json::from_str(text);
                    (name.clone(), read.unwrap_or_else(|_| value.clone()))
                }
                _ => (name.clone(), with_parsed_arguments(value)),
            })
            .collect(),
        Value::Array(elements) => elements.iter().map(with_parsed_arguments).collect(),
        other => other.clone(),
    }
}

/// Returns the cause if the difference is in a word that changes by itself.
pub(super) fn volatile(site: &DifferenceSite<'_>) -> Option<LikelyCause> {
    let (before, after) = (site.text_before(), site.text_after());
    let (was, is) = (word_at(before, site.offset), word_at(after, site.offset));
    let number = |word: &str| {
        let word = trimmed(word);
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    if trimmed(was) == trimmed(is) && !was.is_empty() {
        // The difference is in punctuation behind an unchanged word.
        return None;
    }
    if in_credential(before, site.offset) || in_credential(after, site.offset) {
        return Some(LikelyCause::Credential);
    }
    match (kind(was), kind(is)) {
        (Some(VolatileKind::Time), Some(VolatileKind::Time)) => Some(LikelyCause::Timestamp),
        (Some(VolatileKind::Date), Some(VolatileKind::Date)) => Some(LikelyCause::Date),
        (Some(VolatileKind::Identifier), Some(_)) | (Some(_), Some(VolatileKind::Identifier)) => {
            Some(LikelyCause::Identifier)
        }
        _ if is_part_of_date(was) && is_part_of_date(is) => Some(LikelyCause::Date),
        _ if number(was) && number(is) && follows_a_date(before, site.offset) => {
            Some(LikelyCause::Date)
        }
        _ if number(was) && number(is) => Some(LikelyCause::Counter),
        _ => None,
    }
}

/// Number of bytes before and after a place that are searched for a credential.
const SEARCHED: usize = 1_024;

/// True if something that looks like a credential is at this place.
fn in_credential(text: &str, at: usize) -> bool {
    let start = floor(text, at.saturating_sub(SEARCHED));
    let end = floor(text, at.saturating_add(SEARCHED));
    let found = text.get(start..end).map(find_credentials);
    let at = at - start.min(at);
    found.is_some_and(|found| {
        found
            .iter()
            .any(|range| (range.start..=range.end).contains(&at))
    })
}

/// True if one of the last words before a place names a day or a month.
fn follows_a_date(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    let mut words = before.rsplit([' ', ',', '"', '\\']).take(4);
    words.any(is_part_of_date)
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
    let end = floor(longer, site.offset + line.min(120));
    let start = floor(longer, site.offset.saturating_sub(MAX_SECTION_DISTANCE));
    let around = longer.get(start..end).unwrap_or_default().to_lowercase();
    let found = SECTIONS.iter().flat_map(|(cause, words)| {
        let around = &around;
        words
            .iter()
            .filter_map(move |word| Some((around.rfind(word)?, *cause)))
    });
    found.max_by_key(|(at, _)| *at).map(|(_, cause)| cause)
}

/// The last character boundary at or before a place.
pub(super) fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}
