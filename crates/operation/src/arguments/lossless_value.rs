//! A lossless tree of JSON text: numbers keep their lexeme, duplicate keys are refused.

use std::collections::HashSet;

use cachalot_core::json::{ARRAY, JsonError, OBJECT, Scanner};
use cachalot_core::text::{head, tail};
use serde_json::Value;

use super::number;

/// A value as the model wrote it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LosslessValue {
    Null,
    Boolean(bool),
    /// A number, as its lexeme.
    Number(String),
    /// The lexeme of a number that is not a 64-bit integer, where the schema requires one.
    NonInteger(String),
    Text(String),
    List(Vec<LosslessValue>),
    /// An object, with its fields in the order of the text.
    Fields(Vec<(String, LosslessValue)>),
}

impl LosslessValue {
    /// Parses JSON text.
    pub(super) fn parse(text: &str) -> Result<Self, MalformedJson> {
        let mut reader = Parser {
            scanner: Scanner::new(text.as_bytes()),
            unescaped: Vec::new(),
        };
        reader.parse_document().map_err(|wrong| MalformedJson {
            place: describe_place(text, wrong.at),
            reason: wrong.reason,
        })
    }

    /// The kind of value, for messages: `a string`, `an object`.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "a boolean",
            Self::Number(_) | Self::NonInteger(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "an array",
            Self::Fields(_) => "an object",
        }
    }

    /// Converts to an in-memory value. Fails for a number that no in-memory value represents exactly; `path`
    /// is the path of this value.
    pub(super) fn into_value(self, path: &str) -> Result<Value, NumberError> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Boolean(yes) => Value::Bool(yes),
            Self::Text(text) => Value::String(text),
            Self::Number(lexeme) => match number::number(&lexeme) {
                Some(number) => Value::Number(number),
                None => {
                    return Err(NumberError::Inexact {
                        path: path.to_owned(),
                        lexeme,
                    });
                }
            },
            // Converted to a float, it could pass for an integer after losing its fraction or digits.
            Self::NonInteger(lexeme) => match number::number(&lexeme) {
                Some(float) if float.as_f64().is_some_and(|float| float.fract() != 0.0) => {
                    Value::Number(float)
                }
                _ => {
                    return Err(NumberError::NonInteger {
                        path: path.to_owned(),
                        lexeme,
                    });
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
                    .collect::<Result<_, NumberError>>()?,
            ),
        })
    }
}

impl From<Value> for LosslessValue {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(yes) => Self::Boolean(yes),
            Value::Number(number) => Self::Number(number.to_string()),
            Value::String(text) => Self::Text(text),
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Object(fields) => {
                let fields = fields.into_iter();
                Self::Fields(fields.map(|(name, value)| (name, value.into())).collect())
            }
        }
    }
}

/// The reason why a text is not JSON, and the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}{place}")]
pub struct MalformedJson {
    reason: String,
    place: String,
}

/// The reason why a number cannot be passed on.
#[derive(Debug, thiserror::Error)]
pub(super) enum NumberError {
    #[error(
        "`{path}`: the number {lexeme} does not fit into 64 bits and cannot be passed on exactly"
    )]
    Inexact { path: String, lexeme: String },
    #[error("`{path}`: the number {lexeme} is no integer that fits into 64 bits")]
    NonInteger { path: String, lexeme: String },
}

/// The path of a field.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// The reason why a text cannot be parsed, and its byte offset.
struct ParseError {
    reason: String,
    at: usize,
}

impl From<JsonError> for ParseError {
    fn from(malformed: JsonError) -> Self {
        Self {
            reason: malformed.reason.to_owned(),
            at: malformed.at,
        }
    }
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    /// Buffer for strings with escapes.
    unescaped: Vec<u8>,
}

impl Parser<'_> {
    fn parse_document(&mut self) -> Result<LosslessValue, ParseError> {
        let given = self.value()?;
        self.scanner.end()?;
        Ok(given)
    }

    fn value(&mut self) -> Result<LosslessValue, ParseError> {
        Ok(match self.scanner.peek() {
            Some(b'"') => LosslessValue::Text(owned(self.scanner.text(&mut self.unescaped)?)),
            Some(b'{') => self.fields()?,
            Some(b'[') => self.list()?,
            _ => match self.scanner.scalar()? {
                b"null" => LosslessValue::Null,
                b"true" => LosslessValue::Boolean(true),
                b"false" => LosslessValue::Boolean(false),
                lexeme => LosslessValue::Number(owned(lexeme)),
            },
        })
    }

    fn list(&mut self) -> Result<LosslessValue, ParseError> {
        let mut list = Vec::new();
        let mut more = self.scanner.open(&ARRAY)?;
        while more {
            list.push(self.value()?);
            more = self.scanner.more(&ARRAY)?;
        }
        Ok(LosslessValue::List(list))
    }

    fn fields(&mut self) -> Result<LosslessValue, ParseError> {
        let mut fields = Vec::new();
        let mut names = HashSet::new();
        let mut more = self.scanner.open(&OBJECT)?;
        while more {
            let name = owned(self.scanner.key(&mut self.unescaped)?);
            if !names.insert(name.clone()) {
                return Err(ParseError {
                    reason: format!("the key `{name}` occurs twice"),
                    at: self.scanner.at(),
                });
            }
            fields.push((name, self.value()?));
            more = self.scanner.more(&OBJECT)?;
        }
        Ok(LosslessValue::Fields(fields))
    }
}

/// Copies a piece of a text, whose bytes are UTF-8.
fn owned(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// Describes the place of a parse error (line and column from 1, in characters) and the text around it.
fn describe_place(text: &str, at: usize) -> String {
    let at = text.floor_char_boundary(at);
    if at == text.len() {
        return format!(": it ends after `{}`", tail(text, 40));
    }
    let (done, rest) = text.split_at(at);
    let line = done.matches('\n').count() + 1;
    let in_line = done.rsplit('\n').next().unwrap_or(done);
    let column = in_line.chars().count() + 1;
    let (before, after) = (tail(done, 40), head(rest, 20));
    format!(", at line {line} column {column}: `{before}` ⟵ here, before `{after}`")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::*;

    #[test]
    fn numbers_keep_their_lexeme() {
        let given = LosslessValue::parse(
            r#"{"a\"1": [1.10, -0, "2.0"], "b": 123456789012345678901234567890}"#,
        );
        let number = |text: &str| LosslessValue::Number(text.to_owned());
        assert_eq!(
            given,
            Ok(LosslessValue::Fields(vec![
                (
                    "a\"1".to_owned(),
                    LosslessValue::List(vec![
                        number("1.10"),
                        number("-0"),
                        LosslessValue::Text("2.0".to_owned())
                    ])
                ),
                ("b".to_owned(), number("123456789012345678901234567890")),
            ]))
        );
    }

    #[test]
    fn values_convert_as_their_text_is_parsed() {
        let value = serde_json::json!({
            "a": [1, -2.5, 1e300, u64::MAX, i64::MIN, true, null], "b": {"c": "\"ä\n"}, "": {}
        });
        let text = value.to_string();
        assert_eq!(LosslessValue::parse(&text), Ok(LosslessValue::from(value)));
    }

    #[test]
    fn problems_are_reported_with_their_place() {
        let wrong = |text| LosslessValue::parse(text).expect_err(text).to_string();
        assert!(wrong(r#"{"a": 1, "a": 2}"#).starts_with("the key `a` occurs twice, at line 1"));
        let cut = wrong(r#"{"path": "src/ma"#);
        assert!(cut.contains("it ends after `{\"path\": \"src/ma`"), "{cut}");
        let comma = wrong("{\"a\": 1\n \"b\": 2}");
        assert!(comma.contains("line 2"), "{comma}");
        assert!(wrong("{} x").contains("text after the end"));
        assert!(wrong("ä ü").contains("line 1"));
        let half = wrong(r#"{"text": "\ud83d"}"#);
        assert!(half.starts_with("a lone surrogate"), "{half}");
    }

    #[test]
    fn surrogate_escapes_are_one_character() {
        assert_eq!(
            LosslessValue::parse(r#""a\ud83d\ude00""#),
            Ok(LosslessValue::Text("a😀".to_owned()))
        );
    }
}
