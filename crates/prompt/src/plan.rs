//! Where cache markers go.

use cachalot_model::wire::{MarkerTime, Wire};

use crate::chain::Prompt;

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
/// without markers gets none. Costs the same however long the prompt is.
#[must_use]
pub fn simple_plan(prompt: &Prompt, wire: &dyn Wire) -> Plan {
    if wire.marker(MarkerTime::FiveMinutes).is_none() {
        return Plan::none();
    }
    let Some(tip) = prompt.last() else {
        return Plan::none();
    };
    let mark = |node| Mark {
        node,
        time: MarkerTime::FiveMinutes,
    };
    let nodes = [tip.frozen_mark, tip.newest_mark];
    Plan::of(nodes.into_iter().flatten().map(mark))
}
