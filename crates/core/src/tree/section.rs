//! Reads a mapping key by key, and reports keys that were not read.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use super::{MapEntry, Node};
use crate::suggest::{did_you_mean, nearest};
use crate::{Problem, SourceSpan};

/// A mapping that is read key by key. Every read claims its key; [`Section::finish`] reports the keys that
/// were not claimed.
///
/// The typed reads treat a key with an empty value (`tools:` with nothing after it) as missing. A value of
/// the wrong type is reported, and then treated as missing.
#[derive(Debug)]
#[must_use = "finish it, or unknown keys go unnoticed"]
pub struct Section<'a> {
    description: &'static str,
    place: SourceSpan,
    entries: &'a [MapEntry],
    claimed: HashSet<&'a str>,
    known_keys: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// Starts reading the mapping `node`. `description` names it in messages, with its article (`an agent file`).
    /// Reports `wrong-type` if it is not a mapping.
    pub fn from_node(
        node: &'a Node,
        description: &'static str,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let Some(entries) = node.as_map() else {
            problems.push(node.wrong_type(description, "a mapping"));
            return None;
        };
        Some(Self {
            description,
            place: node.head(),
            entries,
            claimed: HashSet::new(),
            known_keys: Vec::new(),
        })
    }

    /// The beginning of the mapping.
    #[must_use]
    pub fn place(&self) -> &SourceSpan {
        &self.place
    }

    /// The entries of the mapping. Does not claim them.
    #[must_use]
    pub fn entries(&self) -> &'a [MapEntry] {
        self.entries
    }

    /// The keys that were read so far, present or not.
    #[must_use]
    pub fn known_keys(&self) -> &[&'static str] {
        &self.known_keys
    }

    /// True if `key` exists. Does not claim it.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Claims `key` if it exists and is not claimed yet; returns the entry.
    pub fn entry_if_unclaimed(&mut self, key: &'static str) -> Option<&'a MapEntry> {
        if self.has(key) && !self.claimed.contains(key) {
            self.entry(key)
        } else {
            None
        }
    }

    /// Claims `key`; returns the entry, with the place of the key.
    pub fn entry(&mut self, key: &'static str) -> Option<&'a MapEntry> {
        if !self.known_keys.contains(&key) {
            self.known_keys.push(key);
        }
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        self.claimed.insert(&entry.key);
        Some(entry)
    }

    /// Claims `key`; returns the value, of any type.
    pub fn node(&mut self, key: &'static str) -> Option<&'a Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Claims `key` without reading its value.
    pub fn claim(&mut self, key: &'static str) {
        let _ = self.entry(key);
    }

    /// Claims `key`; returns the value, unless it is missing or empty.
    pub fn present(&mut self, key: &'static str) -> Option<&'a Node> {
        self.node(key).filter(|node| !node.is_null())
    }

    /// Claims `key`; returns the value. Reports `missing-key` if it is missing or empty.
    pub fn required(&mut self, key: &'static str, problems: &mut Vec<Problem>) -> Option<&'a Node> {
        let entry = self.entry(key);
        let node = entry
            .map(|entry| &entry.value)
            .filter(|node| !node.is_null());
        if node.is_none() {
            let message = format!("{} needs `{key}`", self.description);
            problems.push(match entry {
                Some(empty) => Problem::new("missing-key", message)
                    .at(&empty.key_place)
                    .help("write a value after the colon"),
                None => Problem::missing_key(message, key, &self.place),
            });
        }
        node
    }

    /// Claims `key`; returns its text.
    pub fn text(&mut self, key: &'static str, problems: &mut Vec<Problem>) -> Option<&'a str> {
        let node = self.present(key)?;
        typed(key, node, "text", Node::as_text, problems)
    }

    /// Claims `key`; returns its text. Reports `missing-key` if it is missing or empty.
    pub fn required_text(
        &mut self,
        key: &'static str,
        problems: &mut Vec<Problem>,
    ) -> Option<&'a str> {
        let node = self.required(key, problems)?;
        typed(key, node, "text", Node::as_text, problems)
    }

    /// Claims `key`; returns its boolean.
    pub fn boolean(&mut self, key: &'static str, problems: &mut Vec<Problem>) -> Option<bool> {
        let node = self.present(key)?;
        typed(key, node, "`true` or `false`", Node::as_boolean, problems)
    }

    /// Claims `key`; returns its integer. Reports `out-of-range` if it is outside `range`.
    pub fn integer(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
        problems: &mut Vec<Problem>,
    ) -> Option<u64> {
        let node = self.present(key)?;
        // A negative number is an integer, too: the problem is its range, not its type.
        let found = typed(key, node, "a whole number", Node::as_integer, problems)?;
        let integer = u64::try_from(found).ok();
        let integer = integer.filter(|integer| range.contains(integer));
        if integer.is_none() {
            problems.push(node.out_of_range(key, found, &range));
        }
        integer
    }

    /// Claims `key`; returns its number, which must be finite.
    pub fn number(&mut self, key: &'static str, problems: &mut Vec<Problem>) -> Option<f64> {
        let node = self.present(key)?;
        let finite = |node: &'a Node| node.as_f64().filter(|number| number.is_finite());
        typed(key, node, "a finite number", finite, problems)
    }

    /// Claims `key`; returns its list.
    pub fn list(&mut self, key: &'static str, problems: &mut Vec<Problem>) -> Option<&'a [Node]> {
        let node = self.present(key)?;
        typed(key, node, "a list", Node::as_list, problems)
    }

    /// Claims `key`; returns its list of texts. An item that is not text is reported and skipped.
    pub fn texts(
        &mut self,
        key: &'static str,
        problems: &mut Vec<Problem>,
    ) -> Option<Vec<&'a str>> {
        let items = self.list(key, problems)?;
        let name = format!("an item of `{key}`");
        let text = |item: &'a Node| {
            item.as_text().or_else(|| {
                problems.push(item.wrong_type(&name, "text"));
                None
            })
        };
        Some(items.iter().filter_map(text).collect())
    }

    /// Claims `key`; returns the entries of its mapping, which may have any keys.
    pub fn map(
        &mut self,
        key: &'static str,
        problems: &mut Vec<Problem>,
    ) -> Option<&'a [MapEntry]> {
        let node = self.present(key)?;
        typed(key, node, "a mapping", Node::as_map, problems)
    }

    /// Claims `key`; returns its mapping as a section that is called `description` in messages.
    pub fn section(
        &mut self,
        key: &'static str,
        description: &'static str,
        problems: &mut Vec<Problem>,
    ) -> Option<Section<'a>> {
        let node = self.present(key)?;
        if node.as_map().is_none() {
            problems.push(node.wrong_type(&format!("`{key}`"), "a mapping"));
            return None;
        }
        Section::from_node(node, description, problems)
    }

    /// Claims every key that is not claimed yet; returns their entries in the order of the file. For mappings
    /// that accept any key in addition to the known ones.
    pub fn take_rest(&mut self) -> Vec<&'a MapEntry> {
        let entries = self.entries;
        entries
            .iter()
            .filter(|entry| self.claimed.insert(&entry.key))
            .collect()
    }

    /// Reports every key that was not claimed as `unknown-key`, and suggests the nearest of the keys that
    /// were read. If that one is missing, it is not reported as missing, too.
    pub fn finish(self, problems: &mut Vec<Problem>) {
        for entry in self
            .entries
            .iter()
            .filter(|entry| !self.claimed.contains(entry.key.as_str()))
        {
            if let Some(key) = nearest(&entry.key, self.known_keys.iter().copied()) {
                Problem::remove_missing_key(problems, key, &self.place);
            }
            problems.push(
                Problem::new(
                    "unknown-key",
                    format!("unknown key `{}` in {}", entry.key, self.description),
                )
                .at(&entry.key_place)
                .help(did_you_mean(&entry.key, &self.known_keys)),
            );
        }
    }
}

fn typed<'a, T>(
    key: &str,
    node: &'a Node,
    expected: &str,
    read: impl FnOnce(&'a Node) -> Option<T>,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let value = read(node);
    if value.is_none() {
        problems.push(node.wrong_type(&format!("`{key}`"), expected));
    }
    value
}
