//! What both memories ask of a request, and how they read it.

use std::time::Duration;

use cachalot_core::Millis;

use crate::{Error, ErrorKind, Filter, Label, Lease, Match, Order, Page, Record};

/// The first label of each (name, value), in the order given.
pub(crate) fn distinct(labels: Vec<Label>) -> Vec<Label> {
    let mut kept: Vec<Label> = Vec::with_capacity(labels.len());
    for label in labels {
        if !kept.contains(&label) {
            kept.push(label);
        }
    }
    kept
}

/// What a record adds to [`crate::Usage::bytes`].
pub(crate) fn weight(key: &str, value: usize, labels: &[Label]) -> u64 {
    let labels: usize = labels
        .iter()
        .map(|label| label.name.len() + label.value.len())
        .sum();
    (key.len() + value + labels) as u64
}

/// Whether one of the labels meets the criterion.
pub(crate) fn meets(criterion: &Match<'_>, labels: &[Label]) -> bool {
    labels.iter().any(|label| match *criterion {
        Match::Is { name, value } => label.name == name && label.value == value,
        Match::Starts { name, prefix } => label.name == name && label.value.starts_with(prefix),
    })
}

/// Whether the labels meet all criteria.
pub(crate) fn meets_all(criteria: &[Match<'_>], labels: &[Label]) -> bool {
    criteria.iter().all(|criterion| meets(criterion, labels))
}

/// Whether reservations are erased along with records: they cannot have expired, and an order by use
/// or by expiry picks records by what only records have.
pub(crate) fn reaches_reservations(filter: &Filter<'_>) -> bool {
    filter.expired_before.is_none() && matches!(filter.order, Order::Key | Order::Newest)
}

/// A cursor works in key order only.
pub(crate) fn check_page(filter: &Filter<'_>, page: &Page<'_>) -> Result<(), Error> {
    if page.after.is_some() && filter.order != Order::Key {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "a page cannot continue after a key in the order {:?}: only in key order",
                filter.order
            ),
        ));
    }
    Ok(())
}

/// A lease allows storing under its own key only, and every value has to fit.
pub(crate) fn check_put(
    space: &str,
    record: &Record,
    under: Option<&Lease>,
    largest: u64,
) -> Result<(), Error> {
    if let Some(lease) = under
        && (lease.space != space || lease.key != record.key)
    {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "a lease on `{}` in the space `{}` does not allow storing `{}` in `{space}`",
                lease.key, lease.space, record.key
            ),
        ));
    }
    let size = weight(&record.key, record.value.len(), &record.labels);
    if size > largest {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "the record `{:.80}` has {size} bytes; this memory takes at most {largest}",
                record.key
            ),
        ));
    }
    Ok(())
}

/// When a hold that begins now ends.
pub(crate) fn until(now: Millis, hold: Duration) -> Millis {
    now.saturating_add(Millis::try_from(hold.as_millis()).unwrap_or(Millis::MAX))
}

/// How long it is until then.
pub(crate) fn left(until: Millis, now: Millis) -> Duration {
    Duration::from_millis(u64::try_from(until.saturating_sub(now)).unwrap_or(0))
}

/// The `after` of the page behind this one: a full page in key order may have a successor.
pub(crate) fn next(records: &[Record], filter: &Filter<'_>, page: &Page<'_>) -> Option<String> {
    let full = filter.order == Order::Key && records.len() == page.limit as usize;
    records
        .last()
        .filter(|_| full)
        .map(|record| record.key.clone())
}
