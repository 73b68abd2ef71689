//! JSON as a spanned tree.

use cachalot_core::Problem;
use cachalot_core::tree::{self, Entry, Kind, Node};
use serde_json::Value;

/// Reads JSON, which is YAML but for two things: it may be indented with tabs, and it may write a
/// character as two halves (`\ud83d\ude00`). Settings of other runtimes may have comments besides
/// (`//`, `/* */`).
///
/// # Errors
/// Everything that is wrong with the text.
pub(super) fn parse(file: &str, text: &str) -> Result<Node, Vec<Problem>> {
    let plain = plain(text);
    match tree::parse(file, &plain) {
        Err(problems) if is_beyond_yaml(&problems) => match serde_json::from_str(&plain) {
            Ok(value) => Ok(placed(value, &whole(file, text))),
            Err(_) => Err(problems),
        },
        read => read,
    }
}

/// The text with spaces for tabs and comments, so that every place stays where it is.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, is_kept) = match first {
            '"' => (quoted(rest), true),
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), false),
            '/' if rest.starts_with("/*") => (
                rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
                false,
            ),
            other => (other.len_utf8(), other != '\t'),
        };
        let (piece, behind) = rest.split_at(length);
        match is_kept {
            true => plain.push_str(piece),
            false => plain.extend(
                piece
                    .bytes()
                    .map(|byte| if byte == b'\n' { '\n' } else { ' ' }),
            ),
        }
        rest = behind;
    }
    plain
}

/// How long the quoted text is that the text begins with.
fn quoted(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Whether another reader might read it: what is written twice, or too deep, stays wrong.
fn is_beyond_yaml(problems: &[Problem]) -> bool {
    problems.iter().all(|problem| problem.code == "yaml-syntax")
}

fn whole(file: &str, text: &str) -> cachalot_core::Place {
    cachalot_core::Place {
        file: file.into(),
        line: 1,
        column: 1,
        start: 0,
        len: text.len(),
    }
}

/// The value, all of it at one place.
fn placed(value: Value, place: &cachalot_core::Place) -> Node {
    let kind = match value {
        Value::Null => Kind::Null,
        Value::Bool(truth) => Kind::Boolean(truth),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => Kind::Integer(integer),
            (None, Some(integer)) => Kind::Unsigned(integer),
            (None, None) => Kind::Float(number.as_f64().unwrap_or(f64::INFINITY)),
        },
        Value::String(text) => Kind::Text(text),
        Value::Array(items) => {
            Kind::List(items.into_iter().map(|item| placed(item, place)).collect())
        }
        Value::Object(map) => {
            let entries = map.into_iter().map(|(key, value)| Entry {
                key,
                key_place: place.clone(),
                value: placed(value, place),
            });
            Kind::Map(entries.collect())
        }
    };
    Node {
        place: place.clone(),
        kind,
    }
}
