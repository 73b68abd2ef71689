//! Requests whose entries live for another time.

use cachalot_accounting::avoidable::{FIVE_MINUTES, ONE_HOUR};
use cachalot_model::Usage;

use super::lifetime::{Provider, TWELVE_HOURS};
use super::outcome::Outcome;
use super::pricing::Pricing;
use super::request::AnsweredRequest;
use crate::diagnosis::renewal_interval;
use crate::spend::{cache_use, with_use};

/// Returns the outcome if all entries at Anthropic live for an hour.
pub(super) fn one_hour(request: &AnsweredRequest, pricing: &Pricing<'_>) -> Outcome {
    let paid = Outcome::paid(request);
    let used = cache_use(&request.usage);
    if request.provider != Provider::Anthropic
        || used.written_5m == 0
        || !pricing.has_one_hour(request)
    {
        return paid;
    }
    let linked = &request.linked;
    let hour = used.with_one_hour((linked.lost > 0).then_some((linked.lost, linked.pause)));
    Outcome {
        cost: pricing.other(request, &with_use(&request.usage, hour)),
        read_instead: hour.read - used.read,
        ..paid
    }
}

/// Returns the outcome if all entries at Anthropic live for five minutes. What was read from an entry of an hour counts as
/// written again, unless the previous request is known to be recent: the report may only be too pessimistic.
pub(super) fn five_minutes(request: &AnsweredRequest, pricing: &Pricing<'_>) -> Outcome {
    let paid = Outcome::paid(request);
    let lives_for_an_hour = request.linked.lifetime == Some(ONE_HOUR);
    if request.provider != Provider::Anthropic
        || !(lives_for_an_hour || request.usage.cache_write_1h > 0)
        || !pricing.has_one_hour(request)
    {
        return paid;
    }
    let mut used = cache_use(&request.usage);
    used.written_5m = used.written();
    used.written_1h = 0;
    let linked = &request.linked;
    if linked.previous.is_none() || linked.pause > renewal_interval(FIVE_MINUTES) {
        used.written_5m = used.written_5m.saturating_add(used.read);
        used.read = 0;
    }
    Outcome {
        cost: pricing.other(request, &with_use(&request.usage, used)),
        ..paid
    }
}

/// Returns the outcome if all entries at OpenAI live for twelve hours, where that has a known price.
pub(super) fn twelve_hours(request: &AnsweredRequest, pricing: &Pricing<'_>) -> Outcome {
    let paid = Outcome::paid(request);
    let linked = &request.linked;
    if request.provider != Provider::OpenAi || linked.lifetime.is_none() {
        return paid;
    }
    let lost = if linked.pause <= TWELVE_HOURS {
        linked.lost
    } else {
        0
    };
    let usage = request.reading(lost);
    let usage = Usage {
        cache_write_12h: usage.cache_write(),
        cache_write_5m: 0,
        cache_write_1h: 0,
        cache_write_other: 0,
        ..usage
    };
    match pricing.cost(request, &usage, request.at) {
        Some(cost) => Outcome {
            cost,
            read_instead: lost,
            ..paid
        },
        None => paid,
    }
}
