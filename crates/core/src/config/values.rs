//! Reads mappings by their declared tables.

use std::time::Duration;

use super::{Literal, Parameter, ParameterKind, Table};
use crate::suggest::{did_you_mean, nearest};
use crate::tree::{MapEntry, Node, NodeKind, Section};
use crate::{Problem, SourceSpan, duration};

/// The values of a mapping, read by the names of its table.
///
/// A key that is missing, empty or invalid has no value; [`Table::read`] has reported its problem. The typed
/// reads return the declared default in place of a missing value. A name that is not declared is a defect of
/// the program, and panics in debug builds.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    pub(super) table: &'static Table,
    node: &'a Node,
}

impl Table {
    /// Checks a mapping against the table, nested tables included, and returns its values; `None` if `node`
    /// is no mapping. Reports every problem: `wrong-type`, `missing-key`, `unknown-key`, `two-spellings`,
    /// `out-of-range`, `bad-value`, `no-effect`, and the codes of the table itself.
    pub fn read<'a>(
        &'static self,
        node: &'a Node,
        problems: &mut Vec<Problem>,
    ) -> Option<Values<'a>> {
        let Some(entries) = node.as_map() else {
            problems.push(node.wrong_type(self.name, "a mapping"));
            return None;
        };
        for parameter in self.parameters() {
            self.check(parameter, node, entries, problems);
        }
        let is_unknown = |entry: &&MapEntry| self.parameter(&entry.key).is_none();
        for entry in entries.iter().filter(is_unknown).filter(|_| !self.open) {
            let message = format!("unknown key `{}` in {}", entry.key, self.name);
            if let Some(key) = self.nearest(&entry.key) {
                Problem::remove_missing_key(problems, key, &node.head());
            }
            problems.push(
                Problem::new("unknown-key", message)
                    .at(&entry.key_place)
                    .help(self.suggestion(&entry.key)),
            );
        }
        Some(Values { table: self, node })
    }

    /// Returns the values of a mapping that [`Table::read`] has checked; `None` if `node` is no mapping.
    #[must_use]
    pub fn values<'a>(&'static self, node: &'a Node) -> Option<Values<'a>> {
        node.as_map().map(|_| Values { table: self, node })
    }

    /// Returns the remedy for an unknown key: the nearest documented one, or the list of all. Spellings with
    /// capitals are suggested for keys with capitals first, and the others for the others.
    #[must_use]
    pub fn suggestion(&self, key: &str) -> String {
        match self.nearest(key) {
            Some(near) => did_you_mean(key, &[near]),
            None => did_you_mean(key, &self.documented_spellings()),
        }
    }

    /// Returns the documented key that an unknown key is probably a misspelling of.
    fn nearest(&self, key: &str) -> Option<&'static str> {
        let known = self.documented_spellings();
        let has_capitals = |word: &str| word.contains(char::is_uppercase);
        let alike = known.iter().copied();
        let alike = alike.filter(|known| has_capitals(known) == has_capitals(key));
        nearest(key, alike).or_else(|| nearest(key, known.iter().copied()))
    }

    fn documented_spellings(&self) -> Vec<&'static str> {
        let documented = self
            .parameters()
            .filter(|parameter| parameter.is_documented());
        documented.flat_map(Parameter::spellings).collect()
    }

    fn check(
        &self,
        parameter: &Parameter,
        node: &Node,
        entries: &[MapEntry],
        problems: &mut Vec<Problem>,
    ) {
        let mut written = entries
            .iter()
            .filter(|entry| parameter.has_name(&entry.key));
        let first = written.next();
        for again in written {
            let first = first.map_or("", |entry| entry.key.as_str());
            let message = format!("`{}` and `{first}` are the same key", again.key);
            problems.push(
                Problem::new("two-spellings", message)
                    .at(&again.key_place)
                    .help("leave one of them out"),
            );
        }
        match (first, parameter.kind) {
            (Some(entry), kind) if kind.is_foreign() => {
                problems.extend(self.foreign(kind, entry));
            }
            (Some(entry), kind) if !entry.value.is_null() => kind.check(entry, problems),
            (entry, _) if parameter.required => {
                let message = format!("{} needs `{}`", self.name, parameter.name);
                problems.push(match entry {
                    Some(empty) => Problem::new("missing-key", message)
                        .at(&empty.key_place)
                        .help("write a value after the colon"),
                    None => Problem::missing_key(message, parameter.name, &node.head()),
                });
            }
            _ => {}
        }
    }

    /// Returns the problem of a key that is refused or without effect.
    fn foreign(&self, kind: ParameterKind, entry: &MapEntry) -> Option<Problem> {
        let problem = match kind {
            ParameterKind::NoEffect(help) => {
                let message = format!("`{}` in {} has no effect", entry.key, self.name);
                Problem::warning("no-effect", message).help(help)
            }
            ParameterKind::Unsupported(code) => {
                let message = format!("`{}` in {} is not supported", entry.key, self.name);
                Problem::new(code, message).help("take it out: it would have no effect here")
            }
            _ => return None,
        };
        Some(problem.at(&entry.key_place))
    }

    /// Finishes a mapping that was read key by key, because the meaning of its keys depends on other keys.
    /// Reports the keys that were not read by name: those that are refused, and unless
    /// [`Section::take_rest`] took them, those without effect and unknown ones.
    /// A key that was read and is not declared is a defect of the program, and panics in debug builds.
    pub fn finish(&'static self, mut section: Section<'_>, problems: &mut Vec<Problem>) {
        for key in section.known_keys() {
            let is_declared = self.parameter(key).is_some();
            debug_assert!(is_declared, "`{key}` is not declared in {}", self.name);
        }
        for parameter in self
            .parameters()
            .filter(|parameter| parameter.kind.is_foreign())
        {
            // A key that is refused is reported also where the rest of the mapping is skipped.
            let was_read = section.known_keys().contains(&parameter.name);
            let entry = match parameter.kind {
                ParameterKind::Unsupported(_) if !was_read => section.entry(parameter.name),
                ParameterKind::Unsupported(_) => None,
                _ => section.entry_if_unclaimed(parameter.name),
            };
            problems.extend(entry.and_then(|entry| self.foreign(parameter.kind, entry)));
        }
        section.finish(problems);
    }
}

impl ParameterKind {
    /// True for a key of other runtimes.
    fn is_foreign(self) -> bool {
        matches!(self, Self::NoEffect(_) | Self::Unsupported(_))
    }

    /// Reports the problems of a value that is not null.
    pub fn check(self, entry: &MapEntry, problems: &mut Vec<Problem>) {
        let (key, node) = (&entry.key, &entry.value);
        let wrong = |expected| Some(node.wrong_type(&format!("`{key}`"), expected));
        let out_of_range = |bounds: &str, found: f64, remedy: String| {
            let message = format!("`{key}` must be {bounds}, but it is {found}");
            let problem = Problem::new("out-of-range", message);
            Some(problem.at(&node.place).help(remedy))
        };
        let problem = match self {
            Self::Any | Self::NoEffect(_) | Self::Unsupported(_) => None,
            Self::Text if node.as_text().is_none() => wrong("text"),
            Self::Boolean if node.as_boolean().is_none() => wrong("`true` or `false`"),
            Self::List | Self::Texts if node.as_list().is_none() => wrong("a list"),
            Self::Object
            | Self::Scalars { .. }
            | Self::Table(_)
            | Self::Tables(_)
            | Self::Deferred(_)
            | Self::Definition(..)
                if node.as_map().is_none() =>
            {
                wrong("a mapping")
            }
            Self::Integer if node.as_integer().is_none() => wrong("a whole number"),
            Self::Text
            | Self::Boolean
            | Self::List
            | Self::Object
            | Self::Deferred(_)
            | Self::Integer => None,
            Self::Word(words) => match node.as_text() {
                None => wrong("text"),
                Some(word) if words.contains(&word) => None,
                Some(word) => {
                    let problem = Problem::new("bad-value", format!("`{key}` cannot be `{word}`"));
                    Some(problem.at(&node.place).help(did_you_mean(word, words)))
                }
            },
            Self::IntegerIn(least, most) => match node.as_integer() {
                None => wrong("a whole number"),
                Some(found) if within(found, least, most).is_some() => None,
                Some(found) => Some(node.out_of_range(key, found, &(least..=most))),
            },
            Self::Duration(range) => range.problem(&format!("`{key}`"), node),
            Self::Number | Self::NumberIn(..) => match finite(node) {
                None => wrong("a finite number"),
                Some(found) if self.accepts(found) => None,
                Some(found) => match self {
                    Self::NumberIn(least, f64::INFINITY) => {
                        let bounds = format!("at least {least}");
                        let remedy = format!("write a number that is {bounds}");
                        out_of_range(&bounds, found, remedy)
                    }
                    Self::NumberIn(least, most) => {
                        let remedy = "write a number within these bounds".to_owned();
                        out_of_range(&format!("from {least} to {most}"), found, remedy)
                    }
                    _ => None,
                },
            },
            Self::Scalars { null } => {
                for entry in node.as_map().unwrap_or_default() {
                    if scalar(&entry.value, null).is_none() {
                        let name = format!("`{}` in `{key}`", entry.key);
                        problems.push(entry.value.wrong_type(&name, "text"));
                    }
                }
                None
            }
            Self::Texts => {
                let items = node.as_list().unwrap_or_default();
                let name = format!("an item of `{key}`");
                let others = items.iter().filter(|item| item.as_text().is_none());
                problems.extend(others.map(|item| item.wrong_type(&name, "text")));
                None
            }
            Self::Table(table) | Self::Definition(_, table) => {
                table.read(node, problems);
                None
            }
            Self::Tables(table) => {
                for entry in node.as_map().unwrap_or_default() {
                    table.read(&entry.value, problems);
                }
                None
            }
            Self::Custom(custom) => {
                (custom.check)(entry, problems);
                None
            }
        };
        problems.extend(problem);
    }

    pub(super) fn accepts(self, number: f64) -> bool {
        match self {
            Self::NumberIn(least, most) => (least..=most).contains(&number),
            _ => true,
        }
    }
}

pub(super) fn within(found: i128, minimum: u64, maximum: u64) -> Option<u64> {
    let found = u64::try_from(found).ok();
    found.filter(|found| (minimum..=maximum).contains(found))
}

/// Returns the text of a scalar; that of null is empty.
pub(super) fn scalar(node: &Node, null: bool) -> Option<String> {
    match &node.kind {
        NodeKind::Null => null.then(String::new),
        NodeKind::Text(text) => Some(text.clone()),
        NodeKind::List(_) | NodeKind::Map(_) => None,
        _ => Some(node.to_value().to_string()),
    }
}

pub(super) fn finite(node: &Node) -> Option<f64> {
    node.as_f64().filter(|number| number.is_finite())
}

impl<'a> Values<'a> {
    /// Returns the declaration of a name.
    fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        let found = self.table.parameter(name);
        debug_assert!(
            found.is_some(),
            "`{name}` is not declared in {}",
            self.table.name
        );
        found
    }

    /// Returns the whole mapping.
    #[must_use]
    pub fn mapping(&self) -> &'a Node {
        self.node
    }

    /// Returns the entries of the mapping that the table does not declare, in the order of the file.
    pub fn undeclared(&self) -> impl Iterator<Item = &'a MapEntry> + use<'a> {
        let table = self.table;
        let entries = self.node.as_map().unwrap_or_default().iter();
        entries.filter(move |entry| table.parameter(&entry.key).is_none())
    }

    /// Returns the undeclared entry that is probably a misspelling of a name.
    #[must_use]
    pub fn misspelled(&self, name: &str) -> Option<&'a MapEntry> {
        let table = self.table;
        self.undeclared()
            .find(|entry| table.nearest(&entry.key) == Some(name))
    }

    /// Returns the entry, whose value may be empty.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&'a MapEntry> {
        let parameter = self.parameter(name)?;
        let mut entries = self.node.as_map().unwrap_or_default().iter();
        entries.find(|entry| parameter.has_name(&entry.key))
    }

    /// Returns the value as written, unless it is missing or empty.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&'a Node> {
        let entry = self.entry(name)?;
        Some(&entry.value).filter(|value| !value.is_null())
    }

    /// Returns the place of the value, or of the mapping if it is missing.
    #[must_use]
    pub fn place(&self, name: &str) -> SourceSpan {
        match self.node(name) {
            Some(node) => node.place.clone(),
            None => self.node.head(),
        }
    }

    /// Reads the value, or takes the default if the key is missing.
    fn get<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'a Node, ParameterKind) -> Option<T>,
        default: impl FnOnce(Literal) -> Option<T>,
    ) -> Option<T> {
        let parameter = self.parameter(name)?;
        match self.node(name) {
            Some(node) => read(node, parameter.kind),
            None => parameter.default.and_then(default),
        }
    }

    /// Returns the text or word.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&'a str> {
        let read = |node: &'a Node, kind| {
            node.as_text().filter(|text| match kind {
                ParameterKind::Word(words) => words.contains(text),
                _ => true,
            })
        };
        self.get(name, read, |default| match default {
            Literal::Text(text) => Some(text),
            _ => None,
        })
    }

    /// Returns the text as an owned string.
    #[must_use]
    pub fn string(&self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    /// Returns the meaning of a word.
    #[must_use]
    pub fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let written = self.text(name)?;
        let mut choices = choices.iter();
        choices
            .find(|(word, _)| *word == written)
            .map(|(_, meaning)| *meaning)
    }

    /// Returns the boolean.
    #[must_use]
    pub fn boolean(&self, name: &str) -> Option<bool> {
        self.get(
            name,
            |node, _| node.as_boolean(),
            |default| match default {
                Literal::Boolean(boolean) => Some(boolean),
                _ => None,
            },
        )
    }

    /// Returns the integer; the bounds of its kind should be within those of `T`.
    #[must_use]
    pub fn integer<T: TryFrom<u64>>(&self, name: &str) -> Option<T> {
        let read = |node: &'a Node, kind| match kind {
            ParameterKind::IntegerIn(least, most) => within(node.as_integer()?, least, most),
            _ => node.as_u64(),
        };
        let integer = self.get(name, read, |default| match default {
            Literal::Integer(integer) => Some(integer),
            _ => None,
        });
        T::try_from(integer?).ok()
    }

    /// Returns the number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        let read = |node: &'a Node, kind: ParameterKind| {
            finite(node).filter(|number| kind.accepts(*number))
        };
        self.get(name, read, |default| match default {
            Literal::Number(number) => Some(number),
            // Defaults are small.
            Literal::Integer(integer) => Some(integer as f64),
            _ => None,
        })
    }

    /// Returns the duration.
    #[must_use]
    pub fn duration(&self, name: &str) -> Option<Duration> {
        let read = |node: &'a Node, kind| match kind {
            ParameterKind::Duration(range) => range.read(node).ok(),
            _ => None,
        };
        self.get(name, read, |default| match default {
            Literal::Text(text) => duration::parse(text),
            _ => None,
        })
    }

    /// Returns the texts of a list; items that are no text are left out.
    #[must_use]
    pub fn texts(&self, name: &str) -> Option<Vec<String>> {
        let texts = self.list(name)?.iter().filter_map(Node::as_text);
        Some(texts.map(str::to_owned).collect())
    }

    /// Returns the items of a list.
    #[must_use]
    pub fn list(&self, name: &str) -> Option<&'a [Node]> {
        self.node(name)?.as_list()
    }

    /// Returns the entries of a mapping; none if the key is missing.
    #[must_use]
    pub fn map(&self, name: &str) -> &'a [MapEntry] {
        self.node(name).and_then(Node::as_map).unwrap_or_default()
    }

    /// Returns the names and the texts of a mapping of scalars, in the order of the file.
    pub fn scalars(&self, name: &str) -> impl Iterator<Item = (&'a str, String)> + use<'a> {
        let entries = self.map(name).iter();
        entries.filter_map(|entry| Some((entry.key.as_str(), scalar(&entry.value, true)?)))
    }

    /// Returns the values of a nested table.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<Values<'a>> {
        let node = self.node(name).filter(|node| node.as_map().is_some())?;
        match self.parameter(name)?.kind {
            ParameterKind::Table(table) | ParameterKind::Definition(_, table) => {
                Some(Values { table, node })
            }
            _ => None,
        }
    }

    /// Returns the names and the values of nested tables, in the order of the file.
    pub fn tables(&self, name: &str) -> impl Iterator<Item = (&'a str, Values<'a>)> + use<'a> {
        let table = match self.parameter(name).map(|parameter| parameter.kind) {
            Some(ParameterKind::Tables(table)) => Some(table),
            _ => None,
        };
        self.map(name).iter().filter_map(move |entry| {
            entry.value.as_map()?;
            let node = &entry.value;
            Some((
                entry.key.as_str(),
                Values {
                    table: table?,
                    node,
                },
            ))
        })
    }
}
