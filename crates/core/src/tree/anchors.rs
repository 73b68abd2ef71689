//! Anchors, and the limits of alias expansion.

use std::collections::HashMap;

use super::{DEEPEST, Kind, MOST_COPIED_BYTES, MOST_COPIED_NODES, Node};
use crate::{Place, Problem};

/// The anchored nodes so far.
#[derive(Default)]
pub(super) struct Anchors {
    known: HashMap<usize, Anchored>,
    copied_nodes: usize,
    copied_bytes: usize,
}

enum Anchored {
    /// The node with the anchor is not complete yet.
    Open,
    Closed {
        node: Node,
        size: Size,
    },
}

/// The size of a node.
#[derive(Debug, Clone, Copy)]
struct Size {
    nodes: usize,
    bytes: usize,
    /// 0 for a scalar.
    depth: usize,
}

impl Anchors {
    /// Records the start of a list or mapping with this anchor.
    pub(super) fn open(&mut self, id: usize) {
        self.known.insert(id, Anchored::Open);
    }

    /// Records the completed node with this anchor. The copy that is kept counts like an alias.
    pub(super) fn close(&mut self, id: usize, node: &Node) -> Result<(), Problem> {
        let size = size_of(node);
        self.charge(size, &node.head())?;
        self.known.insert(
            id,
            Anchored::Closed {
                node: node.clone(),
                size,
            },
        );
        Ok(())
    }

    /// Returns a copy of the anchored node, for use at nesting `depth`; `Ok(None)` for an alias inside its
    /// own node.
    pub(super) fn resolve(
        &mut self,
        id: usize,
        depth: usize,
        place: &Place,
    ) -> Result<Option<Node>, Problem> {
        let size = match self.known.get(&id) {
            Some(Anchored::Closed { size, .. }) => *size,
            Some(Anchored::Open) | None => return Ok(None),
        };
        if depth + size.depth > DEEPEST {
            return Err(
                Problem::new("too-deep", format!("nested deeper than {DEEPEST} levels"))
                    .at(place)
                    .help("flatten what this alias stands for"),
            );
        }
        self.charge(size, place)?;
        match self.known.get(&id) {
            Some(Anchored::Closed { node, .. }) => Ok(Some(node.clone())),
            _ => Ok(None),
        }
    }

    fn charge(&mut self, size: Size, place: &Place) -> Result<(), Problem> {
        self.copied_nodes = self.copied_nodes.saturating_add(size.nodes);
        self.copied_bytes = self.copied_bytes.saturating_add(size.bytes);
        if self.copied_nodes <= MOST_COPIED_NODES && self.copied_bytes <= MOST_COPIED_BYTES {
            return Ok(());
        }
        let message = format!(
            "the anchors and aliases up to here stand for more than {MOST_COPIED_NODES} values or {} MiB of text",
            MOST_COPIED_BYTES / (1024 * 1024)
        );
        Err(Problem::new("alias-bomb", message)
            .at(place)
            .help("use fewer aliases of aliases"))
    }
}

fn size_of(node: &Node) -> Size {
    let mut size = Size {
        nodes: 1,
        bytes: 0,
        depth: 0,
    };
    let mut add = |child: &Node, key: usize| {
        let inner = size_of(child);
        size.nodes += inner.nodes;
        size.bytes += inner.bytes + key;
        size.depth = size.depth.max(inner.depth + 1);
    };
    match &node.kind {
        Kind::List(items) => items.iter().for_each(|item| add(item, 0)),
        Kind::Map(entries) => entries
            .iter()
            .for_each(|entry| add(&entry.value, entry.key.len())),
        Kind::Text(text) => size.bytes = text.len(),
        Kind::Null | Kind::Boolean(_) | Kind::Integer(_) | Kind::Unsigned(_) | Kind::Float(_) => {}
    }
    size
}
