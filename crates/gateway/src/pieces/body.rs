//! A body as a list of its members, of which some are lists of pieces.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use cachalot_prefix::request::{PartItem, RequestPart};

use super::piece::Piece;

/// A body. Its pieces are shared with other bodies.
pub(crate) struct PieceBody {
    /// The members, in their order.
    pub(crate) members: Vec<PieceMember>,
    weight: usize,
}

/// A member of a body.
pub(crate) struct PieceMember {
    /// The name, which has no escapes.
    pub(crate) name: Box<str>,
    pub(crate) value: PieceValue,
}

/// The value of a member.
pub(crate) enum PieceValue {
    /// As sent.
    Text(Bytes),
    List(PieceList),
}

/// A list of pieces.
pub(crate) struct PieceList {
    pub(crate) pieces: Vec<Arc<Piece>>,
    /// Places by fingerprints.
    places: OnceLock<HashMap<u64, usize>>,
}

impl PieceList {
    pub(super) fn new(pieces: Vec<Arc<Piece>>) -> Self {
        Self {
            pieces,
            places: OnceLock::new(),
        }
    }

    /// Returns the place of a piece with this fingerprint.
    pub(super) fn place(&self, fingerprint: u64) -> Option<usize> {
        let places = self.places.get_or_init(|| {
            let pieces = self.pieces.iter().enumerate();
            pieces
                .map(|(place, piece)| (piece.fingerprint, place))
                .collect()
        });
        places.get(&fingerprint).copied()
    }
}

impl PieceBody {
    pub(super) fn new(members: Vec<PieceMember>) -> Self {
        /// Approximate size of a member in memory beside its text, in bytes.
        const OVERHEAD: usize = 128;
        let weight = |member: &PieceMember| {
            let value = match &member.value {
                PieceValue::Text(text) => text.len(),
                PieceValue::List(list) => list.pieces.iter().map(|piece| piece.weight()).sum(),
            };
            OVERHEAD + member.name.len() + value
        };
        Self {
            weight: members.iter().map(weight).sum(),
            members,
        }
    }

    /// The size in memory, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    /// Returns the pieces of a list.
    pub(super) fn list(&self, name: &str) -> Option<&PieceList> {
        let mut members = self.members.iter();
        members.find_map(|member| match &member.value {
            PieceValue::List(list) if *member.name == *name => Some(list),
            _ => None,
        })
    }

    /// Returns the name and the items of a list, as sent.
    pub(crate) fn items(&self, name: &str) -> Option<(&str, impl Iterator<Item = &[u8]>)> {
        let mut members = self.members.iter();
        members.find_map(|member| match &member.value {
            PieceValue::List(list) if *member.name == *name => Some((
                &*member.name,
                list.pieces.iter().map(|piece| &piece.bytes[..]),
            )),
            _ => None,
        })
    }

    /// Calls `read` with the members for the analysis of prefixes.
    pub(crate) fn with_parts<T>(&self, read: impl FnOnce(&[(&[u8], RequestPart<'_>)]) -> T) -> T {
        let items = self.members.iter().map(|member| match &member.value {
            PieceValue::Text(_) => Vec::new(),
            PieceValue::List(list) => {
                let items = list.pieces.iter().map(|piece| PartItem {
                    bytes: &piece.bytes,
                    known: &piece.known,
                });
                items.collect()
            }
        });
        let items: Vec<Vec<PartItem<'_>>> = items.collect();
        let parts = self.members.iter().zip(&items).map(|(member, items)| {
            let part = match &member.value {
                PieceValue::Text(text) => RequestPart::Text(text),
                PieceValue::List(_) => RequestPart::Items(items),
            };
            (member.name.as_bytes(), part)
        });
        read(&parts.collect::<Vec<_>>())
    }

    /// Returns true if a member or one of its pieces contains these bytes.
    pub(crate) fn contains(&self, name: &str, bytes: &[u8]) -> bool {
        let of_name = self.members.iter().find(|member| *member.name == *name);
        let contains = |text: &Bytes| memchr::memmem::find(text, bytes).is_some();
        of_name.is_some_and(|member| match &member.value {
            PieceValue::Text(text) => contains(text),
            PieceValue::List(list) => list.pieces.iter().any(|piece| contains(&piece.bytes)),
        })
    }

    /// Returns true if the analysis of prefixes reads all lists of the body.
    pub(crate) fn has_known_lists(&self) -> bool {
        let is_list = |name: &str| {
            let mut members = self.members.iter();
            members
                .any(|member| matches!(member.value, PieceValue::List(_)) && *member.name == *name)
        };
        let has = |name: &str| self.members.iter().any(|member| *member.name == *name);
        !(is_list("contents") || has("input") && has("messages"))
    }

    /// Returns true if this body continues another one: it repeats the pieces of each of its lists, but for fewer than half
    /// of them, and at most `changed`.
    pub(super) fn follows(&self, other: &Self, changed: usize) -> bool {
        let mut lists = other
            .members
            .iter()
            .filter_map(|member| match &member.value {
                PieceValue::List(list) => Some((&*member.name, list)),
                PieceValue::Text(_) => None,
            });
        lists.all(|(name, before)| {
            let now = self.list(name);
            let mut rest = now.map_or(&[][..], |list| list.pieces.as_slice());
            let maximum = changed.min(before.pieces.len().saturating_sub(1) / 2);
            let mut missing = 0;
            before.pieces.iter().all(|piece| {
                // The pieces that are repeated are in the same order.
                match rest.iter().position(|other| Arc::ptr_eq(piece, other)) {
                    Some(at) => rest = &rest[at + 1..],
                    None => missing += 1,
                }
                missing <= maximum
            })
        })
    }
}
