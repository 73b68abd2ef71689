//! What one space holds. Finding looks at every record: an index per question is what a memory for
//! more than an example adds.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use cachalot_core::Millis;
use cachalot_store::{
    GetResult, Label, LabelMatch, Lease, Order, PageRequest, Record, RecordFilter, RecordPage,
    ReserveResult, SpaceUsage, ValuePart, counter,
};

#[derive(Default)]
pub(super) struct Space {
    records: BTreeMap<String, Stored>,
    counters: BTreeMap<String, u64>,
    reservations: HashMap<String, Reservation>,
    /// Grows with every store: which of two is newer.
    stores: u64,
    /// Grows with every lease.
    fence: u64,
}

struct Stored {
    record: Record,
    used: Millis,
    store: u64,
}

struct Reservation {
    fence: u64,
    until: Millis,
    labels: Vec<Label>,
}

/// How large a record is: its key, value and labels.
pub(super) fn weight(record: &Record) -> u64 {
    let labels: usize = record
        .labels
        .iter()
        .map(|label| label.name.len() + label.value.len())
        .sum();
    (record.key.len() + record.value.len() + labels) as u64
}

fn meets(criteria: &[LabelMatch<'_>], labels: &[Label]) -> bool {
    criteria.iter().all(|criterion| criterion.matches(labels))
}

impl Stored {
    fn matches(&self, filter: &RecordFilter<'_>) -> bool {
        let expired = |before| self.record.expires.is_some_and(|expires| expires < before);
        self.record.key.starts_with(filter.prefix)
            && meets(filter.labels, &self.record.labels)
            && filter.expired_before.is_none_or(expired)
    }
}

impl Space {
    pub(super) fn record(&self, key: &str) -> Option<Record> {
        self.records.get(key).map(|stored| stored.record.clone())
    }

    pub(super) fn put(&mut self, record: Record) {
        self.stores += 1;
        let stored = Stored {
            used: record.updated,
            store: self.stores,
            record,
        };
        self.records.insert(stored.record.key.clone(), stored);
    }

    pub(super) fn remove(&mut self, keys: &[String]) {
        for key in keys {
            self.records.remove(key);
        }
    }

    pub(super) fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// Sets counters to their new values.
    pub(super) fn count(&mut self, counters: Vec<(String, u64)>) {
        self.counters.extend(counters);
    }

    /// The value of the counter of erasures after one at `now`.
    pub(super) fn erased(&self, now: Millis) -> u64 {
        let now = u64::try_from(now).unwrap_or(0);
        now.max(self.counter(counter::ERASED) + 1)
    }

    /// A page of counters.
    pub(super) fn counters(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Vec<(String, u64)> {
        let listed =
            |name: &str| name.starts_with(prefix) && after.is_none_or(|after| name > after);
        self.counters
            .iter()
            .filter(|(name, value)| **value > 0 && listed(name))
            .take(limit as usize)
            .map(|(name, value)| (name.clone(), *value))
            .collect()
    }

    /// The record and the counters.
    pub(super) fn found(&self, key: &str, counters: &[&str], now: Millis) -> GetResult {
        GetResult {
            record: self.record(key),
            counters: counters.iter().map(|name| self.counter(name)).collect(),
            now,
        }
    }

    /// Gives a record its new value and revision, and leaves it where it is in every order.
    pub(super) fn amend(&mut self, amended: Record) {
        if let Some(stored) = self.records.get_mut(&amended.key) {
            stored.record = amended;
        }
    }

    pub(super) fn touch(&mut self, key: &str, at: Millis) {
        if let Some(stored) = self.records.get_mut(key) {
            stored.used = stored.used.max(at);
        }
    }

    pub(super) fn usage(&self) -> SpaceUsage {
        let bytes = self
            .records
            .values()
            .map(|stored| weight(&stored.record))
            .sum();
        SpaceUsage {
            records: self.records.len() as u64,
            bytes,
        }
    }

    /// A page of what matches.
    pub(super) fn find(&self, filter: &RecordFilter<'_>, page: &PageRequest<'_>) -> RecordPage {
        let behind = |key: &str| page.after.is_none_or(|after| key > after);
        let mut found: Vec<&Stored> = self
            .records
            .values()
            .filter(|stored| stored.matches(filter))
            .collect();
        match filter.order {
            Order::Key => found.retain(|stored| behind(&stored.record.key)),
            Order::Any => {}
            Order::Newest => found.sort_by_key(|stored| std::cmp::Reverse(stored.store)),
            Order::LeastRecentlyUsed => found.sort_by_key(|stored| (stored.used, stored.store)),
            // What never expires comes last.
            Order::Expiry => {
                found.sort_by_key(|stored| {
                    (
                        stored.record.expires.is_none(),
                        stored.record.expires,
                        stored.store,
                    )
                });
            }
        }
        let limit = page.limit as usize;
        let may_have_more = filter.order == Order::Key && found.len() >= limit && limit > 0;
        found.truncate(limit);
        let (records, sizes): (Vec<Record>, Vec<u64>) = found
            .into_iter()
            .map(|stored| {
                let size = stored.record.value.len() as u64;
                (shown(&stored.record, page), size)
            })
            .unzip();
        let next = records
            .last()
            .filter(|_| may_have_more)
            .map(|record| record.key.clone());
        RecordPage {
            records,
            sizes,
            next,
        }
    }

    /// Reserves a key unless a reservation of it holds.
    pub(super) fn reserve(
        &mut self,
        space: &str,
        key: &str,
        labels: &[Label],
        hold: Duration,
        now: Millis,
    ) -> ReserveResult {
        // A reservation that lapsed is good for another hour unless it is taken over.
        self.reservations
            .retain(|_, reservation| reservation.until > now.saturating_sub(3_600_000));
        if let Some(held) = self.reservations.get(key).filter(|held| held.until > now) {
            let left = u64::try_from(held.until - now).unwrap_or(0);
            return ReserveResult::Busy {
                fence: held.fence,
                left: Duration::from_millis(left),
            };
        }
        self.fence += 1;
        let reservation = Reservation {
            fence: self.fence,
            until: after(now, hold),
            labels: labels.to_vec(),
        };
        self.reservations.insert(key.to_owned(), reservation);
        ReserveResult::Held(Lease {
            space: space.to_owned(),
            key: key.to_owned(),
            fence: self.fence,
        })
    }

    /// Whether a lease is current: neither ended nor taken over.
    pub(super) fn holds(&self, lease: &Lease) -> bool {
        let held = self.reservations.get(&lease.key);
        held.is_some_and(|held| held.fence == lease.fence)
    }

    pub(super) fn renew(&mut self, lease: &Lease, hold: Duration, now: Millis) -> bool {
        let holds = self.holds(lease);
        if let Some(held) = self.reservations.get_mut(&lease.key).filter(|_| holds) {
            held.until = after(now, hold);
        }
        holds
    }

    pub(super) fn release(&mut self, lease: &Lease) {
        if self.holds(lease) {
            self.reservations.remove(&lease.key);
        }
    }

    /// Ends the reservations that match.
    pub(super) fn revoke(&mut self, filter: &RecordFilter<'_>) {
        self.reservations.retain(|key, held| {
            !(key.starts_with(filter.prefix) && meets(filter.labels, &held.labels))
        });
    }
}

/// Whether an erase reaches reservations: they cannot have expired, and an order by use or by expiry
/// picks by what only records have.
pub(super) fn reaches_reservations(filter: &RecordFilter<'_>) -> bool {
    filter.expired_before.is_none() && matches!(filter.order, Order::Key | Order::Newest)
}

fn shown(record: &Record, page: &PageRequest<'_>) -> Record {
    let mut shown = record.clone();
    if page.values == ValuePart::None {
        shown.value.clear();
    }
    if !page.labels {
        shown.labels.clear();
    }
    shown
}

fn after(now: Millis, hold: Duration) -> Millis {
    now.saturating_add(Millis::try_from(hold.as_millis()).unwrap_or(Millis::MAX))
}
