//! Handles text before the JSON of a handler: a shell profile may print lines.

use serde_json::Value;

use super::output_object::{OutputObject, snake};
use super::{Dialect, strict};
use crate::Event;
use crate::contract::{BlockEffect, SpecificOutput};

/// Maximum characters of the extra lines in a message.
const MAX_EXCERPT_CHARS: usize = 80;

/// Keys that mark a text as a decision, even if it is no valid JSON.
const DECISIONS: [&str; 4] = [
    "\"decision\"",
    "\"permissionDecision\"",
    "\"permission_decision\"",
    "\"continue\"",
];

/// Splits off an output that starts on a line of its own and extends to the end.
pub(super) fn object(said: &[u8]) -> Option<(&str, &[u8])> {
    let text = std::str::from_utf8(said).ok()?;
    let ends = text.match_indices('\n').map(|(at, _)| at + 1);
    let begins_object = |at: &usize| text[*at..].trim_start_matches([' ', '\t']).starts_with('{');
    let mut begins = ends.filter(begins_object);
    begins.find_map(|at| {
        let value: Value = serde_json::from_str(&text[at..]).ok()?;
        is_output(&value).then(|| (&text[..at], text[at..].trim_start().as_bytes()))
    })
}

/// True if an object has a key of an output. Otherwise it is a text that ends in JSON.
fn is_output(value: &Value) -> bool {
    let mut keys = OutputObject::new(Some(value)).keys();
    keys.any(|key| strict::is_key(&snake(key)))
}

/// The warning about extra lines.
pub(super) fn warning(before: &str) -> String {
    let line = before.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = line
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_EXCERPT_CHARS)
        .collect();
    format!("a hook printed more than its JSON, which was left out: {shown}")
}

/// True if a text that is no output contains a denial: a key of a decision before a word that denies.
pub(super) fn names_denial(event: Event, said: &[u8]) -> bool {
    /// Values of [`DECISIONS`] that deny, and `behavior` within a `decision`.
    const DENIALS: [&str; 3] = ["\"deny\"", "\"block\"", "false"];
    let text = String::from_utf8_lossy(said);
    let denies = |key: &&str| {
        // A search and no parser, because the output is no valid JSON.
        let values = text.split(*key).skip(1).map(str::trim_start);
        let values = values.filter_map(|rest| rest.strip_prefix(':'));
        values
            .map(str::trim_start)
            .any(|value| DENIALS.iter().any(|denial| value.starts_with(denial)))
    };
    decides(event) && DECISIONS.iter().chain([&"\"behavior\""]).any(denies)
}

/// True if an output can decide something at the event.
fn decides(event: Event) -> bool {
    let contract = event.contract();
    contract.blocks != BlockEffect::Nothing || contract.honours(SpecificOutput::PermissionDecision)
}

/// True if a text looks like a decision that cannot be parsed: a guard must not be ignored. Where plain
/// text is context, only text at the start of a line counts, because the text may mention decisions.
pub(super) fn is_mangled(dialect: Dialect, event: Event, said: &[u8]) -> bool {
    let text = String::from_utf8_lossy(said);
    let is_context = dialect.vocabulary().plain_context.contains(&event);
    let mut begins = text.match_indices('{').map(|(at, _)| at);
    let begin =
        begins.find(|at| !is_context || text[..*at].trim_end_matches([' ', '\t']).ends_with('\n'));
    let Some(begin) = begin.filter(|_| decides(event)) else {
        return false;
    };
    let has = |key: &&str| {
        let behind = text[begin..].split(*key).skip(1);
        behind
            .map(str::trim_start)
            .any(|rest| rest.starts_with(':'))
    };
    DECISIONS.iter().any(has)
}
