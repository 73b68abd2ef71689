//! Parses, judges and encodes what is new in a body.
//!
//! All judgments of a request ask whether *some* part of it is remarkable, so those of a list are those of its pieces.
//! The outline of a body, without the pieces in which nothing was found before, is therefore judged like the body itself.

use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::Canonical;
use cachalot_core::canonical::SharedValue;
use cachalot_core::json::member_strings;
use cachalot_prefix::request::KnownPiece;
use memchr::memmem;
use serde_json::{Map, Value};

use super::body::{PieceBody, PieceList, PieceMember, PieceValue};
use super::piece::{Piece, PieceCharge, PieceFacts, fingerprint};
use super::split::{Split, SplitMember, SplitPiece, SplitValue};
use crate::answer_form::form_members;
use crate::endpoint::{Cacheability, Endpoint, Setting};
use crate::key_body::{KeyBody, KeyItem, KeyMember, order_of_item};

/// Nesting of the objects and arrays of a body that only the whole text is asked about: its parsers differ in their limits.
const MAX_NESTING: u32 = 28;

/// The subjects of a judgment.
pub(crate) struct Judging<'a> {
    pub(crate) endpoint: Endpoint,
    /// The unknown members that the judgment accepts.
    pub(crate) accepted: &'a [String],
    /// True if the maximum price is asked for.
    pub(crate) with_price: bool,
}

/// The result of a judgment.
pub(crate) struct JudgedPieces {
    /// The body without the pieces in which nothing was found.
    pub(crate) outline: Value,
    pub(crate) form_members: Vec<&'static str>,
    pub(crate) canonical: KeyBody,
    pub(crate) object_reference: Option<Option<String>>,
    pub(crate) cacheability: Cacheability,
    /// True if a part is no text; `None` if the price was not asked for.
    pub(crate) has_media: Option<bool>,
    pub(crate) body: PieceBody,
}

/// A list in the outline.
struct OutlineList {
    /// The place of its member in the body.
    member: usize,
    /// The places of its items in the list of pieces.
    places: Vec<usize>,
}

/// Judges a body that was split. `None` if only its whole text can be judged.
pub(crate) fn judge(split: &Split, judging: &Judging<'_>) -> Option<JudgedPieces> {
    let Judging {
        endpoint,
        accepted,
        with_price,
    } = *judging;
    let encoded = encode(split)?;
    let (text, lists) = outline(split, with_price)?;
    let mut outline: Value = serde_json::from_slice(&text).ok()?;
    drop(text);
    let members = outline.as_object()?;
    let form_members = form_members(endpoint, &outline);
    let mut object_reference = None;
    let cacheability = endpoint.judge(&outline, accepted, || {
        let found = endpoint.object_reference(&outline, Setting::Anywhere);
        object_reference.insert(found).clone()
    });
    let is_storable = !matches!(
        cacheability,
        Cacheability::Never(_) | Cacheability::InRun(_)
    );
    let charge = with_price.then(|| charge(endpoint, &outline));
    // Of all new pieces together: without a finding in the whole, there is none in a part of it.
    let all = PieceFacts {
        is_storable,
        price: charge,
    };
    let tables = endpoint.members();
    let orders: Vec<Vec<Option<Canonical>>> = lists
        .iter()
        .map(|list| {
            let name = split.name(list.member)?;
            let items = members.get(name)?.as_array()?;
            let orders = items.iter().map(|item| order_of_item(name, item, tables));
            Some(orders.collect())
        })
        .collect::<Option<_>>()?;
    let mut made = Vec::with_capacity(split.members.len());
    let (mut encoded, mut lists_of_members) = (encoded.into_iter(), lists.iter().zip(orders));
    for (place, member) in split.members.iter().enumerate() {
        let name = split.name(place)?;
        let encoded = encoded.next()?;
        let value = match (&member.value, encoded) {
            (SplitValue::Text(range), Encoded::Text(canonical)) => {
                let text = Bytes::copy_from_slice(&split.text[range.clone()]);
                (PieceValue::Text(text), Some(canonical))
            }
            (SplitValue::List(found), Encoded::List(encoded)) => {
                let (list, orders) = lists_of_members.next()?;
                let made = NewPieces {
                    split,
                    judging,
                    name,
                    all,
                };
                let pieces = made.make(found, encoded, list, orders, &mut outline)?;
                (PieceValue::List(PieceList::new(pieces)), None)
            }
            _ => return None,
        };
        let name = name.into();
        made.push((
            PieceMember {
                name,
                value: value.0,
            },
            value.1,
        ));
    }
    let has_media = with_price.then(|| {
        let pieces = made.iter().flat_map(|(member, _)| match &member.value {
            PieceValue::Text(_) => &[][..],
            PieceValue::List(list) => list.pieces.as_slice(),
        });
        let mut charges = pieces.filter_map(|piece| piece.facts.price);
        charges.any(|charge| charge.has_media) || endpoint.has_media(&outline)
    });
    let items = made.iter().map(|(member, _)| match &member.value {
        PieceValue::Text(_) => Vec::new(),
        PieceValue::List(list) => {
            let items = list.pieces.iter().map(|piece| KeyItem {
                value: &piece.canonical,
                order: piece.order.as_ref(),
            });
            items.collect()
        }
    });
    let items: Vec<Vec<KeyItem<'_>>> = items.collect();
    let key_members = made.iter().zip(&items).map(|((member, canonical), items)| {
        let value = match (&member.value, canonical) {
            (PieceValue::List(_), _) => KeyMember::Items(items),
            (PieceValue::Text(_), canonical) => {
                KeyMember::Value(canonical.as_ref()?, outline.get(&*member.name)?)
            }
        };
        Some((&*member.name, value))
    });
    let key_members: Vec<_> = key_members.collect::<Option<_>>()?;
    let canonical = KeyBody::of_encoded(key_members, &form_members, tables);
    let members = made.into_iter().map(|(member, _)| member).collect();
    Some(JudgedPieces {
        outline,
        form_members,
        canonical,
        object_reference,
        cacheability,
        has_media,
        body: PieceBody::new(members),
    })
}

fn charge(endpoint: Endpoint, body: &Value) -> PieceCharge {
    PieceCharge {
        is_usual: endpoint.extra_charge(body).is_none()
            && endpoint.writes_for_12h(body) == Ok(false),
        has_media: endpoint.has_media(body),
    }
}

/// The form of a member in keys.
enum Encoded {
    Text(Canonical),
    /// Those of the new pieces, in order.
    List(Vec<Canonical>),
}

/// Encodes all members and new pieces; `None` if one of them has no canonical form.
fn encode(split: &Split) -> Option<Vec<Encoded>> {
    let value = |text: &[u8], depth: u32| {
        let (canonical, length) = Canonical::json_value(text, depth).ok()?;
        (length == text.len()).then_some(canonical)
    };
    let members = split.members.iter().map(|member| match &member.value {
        SplitValue::Text(range) => {
            value(&split.text[range.clone()], MAX_NESTING).map(Encoded::Text)
        }
        SplitValue::List(pieces) => {
            let new = pieces.iter().filter_map(|piece| match piece {
                SplitPiece::Known(_) => None,
                SplitPiece::New { range, .. } => {
                    Some(value(&split.text[range.clone()], MAX_NESTING))
                }
            });
            new.collect::<Option<_>>().map(Encoded::List)
        }
    });
    members.collect()
}

impl Split {
    fn name(&self, member: usize) -> Option<&str> {
        let SplitMember { name, .. } = self.members.get(member)?;
        std::str::from_utf8(&self.text[name.clone()]).ok()
    }
}

/// Returns the text of the outline: all members, of which lists have only their new pieces, and those in which something
/// was found.
fn outline(split: &Split, with_price: bool) -> Option<(Vec<u8>, Vec<OutlineList>)> {
    let mut text = Vec::with_capacity(4_096);
    let mut lists = Vec::new();
    text.push(b'{');
    for (at, member) in split.members.iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        text.push(b'"');
        text.extend_from_slice(split.name(at)?.as_bytes());
        text.extend_from_slice(b"\":");
        let pieces = match &member.value {
            SplitValue::Text(range) => {
                text.extend_from_slice(&split.text[range.clone()]);
                continue;
            }
            SplitValue::List(pieces) => pieces,
        };
        text.push(b'[');
        let mut places = Vec::new();
        for (place, piece) in pieces.iter().enumerate() {
            let bytes = match piece {
                SplitPiece::Known(piece) if piece.is_unremarkable(with_price) => continue,
                SplitPiece::Known(piece) => &piece.bytes[..],
                SplitPiece::New { range, .. } => &split.text[range.clone()],
            };
            if !places.is_empty() {
                text.push(b',');
            }
            push_shortened(bytes, &mut text);
            places.push(place);
        }
        text.push(b']');
        lists.push(OutlineList { member: at, places });
    }
    text.push(b'}');
    Some((text, lists))
}

/// Members of items with texts that are read only, and of which only the scheme of a URL counts.
const TEXTS: [&[u8]; 10] = [
    b"arguments",
    b"content",
    b"data",
    b"description",
    b"encrypted_content",
    b"output",
    b"signature",
    b"text",
    b"thinking",
    b"thoughtSignature",
];
/// Minimum length of a text that is shortened, and length of the beginning that stays, in bytes.
const LONG: usize = 256;
const BEGINNING: usize = 64;

/// Adds a piece with its long texts shortened, if no judgment tells them from the whole ones. The texts were checked when
/// they were encoded.
fn push_shortened(piece: &[u8], text: &mut Vec<u8>) {
    let mut at = 0;
    member_strings(piece, |name, range| {
        let string = &piece[range.start + 1..range.end - 1];
        let is_long = string.len() >= LONG && TEXTS.contains(&name);
        if !is_long || hides_signs(string) || memmem::find(string, b"://").is_some() {
            return;
        }
        let end = string
            .iter()
            .take(BEGINNING)
            .position(|byte| *byte == b'\\');
        let mut end = end.unwrap_or(BEGINNING);
        // Not within a character.
        while string
            .get(end)
            .is_some_and(|byte| (0x80..0xc0).contains(byte))
        {
            end -= 1;
        }
        text.extend_from_slice(&piece[at..=range.start]);
        text.extend_from_slice(&string[..end]);
        // Not empty, and none of the words that have a meaning.
        text.extend_from_slice(b"...");
        at = range.end - 1;
    });
    text.extend_from_slice(&piece[at..]);
}

/// Returns true if a text may have signs as escapes (`\/`, `\u003a`).
fn hides_signs(string: &[u8]) -> bool {
    let mut escapes = memchr::memchr_iter(b'\\', string);
    escapes.any(|at| matches!(string.get(at + 1), Some(b'/' | b'u')))
}

/// Makes the pieces of a list.
struct NewPieces<'a> {
    split: &'a Split,
    judging: &'a Judging<'a>,
    name: &'a str,
    /// The facts of the whole body.
    all: PieceFacts,
}

impl NewPieces<'_> {
    fn make(
        &self,
        found: &[SplitPiece],
        encoded: Vec<Canonical>,
        list: &OutlineList,
        orders: Vec<Option<Canonical>>,
        outline: &mut Value,
    ) -> Option<Vec<Arc<Piece>>> {
        let mut encoded = encoded.into_iter();
        let mut in_outline = list.places.iter().zip(orders).enumerate().peekable();
        let mut pieces = Vec::with_capacity(found.len());
        for (place, piece) in found.iter().enumerate() {
            let shown = in_outline.next_if(|(_, (shown, _))| **shown == place);
            let made = match (piece, shown) {
                (SplitPiece::Known(piece), None) => Arc::clone(piece),
                // Nobody has asked for its price before, or something was found.
                (SplitPiece::Known(piece), Some((item, _))) => self.asked(piece, item, outline)?,
                (SplitPiece::New { range, values }, Some((item, (_, order)))) => {
                    let bytes = Bytes::copy_from_slice(&self.split.text[range.clone()]);
                    Arc::new(Piece {
                        fingerprint: fingerprint(&bytes),
                        canonical: Arc::new(SharedValue::new(encoded.next()?)?),
                        order,
                        values: *values,
                        facts: self.facts(item, outline)?,
                        known: KnownPiece::default(),
                        bytes,
                    })
                }
                (SplitPiece::New { .. }, None) => return None,
            };
            pieces.push(made);
        }
        Some(pieces)
    }

    /// Returns a known piece with the facts that are asked for.
    fn asked(&self, piece: &Arc<Piece>, item: usize, outline: &mut Value) -> Option<Arc<Piece>> {
        if !self.judging.with_price || piece.facts.price.is_some() {
            return Some(Arc::clone(piece));
        }
        Some(Arc::new(Piece {
            bytes: piece.bytes.clone(),
            fingerprint: piece.fingerprint,
            canonical: Arc::clone(&piece.canonical),
            order: piece.order.clone(),
            values: piece.values,
            facts: self.facts(item, outline)?,
            known: KnownPiece::default(),
        }))
    }

    /// Judges a piece, whose value is an item of a list of the outline.
    fn facts(&self, item: usize, outline: &mut Value) -> Option<PieceFacts> {
        let is_usual = |charge: PieceCharge| charge.is_usual && !charge.has_media;
        if self.all.is_storable && self.all.price.is_none_or(is_usual) {
            return Some(self.all);
        }
        let place = outline.get_mut(self.name)?.get_mut(item)?;
        let alone = Value::Array(vec![place.take()]);
        let body = Map::from_iter([(self.name.to_owned(), alone)]);
        let (judging, mut body) = (self.judging, Value::Object(body));
        let facts = PieceFacts {
            is_storable: judging.endpoint.is_unremarkable(&body),
            price: judging.with_price.then(|| charge(judging.endpoint, &body)),
        };
        let value = body.get_mut(self.name)?.get_mut(0)?.take();
        *outline.get_mut(self.name)?.get_mut(item)? = value;
        Some(facts)
    }
}
