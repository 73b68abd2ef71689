//! Where cache markers go.

use cachalot_model::wire::{MarkerTime, Wire};

use crate::chain::{Level, Node, Prompt};

/// Providers take no more markers than this in one request.
pub const MOST_MARKS: usize = 4;

/// A marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The index of the piece that it goes into; see [`Prompt::nodes`].
    pub node: u32,
    /// How long the prefix is to be kept.
    pub time: MarkerTime,
}

/// The markers of one request: at most [`MOST_MARKS`], each in another piece, in the order of the
/// pieces. An overlay: never part of a piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    marks: Vec<Mark>,
}

impl Plan {
    /// No markers.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// These markers, in the order of the pieces; of several in one piece the first given stays, and
    /// of too many the last pieces keep theirs: the longer a prefix, the more its reading saves.
    #[must_use]
    pub fn of(marks: impl IntoIterator<Item = Mark>) -> Self {
        let mut marks: Vec<Mark> = marks.into_iter().collect();
        marks.sort_by_key(|mark| mark.node);
        marks.dedup_by_key(|mark| mark.node);
        marks.drain(..marks.len().saturating_sub(MOST_MARKS));
        Self { marks }
    }

    /// The markers, in the order of the pieces.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }
}

/// The simple rule: five minutes at the end of the frozen part (the last of the system's text, or
/// the last tool if there is none) and at the newest message. A piece where no marker may stand
/// passes it on to the one before; none leaves its part (tools and system, messages). A format
/// without markers gets none.
#[must_use]
pub fn simple_plan(prompt: &Prompt, wire: &dyn Wire) -> Plan {
    if wire.marker(MarkerTime::FiveMinutes).is_none() {
        return Plan::none();
    }
    let last = |wanted: fn(&Node) -> bool| {
        let node = prompt
            .backwards()
            .find(|node| wanted(node) && node.mark_at.is_some())?;
        Some(Mark {
            node: node.depth,
            time: MarkerTime::FiveMinutes,
        })
    };
    let frozen = last(|node| node.level != Level::Message);
    let newest = last(|node| node.level == Level::Message);
    Plan::of([frozen, newest].into_iter().flatten())
}
