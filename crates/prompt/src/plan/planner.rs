//! The planner.

use cachalot_model::wire::MarkerTime;
use cachalot_model::{Block, Role};

use super::{Mark, Note, Part, Pauses, Plan, PrefixLifetime, Rules};
use crate::Level;
use crate::chain::{Node, Prompt};
use crate::marker_positions::{MarkerPosition, MarkerPositions};

/// The minimum number of bytes per token in model input. A part that is too short even by this ratio is
/// certainly below the provider's minimum; any other part gets a marker, which costs nothing if the part
/// turns out to be too short.
const MIN_BYTES_PER_TOKEN: u64 = 2;

/// The usual number of bytes per token.
const BYTES_PER_TOKEN: u64 = 4;

/// The circumstances of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanContext {
    /// The end of the previous request, if there was one: [`Plan::end`] of its plan. Its cached prefix
    /// can be read at this piece, or from a marker at most one lookback later.
    pub previous_end: Option<u32>,
    /// True if a person determines the time of the next turn.
    pub human_paced: bool,
    /// The pauses of the conversation, including this request.
    pub pauses: Pauses,
    /// True if no later request has this prefix: nothing is written to the cache, only read.
    pub is_last: bool,
    /// The lifetime of cached prefixes.
    pub keep: PrefixLifetime,
}

/// A plan with notes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlannedMarkers {
    /// The markers.
    pub plan: Plan,
    /// The notes for the user.
    pub notes: Vec<Note>,
}

/// Places the markers of a request, so that the next request can read as much as possible from the
/// cache:
///
/// 1. at the end of the tools, or of the system text that is the same in all sessions;
/// 2. at the end of the frozen part, which is the tools and the system text;
/// 3. at the end of the previous turn;
/// 4. at the newest message.
///
/// If the end of the previous request is out of reach of their lookbacks, one more marker is placed
/// exactly there; if that exceeds the limit, the first marker is dropped. A part that is certainly below
/// the provider's minimum gets no marker. A marker never requests a longer lifetime than the one before it.
/// The last request of its kind ([`PlanContext::is_last`]) gets markers only where earlier requests have
/// written.
///
/// Pure. The cost depends on the pieces since the previous request, not on the whole prompt.
#[must_use]
pub fn plan(prompt: &Prompt, rules: &Rules, plan_context: &PlanContext) -> PlannedMarkers {
    if rules.max_markers == 0 {
        return PlannedMarkers::default();
    }
    let mut notes = Vec::new();
    if plan_context.keep == PrefixLifetime::OneHour && !rules.one_hour {
        notes.push(Note::NoHour);
    }
    if plan_context.keep == PrefixLifetime::TwelveHours && !rules.twelve_hours {
        notes.push(Note::NoTwelveHours);
    }
    let is_short = |place: &MarkerPosition| place.bytes / MIN_BYTES_PER_TOKEN < rules.minimum;
    let mut marked_parts = marked_parts(prompt, rules, plan_context);
    // The longest part that is too short: the shorter ones are too short as well.
    let short = marked_parts.iter().rfind(|(_, place)| is_short(place));
    notes.extend(short.map(|(part, place)| Note::BelowMinimum {
        part: *part,
        tokens: place.bytes.div_ceil(BYTES_PER_TOKEN),
        minimum: rules.minimum,
    }));
    marked_parts.retain(|(_, place)| !is_short(place));
    let gave_way = marked_parts.drain(..marked_parts.len().saturating_sub(rules.max_markers));
    notes.extend(gave_way.map(|(part, _)| Note::MarkerDropped(part)));
    let long = long_part(prompt, rules, plan_context);
    let marks = marked_parts.into_iter().map(|(_, place)| Mark {
        node: place.node,
        time: match long {
            Some((time, last)) if place.node <= last => time,
            _ => MarkerTime::FiveMinutes,
        },
    });
    PlannedMarkers {
        plan: Plan::from_marks(marks),
        notes,
    }
}

/// The parts that should get a marker, each in another piece. The first ones are dropped first.
fn marked_parts(
    prompt: &Prompt,
    rules: &Rules,
    plan_context: &PlanContext,
) -> Vec<(Part, MarkerPosition)> {
    let marker_positions = prompt
        .last()
        .map_or_else(MarkerPositions::default, |tip| tip.marker_positions);
    let (turn, previous, newest) = match (plan_context.is_last, plan_context.previous_end) {
        (false, _) => (
            marker_positions.turn,
            out_of_reach(prompt, rules, plan_context),
            marker_positions.newest,
        ),
        (true, Some(_)) => (None, end_before(prompt), None),
        // Nothing was written.
        (true, None) => return Vec::new(),
    };
    let parts = [
        (Part::Stable, marker_positions.stable),
        (Part::Frozen, marker_positions.frozen),
        (Part::Turn, turn),
        (Part::Previous, previous),
        (Part::Whole, newest),
    ];
    let mut marked_parts: Vec<(Part, MarkerPosition)> = Vec::with_capacity(parts.len());
    marked_parts.extend(
        parts
            .into_iter()
            .filter_map(|(part, place)| Some((part, place?))),
    );
    marked_parts.dedup_by_key(|(_, place)| place.node);
    marked_parts
}

/// The longer lifetime that markers request, and the last piece whose marker requests it.
fn long_part(
    prompt: &Prompt,
    rules: &Rules,
    plan_context: &PlanContext,
) -> Option<(MarkerTime, u32)> {
    let pauses = &plan_context.pauses;
    let is_auto = plan_context.keep == PrefixLifetime::Auto && plan_context.human_paced;
    let time = match plan_context.keep {
        PrefixLifetime::OneHour if rules.one_hour => MarkerTime::OneHour,
        PrefixLifetime::TwelveHours if rules.twelve_hours => MarkerTime::TwelveHours,
        _ if is_auto && rules.one_hour && pauses.favor_one_hour() => MarkerTime::OneHour,
        _ if is_auto && rules.twelve_hours && pauses.favor_twelve_hours() => {
            MarkerTime::TwelveHours
        }
        _ => return None,
    };
    let marker_positions = prompt.last()?.marker_positions;
    let last = if is_auto {
        marker_positions.turn.or(marker_positions.frozen)?.node
    } else {
        u32::MAX
    };
    Some((time, last))
}

/// The end of the previous request, if it is out of reach of the lookbacks from the newest message and
/// from the end of the previous turn.
fn out_of_reach(
    prompt: &Prompt,
    rules: &Rules,
    plan_context: &PlanContext,
) -> Option<MarkerPosition> {
    let end = plan_context.previous_end?;
    let marker_positions = prompt.last()?.marker_positions;
    let marked =
        [marker_positions.newest, marker_positions.turn].map(|place| place.map(|place| place.node));
    // Remaining positions of the lookback before the current piece.
    let mut left: Option<u32> = None;
    for node in messages(prompt) {
        let is_marked = marked.contains(&Some(node.depth));
        if let Some(place) = node.marker_position().filter(|place| place.node <= end) {
            // A marker in this very piece reads it without a lookback.
            return (left.is_none() && !is_marked).then_some(place);
        }
        if is_marked {
            left = rules.lookback.checked_sub(1);
        }
        left = left.and_then(|left| left.checked_sub(positions(node, rules)));
    }
    None
}

/// The end of the last request that wrote to the cache: the last user message before the newest message.
fn end_before(prompt: &Prompt) -> Option<MarkerPosition> {
    let newest = messages(prompt).skip_while(|node| node.source.is_none());
    let mut place = None;
    for node in newest.skip(1) {
        place = place.or_else(|| node.marker_position());
        match node.source.as_ref().map(|message| message.role) {
            Some(Role::User) if place.is_some() => return place,
            Some(_) => place = None,
            None => {}
        }
    }
    None
}

/// The pieces of messages, from the last to the first.
fn messages(prompt: &Prompt) -> impl Iterator<Item = &Node> {
    let pieces = prompt.backwards();
    pieces.take_while(|node| node.level == Level::Message)
}

/// The number of lookback positions of a piece: an upper bound, because a block may be left out of the
/// request. The first piece of a message counts for all of its blocks, and the other pieces count again.
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
