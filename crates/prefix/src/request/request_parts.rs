//! Requests whose bodies were split before: what is known of their pieces is not read again.

use std::sync::Arc;

use cachalot_model::wire::view::{MemberPart, View};
use cachalot_prompt::{Level, Mark, Namespace, Plan, Prompt};

use super::known_piece::{KnownItem, Levels, RequestPiece};
use super::{
    ComparedRequest, Error, KnownPiece, Marker, MarkerPlace, Request, arrange, moved, tail,
};

/// A member of a body that was split: the value, as written.
#[derive(Debug, Clone, Copy)]
pub enum RequestPart<'a> {
    /// Any value.
    Text(&'a [u8]),
    /// The items of a list of objects.
    Items(&'a [PartItem<'a>]),
}

/// An item of a list.
#[derive(Debug, Clone, Copy)]
pub struct PartItem<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// What is known of it, as an item of this list.
    pub known: &'a KnownPiece,
}

/// Reads a body like [`read`](super::read), by the names and values of its members. Its
/// [`prompt`](Request::prompt) has the pieces in the form in which they are compared.
///
/// # Errors
/// The body is not a request in one of the formats, or only its whole text can be read.
pub(crate) fn read_parts<'a>(parts: &[(&'a [u8], RequestPart<'a>)]) -> Result<Request, Error> {
    let item = |list: &'a [u8], item: &PartItem<'a>| {
        let facts = item.known.facts(list, item.bytes);
        let facts = facts.ok_or(Error::NotARequest("an item cannot be read"))?;
        Ok(RequestPiece::Known(KnownItem {
            list,
            bytes: item.bytes,
            known: item.known,
            facts,
            is_list: false,
        }))
    };
    let parts = parts.iter().map(|(name, part)| {
        let part = match part {
            RequestPart::Text(text) => MemberPart::Text(text),
            RequestPart::Items(items) => {
                let items = items.iter().map(|one| item(name, one));
                MemberPart::List(items.collect::<Result<_, Error>>()?)
            }
        };
        Ok((*name, part))
    });
    let parts = parts.collect::<Result<Vec<_>, Error>>()?;
    let View {
        format,
        model,
        tools,
        system,
        messages,
        members,
        automatic,
        ..
    } = View::of_parts(parts.into_iter())?;
    let strings = messages.iter().map(RequestPiece::content_is_string);
    let strings = strings.collect();
    let namespace = Namespace::of_members(format, &model, &members);
    let tools = tools.into_iter().map(|piece| (Level::Tool, piece));
    let system = system.into_iter().map(|piece| (Level::System, piece));
    let messages = messages.into_iter().map(|piece| (Level::Message, piece));
    let (mut markers, mut markable) = (Vec::new(), None);
    let mut pieces = Vec::new();
    for ((level, piece), node) in tools.chain(system).chain(messages).zip(0_u32..) {
        let found = piece.markers().iter();
        markers.extend(found.map(|&(time, place)| Marker { node, time, place }));
        if piece.is_markable() {
            markable = Some(node);
        }
        let (place, normal) = piece.normal(format, level);
        pieces.push((place, (level, normal)));
    }
    if let (Some(time), Some(node)) = (automatic, markable) {
        let place = MarkerPlace::Proper;
        markers.push(Marker { node, time, place });
    }
    let plan = Plan::from_marks(proper(&markers));
    let (mut prompt, mut fingerprints) = (Prompt::default(), Vec::new());
    let mut places = Vec::with_capacity(pieces.len());
    let mut made: Option<(KnownItem<'_>, Level)> = None;
    for (compared, before, (sent, normal)) in arrange(pieces) {
        let appended = normal.append(&prompt, format, Levels { sent, compared });
        // The piece belongs to a prompt with an equal node before it: the new one is not kept, and that one is noted.
        let parent = appended.prompt.last().and_then(|node| node.parent.as_ref());
        if let (Some((item, level)), Some(parent), Some(node)) = (made, parent, prompt.last())
            && !Arc::ptr_eq(parent, node)
        {
            item.note(format, level, parent);
        }
        made = appended.made;
        prompt = appended.prompt;
        fingerprints.extend(appended.fingerprint);
        places.push(before);
    }
    Ok(Request {
        format,
        model,
        compared: ComparedRequest {
            plan: moved(&plan, places.into_iter()),
            prompt: prompt.clone(),
        },
        prompt,
        plan,
        markers,
        namespace,
        tail: tail(&members),
        fingerprints,
        strings,
    })
}

/// The markers in permitted places.
pub(super) fn proper(markers: &[Marker]) -> impl Iterator<Item = Mark> {
    let proper = markers.iter();
    let proper = proper.filter(|marker| marker.place == MarkerPlace::Proper);
    proper.map(|marker| Mark {
        node: marker.node,
        time: marker.time,
    })
}
