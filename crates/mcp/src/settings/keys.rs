//! Reads keys with several spellings, times, patterns and variables.

use std::collections::BTreeMap;
use std::time::Duration;

use cachalot_core::tree::{Node, NodeKind, Section};
use cachalot_core::{Problem, Secret};

use cachalot_tools::filter::NameFilter;

/// A mapping that is read key by key, whose keys may have several spellings.
pub(super) struct Keys<'a, 'b> {
    section: Section<'a>,
    problems: &'b mut Vec<Problem>,
}

/// The spellings of a key, the preferred one first.
pub(super) type Spellings<'s> = &'s [&'static str];

impl<'a, 'b> Keys<'a, 'b> {
    pub(super) fn new(
        node: &'a Node,
        what: &'static str,
        problems: &'b mut Vec<Problem>,
    ) -> Option<Self> {
        let section = Section::from_node(node, what, problems)?;
        Some(Self { section, problems })
    }

    /// Returns the spelling that the mapping uses. Reports a problem if there are several.
    fn spelling(&mut self, key: Spellings<'_>) -> &'static str {
        let mut there = key
            .iter()
            .copied()
            .filter(|spelling| self.section.has(spelling));
        let usual = key.first().copied().unwrap_or_default();
        let spelling = there.next().unwrap_or(usual);
        let again: Vec<&'static str> = there.collect();
        for again in again {
            if let Some(entry) = self.section.entry(again) {
                self.problems.push(
                    Problem::new(
                        "two-spellings",
                        format!("`{again}` and `{spelling}` are the same key"),
                    )
                    .at(&entry.key_place)
                    .help("leave one of them out"),
                );
            }
        }
        spelling
    }

    /// Returns the value, unless it is missing or empty.
    pub(super) fn node(&mut self, key: Spellings<'_>) -> Option<&'a Node> {
        let key = self.spelling(key);
        self.section.present(key)
    }

    pub(super) fn text(&mut self, key: Spellings<'_>) -> Option<&'a str> {
        let key = self.spelling(key);
        self.section.text(key, self.problems)
    }

    pub(super) fn texts(&mut self, key: Spellings<'_>) -> Option<Vec<&'a str>> {
        let key = self.spelling(key);
        self.section.texts(key, self.problems)
    }

    pub(super) fn boolean(&mut self, key: Spellings<'_>) -> Option<bool> {
        let key = self.spelling(key);
        self.section.boolean(key, self.problems)
    }

    pub(super) fn at_least_one(&mut self, key: Spellings<'_>, most: u64) -> Option<u64> {
        let key = self.spelling(key);
        self.section.integer(key, 1..=most, self.problems)
    }

    /// Reads a time: `500ms`, `30s`, `5m`, `2h`, `7d`, or a number of seconds; greater than zero.
    pub(super) fn time(&mut self, key: Spellings<'_>) -> Option<Duration> {
        let key = self.spelling(key);
        let node = self.section.present(key)?;
        let read = time(node);
        if read.is_none() {
            self.problems.push(node.wrong_type(
                &format!("`{key}`"),
                "a time such as `30s`, `5m`, `2h`, `7d`, or a number of seconds",
            ));
        }
        read
    }

    /// Reads patterns of names.
    pub(super) fn filter(&mut self, key: Spellings<'_>) -> Option<NameFilter> {
        let key = self.spelling(key);
        let node = self.section.present(key)?;
        let patterns = self.section.texts(key, self.problems)?;
        match NameFilter::new(&patterns) {
            Ok(filter) => Some(filter),
            Err((pattern, why)) => {
                self.problem(
                    node,
                    "bad-pattern",
                    format!("`{pattern}` in `{key}` is no pattern: {why}"),
                    "`*` stands for any characters, `?` for one, `{a,b}` for either",
                );
                None
            }
        }
    }

    /// Reads environment variables with their values; numbers and booleans are converted to text.
    pub(super) fn variables(&mut self, key: Spellings<'_>) -> BTreeMap<String, Secret<String>> {
        let key = self.spelling(key);
        let Some(entries) = self.section.map(key, self.problems) else {
            return BTreeMap::new();
        };
        let mut variables = BTreeMap::new();
        for entry in entries {
            let value = match &entry.value.kind {
                NodeKind::Null => String::new(),
                NodeKind::Text(text) => text.clone(),
                NodeKind::Boolean(_)
                | NodeKind::Integer(_)
                | NodeKind::Unsigned(_)
                | NodeKind::Float(_) => entry.value.to_value().to_string(),
                NodeKind::List(_) | NodeKind::Map(_) => {
                    self.problems.push(
                        entry
                            .value
                            .wrong_type(&format!("`{}` in `{key}`", entry.key), "text"),
                    );
                    continue;
                }
            };
            if entry.key.is_empty() || entry.key.contains(['=', '\0']) || value.contains('\0') {
                self.problems.push(
                    Problem::new(
                        "bad-value",
                        format!("`{}` in `{key}` is no variable", entry.key),
                    )
                    .at(&entry.key_place)
                    .help("names hold no `=`, and neither names nor values a NUL"),
                );
                continue;
            }
            variables.insert(entry.key.clone(), Secret::new(value));
        }
        variables
    }

    /// Reads a nested mapping key by key.
    pub(super) fn within<T>(
        &mut self,
        key: Spellings<'_>,
        what: &'static str,
        read: impl FnOnce(&mut Keys<'a, '_>) -> T,
    ) -> Option<T> {
        let node = self.node(key)?;
        let mut keys = Keys::new(node, what, self.problems)?;
        let read = read(&mut keys);
        keys.finish();
        Some(read)
    }

    pub(super) fn problem(
        &mut self,
        node: &Node,
        code: &'static str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.problems
            .push(Problem::new(code, message).at(&node.head()).help(help));
    }

    /// Reports a problem of the whole mapping.
    pub(super) fn lacks(
        &mut self,
        code: &'static str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let problem = Problem::new(code, message)
            .at(self.section.place())
            .help(help);
        self.problems.push(problem);
    }

    pub(super) fn problems(&mut self) -> &mut Vec<Problem> {
        self.problems
    }

    /// Excludes the other keys from the check for unknown keys.
    pub(super) fn skip(&mut self) {
        let _ = self.section.take_rest();
    }

    /// Reports every key that was not read.
    pub(super) fn finish(self) {
        self.section.finish(self.problems);
    }
}

/// Parses a time that is greater than zero.
fn time(node: &Node) -> Option<Duration> {
    cachalot_core::duration::from_node(node).filter(|time| !time.is_zero())
}
