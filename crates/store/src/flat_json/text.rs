//! The text format of a flat JSON file.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Questions and their answers, in the order of the questions.
pub(super) type Entries = BTreeMap<Arc<str>, Arc<str>>;

/// Parses a file. A file of nothing but white space has no entries.
///
/// # Errors
/// With the position, if it is not one flat JSON object whose values are strings, or has a key twice.
pub(super) fn parse(bytes: &[u8]) -> Result<Entries, serde_json::Error> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Entries::new());
    }
    serde_json::from_slice::<ParsedEntries>(bytes).map(|read| read.0)
}

/// Serializes a file: one entry per line, indented by two spaces.
///
/// # Errors
/// None that such entries could cause.
pub(super) fn print(entries: &Entries) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec_pretty(entries)
}

struct ParsedEntries(Entries);

impl<'de> Deserialize<'de> for ParsedEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ReadVisitor)
    }
}

struct ReadVisitor;

impl<'de> Visitor<'de> for ReadVisitor {
    type Value = ParsedEntries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of questions and answers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ParsedEntries, A::Error> {
        let mut entries = Entries::new();
        while let Some(question) = map.next_key::<Arc<str>>()? {
            let answer = map.next_value::<Arc<str>>().map_err(|wrong| {
                A::Error::custom(format!(
                    "the answer to `{question:.80}` is no text: {wrong}"
                ))
            })?;
            if entries.contains_key(&question) {
                let twice = format!("the question `{question:.80}` is there twice");
                return Err(A::Error::custom(twice));
            }
            entries.insert(question, answer);
        }
        Ok(ParsedEntries(entries))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/flat_json/text.rs"]
mod tests;
