//! Parses TOML to a tree with positions.

use cachalot_core::tree::{MapEntry, Node, NodeKind};
use cachalot_core::{Problem, SourceSpan};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Parses TOML. Dates become texts.
///
/// # Errors
/// The syntax error of the text.
pub(super) fn parse(file: &str, text: &str) -> Result<Node, Vec<Problem>> {
    let text = Text { file, text };
    match DeTable::parse(text.text) {
        Ok(table) => Ok(text.node(table.span(), text.map(table.get_ref()))),
        Err(error) => {
            let problem = Problem::new("toml-syntax", error.message().to_owned());
            let place = text.place(error.span().unwrap_or(0..0));
            Err(vec![problem.at(&place)])
        }
    }
}

struct Text<'a> {
    file: &'a str,
    text: &'a str,
}

impl Text<'_> {
    fn map(&self, table: &DeTable<'_>) -> NodeKind {
        let entries = table.iter().map(|(key, value)| MapEntry {
            key: key.get_ref().to_string(),
            key_place: self.place(key.span()),
            value: self.value(value),
        });
        NodeKind::Map(entries.collect())
    }

    fn value(&self, value: &Spanned<DeValue<'_>>) -> Node {
        let kind = match value.get_ref() {
            DeValue::String(text) => NodeKind::Text(text.to_string()),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(integer) => NodeKind::Integer(integer),
                    Err(_) => NodeKind::Text(number.as_str().to_owned()),
                }
            }
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => NodeKind::Float(number),
                Err(_) => NodeKind::Text(number.as_str().to_owned()),
            },
            DeValue::Boolean(truth) => NodeKind::Boolean(*truth),
            DeValue::Datetime(date) => NodeKind::Text(date.to_string()),
            DeValue::Array(items) => {
                NodeKind::List(items.iter().map(|item| self.value(item)).collect())
            }
            DeValue::Table(table) => self.map(table),
        };
        self.node(value.span(), kind)
    }

    fn node(&self, span: std::ops::Range<usize>, kind: NodeKind) -> Node {
        Node {
            place: self.place(span),
            kind,
        }
    }

    fn place(&self, span: std::ops::Range<usize>) -> SourceSpan {
        SourceSpan::new(self.file, self.text, span)
    }
}
