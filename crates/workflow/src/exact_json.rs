//! JSON values and their text, without losing digits.
//!
//! A value holds signed or unsigned 64-bit whole numbers, and floats. A larger whole number would be
//! rounded to the nearest float, which is another number; it is kept exactly, as a text of its digits.

use cachalot_core::json::{is_beyond_64_bits, numbers};
use serde::Serialize as _;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

/// Parses one JSON document. Whole numbers beyond 64 bits become text; of duplicate fields the last
/// counts.
///
/// # Errors
/// If the text is not JSON, or contains a number beyond the range of a float (`1e400`).
pub(crate) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    let mut quoted = String::new();
    let mut copied = 0;
    for number in numbers(text) {
        if is_beyond_64_bits(&text[number.clone()]) {
            quoted.push_str(&text[copied..number.start]);
            quoted.push('"');
            quoted.push_str(&text[number.clone()]);
            quoted.push('"');
            copied = number.end;
        }
    }
    if copied == 0 {
        return serde_json::from_str(text);
    }
    // A number in the position of a key must not become a valid key through the quotes.
    serde_json::from_str::<IgnoredAny>(text)?;
    quoted.push_str(&text[copied..]);
    serde_json::from_str(&quoted)
}

/// Formats a value over several lines, with an indentation of `width` spaces per level.
pub(crate) fn indented(value: &Value, width: usize) -> serde_json::Result<String> {
    let spaces = " ".repeat(width);
    let mut text = Vec::new();
    let formatter = PrettyFormatter::with_indent(spaces.as_bytes());
    value.serialize(&mut Serializer::with_formatter(&mut text, formatter))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Sorts the fields of all mappings in a value.
pub(crate) fn sorted(value: &Value) -> Value {
    let mut value = value.clone();
    value.sort_all_objects();
    value
}

/// Returns the texts in a value, at all depths, without the keys of mappings.
pub(crate) fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// Returns a value as text: texts as they are, other values as JSON.
pub(crate) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[path = "../tests/unit/exact_json.rs"]
mod tests;
