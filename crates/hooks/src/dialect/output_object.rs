//! A JSON object with keys in `snake_case` or in `camelCase`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::output::Fault;

/// An object written by a handler. `null` counts as absent.
#[derive(Clone, Copy)]
pub(super) struct OutputObject<'a>(Option<&'a Map<String, Value>>);

impl<'a> OutputObject<'a> {
    pub(super) fn new(value: Option<&'a Value>) -> Self {
        Self(value.and_then(Value::as_object))
    }

    /// The value of a key, given in `snake_case`, which takes precedence over `camelCase`.
    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.all(key).next()
    }

    /// The values of a key, given in `snake_case`: two if it is present in both cases.
    pub(super) fn all(self, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        let camel = camel(key);
        let other = (camel != key).then_some(camel);
        let get = |key: &str| self.0.and_then(|map| map.get(key));
        let values = [get(key), other.and_then(|key| get(&key))];
        values
            .into_iter()
            .flatten()
            .filter(|value| !value.is_null())
    }

    /// The keys as written.
    pub(super) fn keys(self) -> impl Iterator<Item = &'a str> {
        self.0
            .into_iter()
            .flat_map(|map| map.keys().map(String::as_str))
    }
}

/// Converts a key to `camelCase`.
fn camel(key: &str) -> String {
    let mut words = key.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

/// Converts a key to `snake_case`.
pub(super) fn snake(key: &str) -> String {
    let mut snake = String::with_capacity(key.len() + 4);
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

pub(super) fn text(said: OutputObject<'_>, key: &str) -> Result<Option<String>, Fault> {
    parse_text(key, said.get(key))
}

/// Parses an optional text.
pub(super) fn parse_text(key: &str, value: Option<&Value>) -> Result<Option<String>, Fault> {
    match value {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Fault::new(format!("`{key}` is no text"))),
    }
}

/// Parses a mapping of texts; other values are converted to their JSON.
pub(super) fn metadata(value: Option<&Value>) -> Result<BTreeMap<String, String>, Fault> {
    let Some(value) = value else {
        return Ok(BTreeMap::new());
    };
    let map = value
        .as_object()
        .ok_or_else(|| Fault::new("`metadata` is no object"))?;
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    Ok(map
        .iter()
        .map(|(name, value)| (name.clone(), text(value)))
        .collect())
}

#[cfg(test)]
#[path = "../../tests/unit/dialect/output_object.rs"]
mod tests;
