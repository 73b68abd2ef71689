//! JSON text as a tree that loses nothing: numbers stay as written, keys that occur twice are refused.

use std::cell::RefCell;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::number;

/// A value as the model wrote it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Given {
    Null,
    Boolean(bool),
    /// The lexeme.
    Number(String),
    /// The lexeme of a number where only an integer fits, and which is none of 64 bits.
    NoInteger(String),
    Text(String),
    List(Vec<Given>),
    /// In the order of the text.
    Fields(Vec<(String, Given)>),
}

impl Given {
    /// Reads JSON text. The error says what is wrong, and where.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let lexemes = RefCell::new(Lexemes { rest: text });
        let mut reader = serde_json::Deserializer::from_str(text);
        Reading { lexemes: &lexemes }
            .deserialize(&mut reader)
            .and_then(|given| reader.end().map(|()| given))
            .map_err(|error| explain(text, &error))
    }

    /// What it is, for messages: `the string "x"`, `an object`.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "a boolean",
            Self::Number(_) | Self::NoInteger(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "an array",
            Self::Fields(_) => "an object",
        }
    }

    /// As a value in memory. The error names a number that no value in memory holds exactly; `path`
    /// is where this value is.
    pub(super) fn into_value(self, path: &str) -> Result<Value, String> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Boolean(yes) => Value::Bool(yes),
            Self::Text(text) => Value::String(text),
            Self::Number(lexeme) => Value::Number(number::number(&lexeme).ok_or_else(|| {
                format!(
                    "`{path}`: the number {lexeme} does not fit into 64 bits and cannot be passed on \
                     exactly"
                )
            })?),
            // A float would pass for an integer where its fraction, or its digits, were lost.
            Self::NoInteger(lexeme) => match number::number(&lexeme) {
                Some(float) if float.as_f64().is_some_and(|float| float.fract() != 0.0) => {
                    Value::Number(float)
                }
                _ => {
                    return Err(format!(
                        "`{path}`: the number {lexeme} is no integer that fits into 64 bits"
                    ));
                }
            },
            Self::List(items) => Value::Array(
                items
                    .into_iter()
                    .enumerate()
                    .map(|(index, item)| item.into_value(&format!("{path}[{index}]")))
                    .collect::<Result<_, _>>()?,
            ),
            Self::Fields(fields) => Value::Object(
                fields
                    .into_iter()
                    .map(|(name, field)| {
                        let value = field.into_value(&join(path, &name))?;
                        Ok((name, value))
                    })
                    .collect::<Result<_, String>>()?,
            ),
        })
    }
}

/// The path of a field.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// The numbers of a JSON text, in order.
struct Lexemes<'a> {
    rest: &'a str,
}

impl<'a> Lexemes<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.rest.as_bytes();
        let mut at = 0;
        let mut in_text = false;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'\\' if in_text => at += 1,
                b'"' => in_text = !in_text,
                b'-' | b'0'..=b'9' if !in_text => {
                    let after = &self.rest[at..];
                    let end = after
                        .find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
                        .unwrap_or(after.len());
                    let (lexeme, rest) = after.split_at(end);
                    self.rest = rest;
                    return Some(lexeme);
                }
                _ => {}
            }
            at += 1;
        }
        self.rest = "";
        None
    }
}

/// The deserializer tells numbers in the order of the text, but not how they are written.
#[derive(Clone, Copy)]
struct Reading<'a, 'text> {
    lexemes: &'a RefCell<Lexemes<'text>>,
}

impl Reading<'_, '_> {
    fn number<E: serde::de::Error>(self) -> Result<Given, E> {
        match self.lexemes.borrow_mut().next() {
            Some(lexeme) => Ok(Given::Number(lexeme.to_owned())),
            None => Err(E::custom("a number that is not in the text")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Reading<'_, '_> {
    type Value = Given;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Given, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reading<'_, '_> {
    type Value = Given;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Given, E> {
        Ok(Given::Null)
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Given, E> {
        Ok(Given::Boolean(yes))
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<Given, E> {
        self.number()
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<Given, E> {
        self.number()
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<Given, E> {
        self.number()
    }

    fn visit_str<E>(self, text: &str) -> Result<Given, E> {
        Ok(Given::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Given, E> {
        Ok(Given::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Given, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Given::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Given, A::Error> {
        let mut fields: Vec<(String, Given)> = Vec::new();
        let mut names = std::collections::HashSet::new();
        while let Some(name) = entries.next_key::<String>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format_args!(
                    "the key `{name}` occurs twice"
                )));
            }
            fields.push((name, entries.next_value_seed(self)?));
        }
        Ok(Given::Fields(fields))
    }
}

/// What is wrong with a text, with the place and what is written around it.
fn explain(text: &str, error: &serde_json::Error) -> String {
    let full = error.to_string();
    let reason = full
        .rfind(" at line ")
        .and_then(|end| full.get(..end))
        .unwrap_or(&full);
    if error.is_eof() {
        let tail: String = last(text, 40);
        return format!("{reason}: it ends after `{tail}`");
    }
    let at = offset(text, error.line(), error.column());
    let before = last(&text[..at], 40);
    let after: String = text[at..].chars().take(20).collect();
    format!(
        "{reason}, at line {} column {}: `{before}` ⟵ here, before `{after}`",
        error.line(),
        error.column()
    )
}

fn last(text: &str, count: usize) -> String {
    let skip = text.chars().count().saturating_sub(count);
    text.chars().skip(skip).collect()
}

/// The byte at which a line and a column (of bytes, both from 1) lie, moved to where a character begins.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    let mut at = (start + column).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::*;

    #[test]
    fn numbers_stay_as_written() {
        let given =
            Given::parse(r#"{"a\"1": [1.10, -0, "2.0"], "b": 123456789012345678901234567890}"#);
        let number = |text: &str| Given::Number(text.to_owned());
        assert_eq!(
            given,
            Ok(Given::Fields(vec![
                (
                    "a\"1".to_owned(),
                    Given::List(vec![
                        number("1.10"),
                        number("-0"),
                        Given::Text("2.0".to_owned())
                    ])
                ),
                ("b".to_owned(), number("123456789012345678901234567890")),
            ]))
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let wrong = |text| Given::parse(text).expect_err(text);
        assert!(wrong(r#"{"a": 1, "a": 2}"#).starts_with("the key `a` occurs twice, at line 1"));
        let cut = wrong(r#"{"path": "src/ma"#);
        assert!(cut.contains("it ends after `{\"path\": \"src/ma`"), "{cut}");
        let comma = wrong("{\"a\": 1\n \"b\": 2}");
        assert!(comma.contains("line 2"), "{comma}");
        assert!(wrong("{} x").contains("trailing characters"));
        assert!(wrong("ä ü").contains("line 1"));
    }
}
