//! Normal forms of the pieces that were read last. The requests of a conversation repeat all but their
//! newest pieces, which then are parsed once.

use std::collections::HashMap;

use bytes::Bytes;
use cachalot_model::Format;
use cachalot_prompt::{Node, NodeId, normal};

/// The maximum number of bytes that are kept; beyond it, everything is forgotten.
const MOST: usize = 16 << 20;

/// The bytes that an entry takes beside its form, roughly.
const ENTRY: usize = 128;

/// Normal forms by the format and the name of the piece.
#[derive(Default)]
pub(crate) struct NormalForms {
    known: HashMap<(Format, NodeId), Form>,
    bytes: usize,
}

/// The bytes of a piece, and where a marker may stand in it.
type Form = (Bytes, Option<u32>);

impl NormalForms {
    /// Returns the normal form of a piece; one that the format does not know is its own.
    pub(super) fn form(&mut self, format: Format, node: &Node) -> Form {
        // Equal names mean equal bytes at the same level.
        if let Some(known) = self.known.get(&(format, node.id)) {
            return known.clone();
        }
        let form = match normal::piece(format, node.level, &node.bytes) {
            Some(normal) => (Bytes::from(normal.bytes), normal.mark_at),
            None => (node.bytes.clone(), node.mark_at),
        };
        let bytes = form.0.len() + ENTRY;
        if self.bytes + bytes > MOST {
            self.known.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.known.insert((format, node.id), form.clone());
        form
    }
}
