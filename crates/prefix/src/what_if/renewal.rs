//! Renewals of cached prefixes in pauses.

use cachalot_core::{Cost, Millis};
use cachalot_model::Usage;

use super::outcome::Outcome;
use super::pricing::Pricing;
use super::request::AnsweredRequest;
use crate::diagnosis::renewal_interval;

/// The renewals of a prefix in a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Renewals {
    count: Millis,
    /// True if the prefix is in the cache at the end of the pause because of them.
    outlast: bool,
}

impl Renewals {
    /// `until` is the time from the last request after which none is sent.
    fn new(pause: Millis, until: Millis, lifetime: Millis) -> Self {
        let interval = renewal_interval(lifetime).max(1);
        // The request that ends the pause comes before a renewal at the same time.
        let count = (pause.saturating_sub(1) / interval).min(until / interval);
        let count = count.max(0);
        let end = count.saturating_mul(interval).saturating_add(lifetime);
        Self {
            count,
            outlast: count > 0 && pause > lifetime && pause <= end,
        }
    }
}

/// Returns the outcome of a request if prefixes are kept alive: with the renewals in the pause before it, and, if no other
/// request continues it, those after it up to `end`.
pub(super) fn kept_alive(
    requests: &[AnsweredRequest],
    request: &AnsweredRequest,
    until: Millis,
    end: Millis,
    pricing: &Pricing<'_>,
) -> Outcome {
    let linked = &request.linked;
    let mut outcome = Outcome::paid(request);
    let previous = linked.previous.map(|previous| &requests[previous]);
    if let Some(previous) = previous
        && let Some(lifetime) = previous.linked.lifetime
    {
        let renewals = Renewals::new(linked.pause, until, lifetime);
        if renewals.outlast && linked.lost > 0 {
            let read = request.reading(linked.lost);
            outcome.cost = pricing.other(request, &read);
            outcome.read_instead = linked.lost;
        }
        add(&mut outcome, previous, renewals.count, pricing);
    }
    if !linked.has_next
        && let Some(lifetime) = linked.lifetime
    {
        let rest = end.saturating_sub(request.at);
        let renewals = Renewals::new(rest, until, lifetime);
        add(&mut outcome, request, renewals.count, pricing);
    }
    outcome
}

/// Adds renewals of a request's prefix to an outcome.
fn add(outcome: &mut Outcome, of: &AnsweredRequest, count: Millis, pricing: &Pricing<'_>) {
    let (Some(lifetime), 1..) = (of.linked.lifetime, of.cached()) else {
        return;
    };
    // The whole request is sent again, with what follows the cached prefix.
    let renewal = Usage {
        uncached_input: of.usage.uncached_input,
        cache_read: of.cached(),
        output: 1,
        ..Usage::default()
    };
    for number in 1..=count {
        let at = of.at.saturating_add(number * renewal_interval(lifetime));
        let cost = pricing.cost(of, &renewal, at).unwrap_or(Cost::UNPRICED);
        outcome.add_request(cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Millis = 60_000;

    #[test]
    fn renewals_end_with_the_pause_or_the_setting() {
        let of = |pause: Millis, until: Millis| {
            let Renewals { count, outlast } =
                Renewals::new(pause * 1_000, until * MINUTE, 5 * MINUTE);
            (count, outlast)
        };
        // The first renewal is sent after 4.5 minutes.
        assert_eq!(of(0, 60), (0, false));
        assert_eq!(of(270, 60), (0, false));
        // It is not needed if the pause ends before five minutes are over.
        assert_eq!(of(271, 60), (1, false));
        assert_eq!(of(300, 60), (1, false));
        assert_eq!(of(301, 60), (1, true));
        assert_eq!(of(600, 60), (2, true));
        // Three renewals in 15 minutes, the last of which lasts until 18.5 minutes.
        assert_eq!(of(1_110, 15), (3, true));
        assert_eq!(of(1_111, 15), (3, false));
        assert_eq!(of(36_000, 15), (3, false));
        assert_eq!(of(36_000, 4), (0, false));
        let hour = Renewals::new(65 * MINUTE, 120 * MINUTE, 60 * MINUTE);
        assert_eq!(
            hour,
            Renewals {
                count: 1,
                outlast: true
            }
        );
    }
}
