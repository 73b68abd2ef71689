//! Requests that would be sent after the provider's copy of their prefix has expired.

use std::time::Duration;

use cachalot_core::Cost;

use super::reach::ReadEstimator;
use super::{Observations, RequestView, Rules};

/// A prefix whose cached copy has expired: the next request pays for it as for new text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColdPrefix {
    /// The time since the previous request.
    pub idle: Duration,
    /// The published lifetime of the copy. A provider may keep a copy for longer.
    pub lifetime: Duration,
    /// The tokens that were cached, as far as the next request contains as many.
    pub tokens: u64,
    /// The cost of these tokens beyond that of reading them; `None` without a price.
    pub cost: Option<Cost>,
}

/// Returns the prefix that has expired before `next` is sent, by the published lifetimes and the time that has elapsed;
/// `None` if it is still cached, too short to be cached, or its lifetime is not published.
///
/// A difference between the two requests has no effect: what has expired cannot be read in any case.
#[must_use]
pub fn cold_prefix(
    previous: &RequestView<'_>,
    next: &RequestView<'_>,
    observed: &Observations<'_>,
    rules: &Rules,
) -> Option<ColdPrefix> {
    let estimator = ReadEstimator {
        previous,
        next,
        observed,
        rules,
    };
    let idle = observed.elapsed?;
    let (lifetime, kept) = estimator.expired(idle)?;
    let tokens = estimator.expected().saturating_sub(kept);
    (tokens > 0).then(|| ColdPrefix {
        idle,
        lifetime,
        tokens,
        cost: estimator.cost_of(tokens),
    })
}
