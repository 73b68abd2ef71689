//! Splits a body into its members and pieces, and recognizes the pieces that are known.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::json::{ARRAY, OBJECT, Scanner, values};

use super::body::{PieceBody, PieceList};
use super::piece::{Piece, fingerprint};

/// Members with lists of pieces.
pub(crate) const LISTS: [&str; 5] = ["contents", "input", "messages", "system", "tools"];
/// Maximum number of members of a body.
const MAX_MEMBERS: usize = 64;

/// A body whose structure was read. New pieces are not checked yet.
pub(crate) struct Split {
    pub(crate) text: Bytes,
    pub(super) members: Vec<SplitMember>,
    /// Number of bytes that are in no known piece.
    pub(crate) new_bytes: usize,
    /// Number of JSON values.
    pub(crate) values: usize,
}

pub(super) struct SplitMember {
    pub(super) name: Range<usize>,
    pub(super) value: SplitValue,
}

pub(super) enum SplitValue {
    Text(Range<usize>),
    List(Vec<SplitPiece>),
}

pub(super) enum SplitPiece {
    Known(Arc<Piece>),
    New {
        range: Range<usize>,
        /// Number of JSON values.
        values: usize,
    },
}

impl Split {
    /// Splits a text; `recent` are the bodies whose pieces are known. `None` if it is none that can be split: it is no
    /// JSON object, names of its members have escapes or occur twice, an item of a list is no object.
    pub(crate) fn read(text: &Bytes, recent: &[Arc<PieceBody>]) -> Option<Self> {
        let mut scanner = Scanner::new(text);
        let mut members: Vec<SplitMember> = Vec::new();
        let mut more = scanner.open(&OBJECT).ok()?;
        while more {
            let name = scanner.name().ok()?;
            let name = range(text, name)?;
            let is_plain = |byte: &u8| *byte >= b' ' && *byte != b'\\';
            let is_new = |member: &SplitMember| text[member.name.clone()] != text[name.clone()];
            if !text[name.clone()].iter().all(is_plain)
                || !members.iter().all(is_new)
                || members.len() == MAX_MEMBERS
            {
                return None;
            }
            let is_list = scanner.peek() == Some(b'[');
            let of_name = |list: &&&str| is_list && list.as_bytes() == &text[name.clone()];
            let value = match LISTS.iter().find(of_name) {
                Some(list) => SplitValue::List(pieces(&mut scanner, text, list, recent)?),
                None => SplitValue::Text(range(text, scanner.value().ok()?)?),
            };
            members.push(SplitMember { name, value });
            more = scanner.more(&OBJECT).ok()?;
        }
        scanner.end().ok()?;
        Some(Self::new(text.clone(), members))
    }

    fn new(text: Bytes, members: Vec<SplitMember>) -> Self {
        let (mut known_bytes, mut count) = (0, 1 + usize::from(members.is_empty()));
        // The count of a value includes the value itself, which its comma or bracket counts, too.
        let within = |range: &Range<usize>| values(&text[range.clone()]) - 1;
        for member in &members {
            count += 1;
            match &member.value {
                SplitValue::Text(range) => count += within(range),
                SplitValue::List(pieces) => {
                    count += usize::from(pieces.is_empty());
                    for piece in pieces {
                        count += 1;
                        match piece {
                            SplitPiece::Known(piece) => {
                                known_bytes += piece.bytes.len();
                                count += piece.values - 1;
                            }
                            SplitPiece::New { values, .. } => count += values - 1,
                        }
                    }
                }
            }
        }
        Self {
            new_bytes: text.len() - known_bytes,
            values: count,
            text,
            members,
        }
    }
}

/// Returns the place of a part of a text.
fn range(text: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let range = start..start + part.len();
    (range.end <= text.len()).then_some(range)
}

/// Reads a list of pieces.
fn pieces(
    scanner: &mut Scanner<'_>,
    text: &[u8],
    name: &str,
    recent: &[Arc<PieceBody>],
) -> Option<Vec<SplitPiece>> {
    let mut found = Vec::new();
    let mut known: Option<&PieceList> = None;
    // The piece that comes next if the list goes on as the known one.
    let mut next = 0;
    let mut more = scanner.open(&ARRAY).ok()?;
    if more {
        scanner.peek();
        known = similar(&text[scanner.at()..], name, recent);
        found.reserve(known.map_or(0, |known| known.pieces.len() + 4));
    }
    while more {
        if scanner.peek() != Some(b'{') {
            return None;
        }
        let from = scanner.at();
        // An object ends with its last bracket, whatever follows.
        let expected = known.and_then(|known| known.pieces.get(next));
        let expected = expected.filter(|piece| text[from..].starts_with(&piece.bytes));
        if let Some(piece) = expected {
            scanner.pass(piece.bytes.len());
            found.push(SplitPiece::Known(Arc::clone(piece)));
            next += 1;
        } else {
            let bytes = scanner.value().ok()?;
            let place = known.and_then(|known| {
                let place = known.place(fingerprint(bytes))?;
                let piece = known.pieces.get(place)?;
                (piece.bytes == bytes).then_some((place, piece))
            });
            match place {
                Some((place, piece)) => {
                    found.push(SplitPiece::Known(Arc::clone(piece)));
                    next = place + 1;
                }
                None => {
                    found.push(SplitPiece::New {
                        range: from..scanner.at(),
                        values: values(bytes),
                    });
                    // A piece that was changed, in most cases.
                    next += 1;
                }
            }
        }
        more = scanner.more(&ARRAY).ok()?;
    }
    Some(found)
}

/// Finds the list that begins like a text: the one with the most pieces in common.
fn similar<'a>(text: &[u8], name: &str, recent: &'a [Arc<PieceBody>]) -> Option<&'a PieceList> {
    let mut best: Option<(usize, &PieceList)> = None;
    for list in recent.iter().filter_map(|body| body.list(name)) {
        let (mut at, mut common) = (0, 0);
        for piece in &list.pieces {
            if !text[at..].starts_with(&piece.bytes) {
                break;
            }
            common += 1;
            at += piece.bytes.len();
            let is_between = |byte: &u8| byte.is_ascii_whitespace() || *byte == b',';
            at += text[at..]
                .iter()
                .take_while(|byte| is_between(byte))
                .count();
        }
        if best.is_none_or(|(most, _)| common > most) {
            best = Some((common, list));
        }
        if common > 0 && common == list.pieces.len() {
            break;
        }
    }
    best.map(|(_, list)| list)
}
