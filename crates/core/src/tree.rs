//! The configuration tree with source positions: one YAML reader for all configuration.
//!
//! [`parse`] converts one YAML document into [`Node`]s with their source positions. [`Section`] reads a
//! mapping key by key, and reports every key that was not read.
//!
//! Scalars follow the YAML 1.2 core schema, with one exception: a decimal number with a leading zero (`007`,
//! `010`, `-01.5`) is text, because it is more often a code, a date or a file mode than a number.
//! Consequently `yes`, `no`, `on`, `off`, `1_000`, `12:30` and `2024-01-02` are text, `1.10` is the number
//! 1.1, and every quoted scalar is text.
//!
//! Problems have these codes:
//!
//! | code | meaning |
//! |---|---|
//! | `yaml-syntax` | the text is not YAML |
//! | `tab-indentation` | a line is indented with a tab |
//! | `empty-file` | there is no document, or an empty one |
//! | `many-documents` | a second document begins |
//! | `duplicate-key` | a mapping has a key twice |
//! | `complex-key` | a key of a mapping is a list or a mapping |
//! | `integer-too-large`, `number-too-large` | no 64-bit number can represent it |
//! | `unknown-tag` | a tag outside the core schema |
//! | `recursive-alias` | an alias inside the node that it refers to |
//! | `alias-bomb` | aliases expand to over [`MAX_COPIED_NODES`] values or [`MAX_COPIED_BYTES`] of text |
//! | `too-deep` | nesting deeper than [`MAX_DEPTH`] |
//! | `wrong-type` | a tag, a merge key or a reader requires another type |
//! | `missing-key`, `unknown-key`, `out-of-range` | see [`Section`] |
//! | `unset-variable`, `bad-value` | see [`expand`] |

use std::ops::RangeInclusive;

use crate::{Problem, SourceSpan};

mod anchors;
mod builder;
mod collection;
mod environment;
mod scalar;
mod section;
mod source;
mod surrogates;
mod syntax;
mod tag;

pub use environment::{expand, expand_set, unset_variables};
pub use section::Section;

/// Maximum nesting of lists and mappings, aliases expanded.
pub const MAX_DEPTH: usize = 128;
/// Maximum number of values that the anchors and aliases of a file may expand to.
pub const MAX_COPIED_NODES: usize = 100_000;
/// Maximum number of bytes of text that the anchors and aliases of a file may expand to.
pub const MAX_COPIED_BYTES: usize = 16 * 1024 * 1024;

/// A value in a configuration file, with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The place of the value, without tag and anchor: a quoted text with its quotes, a block text from its
    /// `|` or `>`, a list or mapping from its first character to its last. The value of an alias has the
    /// place of the anchored node. A missing value has length 0, at the position where it could be.
    pub place: SourceSpan,
    /// The type and content.
    pub kind: NodeKind,
}

/// The type and content of a node. Scalars are resolved by the YAML 1.2 core schema (`yes`, `on` are text).
#[derive(Debug, Clone, PartialEq)]
pub enum NodeKind {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// An integer in the range of `i64`.
    Integer(i64),
    /// An integer above that range, up to the maximum of `u64`.
    Unsigned(u64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<MapEntry>),
}

/// One entry of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct MapEntry {
    /// The key; a key that is not text is converted to its text.
    pub key: String,
    /// The place of the key.
    pub key_place: SourceSpan,
    /// The value.
    pub value: Node,
}

/// Parses one YAML document. `file` is the name to show in problems.
///
/// A byte order mark at the beginning is skipped; line ends may be CRLF. Between double quotes a character
/// may be written as two escapes (`\ud83d\ude00`), as in JSON. Anchors, aliases and merge keys (`<<`) are
/// expanded, within limits. A key of the mapping itself wins over a merged one, and an earlier merged key
/// wins over a later one.
///
/// # Errors
/// All problems of the text, in the order of the file. A syntax error or an exceeded limit ends the parsing,
/// so that problems after it are not reported.
pub fn parse(file: &str, text: &str) -> Result<Node, Vec<Problem>> {
    builder::parse(file, text)
}

impl Node {
    /// The type, for messages: `a mapping`, `a list`, `text`, `a number`, `true or false`, `empty`.
    #[must_use]
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            NodeKind::Null => "empty",
            NodeKind::Boolean(_) => "true or false",
            NodeKind::Integer(_) | NodeKind::Unsigned(_) | NodeKind::Float(_) => "a number",
            NodeKind::Text(_) => "text",
            NodeKind::List(_) => "a list",
            NodeKind::Map(_) => "a mapping",
        }
    }

    /// True if it is `null`, `~` or nothing.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.kind, NodeKind::Null)
    }

    /// The text, if it is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The boolean, if it is one.
    #[must_use]
    pub fn as_boolean(&self) -> Option<bool> {
        match self.kind {
            NodeKind::Boolean(truth) => Some(truth),
            _ => None,
        }
    }

    /// The integer, if it is one that is not negative.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self.kind {
            NodeKind::Integer(integer) => u64::try_from(integer).ok(),
            NodeKind::Unsigned(integer) => Some(integer),
            _ => None,
        }
    }

    /// The integer, if it is one.
    pub(crate) fn as_integer(&self) -> Option<i128> {
        match self.kind {
            NodeKind::Integer(integer) => Some(integer.into()),
            NodeKind::Unsigned(integer) => Some(integer.into()),
            _ => None,
        }
    }

    /// The number, if it is one; integers above 2⁵³ are rounded.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self.kind {
            NodeKind::Integer(integer) => Some(integer as f64),
            NodeKind::Unsigned(integer) => Some(integer as f64),
            NodeKind::Float(float) => Some(float),
            _ => None,
        }
    }

    /// The items, if it is a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Node]> {
        match &self.kind {
            NodeKind::List(items) => Some(items),
            _ => None,
        }
    }

    /// The entries, if it is a mapping.
    #[must_use]
    pub fn as_map(&self) -> Option<&[MapEntry]> {
        match &self.kind {
            NodeKind::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value of `key`, if it is a mapping that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_map()?
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.value)
    }

    /// Converts to a JSON value without places. NaN and the infinities, which JSON lacks, become their YAML
    /// spelling as text (`.nan`, `.inf`, `-.inf`); all other numbers keep their value and type.
    #[must_use]
    pub fn to_value(&self) -> serde_json::Value {
        use serde_json::Value;
        match &self.kind {
            NodeKind::Null => Value::Null,
            NodeKind::Boolean(truth) => Value::Bool(*truth),
            NodeKind::Integer(integer) => Value::from(*integer),
            NodeKind::Unsigned(integer) => Value::from(*integer),
            NodeKind::Float(float) => serde_json::Number::from_f64(*float)
                .map_or_else(|| Value::from(scalar::not_finite(*float)), Value::Number),
            NodeKind::Text(text) => Value::from(text.as_str()),
            NodeKind::List(items) => items.iter().map(Self::to_value).collect(),
            NodeKind::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.value.to_value()))
                    .collect(),
            ),
        }
    }

    /// The place to show in messages about the whole node: for a list or mapping, from its beginning to the
    /// end of its first item or key; for a scalar, all of it.
    #[must_use]
    pub fn head(&self) -> SourceSpan {
        let first = match &self.kind {
            NodeKind::List(items) => items.first().map(Self::head),
            NodeKind::Map(entries) => entries.first().map(|entry| entry.key_place.clone()),
            _ => None,
        };
        let mut place = self.place.clone();
        // A merged key is elsewhere, and unrelated to the beginning of the mapping.
        let within = |first: &SourceSpan| {
            first.start >= place.start && first.start < place.start + place.len
        };
        if let Some(first) = first.filter(within) {
            place.len = first.start + first.len - place.start;
        }
        place
    }

    /// The line of `source`, from 1, on which the text begins: for a block text (`|`, `>`) the line after the
    /// indicator, otherwise the line of the node. In a `|` text, line *n* of the text is line
    /// `text_first_line + n - 1` of the file. `source` is the text that was passed to [`parse`].
    #[must_use]
    pub fn text_first_line(&self, source: &str) -> u32 {
        let is_block = matches!(self.kind, NodeKind::Text(_))
            && matches!(source.as_bytes().get(self.place.start), Some(b'|' | b'>'));
        self.place.line + u32::from(is_block)
    }

    /// Creates the problem that `name` (for example `` `tools` ``) should be `expected` (for example
    /// `a list`).
    #[must_use]
    pub fn wrong_type(&self, name: &str, expected: &str) -> Problem {
        let found = match self.kind {
            NodeKind::Null => "it is empty".to_owned(),
            _ => format!("this is {}", self.kind_name()),
        };
        let problem = Problem::new(
            "wrong-type",
            format!("{name} must be {expected}, but {found}"),
        )
        .at(&self.head());
        problem.help(self.remedy(expected))
    }

    /// Creates the problem that `key` is the integer `found`, which is not within the bounds.
    pub(crate) fn out_of_range(
        &self,
        key: &str,
        found: i128,
        range: &RangeInclusive<u64>,
    ) -> Problem {
        let bounds = match (*range.start(), *range.end()) {
            (minimum, u64::MAX) => format!("at least {minimum}"),
            (0, maximum) => format!("at most {maximum} and not negative"),
            (minimum, maximum) => format!("from {minimum} to {maximum}"),
        };
        let message = format!("`{key}` must be {bounds}, but it is {found}");
        Problem::new("out-of-range", message)
            .at(&self.place)
            .help(format!("write a whole number that is {bounds}"))
    }

    fn remedy(&self, expected: &str) -> String {
        let is_scalar = !matches!(
            self.kind,
            NodeKind::List(_) | NodeKind::Map(_) | NodeKind::Null
        );
        let unquoted = self.as_text().map(scalar::resolve);
        match unquoted {
            None if is_scalar && expected.starts_with("text") => "put it in quotes".to_owned(),
            Some(Ok(NodeKind::Boolean(_))) if expected.contains("true") => {
                "take the quotes away".to_owned()
            }
            Some(Ok(NodeKind::Integer(_) | NodeKind::Unsigned(_) | NodeKind::Float(_)))
                if expected.contains("number") =>
            {
                "take the quotes away".to_owned()
            }
            _ => format!("write {expected} here"),
        }
    }
}
