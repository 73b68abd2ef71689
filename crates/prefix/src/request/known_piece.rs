//! Pieces of bodies that are known from earlier requests: their forms are made once.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use cachalot_core::json::JsonResult;
use cachalot_model::Format;
use cachalot_model::wire::MarkerTime;
use cachalot_model::wire::view::{MarkerPlace, Piece, ViewPiece};
use cachalot_prompt::{Level, Node, NodeId, Prompt, normal};

use super::{NormalForm, PiecePlace, message_fingerprint, without_billing};

/// Maximum number of prefixes behind which a piece is recognized: it is part of several conversations, or of one that has
/// changed.
const MAX_NODES: usize = 4;

/// Maximum number of forms of a piece.
const MAX_FORMS: usize = 4;

/// Texts by which the format of a body is recognized.
const TELLING: [&[u8]; 5] = [
    b"\"user_input\"",
    b"\"model_output\"",
    b"\"function_result\"",
    b"\"input_schema\"",
    b"\"function\"",
];

/// The forms of a piece that the analysis has made: an item of one of the lists of a body. Its owner keeps the bytes.
#[derive(Debug, Default)]
pub struct KnownPiece {
    facts: OnceLock<Option<ItemFacts>>,
    /// One for each format and level: an item may occur twice in a body, as system text and as a message.
    forms: Mutex<Vec<KnownForm>>,
}

/// Facts of a piece as it was sent.
#[derive(Debug)]
pub(super) struct ItemFacts {
    role: Box<[u8]>,
    pub(super) content_is_string: bool,
    pub(super) markers: Box<[(MarkerTime, MarkerPlace)]>,
    /// True if a marker may be inserted, and the same for the message with a list in place of a text.
    is_markable: [bool; 2],
    is_telling: OnceLock<[bool; TELLING.len()]>,
}

/// Facts of a piece in its normal form.
#[derive(Debug)]
struct KnownForm {
    format: Format,
    level: Level,
    place: PiecePlace,
    fingerprint: Option<u64>,
    /// The piece behind prefixes, the most recent one last.
    nodes: Vec<(Option<NodeId>, Weak<Node>)>,
}

impl KnownForm {
    fn is_of(&self, format: Format, level: Level) -> bool {
        (self.format, self.level) == (format, level)
    }
}

impl KnownPiece {
    /// Returns the facts; `None` if the item is no JSON value.
    pub(super) fn facts(&self, list: &[u8], item: &[u8]) -> Option<&ItemFacts> {
        let read = || {
            let piece = Piece::read_item(list, item).ok()?;
            let before = piece.mark_at.is_some();
            Some(ItemFacts {
                role: piece.role.into(),
                content_is_string: piece.content_is_string,
                markers: piece.markers.as_slice().into(),
                is_telling: OnceLock::new(),
                is_markable: [before, piece.into_list().mark_at.is_some()],
            })
        };
        self.facts.get_or_init(read).as_ref()
    }

    fn forms(&self) -> MutexGuard<'_, Vec<KnownForm>> {
        // A panic cannot leave a form half made.
        self.forms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An item of a list with what is known of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownItem<'a> {
    pub(super) list: &'a [u8],
    pub(super) bytes: &'a [u8],
    pub(super) known: &'a KnownPiece,
    pub(super) facts: &'a ItemFacts,
    /// True if a single text becomes a list.
    pub(super) is_list: bool,
}

/// A piece of a body that was split.
pub(super) enum RequestPiece<'a> {
    /// It is no item of a list.
    Read(Piece<'a>),
    Known(KnownItem<'a>),
}

impl<'a> From<Piece<'a>> for RequestPiece<'a> {
    fn from(piece: Piece<'a>) -> Self {
        Self::Read(piece)
    }
}

impl<'a> ViewPiece<'a> for RequestPiece<'a> {
    fn role(&self) -> &[u8] {
        match self {
            Self::Read(piece) => piece.role,
            Self::Known(item) => &item.facts.role,
        }
    }

    fn contains(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Read(piece) => ViewPiece::contains(piece, bytes),
            Self::Known(item) => {
                let contains = |bytes: &[u8]| {
                    let piece = item.piece();
                    piece.is_ok_and(|piece| ViewPiece::contains(&piece, bytes))
                };
                match TELLING.iter().position(|text| *text == bytes) {
                    Some(at) => item.facts.is_telling.get_or_init(|| TELLING.map(contains))[at],
                    None => contains(bytes),
                }
            }
        }
    }

    fn into_list(self) -> Self {
        match self {
            Self::Read(piece) => Self::Read(piece.into_list()),
            Self::Known(item) => Self::Known(KnownItem {
                is_list: true,
                ..item
            }),
        }
    }
}

/// A piece in its normal form.
pub(super) enum Normal<'a> {
    Made(NormalForm, Option<KnownItem<'a>>),
    Known(KnownItem<'a>),
}

impl<'a> KnownItem<'a> {
    fn piece(&self) -> JsonResult<Piece<'a>> {
        let piece = Piece::read_item(self.list, self.bytes)?;
        Ok(if self.is_list {
            piece.into_list()
        } else {
            piece
        })
    }

    fn is_markable(&self) -> bool {
        self.facts.is_markable[usize::from(self.is_list)]
    }

    fn normal(&self, format: Format, level: Level) -> NormalForm {
        match self.piece() {
            Ok(piece) => normal_form(format, level, &piece),
            // It was read before.
            Err(_) => (Bytes::copy_from_slice(self.bytes), None),
        }
    }
}

impl<'a> RequestPiece<'a> {
    pub(super) fn content_is_string(&self) -> bool {
        match self {
            Self::Read(piece) => piece.content_is_string,
            Self::Known(item) => item.facts.content_is_string,
        }
    }

    pub(super) fn markers(&self) -> &[(MarkerTime, MarkerPlace)] {
        match self {
            Self::Read(piece) => &piece.markers,
            Self::Known(item) => &item.facts.markers,
        }
    }

    /// True if a marker may be inserted.
    pub(super) fn is_markable(&self) -> bool {
        match self {
            Self::Read(piece) => piece.mark_at.is_some(),
            Self::Known(item) => item.is_markable(),
        }
    }

    /// Returns the normal form and its place.
    pub(super) fn normal(self, format: Format, level: Level) -> (PiecePlace, Normal<'a>) {
        let item = match self {
            Self::Read(piece) => {
                let form = normal_form(format, level, &piece);
                let place = PiecePlace::new(format, level, &form.0);
                return (place, Normal::Made(form, None));
            }
            Self::Known(item) => item,
        };
        let mut forms = item.known.forms();
        if let Some(known) = forms.iter().find(|known| known.is_of(format, level)) {
            return (known.place, Normal::Known(item));
        }
        let form = item.normal(format, level);
        let place = PiecePlace::new(format, level, &form.0);
        let is_message = level == Level::Message;
        if forms.len() == MAX_FORMS {
            forms.remove(0);
        }
        forms.push(KnownForm {
            format,
            level,
            place,
            fingerprint: is_message.then(|| message_fingerprint(&form.0)).flatten(),
            nodes: Vec::new(),
        });
        (place, Normal::Made(form, Some(item)))
    }
}

/// The level of a piece in a request, and in the compared form.
#[derive(Clone, Copy)]
pub(super) struct Levels {
    pub(super) sent: Level,
    pub(super) compared: Level,
}

/// A piece that was appended to the compared form of a request.
pub(super) struct Appended<'a> {
    pub(super) prompt: Prompt,
    /// The fingerprint of a message.
    pub(super) fingerprint: Option<u64>,
    /// The piece and its level, if its node is a new one.
    pub(super) made: Option<(KnownItem<'a>, Level)>,
}

impl<'a> Normal<'a> {
    /// Appends the piece to the compared form of a request.
    pub(super) fn append(self, prompt: &Prompt, format: Format, levels: Levels) -> Appended<'a> {
        let Levels { sent, compared } = levels;
        let (form, item) = match self {
            Self::Made(form, item) => (form, item),
            Self::Known(item) => match item.known.behind(prompt, format, levels) {
                Some((prompt, fingerprint)) => {
                    return Appended {
                        prompt,
                        fingerprint,
                        made: None,
                    };
                }
                None => (item.normal(format, sent), Some(item)),
            },
        };
        let longer = prompt.with(compared, &form.0, form.1, None);
        let noted = item.zip(longer.last());
        let noted = noted.and_then(|(item, node)| item.note(format, sent, node));
        let fingerprint = match noted {
            Some(fingerprint) => fingerprint,
            None if sent == Level::Message => message_fingerprint(&form.0),
            None => None,
        };
        Appended {
            prompt: longer,
            fingerprint,
            made: item.map(|item| (item, sent)),
        }
    }
}

impl KnownPiece {
    /// Returns a prompt with this piece behind it, if another prompt has had both, and the fingerprint.
    fn behind(
        &self,
        prompt: &Prompt,
        format: Format,
        levels: Levels,
    ) -> Option<(Prompt, Option<u64>)> {
        let forms = self.forms();
        let known = forms
            .iter()
            .find(|known| known.is_of(format, levels.sent))?;
        let parent = prompt.tip();
        let mut nodes = known.nodes.iter().rev();
        let (_, node) = nodes.find(|(before, _)| *before == parent)?;
        let node = node.upgrade()?;
        let longer = prompt.with_node(&node)?;
        (node.level == levels.compared).then_some((longer, known.fingerprint))
    }
}

impl KnownItem<'_> {
    /// Notes a node of the piece, for later prompts that begin with the same pieces; returns the fingerprint. `None` if
    /// its form was forgotten.
    pub(super) fn note(
        &self,
        format: Format,
        sent: Level,
        node: &Arc<Node>,
    ) -> Option<Option<u64>> {
        let mut forms = self.known.forms();
        let known = forms.iter_mut().find(|known| known.is_of(format, sent))?;
        let parent = node.parent.as_ref().map(|parent| parent.id);
        let is_other = |before: &Option<NodeId>, node: &Weak<Node>| {
            *before != parent && node.strong_count() > 0
        };
        known.nodes.retain(|(before, node)| is_other(before, node));
        if known.nodes.len() == MAX_NODES {
            known.nodes.remove(0);
        }
        known.nodes.push((parent, Arc::downgrade(node)));
        Some(known.fingerprint)
    }
}

fn normal_form(format: Format, level: Level, piece: &Piece<'_>) -> NormalForm {
    let form = match normal::piece(format, level, &piece.bytes) {
        Some(normal) => (Bytes::from(normal.bytes), normal.mark_at),
        None => (Bytes::copy_from_slice(&piece.bytes), piece.mark_at),
    };
    without_billing(format, level, form)
}
