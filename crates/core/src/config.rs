//! Configuration: settings declared by structs, tables of keys, and parameters of operations.
//!
//! A mapping is declared by a struct ([`Settings`]) or by a [`Table`] of its keys, each a [`Parameter`]: name, kind,
//! default and one sentence of documentation. Three things derive from it:
//!
//! - the reader: all problems of a mapping are reported at once; [`Values`] returns the values of a table by name;
//! - the JSON Schema: [`Table::schema`];
//! - the reference tables of the documentation: [`Table::rows`], which `cachalot-docs` writes.
//!
//! An operation declares its arguments as a list of [`Parameter`]s. They differ from configuration keys in
//! one respect: templates render to text, so an argument also accepts the text of a value of its kind.

mod schema;
mod settings;
mod values;

use serde_json::Value;

use crate::Problem;
use crate::duration::Range;
use crate::tree::MapEntry;

pub use cachalot_settings_derive::{CallArguments, Settings};
pub use schema::{arguments_schema, tool_schema};
pub use settings::{CallArguments, Located, Named, SettingValue, Settings, Word};
pub use values::Values;
use values::{finite, scalar, within};

/// The keys of one mapping.
#[derive(Debug)]
pub struct Table {
    /// The mapping in messages, with its article: `an agent`, `` `settings.cache` ``.
    pub name: &'static str,
    /// One sentence about the mapping, for the JSON Schema.
    pub doc: &'static str,
    /// The keys, in groups, so that tables can share some of them.
    pub groups: &'static [&'static [Parameter]],
    /// Set when keys that are not declared are accepted.
    pub open: bool,
}

/// One declared key of a mapping, or one argument of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// The name.
    pub name: &'static str,
    /// The accepted values. Null means "not given" unless the kind is [`ParameterKind::Any`].
    pub kind: ParameterKind,
    /// Set when leaving it out is a load-time error.
    pub required: bool,
    /// One sentence, for the JSON Schema and the reference documentation. Does not state the default.
    pub doc: &'static str,
    /// Other spellings of the name. Readers and the argument check replace them by `name`, so operations
    /// and cache keys never see an alias.
    pub aliases: &'static [&'static str],
    /// The value when it is left out.
    pub default: Option<Literal>,
    /// Set when the argument can change the result of an operation. An argument that cannot is not part of
    /// any cache key.
    pub keyed: bool,
    /// Names that templates in the argument may use besides those of every template. If there are any,
    /// the operation itself renders a text with templates, as often as it likes, and its argument is a
    /// mapping of the template's source and the values that it reads.
    pub late_names: &'static [&'static str],
}

/// The accepted values of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ParameterKind {
    /// Text. In arguments, numbers and booleans are converted to text.
    Text,
    /// An integer.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A mapping with any keys.
    Object,
    /// A list of anything.
    List,
    /// Any value.
    Any,
    /// One of these words.
    Word(&'static [&'static str]),
    /// An integer within these inclusive bounds.
    IntegerIn(u64, u64),
    /// A finite number within these inclusive bounds.
    NumberIn(f64, f64),
    /// A duration within the range.
    Duration(Range),
    /// A list of texts.
    Texts,
    /// A mapping of any names to texts, numbers and booleans, which are converted to text; or to nothing if
    /// set.
    Scalars {
        /// Accepts null, which is an empty text.
        null: bool,
    },
    /// A mapping with the keys of the table.
    Table(&'static Table),
    /// A mapping of any names to mappings with the keys of the table.
    Tables(&'static Table),
    /// A mapping with the keys of the table, which the caller reads and checks itself.
    Deferred(&'static Table),
    /// A mapping with the keys of the table, whose schema is the definition of this name.
    Definition(&'static str, &'static Table),
    /// A value with a check and a schema of its own.
    Custom(&'static Custom),
    /// A key that is accepted with a warning, because it changes nothing. Contains the remedy.
    NoEffect(&'static str),
    /// A key of other runtimes that is refused. Contains the problem code.
    Unsupported(&'static str),
}

/// A kind of value that one crate declares.
#[derive(Debug)]
pub struct Custom {
    /// Returns the JSON Schema; `None` hides the key from the schema and the documentation.
    pub schema: Option<fn() -> Value>,
    /// Reports the problems of a value that is not null.
    pub check: fn(&MapEntry, &mut Vec<Problem>),
}

impl Custom {
    /// Declares a value that the reader of the mapping checks, with its JSON Schema.
    #[must_use]
    pub const fn shape(schema: fn() -> Value) -> Self {
        Self {
            schema: Some(schema),
            check: |_, _| {},
        }
    }

    /// Declares a key that the schema and the documentation do not show, and that the reader checks.
    #[must_use]
    pub const fn hidden() -> Self {
        Self {
            schema: None,
            check: |_, _| {},
        }
    }
}

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// A default value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Literal {
    /// An integer that is not negative.
    Integer(u64),
    /// A number.
    Number(f64),
    /// A boolean.
    Boolean(bool),
    /// A text.
    Text(&'static str),
}

/// One row of a reference table.
#[derive(Debug, Clone)]
pub struct Row {
    /// The key, with those above it: `cache.max_bytes`.
    pub key: String,
    /// Its declaration.
    pub parameter: &'static Parameter,
}

/// Returns the number of keys in groups of keys.
#[must_use]
pub const fn count(groups: &[&[Parameter]]) -> usize {
    let (mut count, mut group) = (0, 0);
    while group < groups.len() {
        count += groups[group].len();
        group += 1;
    }
    count
}

/// Returns the keys of groups of keys, which are `N`, in one list.
#[must_use]
pub const fn joined<const N: usize>(groups: &[&[Parameter]]) -> [Parameter; N] {
    let mut all = [Parameter::optional("", ParameterKind::Any, ""); N];
    let (mut count, mut group) = (0, 0);
    while group < groups.len() {
        let mut at = 0;
        while at < groups[group].len() {
            all[count] = groups[group][at];
            count += 1;
            at += 1;
        }
        group += 1;
    }
    all
}

/// Declares an optional configuration key.
#[must_use]
pub const fn key(name: &'static str, kind: ParameterKind, doc: &'static str) -> Parameter {
    Parameter::optional(name, kind, doc)
}

/// Declares a required configuration key.
#[must_use]
pub const fn required(name: &'static str, kind: ParameterKind, doc: &'static str) -> Parameter {
    Parameter::required(name, kind, doc)
}

/// Declares a nested mapping, with the sentence of its table.
#[must_use]
pub const fn section(name: &'static str, table: &'static Table) -> Parameter {
    Parameter::optional(name, ParameterKind::Table(table), "")
}

/// Declares a key that is accepted with a warning; `help` says what to do.
#[must_use]
pub const fn no_effect(name: &'static str, help: &'static str) -> Parameter {
    Parameter::optional(name, ParameterKind::NoEffect(help), "")
}

/// Declares a key of other runtimes that is refused with the problem `code`.
#[must_use]
pub const fn unsupported(name: &'static str, code: &'static str) -> Parameter {
    Parameter::optional(name, ParameterKind::Unsupported(code), "")
}

/// Returns the words of a list of words and their meanings, for [`ParameterKind::Word`].
#[must_use]
pub const fn words<T: Copy, const N: usize>(choices: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut words = [""; N];
    let mut at = 0;
    while at < N {
        words[at] = choices[at].0;
        at += 1;
    }
    words
}

impl Table {
    /// Declares a mapping that refuses other keys.
    #[must_use]
    pub const fn new(
        name: &'static str,
        doc: &'static str,
        groups: &'static [&'static [Parameter]],
    ) -> Self {
        Self {
            name,
            doc,
            groups,
            open: false,
        }
    }

    /// Accepts keys that are not declared.
    #[must_use]
    pub const fn open(self) -> Self {
        Self { open: true, ..self }
    }

    /// Returns all declared keys, those that are refused or without effect included.
    pub fn parameters(&self) -> impl Iterator<Item = &'static Parameter> + use<> {
        self.groups.iter().copied().flatten()
    }

    /// Returns the key that has this name or alias.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters().find(|parameter| parameter.has_name(name))
    }

    /// Returns the documented keys, each with `prefix`. With `nested`, the keys of a nested table take the
    /// place of its own.
    #[must_use]
    pub fn rows(&self, prefix: &str, nested: bool) -> Vec<Row> {
        self.parameters()
            .filter(|parameter| parameter.is_documented())
            .flat_map(|parameter| match parameter.kind {
                ParameterKind::Table(table) | ParameterKind::Deferred(table) if nested => {
                    table.rows(&format!("{prefix}{}.", parameter.name), nested)
                }
                _ => vec![Row {
                    key: format!("{prefix}{}", parameter.name),
                    parameter,
                }],
            })
            .collect()
    }
}

impl Parameter {
    /// Declares an optional parameter that is part of every cache key and has no aliases.
    #[must_use]
    pub const fn optional(name: &'static str, kind: ParameterKind, doc: &'static str) -> Self {
        Self {
            name,
            kind,
            required: false,
            doc,
            aliases: &[],
            default: None,
            keyed: true,
            late_names: &[],
        }
    }

    /// Declares a required parameter.
    #[must_use]
    pub const fn required(name: &'static str, kind: ParameterKind, doc: &'static str) -> Self {
        Self {
            required: true,
            ..Self::optional(name, kind, doc)
        }
    }

    /// Adds aliases.
    #[must_use]
    pub const fn with_aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Sets the value that [`Values`] returns when the key is left out.
    #[must_use]
    pub const fn default(self, default: Literal) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }

    /// Lets the operation render templates in the argument, with these names.
    #[must_use]
    pub const fn rendered_with(self, late_names: &'static [&'static str]) -> Self {
        Self { late_names, ..self }
    }

    /// Leaves the parameter out of cache keys.
    #[must_use]
    pub const fn unkeyed(self) -> Self {
        Self {
            keyed: false,
            ..self
        }
    }

    /// True if `name` is the parameter's name or one of its aliases.
    #[must_use]
    pub fn has_name(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// Returns the name and the aliases.
    pub fn spellings(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// True unless the key is refused, hidden or without effect.
    #[must_use]
    pub fn is_documented(&self) -> bool {
        !matches!(
            self.kind,
            ParameterKind::NoEffect(_)
                | ParameterKind::Unsupported(_)
                | ParameterKind::Custom(Custom { schema: None, .. })
        )
    }

    /// Returns the documentation, or that of the nested table if it has none of its own.
    #[must_use]
    pub fn sentence(&self) -> &'static str {
        match self.kind {
            ParameterKind::Table(table) if self.doc.is_empty() => table.doc,
            _ => self.doc,
        }
    }

    /// Returns the documentation, followed by the default.
    #[must_use]
    pub fn description(&self) -> String {
        let sentence = self.sentence();
        match self.default {
            None => sentence.to_owned(),
            Some(Literal::Text(text)) => format!("{sentence} Default: `{text}`."),
            Some(literal) => format!("{sentence} Default: {}.", literal.to_value()),
        }
    }
}

impl Literal {
    /// Returns the JSON value.
    #[must_use]
    pub fn to_value(self) -> Value {
        match self {
            Self::Integer(integer) => integer.into(),
            Self::Number(number) => number.into(),
            Self::Boolean(boolean) => boolean.into(),
            Self::Text(text) => text.into(),
        }
    }
}

impl ParameterKind {
    /// Returns the kind without bounds, one of the first seven or a duration: the type to which an argument is
    /// converted. A duration becomes a number of seconds.
    #[must_use]
    pub fn basic(self) -> Self {
        match self {
            Self::Text | Self::Word(_) => Self::Text,
            Self::Integer | Self::IntegerIn(..) => Self::Integer,
            Self::Number | Self::NumberIn(..) => Self::Number,
            Self::Duration(range) => Self::Duration(range),
            Self::Boolean => Self::Boolean,
            Self::Object
            | Self::Scalars { .. }
            | Self::Table(_)
            | Self::Tables(_)
            | Self::Deferred(_)
            | Self::Definition(..) => Self::Object,
            Self::List | Self::Texts => Self::List,
            Self::Any | Self::Custom(_) | Self::NoEffect(_) | Self::Unsupported(_) => Self::Any,
        }
    }

    /// Returns the noun of the kind for reference tables: `whole number`.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self.basic() {
            Self::Text => "text",
            Self::Integer => "whole number",
            Self::Number => "number",
            Self::Duration(_) => "duration",
            Self::Boolean => "boolean",
            Self::Object => "mapping",
            Self::List => "list",
            _ => "anything",
        }
    }

    /// Returns the kind for messages, with its article: `a whole number`.
    #[must_use]
    pub fn expected(self) -> &'static str {
        match self.basic() {
            Self::Text => "text",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Duration(_) => "a duration",
            Self::Boolean => "`true` or `false`",
            Self::Object => "a mapping",
            Self::List => "a list",
            _ => "anything",
        }
    }
}
