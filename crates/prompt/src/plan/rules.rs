//! What a provider's markers are limited by.

use cachalot_model::{Limits, Marking, Model};

use super::MOST_MARKS;

/// What a provider's markers are limited by, for one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Markers in one request; 0: it takes none.
    pub most: usize,
    /// How many positions before a marker are searched for what was kept, its own included; 1 is an
    /// exact match. A position is a content block.
    pub lookback: u32,
    /// Whether consecutive calls of tools are one position, and consecutive results.
    pub runs_count_once: bool,
    /// Whether a marker may ask for an hour.
    pub one_hour: bool,
    /// Tokens below which nothing is kept.
    pub minimum: u64,
}

impl Rules {
    /// Of a model.
    #[must_use]
    pub fn for_model(model: &Model) -> Self {
        Self::new(model.marking(), model.limits())
    }

    /// Of a provider that takes markers so, for a model with these limits.
    #[must_use]
    pub fn new(marking: &Marking, limits: &Limits) -> Self {
        Self {
            most: marking.most.min(MOST_MARKS),
            lookback: marking.lookback,
            runs_count_once: marking.runs_count_once,
            one_hour: marking.one_hour,
            minimum: limits.minimum_cacheable.unwrap_or(marking.minimum),
        }
    }
}
