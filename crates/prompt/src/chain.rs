//! The chain of pieces: each piece is rendered once and shared by every prompt that begins with it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::{BufMut as _, Bytes, BytesMut};
use cachalot_core::Digest;
use cachalot_model::Message;
use cachalot_model::wire::Rendered;
use sha2::Digest as _;

use crate::Level;
use crate::marker_positions::{MarkerPosition, MarkerPositions};

/// Identifies a prefix: the SHA-256 of the id of the previous piece, the level, and the bytes. Equal ids
/// mean equal bytes from the first piece on, in every process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub Digest);

impl NodeId {
    pub(crate) fn new(parent: Option<Self>, level: Level, bytes: &[u8]) -> Self {
        let mut hasher = sha2::Sha256::new();
        hasher.update(parent.map_or([0; 32], |parent| *parent.0.as_bytes()));
        hasher.update([level as u8]);
        hasher.update(bytes);
        Self(Digest(hasher.finalize().into()))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A piece of a prompt, and by its parents the whole prefix that ends with it. Immutable.
#[non_exhaustive]
pub struct Node {
    /// The previous piece.
    pub parent: Option<Arc<Node>>,
    /// The level.
    pub level: Level,
    /// One JSON value, as it is sent. Empty if the format cannot express anything of the message: the
    /// message is then recorded here, but not sent.
    pub bytes: Bytes,
    /// The offset in `bytes` at which a cache marker may be inserted; `None` if markers are not allowed.
    pub mark_at: Option<u32>,
    /// The message that this piece was rendered from. Set on the first piece of a message; `None` on its
    /// other pieces, on tools and on the system text.
    pub source: Option<Arc<Message>>,
    /// The id of the prefix.
    pub id: NodeId,
    /// The number of pieces before this one.
    pub depth: u32,
    /// The total bytes of the pieces up to the end of this one, without separators.
    pub total: u64,
    /// The number of messages up to this piece.
    messages: u32,
    /// The candidate places for markers up to this piece.
    pub(crate) marker_positions: MarkerPositions,
    /// A comma and the bytes, in one buffer: halves the number of segments.
    pub(crate) with_comma: Bytes,
    /// The key of its record in the store, once known.
    pub(crate) record: OnceLock<Digest>,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("level", &self.level)
            .field("depth", &self.depth)
            .field("bytes", &self.bytes.len())
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// The place for a marker in this piece, if one is allowed there.
    pub(crate) fn marker_position(&self) -> Option<MarkerPosition> {
        self.mark_at.map(|_| MarkerPosition {
            node: self.depth,
            bytes: self.total,
        })
    }
}

impl Drop for Node {
    /// Drops a chain iteratively: a recursive drop of the parents would overflow the stack for a long
    /// chain.
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        // Ends at the first piece that another prompt shares: that one, and all before it, stay.
        while let Some(mut node) = parent.and_then(Arc::into_inner) {
            parent = node.parent.take();
        }
    }
}

/// A prompt: pieces that were rendered once and are never rendered again.
///
/// A persistent data structure: [`Prompt::append`] returns a longer prompt and leaves this one
/// unchanged; both share their common pieces. A clone is a fork: it costs a reference count, copies no
/// bytes, and can only be extended.
#[derive(Clone, Default)]
pub struct Prompt {
    tip: Option<Arc<Node>>,
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt")
            .field("pieces", &self.len())
            .field("bytes", &self.bytes())
            .field("tip", &self.tip())
            .finish()
    }
}

impl Prompt {
    /// Creates a prompt without messages: the tools, then the system text, in the given order.
    #[must_use]
    pub fn begin(tools: &[Rendered], system: &[Rendered]) -> Self {
        let levels = [(Level::Tool, tools), (Level::System, system)];
        levels
            .into_iter()
            .flat_map(|(level, pieces)| pieces.iter().map(move |piece| (level, piece)))
            .fold(Self::default(), |prompt, (level, piece)| {
                prompt.with(level, &piece.bytes, piece.mark_at, None)
            })
    }

    /// Returns this prompt with one more message, rendered from `source` as `pieces`. A message without
    /// pieces is recorded (see [`Prompt::messages`]), but not sent.
    #[must_use]
    pub fn append(&self, pieces: &[Rendered], source: Arc<Message>) -> Self {
        let Some((first, others)) = pieces.split_first() else {
            return self.with(Level::Message, &[], None, Some(source));
        };
        let first = self.with(Level::Message, &first.bytes, first.mark_at, Some(source));
        others.iter().fold(first, |prompt, piece| {
            prompt.with(Level::Message, &piece.bytes, piece.mark_at, None)
        })
    }

    /// Returns this prompt with one more piece. A `mark_at` beyond the end of the piece is ignored.
    #[must_use]
    pub fn with(
        &self,
        level: Level,
        bytes: &[u8],
        mark_at: Option<u32>,
        source: Option<Arc<Message>>,
    ) -> Self {
        let parent = self.tip.clone();
        let mut with_comma = BytesMut::with_capacity(bytes.len() + 1);
        with_comma.put_u8(b',');
        with_comma.put_slice(bytes);
        let with_comma = with_comma.freeze();
        let depth = parent.as_ref().map_or(0, |node| node.depth + 1);
        let mark_at = mark_at.filter(|at| (*at as usize) < bytes.len());
        let total = self.bytes() + bytes.len() as u64;
        let here = mark_at.map(|_| MarkerPosition {
            node: depth,
            bytes: total,
        });
        let before = parent
            .as_ref()
            .map_or_else(MarkerPositions::default, |node| node.marker_positions);
        let marker_positions = before.with(level, here, source.as_deref());
        let is_message = level == Level::Message && source.is_some();
        let messages = self.messages_count() + u32::from(is_message);
        Self {
            tip: Some(Arc::new(Node {
                level,
                bytes: with_comma.slice(1..),
                mark_at,
                source,
                id: NodeId::new(self.tip(), level, bytes),
                depth,
                total,
                messages,
                marker_positions,
                with_comma,
                record: OnceLock::new(),
                parent,
            })),
        }
    }

    /// Returns this prompt with a piece of another prompt that begins with the same pieces; `None` if that one begins with
    /// others.
    #[must_use]
    pub fn with_node(&self, node: &Arc<Node>) -> Option<Self> {
        let parent = node.parent.as_ref().map(|parent| parent.id);
        // Equal IDs mean equal bytes from the first piece on.
        (parent == self.tip()).then(|| Self {
            tip: Some(Arc::clone(node)),
        })
    }

    /// The key of the last piece's record in the store, if known.
    pub(crate) fn record(&self) -> Option<Digest> {
        self.tip
            .as_ref()
            .and_then(|node| node.record.get().copied())
    }

    /// The id of the whole prompt; `None` if it is empty.
    #[must_use]
    pub fn tip(&self) -> Option<NodeId> {
        self.tip.as_ref().map(|node| node.id)
    }

    /// The last piece.
    #[must_use]
    pub fn last(&self) -> Option<&Arc<Node>> {
        self.tip.as_ref()
    }

    /// Iterates over the pieces from the last to the first.
    pub fn backwards(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(self.tip.as_deref(), |node| node.parent.as_deref())
    }

    /// The pieces in the order in which they are sent; the index of a piece is its depth.
    #[must_use]
    pub fn nodes(&self) -> Vec<&Node> {
        let mut nodes = Vec::with_capacity(self.len());
        nodes.extend(self.backwards());
        nodes.reverse();
        nodes
    }

    /// The messages that the prompt was rendered from, in order.
    #[must_use]
    pub fn messages(&self) -> Vec<Arc<Message>> {
        let mut messages: Vec<_> = self
            .backwards()
            .take_while(|node| node.level == Level::Message)
            .filter_map(|node| node.source.clone())
            .collect();
        messages.reverse();
        messages
    }

    /// The number of messages that the prompt was rendered from.
    pub(crate) fn messages_count(&self) -> u32 {
        self.tip.as_ref().map_or(0, |node| node.messages)
    }

    /// The number of pieces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tip.as_ref().map_or(0, |node| node.depth as usize + 1)
    }

    /// True if it has no pieces.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tip.is_none()
    }

    /// The total bytes of the pieces, without separators.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tip.as_ref().map_or(0, |node| node.total)
    }

    /// Returns the tools and the system text of this prompt, without its messages.
    #[must_use]
    pub fn frozen(&self) -> Self {
        let is_message = |node: &Arc<Node>| node.level == Level::Message;
        let mut tip = self.tip.clone();
        while let Some(node) = tip.take_if(|node| is_message(node)) {
            tip.clone_from(&node.parent);
        }
        Self { tip }
    }

    /// Returns this prompt without its last messages; without any if it has fewer.
    #[must_use]
    pub fn without_last(&self, messages: usize) -> Self {
        let mut tip = self.tip.clone();
        let mut left = messages;
        while left > 0
            && let Some(node) = tip.take_if(|node| node.level == Level::Message)
        {
            left -= usize::from(node.source.is_some());
            tip.clone_from(&node.parent);
        }
        Self { tip }
    }

    /// Returns the pieces that are not shared with `base`, in order, and the number of shared ones before
    /// them. Prompts share the pieces that both were made from, not pieces that only have equal bytes.
    pub(crate) fn beyond(&self, base: &Self) -> (Vec<&Arc<Node>>, usize) {
        let mut own = Vec::with_capacity(self.len().saturating_sub(base.len()));
        let (mut node, mut other) = (self.tip.as_ref(), base.tip.as_ref());
        while let Some(here) = node {
            // The walk along the other prompt is kept at the same depth, where a shared piece is the same allocation.
            match other {
                Some(there) if there.depth > here.depth => other = there.parent.as_ref(),
                Some(there) if Arc::ptr_eq(here, there) => break,
                _ => {
                    own.push(here);
                    node = here.parent.as_ref();
                }
            }
        }
        own.reverse();
        (own, node.map_or(0, |shared| shared.depth as usize + 1))
    }
}
