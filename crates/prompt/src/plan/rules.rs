//! The provider's limits for markers.

use std::time::Duration;

use cachalot_model::{MarkerRules, Model, ModelLimits};

use super::{MAX_MARKERS, PrefixLifetime};

/// The provider's limits for markers, for one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Maximum number of markers in one request; 0 if markers are not supported.
    pub max_markers: usize,
    /// The number of positions, including its own, that are searched backwards from a marker for a
    /// cached prefix; 1 is an exact match. A position is a content block.
    pub lookback: u32,
    /// True if consecutive tool calls count as one position, and consecutive tool results.
    pub runs_count_once: bool,
    /// True if markers may request one hour.
    pub one_hour: bool,
    /// True if markers may request twelve hours, and the price of that is known.
    pub twelve_hours: bool,
    /// The minimum number of tokens of a cached prefix.
    pub minimum: u64,
}

impl Rules {
    /// Returns the rules of a model.
    #[must_use]
    pub fn for_model(model: &Model) -> Self {
        Self::new(model.marker_rules(), model.limits(), model.name())
    }

    /// Returns the rules of a provider with this marking, for a model with these limits and this name.
    #[must_use]
    pub fn new(marker_rules: &MarkerRules, limits: &ModelLimits, model: &str) -> Self {
        Self {
            max_markers: marker_rules.max_markers.min(MAX_MARKERS),
            lookback: marker_rules.lookback,
            runs_count_once: marker_rules.runs_count_once,
            one_hour: marker_rules.one_hour,
            twelve_hours: marker_rules.allows_twelve_hours(model),
            minimum: limits.minimum_cacheable.unwrap_or(marker_rules.minimum),
        }
    }

    /// Returns the shortest lifetime that markers may request and that covers a pause; `None` if there is none beyond
    /// the provider's shortest one.
    #[must_use]
    pub fn lifetime_for(&self, pause: Duration) -> Option<PrefixLifetime> {
        if self.one_hour && pause <= Duration::from_hours(1) {
            Some(PrefixLifetime::OneHour)
        } else if self.twelve_hours && pause <= Duration::from_hours(12) {
            Some(PrefixLifetime::TwelveHours)
        } else {
            None
        }
    }
}
