//! Lists and mappings that are being parsed.

use std::collections::{HashMap, HashSet};

use super::source::Position;
use super::tag::TagType;
use super::{MapEntry, Node, NodeKind};
use crate::{Problem, SourceSpan};

/// The key whose value is merged into the mapping.
const MERGE: &str = "<<";

/// A list or mapping that is not closed yet.
pub(super) struct Collection {
    pub(super) start: Position,
    pub(super) anchor: usize,
    pub(super) tag_type: TagType,
    /// The end of its last item, key or value.
    pub(super) end: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map(Mapping),
}

#[derive(Default)]
struct Mapping {
    entries: Vec<MapEntry>,
    keys: HashMap<String, SourceSpan>,
    pending: Option<Key>,
    /// The merged value, and the number of entries before it.
    merged: Option<(usize, Node)>,
}

/// The key whose value is expected next.
pub(super) enum Key {
    /// An ordinary key.
    Named(String, SourceSpan),
    /// `<<`, not in quotes.
    Merge,
    /// A key with a reported problem: its value is parsed and dropped.
    Wrong,
}

impl Collection {
    pub(super) fn list(start: Position, anchor: usize, tag_type: TagType) -> Self {
        Self {
            start,
            anchor,
            tag_type,
            end: start.byte,
            content: Content::List(Vec::new()),
        }
    }

    pub(super) fn map(start: Position, anchor: usize, tag_type: TagType) -> Self {
        Self {
            start,
            anchor,
            tag_type,
            end: start.byte,
            content: Content::Map(Mapping::default()),
        }
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.content, Content::Map(_))
    }

    /// True if a key comes next.
    pub(super) fn expects_key(&self) -> bool {
        matches!(&self.content, Content::Map(map) if map.pending.is_none())
    }

    /// Adds a key with the spelling `text`; `is_plain` if it has neither quotes nor a tag.
    pub(super) fn key(
        &mut self,
        text: String,
        is_plain: bool,
        place: SourceSpan,
    ) -> Option<Problem> {
        let Content::Map(map) = &mut self.content else {
            return None;
        };
        if let Some(first) = map.keys.get(&text) {
            let problem = Problem::new(
                "duplicate-key",
                format!("the key `{text}` is already in this mapping, at {first}"),
            )
            .at(&place)
            .help("keep one of the two, or rename one");
            map.pending = Some(Key::Wrong);
            return Some(problem);
        }
        map.keys.insert(text.clone(), place.clone());
        let is_merge = is_plain && text == MERGE;
        map.pending = Some(if is_merge {
            Key::Merge
        } else {
            Key::Named(text, place)
        });
        None
    }

    /// Records that the node at the position of a key cannot be one.
    pub(super) fn wrong_key(&mut self) {
        if let Content::Map(map) = &mut self.content {
            map.pending = Some(Key::Wrong);
        }
    }

    /// Adds an item, or the value of the pending key.
    pub(super) fn value(&mut self, node: Node) -> Option<Problem> {
        match &mut self.content {
            Content::List(items) => items.push(node),
            Content::Map(map) => match map.pending.take() {
                Some(Key::Named(key, key_place)) => {
                    map.entries.push(MapEntry {
                        key,
                        key_place,
                        value: node,
                    });
                }
                Some(Key::Merge) if can_be_merged(&node) => {
                    map.merged = Some((map.entries.len(), node));
                }
                Some(Key::Merge) => {
                    return Some(node.wrong_type("`<<`", "a mapping or a list of mappings"));
                }
                Some(Key::Wrong) | None => {}
            },
        }
        None
    }

    /// Closes the list or mapping.
    pub(super) fn finish(self) -> NodeKind {
        match self.content {
            Content::List(items) => NodeKind::List(items),
            Content::Map(map) => NodeKind::Map(map.finish()),
        }
    }
}

impl Mapping {
    fn finish(self) -> Vec<MapEntry> {
        let Some((at, node)) = self.merged else {
            return self.entries;
        };
        let mut keys: HashSet<String> = self.keys.into_keys().collect();
        let mut entries = self.entries;
        let after = entries.split_off(at);
        let merged = match node.kind {
            NodeKind::Map(merged) => merged,
            NodeKind::List(items) => items.into_iter().flat_map(into_entries).collect(),
            _ => Vec::new(),
        };
        entries.extend(
            merged
                .into_iter()
                .filter(|entry| keys.insert(entry.key.clone())),
        );
        entries.extend(after);
        entries
    }
}

fn can_be_merged(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Map(_) => true,
        NodeKind::List(items) => items
            .iter()
            .all(|item| matches!(item.kind, NodeKind::Map(_))),
        _ => false,
    }
}

fn into_entries(node: Node) -> Vec<MapEntry> {
    match node.kind {
        NodeKind::Map(entries) => entries,
        _ => Vec::new(),
    }
}
