//! Conversations without a change that loses the cached prefix: other tools, or another model in between.

use super::outcome::Outcome;
use super::policy::Change;
use super::pricing::Pricing;
use super::request::AnsweredRequest;

/// Returns the outcome if the change had not taken place: what the request wrote again because of it is read, if the
/// pause before it did not outlast the cache anyway.
pub(super) fn unchanged(
    requests: &[AnsweredRequest],
    request: &AnsweredRequest,
    change: Change,
    pricing: &Pricing<'_>,
) -> Outcome {
    let paid = Outcome::paid(request);
    let lost = match request.lost_by_change {
        Some((cause, lost)) if cause == change => lost,
        _ => return paid,
    };
    let linked = &request.linked;
    let previous = linked.previous.map(|previous| &requests[previous]);
    let lifetime = previous.and_then(|previous| previous.linked.lifetime);
    if lifetime.is_none_or(|lifetime| linked.pause > lifetime) {
        return paid;
    }
    Outcome {
        cost: pricing.other(request, &request.reading(lost)),
        read_instead: lost,
        ..paid
    }
}
