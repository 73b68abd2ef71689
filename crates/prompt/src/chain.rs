//! The chain of pieces: what has been rendered once, and is shared by every prompt that begins with it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::{BufMut as _, Bytes, BytesMut};
use cachalot_core::Digest;
use cachalot_model::Message;
use cachalot_model::wire::Rendered;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use crate::plan::places::{Place, Places};
use crate::record::Stored;

/// Where a piece stands. Providers hash in this order, so what changes at one level is lost for it
/// and for those behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A tool.
    Tool,
    /// A piece of the system's text.
    System,
    /// A message, or a piece of one.
    Message,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "tools",
            Self::System => "system",
            Self::Message => "messages",
        })
    }
}

/// Names a prefix: the SHA-256 of the id of the piece before, the level, and the bytes. Equal ids
/// mean equal bytes from the first piece on, whichever process rendered them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub Digest);

impl NodeId {
    pub(crate) fn of(parent: Option<Self>, level: Level, bytes: &[u8]) -> Self {
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

/// A piece of a prompt, and by its parents the whole prefix that ends with it. Never changes.
#[non_exhaustive]
pub struct Node {
    /// The piece before.
    pub parent: Option<Arc<Node>>,
    /// Where it stands.
    pub level: Level,
    /// One JSON value, as it is sent. Empty if the message has nothing that the format has words for:
    /// then it is remembered here, and not sent.
    pub bytes: Bytes,
    /// Where a cache marker may be spliced in, within `bytes`; `None` where none may stand.
    pub mark_at: Option<u32>,
    /// The message of ours that this piece was rendered from. The first piece of a message carries
    /// it; the others, tools and the system's text have none.
    pub source: Option<Arc<Message>>,
    /// The name of the prefix.
    pub id: NodeId,
    /// How many pieces stand before it.
    pub depth: u32,
    /// How many bytes the pieces have up to the end of this one, without what joins them.
    pub total: u64,
    /// Where markers may stand up to this piece.
    pub(crate) places: Places,
    /// A comma and the bytes, in one: half as many segments.
    pub(crate) behind_comma: Bytes,
    /// Under which key a memory keeps it, once that is known.
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

impl Drop for Node {
    /// Takes a long chain apart piece by piece: dropping a parent within its child would go as deep
    /// into the stack as the chain is long.
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(mut node) = parent.and_then(Arc::into_inner) {
            parent = node.parent.take();
        }
    }
}

/// A prompt: pieces that were rendered once and are never rendered again.
///
/// Persistent: [`Prompt::append`] makes a longer one and leaves this one as it is; both share what
/// they have in common. A clone is a fork: it costs a reference count, copies no byte, and can only
/// be appended to.
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
    /// A prompt without messages: the tools, then the system's text, in the order given.
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

    /// This prompt and one more message, rendered as `pieces` from `source`. A message without a
    /// piece is remembered (see [`Prompt::messages`]) and not sent.
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

    /// This prompt and one more piece. A place for markers that is not within the piece is none.
    #[must_use]
    pub fn with(
        &self,
        level: Level,
        bytes: &[u8],
        mark_at: Option<u32>,
        source: Option<Arc<Message>>,
    ) -> Self {
        let parent = self.tip.clone();
        let mut behind_comma = BytesMut::with_capacity(bytes.len() + 1);
        behind_comma.put_u8(b',');
        behind_comma.put_slice(bytes);
        let behind_comma = behind_comma.freeze();
        let depth = parent.as_ref().map_or(0, |node| node.depth + 1);
        let mark_at = mark_at.filter(|at| (*at as usize) < bytes.len());
        let total = self.bytes() + bytes.len() as u64;
        let here = mark_at.map(|_| Place {
            node: depth,
            bytes: total,
        });
        let before = parent
            .as_ref()
            .map_or_else(Places::default, |node| node.places);
        let places = before.with(level, here, source.as_deref());
        Self {
            tip: Some(Arc::new(Node {
                level,
                bytes: behind_comma.slice(1..),
                mark_at,
                source,
                id: NodeId::of(self.tip(), level, bytes),
                depth,
                total,
                places,
                behind_comma,
                record: OnceLock::new(),
                parent,
            })),
        }
    }

    /// This prompt and one more piece, as it was stored.
    pub(crate) fn restored(&self, piece: Stored) -> Self {
        let longer = self.with(piece.level, &piece.bytes, piece.mark_at, piece.source);
        if let Some(node) = longer.last() {
            node.record.get_or_init(|| piece.key);
        }
        longer
    }

    /// Under which key a memory keeps the last piece, if that is known.
    pub(crate) fn record(&self) -> Option<Digest> {
        self.tip
            .as_ref()
            .and_then(|node| node.record.get().copied())
    }

    /// The name of the whole prompt; `None` if it is empty.
    #[must_use]
    pub fn tip(&self) -> Option<NodeId> {
        self.tip.as_ref().map(|node| node.id)
    }

    /// The last piece.
    #[must_use]
    pub fn last(&self) -> Option<&Arc<Node>> {
        self.tip.as_ref()
    }

    /// The pieces from the last to the first.
    pub fn backwards(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(self.tip.as_deref(), |node| node.parent.as_deref())
    }

    /// The pieces in the order in which they are sent; a piece's index is its depth.
    #[must_use]
    pub fn nodes(&self) -> Vec<&Node> {
        let mut nodes = Vec::with_capacity(self.len());
        nodes.extend(self.backwards());
        nodes.reverse();
        nodes
    }

    /// The messages that it was rendered from, in order.
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

    /// How many messages it was rendered from.
    pub(crate) fn messages_count(&self) -> u64 {
        self.backwards()
            .take_while(|node| node.level == Level::Message)
            .filter(|node| node.source.is_some())
            .count() as u64
    }

    /// How many pieces it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tip.as_ref().map_or(0, |node| node.depth as usize + 1)
    }

    /// Whether it has no piece at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tip.is_none()
    }

    /// How many bytes its pieces have, without what joins them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tip.as_ref().map_or(0, |node| node.total)
    }

    /// The tools and the system's text of this prompt, without its messages.
    #[must_use]
    pub fn frozen(&self) -> Self {
        let is_message = |node: &Arc<Node>| node.level == Level::Message;
        let mut tip = self.tip.clone();
        while let Some(node) = tip.take_if(|node| is_message(node)) {
            tip.clone_from(&node.parent);
        }
        Self { tip }
    }

    /// This prompt without its last messages; without all of them if there are not so many.
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

    /// The pieces behind `base`, in order; `None` if this prompt was not made from `base` by
    /// appending.
    pub(crate) fn since(&self, base: &Self) -> Option<Vec<&Arc<Node>>> {
        let mut behind = Vec::with_capacity(self.len().saturating_sub(base.len()));
        let mut node = self.tip.as_ref();
        while let Some(here) = node.filter(|here| here.depth as usize >= base.len()) {
            behind.push(here);
            node = here.parent.as_ref();
        }
        let met = match (node, &base.tip) {
            (None, None) => true,
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
            _ => false,
        };
        behind.reverse();
        met.then_some(behind)
    }
}
