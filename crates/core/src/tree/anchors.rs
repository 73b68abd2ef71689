//! Anchors, and the limits of alias expansion.

use std::collections::HashMap;

use super::{MAX_COPIED_BYTES, MAX_COPIED_NODES, MAX_DEPTH, Node, NodeKind};
use crate::{Problem, SourceSpan};

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
        place: &SourceSpan,
    ) -> Result<Option<Node>, Problem> {
        let size = match self.known.get(&id) {
            Some(Anchored::Closed { size, .. }) => *size,
            Some(Anchored::Open) | None => return Ok(None),
        };
        if depth + size.depth > MAX_DEPTH {
            return Err(
                Problem::new("too-deep", format!("nested deeper than {MAX_DEPTH} levels"))
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

    fn charge(&mut self, size: Size, place: &SourceSpan) -> Result<(), Problem> {
        self.copied_nodes = self.copied_nodes.saturating_add(size.nodes);
        self.copied_bytes = self.copied_bytes.saturating_add(size.bytes);
        if self.copied_nodes <= MAX_COPIED_NODES && self.copied_bytes <= MAX_COPIED_BYTES {
            return Ok(());
        }
        let message = format!(
            "the anchors and aliases up to here stand for more than {MAX_COPIED_NODES} values or {} MiB of text",
            MAX_COPIED_BYTES / (1024 * 1024)
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
        NodeKind::List(items) => items.iter().for_each(|item| add(item, 0)),
        NodeKind::Map(entries) => entries
            .iter()
            .for_each(|entry| add(&entry.value, entry.key.len())),
        NodeKind::Text(text) => size.bytes = text.len(),
        NodeKind::Null
        | NodeKind::Boolean(_)
        | NodeKind::Integer(_)
        | NodeKind::Unsigned(_)
        | NodeKind::Float(_) => {}
    }
    size
}
