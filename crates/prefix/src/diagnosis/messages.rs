//! Detection of the likely cause of a difference in the messages.

use serde_json::Value;

use super::LikelyCause;
use super::site::{DifferenceSite, text};
use super::spelling::{has_parts, is_reserialized, is_whitespace};
use super::volatile_cause::volatile;
use super::{RequestView, tool_lists};
use cachalot_prompt::{Level, Node};

/// A difference of two messages, parsed.
struct MessagePair<'a> {
    site: &'a DifferenceSite<'a>,
    before: Value,
    after: Value,
}

/// Detectors of one cause each, the most specific first; the first match wins.
const DETECTORS: [fn(&MessagePair<'_>) -> Option<LikelyCause>; 16] = [
    later_tools,
    effort,
    reasoning,
    images,
    reserialized,
    whitespace,
    reminder,
    context,
    parts,
    tool_result,
    inserted,
    window,
    compaction,
    merged,
    goal_first,
    prefill,
];

pub(super) fn cause(site: &DifferenceSite<'_>) -> Option<LikelyCause> {
    let pair = MessagePair {
        before: site.value_before(),
        after: site.value_after(),
        site,
    };
    let found = DETECTORS.iter().find_map(|detector| detector(&pair));
    found.or_else(|| volatile(site)).or_else(|| edited(&pair))
}

fn role(message: &Value) -> &str {
    message
        .get("role")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The concatenated texts of a message; for a string, the string itself.
fn said(message: &Value) -> String {
    let content = ["content", "output"]
        .iter()
        .find_map(|name| message.get(name));
    match content.unwrap_or(message) {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().map(|block| match block.get("text") {
                Some(text) => text.as_str().unwrap_or_default().to_owned(),
                None if block.get("content").is_some() => said(block),
                None => String::new(),
            });
            texts.collect()
        }
        _ => String::new(),
    }
}

/// Returns the user's text in a piece; `None` if the piece is not from the user.
pub(crate) fn user_text(node: &Node) -> Option<String> {
    let message: Value = serde_json::from_slice(&node.bytes).ok()?;
    let users = message.is_string() || role(&message) == "user" && !is_tool_result(&message);
    users.then(|| said(&message))
}

/// Counts the objects in a value that have one of these types.
fn count(value: &Value, types: &[&str]) -> usize {
    match value {
        Value::Object(members) => {
            let kind = members.get("type").and_then(Value::as_str);
            let own = kind.is_some_and(|kind| types.contains(&kind));
            usize::from(own)
                + members
                    .values()
                    .map(|value| count(value, types))
                    .sum::<usize>()
        }
        Value::Array(elements) => elements.iter().map(|value| count(value, types)).sum(),
        _ => 0,
    }
}

fn later_tools(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    let both = pair.site.before.is_some() && pair.site.after.is_some();
    // A message that moved is recognized by its neighbors.
    let is_moved = inserted(pair).or_else(|| window(pair)).is_some();
    let found = (both && !is_moved).then(|| tool_lists::later_tools(&pair.before, &pair.after));
    found.flatten()
}

/// Matches messages that differ in the effort that they set.
fn effort(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    let without = |message: &Value| {
        let mut message = message.clone();
        let config = message.as_object_mut()?.shift_remove("output_config");
        Some((message, config))
    };
    let (before, had) = without(&pair.before)?;
    let (after, has) = without(&pair.after)?;
    let is_update =
        |item: &Value| item.get("type").and_then(Value::as_str) == Some("configuration_update");
    let is_set = had != has && before == after || is_update(&before) && is_update(&after);
    is_set.then_some(LikelyCause::MessageEffort)
}

fn reasoning(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    let thoughts = |message: &Value| {
        let fields = ["reasoning_content", "reasoning", "reasoning_details"];
        let fields = fields.iter().filter(|name| message.get(**name).is_some());
        count(message, &["thinking", "redacted_thinking", "reasoning"]) + fields.count()
    };
    let fewer = thoughts(&pair.after) < thoughts(&pair.before);
    fewer.then_some(LikelyCause::ReasoningStripped)
}

const IMAGES: [&str; 3] = ["image", "image_url", "input_image"];

fn images(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    let same_role = role(&pair.before) == role(&pair.after);
    match (count(&pair.before, &IMAGES), count(&pair.after, &IMAGES)) {
        (0, 0) => None,
        (before, after) if before != after && same_role => Some(LikelyCause::ImagesChanged),
        _ if without_images(&pair.before) == without_images(&pair.after) => {
            Some(LikelyCause::ImageReencoded)
        }
        _ => None,
    }
}

fn without_images(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kind = members.get("type").and_then(Value::as_str);
            if kind.is_some_and(|kind| IMAGES.contains(&kind)) {
                Value::Null
            } else {
                let members = members.iter();
                members
                    .map(|(name, value)| (name.clone(), without_images(value)))
                    .collect()
            }
        }
        Value::Array(elements) => elements.iter().map(without_images).collect(),
        other => other.clone(),
    }
}

fn reserialized(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    is_reserialized(&pair.before, &pair.after).then_some(LikelyCause::Reserialized)
}

fn whitespace(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    is_whitespace(pair.site.text_before(), pair.site.text_after())
        .then_some(LikelyCause::Whitespace)
}

/// Matches a message of the same role with other content.
fn edited(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    if pair.site.before.is_none() || role(&pair.before) != role(&pair.after) {
        return None;
    }
    let is_first = pair
        .site
        .last_common
        .is_none_or(|node| node.level != Level::Message);
    Some(if is_first {
        LikelyCause::FirstMessageEdited
    } else {
        LikelyCause::MessageEdited
    })
}

/// True if exactly one of two requests has images.
pub(super) fn images_differ(previous: &RequestView<'_>, next: &RequestView<'_>) -> bool {
    let has = |sending: &RequestView<'_>| {
        let mut nodes = sending.prompt.backwards();
        nodes.any(|node| memchr::memmem::find(&node.bytes, br#""type":"image""#).is_some())
    };
    has(previous) != has(next)
}

/// The first message whose thinking the provider reads in one request and drops in the next.
pub(super) struct DroppedThinking {
    /// Index of the message, from 0.
    pub(super) index: usize,
    /// Index of its piece.
    pub(super) depth: u32,
}

/// Finds thinking in a message that both requests contain: after the last question of the previous request,
/// and before the last question of the next one.
pub(super) fn dropped_thinking(
    previous: &RequestView<'_>,
    next: &RequestView<'_>,
) -> Option<DroppedThinking> {
    let question = |sending: &RequestView<'_>| {
        let mut nodes = sending.prompt.backwards();
        let question = nodes.find(|node| node.level == Level::Message && is_question(node));
        question.map(|node| node.depth)
    };
    let (was, is) = (question(previous), question(next)?);
    if was.is_some_and(|was| was >= is) {
        return None;
    }
    let frozen = next.prompt.frozen().len();
    let end = previous.prompt.len();
    let nodes = next.prompt.nodes();
    let dropped = nodes.into_iter().find(|node| {
        let depth = node.depth as usize;
        depth >= frozen
            && depth < end
            && was.is_none_or(|was| node.depth > was)
            && node.depth < is
            && [
                &br#""type":"thinking""#[..],
                br#""type":"redacted_thinking""#,
            ]
            .iter()
            .any(|kind| memchr::memmem::find(&node.bytes, kind).is_some())
    })?;
    Some(DroppedThinking {
        index: dropped.depth as usize - frozen,
        depth: dropped.depth,
    })
}

/// True if the user wrote the message: it does not only hold tool results.
fn is_question(node: &Node) -> bool {
    let message: Value = serde_json::from_slice(&node.bytes).unwrap_or_default();
    let blocks = message.get("content").and_then(Value::as_array);
    let is_result =
        |block: &Value| block.get("type").and_then(Value::as_str) == Some("tool_result");
    role(&message) == "user" && blocks.is_none_or(|blocks| !blocks.iter().all(is_result))
}

fn parts(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    let other = has_parts(&pair.before) != has_parts(&pair.after);
    (other && said(&pair.before) == said(&pair.after)).then_some(LikelyCause::StringOrParts)
}

/// Tags with which clients mark reminders for the model.
const REMINDERS: [&str; 5] = [
    "<system-reminder",
    "<system_reminder",
    "<reminder",
    "<skill",
    "<available_skills",
];

/// Tags with which clients mark the context of a turn.
const CONTEXTS: [&str; 7] = [
    "<environment",
    "<turn-context",
    "<turn_context",
    "<context",
    "<current",
    "<ide_",
    "<info-msg",
];

fn occurrences(text: &str, tags: &[&str]) -> usize {
    tags.iter().map(|tag| text.matches(tag).count()).sum()
}

fn reminder(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    let (before, after) = (pair.site.text_before(), pair.site.text_after());
    let moved = occurrences(before, &REMINDERS) != occurrences(after, &REMINDERS);
    moved.then_some(LikelyCause::ReminderMoved)
}

/// Matches a difference within a block of context.
fn context(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    let (before, after) = (pair.site.text_before(), pair.site.text_after());
    let (had, has) = (
        occurrences(before, &CONTEXTS),
        occurrences(after, &CONTEXTS),
    );
    if had != has {
        return Some(LikelyCause::ReminderMoved);
    }
    let common = before.get(..pair.site.offset)?;
    let last = CONTEXTS.iter().filter_map(|tag| common.rfind(tag)).max()?;
    let closed = common.get(last..)?.contains("</");
    (!closed).then_some(LikelyCause::ContextRewritten)
}

fn among(nodes: &[&Node], node: Option<&Node>) -> bool {
    node.is_some_and(|node| {
        let mut others = nodes.iter().filter(|other| other.level == Level::Message);
        others.any(|other| other.bytes == node.bytes)
    })
}

/// Matches if the old piece is now further behind.
fn inserted(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    let behind = pair.site.next.get(pair.site.at + 1..)?;
    among(behind, pair.site.before).then_some(LikelyCause::ContextInserted)
}

/// Matches if the new piece was further behind before.
fn window(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    let behind = pair.site.previous.get(pair.site.at + 1..)?;
    among(behind, pair.site.after).then_some(LikelyCause::SlidingWindow)
}

/// Typical words of summaries that replace a conversation.
const SUMMARY: [&str; 7] = [
    "summary",
    "summarized",
    "summarised",
    "compacted",
    "condensed",
    "conversation so far",
    "previous conversation",
];

fn compaction(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    let is_summary = |node: &&Node| {
        let text = text(node).to_lowercase();
        SUMMARY.iter().any(|word| text.contains(word))
    };
    let site = pair.site;
    let shorter = site.next.len() < site.previous.len();
    let now = site.next.iter().skip(site.at).take(2).any(&is_summary);
    let was = site.before.as_ref().is_some_and(is_summary);
    (shorter && now && !was).then_some(LikelyCause::Compaction)
}

fn is_tool_result(message: &Value) -> bool {
    let kind = message.get("type").and_then(Value::as_str);
    role(message) == "tool"
        || kind.is_some_and(|kind| kind.ends_with("_call_output"))
        || count(message, &["tool_result"]) > 0
}

/// The ID of the first call that a message answers.
fn answered(message: &Value) -> Option<&str> {
    fn call(value: &Value) -> Option<&str> {
        let names = ["tool_call_id", "call_id", "tool_use_id"];
        let id = names.iter().find_map(|name| value.get(name))?;
        id.as_str()
    }
    let blocks = message.get("content").and_then(Value::as_array);
    call(message).or_else(|| blocks?.iter().find_map(call))
}

fn tool_result(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    /// Minimum length in bytes of a result that identifies it: shorter texts occur by chance.
    const TELLING: usize = 16;
    let same = answered(&pair.before) == answered(&pair.after);
    if !same || !is_tool_result(&pair.before) || !is_tool_result(&pair.after) {
        return None;
    }
    if volatile(pair.site) == Some(LikelyCause::Timestamp) {
        return Some(LikelyCause::RepairTimestamp);
    }
    let result = said(&pair.before);
    let later = pair.site.next.get(pair.site.at + 1..).unwrap_or_default();
    let again = result.len() >= TELLING
        && later.iter().any(|node| {
            let message = serde_json::from_str(text(node)).unwrap_or_default();
            said(&message).contains(&result)
        });
    Some(if again {
        LikelyCause::ToolResultDeduplicated
    } else {
        LikelyCause::ToolResultPruned
    })
}

fn merged(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    let users = role(&pair.before) == "user" && role(&pair.after) == "user";
    let (before, after) = (said(&pair.before), said(&pair.after));
    let grown = after.len() > before.len() && after.starts_with(&before);
    (users && grown && !before.is_empty()).then_some(LikelyCause::MessagesMerged)
}

/// Matches first messages that end alike and begin differently.
fn goal_first(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    /// Maximum length in bytes of a common end that two messages may have by chance.
    const CHANCE: usize = 100;
    let (before, after) = (pair.site.text_before(), pair.site.text_after());
    let first = pair
        .site
        .last_common
        .is_none_or(|node| node.level != Level::Message);
    let ends = before.bytes().rev().zip(after.bytes().rev());
    let shared = ends.take_while(|(one, other)| one == other).count();
    let most = shared * 2 > before.len().min(after.len());
    let early = pair.site.offset < before.len() / 4;
    let word = volatile(pair.site).is_none();
    (first && early && word && most && shared > CHANCE).then_some(LikelyCause::GoalFirst)
}

/// Matches if the last message was a prefilled beginning of an answer, which has changed.
fn prefill(pair: &MessagePair<'_>) -> Option<LikelyCause> {
    let last = pair.site.at + 1 == pair.site.previous.len();
    (last && role(&pair.before) == "assistant").then_some(LikelyCause::PrefillChanged)
}
