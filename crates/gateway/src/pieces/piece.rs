//! A piece of a body: an item of one of its lists, such as a message or a tool.

use std::hash::Hasher as _;
use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::Canonical;
use cachalot_core::canonical::SharedValue;
use cachalot_prefix::request::KnownPiece;

/// Approximate size of a piece in memory beside its bytes, in bytes.
const OVERHEAD: usize = 512;

/// A piece, and all that is known of it. It belongs to one list of the requests to one endpoint.
pub(crate) struct Piece {
    /// Its bytes, as sent.
    pub(crate) bytes: Bytes,
    /// For the search among the pieces of a list.
    pub(crate) fingerprint: u64,
    /// Its form in keys.
    pub(crate) canonical: Arc<SharedValue>,
    /// The order of its fields where the model may read it.
    pub(crate) order: Option<Canonical>,
    /// Number of JSON values.
    pub(crate) values: usize,
    pub(crate) facts: PieceFacts,
    /// Its forms for the analysis of prefixes.
    pub(crate) known: KnownPiece,
}

/// Results of the judgments of a request that are those of its pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PieceFacts {
    /// True if the piece gives no reason against storing an answer, and names no object at the provider.
    pub(crate) is_storable: bool,
    /// What it says about the price; `None` if nobody has asked.
    pub(crate) price: Option<PieceCharge>,
}

/// Results of the judgments for the maximum price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PieceCharge {
    /// True if the piece costs no more than its tokens.
    pub(crate) is_usual: bool,
    /// True if a part of it is no text.
    pub(crate) has_media: bool,
}

impl Piece {
    /// The size in memory, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let order = self.order.as_ref().map_or(0, Canonical::len);
        self.bytes.len() + self.canonical.as_bytes().len() + order + OVERHEAD
    }

    /// Returns true if nothing of the piece has to be judged again; `with_price` if the price is judged, too.
    pub(crate) fn is_unremarkable(&self, with_price: bool) -> bool {
        let is_usual = |charge: PieceCharge| charge.is_usual;
        self.facts.is_storable && (!with_price || self.facts.price.is_some_and(is_usual))
    }
}

/// Returns the same number for equal bytes. Of long ones, only the length, both ends and the middle are read.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    const SAMPLE: usize = 64;
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write_usize(bytes.len());
    if bytes.len() <= 3 * SAMPLE {
        hasher.write(bytes);
    } else {
        let middle = bytes.len() / 2;
        hasher.write(&bytes[..SAMPLE]);
        hasher.write(&bytes[middle..middle + SAMPLE]);
        hasher.write(&bytes[bytes.len() - SAMPLE..]);
    }
    hasher.finish()
}
