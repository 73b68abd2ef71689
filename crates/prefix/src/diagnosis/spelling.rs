//! Different spellings of the same message.

use serde_json::Value;

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
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '\\' => match characters.next() {
                    Some('n' | 't' | 'r') | None => {}
                    Some(other) => seen.extend(['\\', other]),
                },
                character if character.is_whitespace() => {}
                character => seen.push(character),
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
