//! The planner.

use cachalot_model::wire::MarkerTime;
use cachalot_model::{Block, Role};

use super::places::{Place, Places};
use super::{Keep, Mark, Note, Part, Pauses, Plan, Rules};
use crate::chain::{Level, Node, Prompt};

/// A token has at least this many bytes in whatever is said to models: what is shorter than that by
/// the minimum is too short, and of the rest nobody knows. There, a marker costs nothing.
const FEWEST_BYTES: u64 = 2;

/// How many bytes a token has, about.
const USUAL_BYTES: u64 = 4;

/// What a request is sent for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Occasion {
    /// Where the request before ended, if there was one: [`Plan::end`] of its plan. What it wrote can
    /// be read there, and from at most a look-back behind it.
    pub previous_end: Option<u32>,
    /// Whether a person says when the next turn comes.
    pub human_paced: bool,
    /// The pauses of the conversation, this request counted.
    pub pauses: Pauses,
    /// Whether no request will begin like this one: it only reads, and nothing is written for it.
    pub is_last: bool,
    /// How long marked prefixes are to be kept.
    pub keep: Keep,
}

/// A plan, and what is worth knowing of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Planned {
    /// The markers.
    pub plan: Plan,
    /// What is worth knowing.
    pub notes: Vec<Note>,
}

/// Places the markers of a request for the longest reads that the next one can have:
///
/// 1. at the end of the tools, or of the system's text that does not change from session to session;
/// 2. at the end of the frozen part, which is tools and the system's text;
/// 3. at the end of the turn before;
/// 4. at the newest message.
///
/// If what the request before wrote is too far back to be found from these, one more goes exactly
/// there, and if that is too many, the first gives way. What is surely shorter than the provider's
/// minimum gets none. An hour never stands behind five minutes. The last request of its kind marks
/// what earlier ones have written and nothing else.
///
/// Pure. Looks at the pieces since the request before, not at the whole prompt.
#[must_use]
pub fn plan(prompt: &Prompt, rules: &Rules, occasion: &Occasion) -> Planned {
    if rules.most == 0 {
        return Planned::default();
    }
    let mut notes = Vec::new();
    if occasion.keep == Keep::OneHour && !rules.one_hour {
        notes.push(Note::NoHour);
    }
    let is_short = |place: &Place| place.bytes / FEWEST_BYTES < rules.minimum;
    let mut wanted = wanted(prompt, rules, occasion);
    // The longest of those that are too short: the others are so, too.
    let short = wanted.iter().rfind(|(_, place)| is_short(place));
    notes.extend(short.map(|(part, place)| Note::BelowMinimum {
        part: *part,
        tokens: place.bytes.div_ceil(USUAL_BYTES),
        minimum: rules.minimum,
    }));
    wanted.retain(|(_, place)| !is_short(place));
    let gave_way = wanted.drain(..wanted.len().saturating_sub(rules.most));
    notes.extend(gave_way.map(|(part, _)| Note::GaveWay(part)));
    let hour = hour(prompt, rules, occasion);
    let marks = wanted.into_iter().map(|(_, place)| Mark {
        node: place.node,
        time: match hour.is_some_and(|last| place.node <= last) {
            true => MarkerTime::OneHour,
            false => MarkerTime::FiveMinutes,
        },
    });
    Planned {
        plan: Plan::of(marks),
        notes,
    }
}

/// The parts that are worth a marker, each in another piece; what gives way first stands first.
fn wanted(prompt: &Prompt, rules: &Rules, occasion: &Occasion) -> Vec<(Part, Place)> {
    let places = prompt.last().map_or_else(Places::default, |tip| tip.places);
    let (turn, previous, newest) = match (occasion.is_last, occasion.previous_end) {
        (false, _) => (
            places.turn,
            out_of_reach(prompt, rules, occasion),
            places.newest,
        ),
        (true, Some(_)) => (None, end_before(prompt), None),
        // Nothing was written.
        (true, None) => return Vec::new(),
    };
    let parts = [
        (Part::Stable, places.stable),
        (Part::Frozen, places.frozen),
        (Part::Turn, turn),
        (Part::Previous, previous),
        (Part::Whole, newest),
    ];
    let mut wanted: Vec<(Part, Place)> = Vec::with_capacity(parts.len());
    wanted.extend(
        parts
            .into_iter()
            .filter_map(|(part, place)| Some((part, place?))),
    );
    wanted.dedup_by_key(|(_, place)| place.node);
    wanted
}

/// Up to which piece markers ask for an hour.
fn hour(prompt: &Prompt, rules: &Rules, occasion: &Occasion) -> Option<u32> {
    let places = prompt.last()?.places;
    match occasion.keep {
        _ if !rules.one_hour => None,
        Keep::FiveMinutes => None,
        Keep::OneHour => Some(u32::MAX),
        Keep::Auto if occasion.human_paced && occasion.pauses.favor_an_hour() => {
            places.turn.or(places.frozen).map(|place| place.node)
        }
        Keep::Auto => None,
    }
}

/// Where the request before ended, if the look-backs from the newest message and from the end of the
/// turn before do not come there.
fn out_of_reach(prompt: &Prompt, rules: &Rules, occasion: &Occasion) -> Option<Place> {
    let end = occasion.previous_end?;
    let places = prompt.last()?.places;
    let marked = [places.newest, places.turn].map(|place| place.map(|place| place.node));
    // How many more positions are searched before the piece that was looked at.
    let mut left: Option<u32> = None;
    for node in messages(prompt) {
        let is_marked = marked.contains(&Some(node.depth));
        if let Some(place) = Place::in_piece(node).filter(|place| place.node <= end) {
            return (left.is_none() && !is_marked).then_some(place);
        }
        if is_marked {
            left = rules.lookback.checked_sub(1);
        }
        left = left.and_then(|left| left.checked_sub(positions(node, rules)));
    }
    None
}

/// Where the last request ended that was no last one: at the last message of the user before the
/// newest message.
fn end_before(prompt: &Prompt) -> Option<Place> {
    let newest = messages(prompt).skip_while(|node| node.source.is_none());
    let mut place = None;
    for node in newest.skip(1) {
        place = place.or_else(|| Place::in_piece(node));
        match node.source.as_ref().map(|message| message.role) {
            Some(Role::User) if place.is_some() => return place,
            Some(_) => place = None,
            None => {}
        }
    }
    None
}

/// The pieces of messages, the last first.
fn messages(prompt: &Prompt) -> impl Iterator<Item = &Node> {
    let pieces = prompt.backwards();
    pieces.take_while(|node| node.level == Level::Message)
}

/// How many positions of a look-back a piece has; at most so many, since a block may not be sent. The
/// first piece of a message counts for the whole message, and the others again: too many at worst.
fn positions(node: &Node, rules: &Rules) -> u32 {
    let blocks = node.source.iter().flat_map(|message| &message.content);
    let mut before = None;
    let counted = blocks.filter(|block| {
        let run = match block {
            Block::ToolUse(_) if rules.runs_count_once => Some(true),
            Block::ToolResult(_) if rules.runs_count_once => Some(false),
            _ => None,
        };
        let goes_on = run.is_some() && run == before;
        before = run;
        !goes_on
    });
    u32::try_from(counted.count()).unwrap_or(u32::MAX).max(1)
}
