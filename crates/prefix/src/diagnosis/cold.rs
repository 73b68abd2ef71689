//! Copies of prefixes in a provider's cache: their lifetimes, the cost of renewing them, and requests that would be sent
//! after they have expired.

use std::time::Duration;

use cachalot_core::{Cost, Millis};
use cachalot_model::Usage;
use cachalot_model::wire::RENEWAL_OUTPUT;

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
    // Some servers ignore markers.
    let has_used_cache = |usage: Usage| usage.cache_read > 0 || usage.cache_write() > 0;
    if rules.lookback.is_some() && !observed.previous.is_some_and(has_used_cache) {
        return None;
    }
    let (lifetime, kept) = estimator.expired(idle)?;
    let tokens = estimator.expected().saturating_sub(kept);
    (tokens > 0).then(|| ColdPrefix {
        idle,
        lifetime,
        tokens,
        cost: estimator.cost_of(tokens),
    })
}

/// Returns the time after its last use at which a prefix with this lifetime is renewed: when a tenth of it is left.
#[must_use]
pub fn renewal_interval(lifetime: Millis) -> Millis {
    lifetime - lifetime / 10
}

/// The copy of a request's prefix in the provider's cache, after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedPrefix {
    /// Its tokens.
    pub tokens: u64,
    /// Its published lifetime, from its last use.
    pub lifetime: Duration,
    /// The cost of a request that renews it, at the standard price.
    pub renewal_cost: Cost,
    /// The cost of writing it again, beyond that of reading it.
    pub rewriting_cost: Cost,
}

/// Returns the prefix that a provider has in its cache after it has answered `request`; `None` if the answer reports no
/// use of the cache, or if the lifetime or the price is not known.
#[must_use]
pub fn cached_prefix(
    request: &RequestView<'_>,
    usage: Usage,
    at: Option<Millis>,
    rules: &Rules,
) -> Option<CachedPrefix> {
    let tokens = usage.cache_read.saturating_add(usage.cache_write());
    if tokens == 0 {
        return None;
    }
    let observed = Observations {
        previous: Some(usage),
        reports_cache_reads: true,
        at,
        ..Observations::default()
    };
    let estimator = ReadEstimator {
        previous: request,
        next: request,
        observed: &observed,
        rules,
    };
    let renewal = Usage {
        cache_read: tokens,
        uncached_input: usage.total_input().saturating_sub(tokens),
        output: RENEWAL_OUTPUT,
        ..Usage::default()
    };
    Some(CachedPrefix {
        tokens,
        lifetime: estimator.lifetime()?,
        renewal_cost: estimator.standard_cost(&renewal)?,
        rewriting_cost: estimator.cost_of(tokens)?,
    })
}
