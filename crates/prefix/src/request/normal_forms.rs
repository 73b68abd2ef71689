//! Cache of the normal forms of recently read pieces. The requests of a conversation repeat all but their
//! newest pieces, so that each piece is parsed once.

use std::collections::HashMap;

use bytes::Bytes;
use cachalot_model::Format;
use cachalot_prompt::{Node, NodeId, normal};

use super::NormalForm;

/// Maximum bytes of the cached forms; when they are exceeded, the cache is cleared.
const MAX_CACHED_BYTES: usize = 16 << 20;

/// Approximate overhead of an entry in bytes.
const ENTRY_OVERHEAD_BYTES: usize = 128;

/// Normal forms by the format and the ID of the piece.
#[derive(Default)]
pub(crate) struct NormalForms {
    known: HashMap<(Format, NodeId), NormalForm>,
    bytes: usize,
}

impl NormalForms {
    /// Returns the normal form of a piece; a piece that the format does not define is returned unchanged.
    pub(super) fn form(&mut self, format: Format, node: &Node) -> NormalForm {
        // Equal IDs mean equal bytes at the same level.
        if let Some(known) = self.known.get(&(format, node.id)) {
            return known.clone();
        }
        let form = match normal::piece(format, node.level, &node.bytes) {
            Some(normal) => (Bytes::from(normal.bytes), normal.mark_at),
            None => (node.bytes.clone(), node.mark_at),
        };
        let bytes = form.0.len() + ENTRY_OVERHEAD_BYTES;
        if self.bytes + bytes > MAX_CACHED_BYTES {
            self.known.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.known.insert((format, node.id), form.clone());
        form
    }
}
