//! Statements, their arguments, and their results, as JSON of the protocol.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use bytes::Bytes;
use cachalot_store::implementation::Conditions;
use cachalot_store::{Error, ErrorKind};
use serde_json::{Value, json};

/// A statement with `?` for each argument.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    pub(super) text: String,
    arguments: Vec<Value>,
}

impl Statement {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            arguments: Vec::new(),
        }
    }

    pub(super) fn text(mut self, argument: &str) -> Self {
        self.arguments
            .push(json!({"type": "text", "value": argument}));
        self
    }

    pub(super) fn number(mut self, argument: i64) -> Self {
        let argument = argument.to_string();
        self.arguments
            .push(json!({"type": "integer", "value": argument}));
        self
    }

    pub(super) fn optional_number(mut self, argument: Option<i64>) -> Self {
        match argument {
            Some(argument) => self.number(argument),
            None => {
                self.arguments.push(json!({"type": "null"}));
                self
            }
        }
    }

    pub(super) fn blob(mut self, argument: &[u8]) -> Self {
        let argument = BASE64_STANDARD.encode(argument);
        self.arguments
            .push(json!({"type": "blob", "base64": argument}));
        self
    }

    /// Puts text around the statement.
    pub(super) fn inside(mut self, before: &str, after: &str) -> Self {
        self.text = format!("{before}{}{after}", self.text);
        self
    }

    pub(super) fn to_json(&self) -> Value {
        json!({"sql": self.text, "args": self.arguments, "want_rows": true})
    }
}

impl<'a> Conditions<'a> for Statement {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn push_value(&mut self, value: Cow<'a, str>) {
        self.text.push('?');
        self.arguments.push(json!({"type": "text", "value": value}));
    }
}

/// The rows of a statement's result.
pub(super) struct Rows(Vec<Value>);

impl Rows {
    pub(super) fn read(result: &mut Value) -> Result<Self, Error> {
        match result.get_mut("rows").map(Value::take) {
            Some(Value::Array(rows)) => Ok(Self(rows)),
            _ => Err(damaged("a result without rows")),
        }
    }

    /// The first row, if there is one.
    pub(super) fn first(self) -> Option<Row> {
        self.into_iter().next()
    }
}

impl IntoIterator for Rows {
    type Item = Row;
    type IntoIter = std::iter::Map<std::vec::IntoIter<Value>, fn(Value) -> Row>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().map(Row)
    }
}

/// A row of a statement's result.
pub(super) struct Row(Value);

impl Row {
    fn get(&self, column: usize, part: &str) -> Result<&str, Error> {
        let text = self.0[column][part].as_str();
        text.ok_or_else(|| damaged("a column of another type"))
    }

    pub(super) fn text(&self, column: usize) -> Result<&str, Error> {
        self.get(column, "value")
    }

    pub(super) fn number(&self, column: usize) -> Result<i64, Error> {
        let number = self.text(column)?.parse();
        number.map_err(|_| damaged("a number"))
    }

    pub(super) fn is_null(&self, column: usize) -> bool {
        self.0[column]["type"] == "null"
    }

    /// Returns a number, which is none if it is null.
    pub(super) fn optional_number(&self, column: usize) -> Result<Option<i64>, Error> {
        if self.is_null(column) {
            Ok(None)
        } else {
            self.number(column).map(Some)
        }
    }

    pub(super) fn count(&self, column: usize) -> Result<u64, Error> {
        u64::try_from(self.number(column)?).map_err(|_| damaged("a negative count"))
    }

    pub(super) fn float(&self, column: usize) -> Result<f64, Error> {
        self.0[column]["value"]
            .as_f64()
            .ok_or_else(|| damaged("a number"))
    }

    pub(super) fn blob(&self, column: usize) -> Result<Bytes, Error> {
        let text = self.get(column, "base64")?.trim_end_matches('=');
        let bytes = BASE64_STANDARD_NO_PAD.decode(text);
        bytes.map(Bytes::from).map_err(|_| damaged("a value"))
    }
}

/// Error for data that is not the protocol's or the store's.
pub(super) fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the database returned {what}"))
}
