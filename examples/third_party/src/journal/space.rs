//! What one space holds. Finding looks at every record: an index per question is what a memory for
//! more than an example adds.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use cachalot_core::Millis;
use cachalot_memory::{Batch, Filter, Label, Lease, Match, Order, Page, Record, Usage};

#[derive(Default)]
pub(super) struct Space {
    records: BTreeMap<String, Stored>,
    counters: HashMap<String, u64>,
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

fn meets(criteria: &[Match<'_>], labels: &[Label]) -> bool {
    criteria.iter().all(|criterion| {
        labels.iter().any(|label| match *criterion {
            Match::Is { name, value } => label.name == name && label.value == value,
            Match::Starts { name, prefix } => label.name == name && label.value.starts_with(prefix),
        })
    })
}

impl Stored {
    fn matches(&self, filter: &Filter<'_>) -> bool {
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

    pub(super) fn raise(&mut self, name: &str) -> u64 {
        let counter = self.counters.entry(name.to_owned()).or_default();
        *counter += 1;
        *counter
    }

    pub(super) fn touch(&mut self, key: &str, at: Millis) {
        if let Some(stored) = self.records.get_mut(key) {
            stored.used = stored.used.max(at);
        }
    }

    pub(super) fn usage(&self) -> Usage {
        let bytes = self
            .records
            .values()
            .map(|stored| weight(&stored.record))
            .sum();
        Usage {
            records: self.records.len() as u64,
            bytes,
        }
    }

    /// A page of what matches.
    pub(super) fn find(&self, filter: &Filter<'_>, page: &Page<'_>) -> Batch {
        let behind = |key: &str| page.after.is_none_or(|after| key > after);
        let mut found: Vec<&Stored> = self
            .records
            .values()
            .filter(|stored| stored.matches(filter))
            .collect();
        match filter.order {
            Order::Key => found.retain(|stored| behind(&stored.record.key)),
            Order::Newest => found.sort_by_key(|stored| std::cmp::Reverse(stored.store)),
            Order::Coldest => found.sort_by_key(|stored| (stored.used, stored.store)),
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
        let records: Vec<Record> = found
            .into_iter()
            .map(|stored| shown(&stored.record, page.values))
            .collect();
        let next = records
            .last()
            .filter(|_| may_have_more)
            .map(|record| record.key.clone());
        Batch { records, next }
    }

    /// Reserves a key; the fence of the lease, or that of whoever holds it, and for how long.
    pub(super) fn reserve(
        &mut self,
        key: &str,
        labels: &[Label],
        hold: Duration,
        now: Millis,
    ) -> Result<u64, (u64, Duration)> {
        self.reservations
            .retain(|_, reservation| reservation.until > now);
        if let Some(held) = self.reservations.get(key) {
            let left = u64::try_from(held.until - now).unwrap_or(0);
            return Err((held.fence, Duration::from_millis(left)));
        }
        self.fence += 1;
        let reservation = Reservation {
            fence: self.fence,
            until: after(now, hold),
            labels: labels.to_vec(),
        };
        self.reservations.insert(key.to_owned(), reservation);
        Ok(self.fence)
    }

    /// Whether a lease is current.
    pub(super) fn holds(&self, lease: &Lease, now: Millis) -> bool {
        let held = self.reservations.get(&lease.key);
        held.is_some_and(|held| held.fence == lease.fence && held.until > now)
    }

    pub(super) fn renew(&mut self, lease: &Lease, hold: Duration, now: Millis) -> bool {
        let holds = self.holds(lease, now);
        if let Some(held) = self.reservations.get_mut(&lease.key).filter(|_| holds) {
            held.until = after(now, hold);
        }
        holds
    }

    pub(super) fn release(&mut self, lease: &Lease) {
        if self
            .reservations
            .get(&lease.key)
            .is_some_and(|held| held.fence == lease.fence)
        {
            self.reservations.remove(&lease.key);
        }
    }

    /// Ends the reservations that match. They cannot have expired, and an order by use or by expiry
    /// picks by what only records have.
    pub(super) fn revoke(&mut self, filter: &Filter<'_>) {
        if filter.expired_before.is_some() || matches!(filter.order, Order::Coldest | Order::Expiry)
        {
            return;
        }
        self.reservations.retain(|key, held| {
            !(key.starts_with(filter.prefix) && meets(filter.labels, &held.labels))
        });
    }
}

fn shown(record: &Record, values: bool) -> Record {
    if values {
        return record.clone();
    }
    Record {
        key: record.key.clone(),
        value: bytes::Bytes::new(),
        labels: Vec::new(),
        ..*record
    }
}

fn after(now: Millis, hold: Duration) -> Millis {
    now.saturating_add(Millis::try_from(hold.as_millis()).unwrap_or(Millis::MAX))
}
