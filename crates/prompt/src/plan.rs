//! Where cache markers go.
//!
//! A provider keeps a request's beginning up to a marker, and a later request with the same beginning
//! reads it there for a fraction of the price. Keeping it costs, too: so a marker goes where the same
//! bytes will stand again, and nowhere else.

mod keep;
mod note;
mod pauses;
pub(crate) mod places;
mod planner;
mod rules;

use cachalot_model::wire::MarkerTime;

pub use keep::{Keep, PrefixSettings};
pub use note::{Note, Part};
pub use pauses::{FIVE_MINUTES, Pauses};
pub use planner::{Occasion, Planned, plan};
pub use rules::Rules;

/// Providers take no more markers than this in one request.
pub const MOST_MARKS: usize = 4;

/// A marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The index of the piece that it goes into; see [`Prompt::nodes`](crate::Prompt::nodes).
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

    /// The piece of the last marker: what [`Occasion::previous_end`] of the next request is.
    #[must_use]
    pub fn end(&self) -> Option<u32> {
        self.marks.last().map(|mark| mark.node)
    }
}
