//! The record format of pieces and heads in a store.
//!
//! The key of a piece is the SHA-256 of its record, which begins with the key of the previous piece. The
//! key therefore authenticates the whole chain, and sessions with a common prefix share its records. The
//! key covers more than [`crate::NodeId`], which identifies only the sent bytes: two pieces with the
//! same bytes may come from different messages.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use cachalot_core::{Digest, Millis};
use cachalot_model::{Message, Usage};
use serde::{Deserialize, Serialize};

use crate::Level;
use crate::chain::{Node, NodeId, Prompt};
use crate::head::{SessionHead, SessionTotals};
use crate::hex_digest::HexDigest;
use crate::namespace::Namespace;

/// Version of the layouts below.
const FORMAT: u8 = 1;

/// The number of digest bytes stored with a head: enough to detect damage.
const CHECKSUM_BYTES: usize = 16;

const HAS_PARENT: u8 = 1;
const HAS_MARK: u8 = 2;
const HAS_SOURCE: u8 = 4;

/// The reason why a record cannot be read.
pub(crate) enum Unreadable {
    Damaged(String),
    TooNew(u8),
}

impl From<&str> for Unreadable {
    fn from(what: &str) -> Self {
        Self::Damaged(what.to_owned())
    }
}

/// A piece to store.
pub(crate) struct EncodedPiece {
    pub(crate) key: Digest,
    pub(crate) parent: Option<Digest>,
    pub(crate) value: Bytes,
}

impl EncodedPiece {
    /// Encodes a piece whose parent's key is known, and caches its key in the piece.
    pub(crate) fn from_node(node: &Node) -> Result<Self, serde_json::Error> {
        // Pieces are encoded from the first to the last, so that the key of the parent is known.
        let parent = node.parent.as_ref().and_then(|node| node.record.get());
        let value = encode(node, parent)?;
        Ok(Self {
            key: *node.record.get_or_init(|| Digest::sha256(&value)),
            parent: parent.copied(),
            value,
        })
    }
}

/// Encodes a record: format, level, flags, key of the parent, marker offset, length of the bytes, bytes,
/// message as JSON.
fn encode(node: &Node, parent: Option<&Digest>) -> Result<Bytes, serde_json::Error> {
    let source = match &node.source {
        Some(message) => serde_json::to_vec(&**message)?,
        None => Vec::new(),
    };
    let mut value = BytesMut::with_capacity(64 + node.bytes.len() + source.len());
    value.put_u8(FORMAT);
    value.put_u8(node.level as u8);
    let has = |is: bool, flag: u8| if is { flag } else { 0 };
    value.put_u8(
        has(parent.is_some(), HAS_PARENT)
            | has(node.mark_at.is_some(), HAS_MARK)
            | has(node.source.is_some(), HAS_SOURCE),
    );
    if let Some(parent) = parent {
        value.put_slice(parent.as_bytes());
    }
    if let Some(at) = node.mark_at {
        value.put_u32_le(at);
    }
    value.put_u64_le(node.bytes.len() as u64);
    value.put_slice(&node.bytes);
    value.put_slice(&source);
    Ok(value.freeze())
}

/// A stored piece.
pub(crate) struct StoredPiece {
    pub(crate) key: Digest,
    pub(crate) parent: Option<Digest>,
    pub(crate) level: Level,
    /// A slice of the record.
    pub(crate) bytes: Bytes,
    pub(crate) mark_at: Option<u32>,
    pub(crate) source: Option<Arc<Message>>,
}

impl StoredPiece {
    /// Decodes the record stored under `key`.
    pub(crate) fn decode(key: Digest, value: &Bytes) -> Result<Self, Unreadable> {
        readable_format(value)?;
        // The key is the digest of the record, so damage is found before any field is read.
        if Digest::sha256(value) != key {
            return Err("the bytes of a piece are not those that were stored".into());
        }
        let mut rest = ByteReader(&value[1..]);
        let level = match rest.array::<1>()? {
            [0] => Level::Tool,
            [1] => Level::System,
            [2] => Level::Message,
            _ => return Err("a piece stands at an unknown level".into()),
        };
        let [flags] = rest.array()?;
        let parent = match flags & HAS_PARENT {
            0 => None,
            _ => Some(Digest(rest.array()?)),
        };
        let mark_at = match flags & HAS_MARK {
            0 => None,
            _ => Some(u32::from_le_bytes(rest.array()?)),
        };
        let length = u64::from_le_bytes(rest.array()?);
        let bytes = value.slice_ref(rest.take(length)?);
        let source = match flags & HAS_SOURCE {
            0 => None,
            _ => Some(Arc::new(serde_json::from_slice(rest.0).map_err(
                |error| Unreadable::Damaged(format!("a message makes no sense: {error}")),
            )?)),
        };
        Ok(Self {
            key,
            parent,
            level,
            bytes,
            mark_at,
            source,
        })
    }
}

/// Returns a prompt with one more piece, loaded from the store.
pub(crate) fn restore(prompt: &Prompt, piece: StoredPiece) -> Prompt {
    let longer = prompt.with(piece.level, &piece.bytes, piece.mark_at, piece.source);
    if let Some(node) = longer.last() {
        node.record.get_or_init(|| piece.key);
    }
    longer
}

struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    fn take(&mut self, length: u64) -> Result<&'a [u8], Unreadable> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or("a piece is cut short")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], Unreadable> {
        let (array, rest) = self
            .0
            .split_first_chunk::<LENGTH>()
            .ok_or("a piece is cut short")?;
        self.0 = rest;
        Ok(*array)
    }
}

fn readable_format(value: &[u8]) -> Result<(), Unreadable> {
    match value.first() {
        Some(&FORMAT) => Ok(()),
        Some(&newer) if newer > FORMAT => Err(Unreadable::TooNew(newer)),
        Some(_) => Err("a record begins with no known format".into()),
        None => Err("a record is empty".into()),
    }
}

/// The content of a session's own record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    pub(crate) head: SessionHead,
    /// The key of the last piece's record.
    pub(crate) tip: Option<HexDigest>,
    /// The id of the whole prompt.
    pub(crate) prompt: Option<HexDigest>,
    /// The last pieces of earlier prompts, which may have to be erased.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) replaced: Vec<HexDigest>,
    /// The number of the pin that holds the tip; 0 in records of this version, which need none.
    #[serde(default, skip_serializing)]
    pub(crate) pin: u64,
    /// Differs from that of an earlier session with the same name, whose records may otherwise be equal.
    #[serde(default)]
    pub(crate) instance: u64,
    pub(crate) pieces: u64,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) totals: SessionTotals,
    /// The usage of the last request; earlier versions did not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_usage: Option<Usage>,
    #[serde(default)]
    pub(crate) namespace: Option<Namespace>,
    /// True if a known secret was in the session when it was written.
    #[serde(default)]
    pub(crate) holds_secrets: bool,
    /// The number of saves: makes the records of all states of a session different.
    pub(crate) saves: u64,
    pub(crate) saved: Millis,
}

impl SessionRecord {
    /// Encodes the record: format, truncated digest of the JSON, JSON.
    pub(crate) fn encode(&self) -> Result<Bytes, serde_json::Error> {
        let json = serde_json::to_vec(self)?;
        let mut value = BytesMut::with_capacity(1 + CHECKSUM_BYTES + json.len());
        value.put_u8(FORMAT);
        value.put_slice(&checksum(&json));
        value.put_slice(&json);
        Ok(value.freeze())
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, Unreadable> {
        readable_format(value)?;
        let (seal, json) = value[1..]
            .split_first_chunk::<CHECKSUM_BYTES>()
            .ok_or("its record is cut short")?;
        if checksum(json) != *seal {
            return Err("the bytes of its record are not those that were stored".into());
        }
        serde_json::from_slice(json)
            .map_err(|error| Unreadable::Damaged(format!("its record makes no sense: {error}")))
    }

    pub(crate) fn prompt_id(&self) -> Option<NodeId> {
        self.prompt.map(|digest| NodeId(digest.0))
    }
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut seal = [0; CHECKSUM_BYTES];
    seal.copy_from_slice(&Digest::sha256(bytes).as_bytes()[..CHECKSUM_BYTES]);
    seal
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn piece() -> EncodedPiece {
        let message = Message::user("a \"question\"");
        let first = Prompt::default().with(Level::System, b"{}", Some(1), None);
        let second = first.with(
            Level::Message,
            b"{\"a\":1}",
            Some(6),
            Some(Arc::new(message)),
        );
        EncodedPiece::from_node(first.last().unwrap()).unwrap();
        EncodedPiece::from_node(second.last().unwrap()).unwrap()
    }

    #[test]
    fn piece_round_trips() {
        let fresh = piece();
        let stored = StoredPiece::decode(fresh.key, &fresh.value).ok().unwrap();
        assert_eq!(stored.parent, fresh.parent);
        assert!(stored.parent.is_some());
        assert_eq!(stored.level, Level::Message);
        assert_eq!(&stored.bytes[..], b"{\"a\":1}");
        assert_eq!(stored.mark_at, Some(6));
        assert_eq!(*stored.source.unwrap(), Message::user("a \"question\""));
    }

    #[test]
    fn damaged_record_is_detected() {
        let fresh = piece();
        for cut in 0..fresh.value.len() {
            let cut = fresh.value.slice(..cut);
            assert!(StoredPiece::decode(fresh.key, &cut).is_err());
            // Must fail even if the key matches.
            assert!(StoredPiece::decode(Digest::sha256(&cut), &cut).is_err());
        }
        for at in 0..fresh.value.len() {
            let mut other = fresh.value.to_vec();
            other[at] ^= 1;
            let other = Bytes::from(other);
            assert!(StoredPiece::decode(fresh.key, &other).is_err());
            // Must not panic for any content.
            let _ = StoredPiece::decode(Digest::sha256(&other), &other);
        }
    }

    #[test]
    fn newer_format_is_reported_as_newer() {
        let mut value = piece().value.to_vec();
        value[0] = 9;
        let value = Bytes::from(value);
        assert!(matches!(
            StoredPiece::decode(Digest::sha256(&value), &value),
            Err(Unreadable::TooNew(9))
        ));
    }
}
