//! Settings that a struct declares.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{Custom, Literal, Parameter, ParameterKind, Table, Values, finite, scalar, within};
use crate::duration::{self, Range};
use crate::tree::{MapEntry, Node};
use crate::{Problem, Secret, SourceSpan};

/// A mapping of a configuration file, declared by a struct: each field is a key, and the first paragraph of its
/// documentation comment the sentence of the JSON Schema and of the reference. `#[derive(Settings)]` implements it; derived for an enum without
/// fields, it implements [`SettingValue`]: the words that a key accepts.
///
/// A field whose type is an `Option` may be left out, and so may a list, a mapping (both are empty then), a `bool`
/// (false) and one with a default; others are required.
///
/// Attributes of the struct, in `#[settings(…)]`:
/// - `name = "…"`: the mapping in messages, with its article. Required.
/// - `sentence = "…"`: the sentence of the schema, if it is not that of the documentation comment.
/// - `open`: accepts keys that are not declared.
/// - `also = PATH`: keys without a field, such as those that are refused; a `&'static [Parameter]`.
/// - `check = PATH`: a `fn(&mut Self, Values<'_>, &mut Vec<Problem>)`, or one of `&Self`, that checks or completes what
///   depends on several keys.
/// - `default`: implements `Default` with the declared defaults. An invalid value is replaced by the declared default
///   of its key, so that the problems of the rest are found.
///
/// Attributes of a field, or of a variant, in `#[setting(…)]`:
/// - `key = "…"`: the key, or the word, if it is not the name of the field.
/// - `alias = "…"`: another spelling. May be repeated.
/// - `default = LITERAL`: the value of a key that is left out, which the reference states; `default` alone is that of
///   the type, which it does not. For numbers, it may be a constant expression.
/// - `range = MINIMUM..=MAXIMUM`: the bounds of a number; without a maximum, there is none.
/// - `kind = KIND`: the accepted values, if they are not those of the type.
/// - `with = PATH`: a `fn(&Node) -> Option<T>` that reads the value, if its type does not.
/// - `required`: to leave the key out is a problem, but the struct is read although the field is `None`.
/// - `then = PATH`: a key without a field that follows this one, which `check` reads; a [`Parameter`]. May be repeated.
/// - `flatten`: the keys of the field's struct are keys of this mapping, at this position. If the field is an `Option`,
///   its struct may be invalid.
/// - `place`: the field is the place of the mapping in the file, and no key.
/// - `skip`: the field is no key, and has the default of its type.
pub trait Settings: Sized {
    /// The keys of the fields.
    const PARAMETERS: &'static [Parameter];

    /// The declaration of the mapping.
    const TABLE: &'static Table;

    /// Reads a mapping that was checked against the table; `None` if a required key is missing or invalid. Reports
    /// the problems that the table cannot find.
    fn from_values(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<Self>;

    /// Reads a mapping, and reports all its problems at once.
    fn read(node: &Node, problems: &mut Vec<Problem>) -> Option<Self> {
        let values = Self::TABLE.read(node, problems)?;
        Self::from_values(values, problems)
    }
}

/// The arguments of a call of an operation, declared by a struct that is read by other means: the attributes of fields
/// are those of [`Settings`], as far as they declare.
pub trait CallArguments {
    /// The parameters of the operation.
    const PARAMETERS: &'static [Parameter];
}

/// The type of a field of [`Settings`].
pub trait SettingValue: Sized {
    /// The accepted values.
    const KIND: ParameterKind;

    /// Reads a value that is not null. `kind` is [`SettingValue::KIND`] or what the field says instead. Returns `None`
    /// for an invalid value, whose problem was reported when the mapping was checked.
    fn from_node(node: &Node, kind: ParameterKind, problems: &mut Vec<Problem>) -> Option<Self>;

    /// Converts a declared default; `None` if it is of another type.
    fn from_literal(_: Literal) -> Option<Self> {
        None
    }
}

/// The words that a key accepts, and their meanings. Derived for enums with [`Settings`].
pub trait Word: Copy + PartialEq + 'static {
    /// The words, in the order of the documentation.
    const WORDS: &'static [(&'static str, Self)];

    /// Returns the meaning of a word.
    #[must_use]
    fn from_word(word: &str) -> Option<Self> {
        let found = Self::WORDS.iter().find(|(known, _)| *known == word);
        found.map(|(_, meaning)| *meaning)
    }

    /// Returns the word.
    #[must_use]
    fn word(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(_, meaning)| *meaning == self);
        found.map_or("", |(word, _)| *word)
    }
}

/// A value with its place in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// The place of the value.
    pub place: SourceSpan,
}

/// An entry of a mapping of names to mappings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named<T> {
    /// The name.
    pub name: String,
    /// The mapping.
    pub value: T,
}

impl Values<'_> {
    /// Reads the value of a key, or its default if it is left out. A table may lack some keys of a struct; they have no
    /// value.
    pub fn setting<T: SettingValue>(&self, name: &str, problems: &mut Vec<Problem>) -> Option<T> {
        let parameter = self.table.parameter(name)?;
        match self.node(name) {
            Some(node) => T::from_node(node, parameter.kind, problems),
            None => parameter.default.and_then(T::from_literal),
        }
    }
}

impl SettingValue for String {
    const KIND: ParameterKind = ParameterKind::Text;

    fn from_node(node: &Node, _: ParameterKind, _: &mut Vec<Problem>) -> Option<Self> {
        node.as_text().map(str::to_owned)
    }

    fn from_literal(literal: Literal) -> Option<Self> {
        match literal {
            Literal::Text(text) => Some(text.to_owned()),
            _ => None,
        }
    }
}

/// One of the words of the field's `kind`.
impl SettingValue for &'static str {
    const KIND: ParameterKind = ParameterKind::Word(&[]);

    fn from_node(node: &Node, kind: ParameterKind, _: &mut Vec<Problem>) -> Option<Self> {
        let text = node.as_text()?;
        match kind {
            ParameterKind::Word(words) => words.iter().copied().find(|word| *word == text),
            _ => None,
        }
    }
}

impl SettingValue for PathBuf {
    const KIND: ParameterKind = ParameterKind::Text;

    fn from_node(node: &Node, _: ParameterKind, _: &mut Vec<Problem>) -> Option<Self> {
        node.as_text().map(Self::from)
    }
}

/// The value with its places.
impl SettingValue for Node {
    const KIND: ParameterKind = ParameterKind::Any;

    fn from_node(node: &Node, _: ParameterKind, _: &mut Vec<Problem>) -> Option<Self> {
        Some(node.clone())
    }
}

/// The value as it is written.
impl SettingValue for Value {
    const KIND: ParameterKind = ParameterKind::Any;

    fn from_node(node: &Node, _: ParameterKind, _: &mut Vec<Problem>) -> Option<Self> {
        Some(node.to_value())
    }
}

impl SettingValue for Map<String, Value> {
    const KIND: ParameterKind = ParameterKind::Object;

    fn from_node(node: &Node, _: ParameterKind, _: &mut Vec<Problem>) -> Option<Self> {
        node.to_value().as_object().cloned()
    }
}

impl SettingValue for bool {
    const KIND: ParameterKind = ParameterKind::Boolean;

    fn from_node(node: &Node, _: ParameterKind, _: &mut Vec<Problem>) -> Option<Self> {
        node.as_boolean()
    }

    fn from_literal(literal: Literal) -> Option<Self> {
        match literal {
            Literal::Boolean(boolean) => Some(boolean),
            _ => None,
        }
    }
}

impl SettingValue for Secret<String> {
    const KIND: ParameterKind = ParameterKind::Text;

    fn from_node(node: &Node, _: ParameterKind, _: &mut Vec<Problem>) -> Option<Self> {
        node.as_text().map(|text| Self::new(text.to_owned()))
    }
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl SettingValue for $integer {
            const KIND: ParameterKind = ParameterKind::IntegerIn(0, <$integer>::MAX as u64);

            fn from_node(node: &Node, kind: ParameterKind, _: &mut Vec<Problem>) -> Option<Self> {
                let integer = match kind {
                    ParameterKind::IntegerIn(minimum, maximum) => {
                        within(node.as_integer()?, minimum, maximum)?
                    }
                    _ => node.as_u64()?,
                };
                integer.try_into().ok()
            }

            fn from_literal(literal: Literal) -> Option<Self> {
                match literal {
                    Literal::Integer(integer) => integer.try_into().ok(),
                    _ => None,
                }
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, usize);

impl SettingValue for f64 {
    const KIND: ParameterKind = ParameterKind::Number;

    fn from_node(node: &Node, kind: ParameterKind, _: &mut Vec<Problem>) -> Option<Self> {
        finite(node).filter(|number| kind.accepts(*number))
    }

    fn from_literal(literal: Literal) -> Option<Self> {
        match literal {
            Literal::Number(number) => Some(number),
            // Defaults are small.
            Literal::Integer(integer) => Some(integer as f64),
            _ => None,
        }
    }
}

impl SettingValue for Duration {
    const KIND: ParameterKind = ParameterKind::Duration(Range::POSITIVE);

    fn from_node(node: &Node, kind: ParameterKind, _: &mut Vec<Problem>) -> Option<Self> {
        match kind {
            ParameterKind::Duration(range) => range.read(node).ok(),
            _ => None,
        }
    }

    fn from_literal(literal: Literal) -> Option<Self> {
        match literal {
            Literal::Text(text) => duration::parse(text),
            _ => None,
        }
    }
}

impl SettingValue for SocketAddr {
    const KIND: ParameterKind = ParameterKind::Custom(&ADDRESS);

    fn from_node(node: &Node, _: ParameterKind, _: &mut Vec<Problem>) -> Option<Self> {
        node.as_text()?.parse().ok()
    }
}

/// The address of a server, with its port.
static ADDRESS: Custom = Custom {
    schema: Some(|| serde_json::json!({ "type": "string" })),
    check: |entry, problems| {
        ParameterKind::Text.check(entry, problems);
        if let Some(text) = entry.value.as_text()
            && text.parse::<SocketAddr>().is_err()
        {
            let message = format!(
                "`{}` is `{text}`; expected an address with a port",
                entry.key
            );
            let problem = Problem::new("bad-value", message).at(&entry.value.place);
            problems.push(problem.help("for example 127.0.0.1:4114 or [::1]:4114"));
        }
    },
};

impl SettingValue for Vec<String> {
    const KIND: ParameterKind = ParameterKind::Texts;

    fn from_node(node: &Node, _: ParameterKind, _: &mut Vec<Problem>) -> Option<Self> {
        let texts = node.as_list()?.iter().filter_map(Node::as_text);
        Some(texts.map(str::to_owned).collect())
    }
}

impl SettingValue for Vec<Located<String>> {
    const KIND: ParameterKind = ParameterKind::Texts;

    fn from_node(node: &Node, _: ParameterKind, problems: &mut Vec<Problem>) -> Option<Self> {
        let text = |item| Located::from_node(item, ParameterKind::Text, problems);
        Some(node.as_list()?.iter().filter_map(text).collect())
    }
}

impl SettingValue for BTreeMap<String, String> {
    const KIND: ParameterKind = ParameterKind::Scalars { null: true };

    fn from_node(node: &Node, _: ParameterKind, _: &mut Vec<Problem>) -> Option<Self> {
        let entry = |entry: &MapEntry| Some((entry.key.clone(), scalar(&entry.value, true)?));
        Some(node.as_map()?.iter().filter_map(entry).collect())
    }
}

/// Variables of an environment, or headers.
impl SettingValue for BTreeMap<String, Secret<String>> {
    const KIND: ParameterKind = ParameterKind::Custom(&VARIABLES);

    fn from_node(node: &Node, _: ParameterKind, _: &mut Vec<Problem>) -> Option<Self> {
        let entry = |entry: &MapEntry| {
            let value = Secret::new(scalar(&entry.value, true)?);
            Some((entry.key.clone(), value))
        };
        Some(node.as_map()?.iter().filter_map(entry).collect())
    }
}

static VARIABLES: Custom = Custom {
    schema: Some(|| <BTreeMap<String, String>>::KIND.schema(false)),
    check: |section, problems| {
        <BTreeMap<String, String>>::KIND.check(section, problems);
        for entry in section.value.as_map().unwrap_or_default() {
            let value = entry.value.as_text().unwrap_or_default();
            if entry.key.is_empty() || entry.key.contains(['=', '\0']) || value.contains('\0') {
                let message = format!("`{}` in `{}` is no variable", entry.key, section.key);
                let problem = Problem::new("bad-value", message).at(&entry.key_place);
                problems
                    .push(problem.help("names hold no `=`, and neither names nor values a NUL"));
            }
        }
    },
};

impl<T: Settings> SettingValue for Vec<Named<T>> {
    const KIND: ParameterKind = ParameterKind::Tables(T::TABLE);

    /// Reads the entries in the order of the file; those with a problem are left out.
    fn from_node(node: &Node, _: ParameterKind, problems: &mut Vec<Problem>) -> Option<Self> {
        let entry = |entry: &MapEntry| {
            Some(Named {
                name: entry.key.clone(),
                value: T::from_values(T::TABLE.values(&entry.value)?, problems)?,
            })
        };
        Some(node.as_map()?.iter().filter_map(entry).collect())
    }
}

impl<T: SettingValue> SettingValue for Located<T> {
    const KIND: ParameterKind = T::KIND;

    fn from_node(node: &Node, kind: ParameterKind, problems: &mut Vec<Problem>) -> Option<Self> {
        Some(Self {
            value: T::from_node(node, kind, problems)?,
            place: node.place.clone(),
        })
    }
}
