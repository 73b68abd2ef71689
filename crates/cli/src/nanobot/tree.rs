//! The tree of `config.json`, and nodes of the agent file that it is converted into.

use cachalot_core::SourceSpan;
use cachalot_core::tree::{MapEntry, Node, NodeKind};

/// Mappings whose keys are names of the user.
const OF_NAMES: [&str; 3] = ["providers", "mcpServers", "modelPresets"];

/// Values that are not read key by key.
const OPAQUE: [&str; 6] = [
    "channels",
    "env",
    "headers",
    "extraHeaders",
    "extraBody",
    "extraQuery",
];

/// Returns the tree with its keys in camel case, and without keys that nanobot treats as not set. nanobot accepts both
/// spellings, and writes a value for every key.
pub(super) fn normalized(root: &Node) -> Node {
    normalize(root, false)
}

fn normalize(node: &Node, has_names: bool) -> Node {
    let kind = match &node.kind {
        NodeKind::Map(entries) => {
            let entries = entries.iter().map(|entry| {
                let key = if has_names {
                    entry.key.clone()
                } else {
                    camel_case(&entry.key)
                };
                let is = |keys: &[&str]| !has_names && keys.contains(&key.as_str());
                let value = if is(&OPAQUE) {
                    entry.value.clone()
                } else {
                    normalize(&entry.value, is(&OF_NAMES))
                };
                let key_place = entry.key_place.clone();
                MapEntry {
                    key,
                    key_place,
                    value,
                }
            });
            NodeKind::Map(entries.filter(|entry| !is_unset(&entry.value)).collect())
        }
        NodeKind::List(items) => {
            NodeKind::List(items.iter().map(|item| normalize(item, false)).collect())
        }
        other => other.clone(),
    };
    let place = node.place.clone();
    Node { place, kind }
}

/// True for null and for empty texts and mappings. An empty list may have a meaning of its own.
fn is_unset(value: &Node) -> bool {
    value.is_null() || value.as_text() == Some("") || value.as_map().is_some_and(<[_]>::is_empty)
}

fn camel_case(key: &str) -> String {
    let mut words = key.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |camel, word| {
        let mut letters = word.chars();
        let initial = letters.next().map(|letter| letter.to_ascii_uppercase());
        camel + &initial.into_iter().chain(letters).collect::<String>()
    })
}

/// Creates text at a place of `config.json`.
pub(super) fn text(place: &SourceSpan, text: impl Into<String>) -> Node {
    node(place, NodeKind::Text(text.into()))
}

/// Creates a list at a place of `config.json`.
pub(super) fn list(place: &SourceSpan, items: impl IntoIterator<Item = Node>) -> Node {
    node(place, NodeKind::List(items.into_iter().collect()))
}

/// Creates a mapping at a place of `config.json`.
pub(super) fn mapping(
    place: &SourceSpan,
    entries: impl IntoIterator<Item = (impl Into<String>, Node)>,
) -> Node {
    let entries = entries.into_iter().map(|(key, value)| MapEntry {
        key: key.into(),
        key_place: value.place.clone(),
        value,
    });
    node(place, NodeKind::Map(entries.collect()))
}

pub(super) fn node(place: &SourceSpan, kind: NodeKind) -> Node {
    let place = place.clone();
    Node { place, kind }
}
