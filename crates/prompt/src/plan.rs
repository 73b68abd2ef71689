//! Plans the places of cache markers.
//!
//! A provider caches the beginning of a request up to a marker. A later request with the same beginning
//! reads it from the cache at a fraction of the price. Writing the cache has a price, too, so a marker
//! is placed only where the same bytes will be sent again.

mod lifetime;
mod note;
mod pauses;
mod planner;
mod rules;

use cachalot_model::wire::MarkerTime;

pub use lifetime::{PrefixGuard, PrefixLifetime, PrefixSettings};
pub use note::{Note, Part};
pub use pauses::{FIVE_MINUTES, Pauses};
pub use planner::{PlanContext, PlannedMarkers, plan};
pub use rules::Rules;

/// The maximum number of markers that providers accept in one request.
pub const MAX_MARKERS: usize = 4;

/// A marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The index of the piece that contains it; see [`Prompt::nodes`](crate::Prompt::nodes).
    pub node: u32,
    /// The requested lifetime of the cached prefix.
    pub time: MarkerTime,
}

/// The markers of one request: at most [`MAX_MARKERS`], each in another piece, in the order of the
/// pieces. Never part of a piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    marks: Vec<Mark>,
}

impl Plan {
    /// A plan without markers.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates a plan, sorted by piece. Of several markers in one piece, the first given stays. Of too
    /// many markers, those of the last pieces stay: reading a longer prefix saves more.
    #[must_use]
    pub fn from_marks(marks: impl IntoIterator<Item = Mark>) -> Self {
        let mut marks: Vec<Mark> = marks.into_iter().collect();
        // The sort is stable, so that the first given of several markers in one piece stays.
        marks.sort_by_key(|mark| mark.node);
        marks.dedup_by_key(|mark| mark.node);
        marks.drain(..marks.len().saturating_sub(MAX_MARKERS));
        Self { marks }
    }

    /// The markers, in the order of the pieces.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// The piece of the last marker, for [`PlanContext::previous_end`] of the next request.
    #[must_use]
    pub fn end(&self) -> Option<u32> {
        self.marks.last().map(|mark| mark.node)
    }
}
