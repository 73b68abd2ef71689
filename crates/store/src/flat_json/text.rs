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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn complaint(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn invalid_file_error_has_the_place() {
        let said = complaint("{\n  \"how many\": 7\n}");
        assert!(
            said.contains("the answer to `how many` is no text"),
            "{said}"
        );
        assert!(said.contains("line 2"), "{said}");
        assert!(complaint(r#"{"a": "1", "a": "2"}"#).contains("`a` is there twice"));
        assert!(complaint(r#"["a"]"#).contains("an object of questions and answers"));
        assert!(complaint(r#"{"a": "1""#).contains("EOF"));
        assert!(complaint(r#"{"a": "1"} {"#).contains("trailing"));
        assert!(complaint(r#"{"a": {"b": "c"}}"#).contains("`a` is no text"));
    }

    #[test]
    fn empty_text_has_no_entries() {
        for text in ["", "\n", " \t\r\n", "{}"] {
            assert!(parse(text.as_bytes()).unwrap().is_empty());
        }
    }

    #[test]
    fn entries_are_printed_one_per_line_in_order() {
        let entries = parse(br#"{"b":"2","a":"\u003c1\u003e"}"#).unwrap();
        assert_eq!(
            print(&entries).unwrap(),
            b"{\n  \"a\": \"<1>\",\n  \"b\": \"2\"\n}"
        );
    }

    proptest! {
        #[test]
        fn entries_round_trip(entries in any::<BTreeMap<String, String>>()) {
            let entries: Entries = entries.iter().map(|(q, a)| (q.as_str().into(), a.as_str().into())).collect();
            prop_assert_eq!(parse(&print(&entries).unwrap()).unwrap(), entries);
        }
    }
}
