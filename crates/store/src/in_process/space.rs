//! One space: records with an index for each kind of query, counters, reservations.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_core::Millis;

use crate::request::{self, MIN_LAPSED_LEASE_AGE, lease_end};
use crate::stored_lease::StoredLease;
use crate::{
    GetResult, Label, LabelMatch, Lease, Order, PageRequest, Record, RecordFilter, RecordPage,
    ReserveResult, SpaceUsage, ValuePart, counter,
};

type Key = Arc<str>;

#[derive(Debug)]
struct StoredRecord {
    value: Bytes,
    labels: Vec<Label>,
    expires: Option<Millis>,
    revision: u64,
    updated: Millis,
    used: Millis,
    /// Grows with every write: orders records by age, and breaks ties.
    sequence: u64,
}

#[derive(Debug)]
struct Reservation {
    lease: StoredLease,
    labels: Vec<Label>,
}

/// One space. Every method is one atomic step under the store's lock.
#[derive(Debug, Default)]
pub(super) struct Space {
    records: BTreeMap<Key, StoredRecord>,
    by_label: BTreeMap<String, BTreeMap<String, BTreeSet<Key>>>,
    by_expiry: BTreeMap<(Millis, u64), Key>,
    by_use: BTreeMap<(Millis, u64), Key>,
    by_age: BTreeMap<u64, Key>,
    reservations: BTreeMap<String, Reservation>,
    counters: BTreeMap<String, u64>,
    sequence: u64,
    fence: u64,
    usage: SpaceUsage,
}

impl Space {
    pub(super) fn record(&self, key: &str) -> Option<Record> {
        self.records
            .get(key)
            .map(|stored| stored.as_record(key, true, ValuePart::All))
    }

    /// The value of a record.
    pub(super) fn value(&self, key: &str) -> Option<&Bytes> {
        self.records.get(key).map(|stored| &stored.value)
    }

    /// True if this record is stored with the same value, labels and expiry.
    pub(super) fn contains(&self, record: &Record) -> bool {
        self.records.get(record.key.as_str()).is_some_and(|stored| {
            stored.expires == record.expires
                && request::has_equal_labels(&stored.labels, &record.labels)
                && stored.value == record.value
        })
    }

    pub(super) fn records(&self) -> impl Iterator<Item = Record> {
        self.records
            .iter()
            .map(|(key, stored)| stored.as_record(key, true, ValuePart::All))
    }

    /// Returns the record and the counters.
    pub(super) fn get(&self, key: &str, counters: &[&str], now: Millis) -> GetResult {
        GetResult {
            record: self.record(key),
            counters: counters.iter().map(|name| self.counter(name)).collect(),
            now,
        }
    }

    pub(super) fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// Replaces the value of a counter; returns the new one.
    pub(super) fn count(&mut self, name: &str, change: impl FnOnce(u64) -> u64) -> u64 {
        let counter = self.counters.entry(name.to_owned()).or_insert(0);
        *counter = change(*counter).min(request::MAX_COUNTER);
        *counter
    }

    pub(super) fn counters(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Vec<(String, u64)> {
        self.counters
            .range::<str, _>((range_start(prefix, after), Bound::Unbounded))
            .take_while(|(name, _)| name.starts_with(prefix))
            .filter(|(_, value)| **value > 0)
            .take(limit as usize)
            .map(|(name, value)| (name.clone(), *value))
            .collect()
    }

    pub(super) fn usage(&self) -> SpaceUsage {
        self.usage
    }

    /// Stores the record, whose labels are distinct, and returns its revision.
    pub(super) fn put(&mut self, record: Record, now: Millis) -> u64 {
        let revision = self.remove(&record.key).map_or(0, |old| old.revision) + 1;
        self.sequence += 1;
        let key: Key = Arc::from(record.key);
        let stored = StoredRecord {
            value: record.value,
            labels: record.labels,
            expires: record.expires,
            revision,
            updated: now,
            used: now,
            sequence: self.sequence,
        };
        for label in &stored.labels {
            let values = self.by_label.entry(label.name.clone()).or_default();
            values
                .entry(label.value.clone())
                .or_default()
                .insert(key.clone());
        }
        if let Some(expires) = stored.expires {
            self.by_expiry
                .insert((expires, stored.sequence), key.clone());
        }
        self.by_use
            .insert((stored.used, stored.sequence), key.clone());
        self.by_age.insert(stored.sequence, key.clone());
        self.usage.records += 1;
        self.usage.bytes += request::weight(&key, stored.value.len(), &stored.labels);
        self.records.insert(key, stored);
        revision
    }

    fn remove(&mut self, key: &str) -> Option<StoredRecord> {
        let stored = self.records.remove(key)?;
        for label in &stored.labels {
            self.unindex_label(label, key);
        }
        if let Some(expires) = stored.expires {
            self.by_expiry.remove(&(expires, stored.sequence));
        }
        self.by_use.remove(&(stored.used, stored.sequence));
        self.by_age.remove(&stored.sequence);
        self.usage.records -= 1;
        self.usage.bytes -= request::weight(key, stored.value.len(), &stored.labels);
        Some(stored)
    }

    fn unindex_label(&mut self, label: &Label, key: &str) {
        let Some(values) = self.by_label.get_mut(&label.name) else {
            return;
        };
        if let Some(keys) = values.get_mut(&label.value) {
            keys.remove(key);
            if keys.is_empty() {
                values.remove(&label.value);
            }
        }
        if values.is_empty() {
            self.by_label.remove(&label.name);
        }
    }

    pub(super) fn touch(&mut self, key: &str, at: Millis) {
        let Some(stored) = self.records.get_mut(key) else {
            return;
        };
        // Uses by several callers arrive in any order.
        if at > stored.used
            && let Some(key) = self.by_use.remove(&(stored.used, stored.sequence))
        {
            stored.used = at;
            self.by_use.insert((at, stored.sequence), key);
        }
    }

    /// Replaces the value of a record that is unchanged since it was read; returns its new revision.
    pub(super) fn amend(&mut self, record: &Record) -> Option<u64> {
        let stored = self.records.get_mut(record.key.as_str())?;
        if (stored.revision, stored.updated) != (record.revision, record.updated) {
            return None;
        }
        self.usage.bytes += record.value.len() as u64;
        self.usage.bytes -= stored.value.len() as u64;
        stored.value.clone_from(&record.value);
        stored.revision += 1;
        Some(stored.revision)
    }

    pub(super) fn reserve(
        &mut self,
        space: &str,
        key: &str,
        labels: &[Label],
        hold: Duration,
        now: Millis,
    ) -> ReserveResult {
        if let Some(busy) = self.lease(key).and_then(|lease| lease.busy(now)) {
            return busy;
        }
        self.fence += 1;
        // Lapsed reservations of keys that are not requested again would accumulate.
        if self.fence.is_multiple_of(64) {
            self.reservations.retain(|_, reservation| {
                reservation.lease.until > now.saturating_sub(MIN_LAPSED_LEASE_AGE)
            });
        }
        let reservation = Reservation {
            lease: StoredLease {
                fence: self.fence,
                until: lease_end(now, hold),
                is_current: true,
            },
            labels: labels.to_vec(),
        };
        self.reservations.insert(key.to_owned(), reservation);
        ReserveResult::held(space, key, self.fence)
    }

    /// The lease on a key, lapsed or not. One that has ended is not there.
    pub(super) fn lease(&self, key: &str) -> Option<StoredLease> {
        self.reservations.get(key).map(|current| current.lease)
    }

    /// Ends any lease on a key.
    pub(super) fn revoke(&mut self, key: &str) {
        self.reservations.remove(key);
    }

    pub(super) fn renew(&mut self, lease: &Lease, hold: Duration, now: Millis) -> bool {
        match self.reservations.get_mut(&lease.key) {
            Some(current) if current.lease.is(lease) => {
                current.lease.until = lease_end(now, hold);
                true
            }
            _ => false,
        }
    }

    /// Ends the lease if it is current.
    pub(super) fn release(&mut self, lease: &Lease) {
        if self
            .lease(&lease.key)
            .is_some_and(|stored| stored.is(lease))
        {
            self.reservations.remove(&lease.key);
        }
    }

    pub(super) fn find(&self, filter: &RecordFilter<'_>, page: &PageRequest<'_>) -> RecordPage {
        let (records, sizes): (Vec<Record>, Vec<u64>) = self
            .matching(filter, page.after)
            .take(page.limit as usize)
            .map(|(key, stored)| {
                let record = stored.as_record(key, page.labels, page.values);
                (record, stored.value.len() as u64)
            })
            .unzip();
        let next = request::next_cursor(&records, filter, page);
        RecordPage {
            records,
            sizes,
            next,
        }
    }

    /// Erases one page of the records that match, and the reservations that match.
    pub(super) fn erase(
        &mut self,
        filter: &RecordFilter<'_>,
        page: &PageRequest<'_>,
        now: Millis,
    ) -> RecordPage {
        let get = self.find(filter, page);
        for record in &get.records {
            self.remove(&record.key);
        }
        if request::reaches_reservations(filter) {
            self.count(counter::ERASED, |before| request::next_erasure(before, now));
            self.reservations.retain(|key, reservation| {
                !(key.starts_with(filter.prefix)
                    && page.after.is_none_or(|after| key.as_str() > after)
                    && request::matches_all(filter.labels, &reservation.labels))
            });
        }
        get
    }

    /// Returns the records that match, in order: read from an index that has the order, or collected from the
    /// most selective one and sorted.
    fn matching<'a>(
        &'a self,
        filter: &'a RecordFilter<'a>,
        after: Option<&'a str>,
    ) -> Box<dyn Iterator<Item = (&'a Key, &'a StoredRecord)> + 'a> {
        let matches = move |(key, stored): &(&'a Key, &'a StoredRecord)| {
            key.starts_with(filter.prefix)
                && after.is_none_or(|after| &***key > after)
                && filter
                    .expired_before
                    .is_none_or(|moment| stored.expires.is_some_and(|at| at < moment))
                && request::matches_all(filter.labels, &stored.labels)
        };
        let narrowed = filter.expired_before.is_some() || !filter.labels.is_empty();
        if !narrowed {
            return match filter.order {
                Order::Key | Order::Any => Box::new(self.in_key_order(filter.prefix, after)),
                Order::Newest => Box::new(self.look_up(self.by_age.values().rev()).filter(matches)),
                Order::LeastRecentlyUsed => {
                    Box::new(self.look_up(self.by_use.values()).filter(matches))
                }
                Order::Expiry => {
                    let never = self
                        .look_up(self.by_age.values())
                        .filter(|(_, stored)| stored.expires.is_none());
                    Box::new(
                        self.look_up(self.by_expiry.values())
                            .chain(never)
                            .filter(matches),
                    )
                }
            };
        }
        if let (Order::Key, None, Some(keys)) =
            (filter.order, filter.expired_before, self.labelled(filter))
        {
            let from = range_start(filter.prefix, after);
            let keys = keys.range::<str, _>((from, Bound::Unbounded));
            let keys = keys.take_while(|key| key.starts_with(filter.prefix));
            return Box::new(self.look_up(keys).filter(matches));
        }
        if filter.order == Order::Any {
            // A record may have several labels that meet the criterion of the index.
            let mut seen = HashSet::new();
            let found = self.narrow(filter).filter(matches);
            return Box::new(found.filter(move |(_, stored)| seen.insert(stored.sequence)));
        }
        let mut get: Vec<(&Key, &StoredRecord)> = self.narrow(filter).filter(matches).collect();
        match filter.order {
            Order::Any => {}
            Order::Key => get.sort_by(|one, other| one.0.cmp(other.0)),
            Order::Newest => get.sort_by_key(|(_, stored)| std::cmp::Reverse(stored.sequence)),
            Order::LeastRecentlyUsed => {
                get.sort_by_key(|(_, stored)| (stored.used, stored.sequence))
            }
            Order::Expiry => {
                get.sort_by_key(|(_, stored)| {
                    (stored.expires.is_none(), stored.expires, stored.sequence)
                });
            }
        }
        // A label criterion may yield a record several times. The sort has put these next to each other.
        get.dedup_by_key(|(_, stored)| stored.sequence);
        Box::new(get.into_iter())
    }

    fn in_key_order<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a Key, &'a StoredRecord)> {
        self.records
            .range::<str, _>((range_start(prefix, after), Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// The keys under the first criterion that requires a label exactly.
    fn labelled(&self, filter: &RecordFilter<'_>) -> Option<&BTreeSet<Key>> {
        static NONE: BTreeSet<Key> = BTreeSet::new();
        filter.labels.iter().find_map(|label| match label {
            LabelMatch::Is { name, value } => Some(
                self.by_label
                    .get(*name)
                    .and_then(|values| values.get(*value))
                    .unwrap_or(&NONE),
            ),
            LabelMatch::Starts { .. } | LabelMatch::Glob { .. } => None,
        })
    }

    /// Candidates from the index of one criterion, possibly repeated.
    fn narrow<'a>(
        &'a self,
        filter: &RecordFilter<'a>,
    ) -> Box<dyn Iterator<Item = (&'a Key, &'a StoredRecord)> + 'a> {
        if let Some(moment) = filter.expired_before {
            return Box::new(self.look_up(self.by_expiry.range(..(moment, 0)).map(|(_, key)| key)));
        }
        if let Some(keys) = self.labelled(filter) {
            return Box::new(self.look_up(keys.iter()));
        }
        match filter.labels.first() {
            Some(criterion) => {
                let (name, prefix) = criterion.range();
                let values = self.by_label.get(name).into_iter();
                let keys = values.flat_map(move |values| {
                    values
                        .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
                        .take_while(move |(value, _)| value.starts_with(prefix))
                        .flat_map(|(_, keys)| keys)
                });
                Box::new(self.look_up(keys))
            }
            None => Box::new(self.records.iter()),
        }
    }

    fn look_up<'a>(
        &'a self,
        keys: impl Iterator<Item = &'a Key> + 'a,
    ) -> impl Iterator<Item = (&'a Key, &'a StoredRecord)> {
        keys.filter_map(|key| self.records.get_key_value(key))
    }
}

impl StoredRecord {
    fn as_record(&self, key: &str, labels: bool, values: ValuePart) -> Record {
        Record {
            key: key.to_owned(),
            value: match values {
                ValuePart::None => Bytes::new(),
                // Values are shared, not copied.
                ValuePart::First(_) | ValuePart::All => self.value.clone(),
            },
            labels: if labels {
                self.labels.clone()
            } else {
                Vec::new()
            },
            expires: self.expires,
            revision: self.revision,
            updated: self.updated,
        }
    }
}

/// The lower bound of the keys of a page.
fn range_start<'a>(prefix: &'a str, after: Option<&'a str>) -> Bound<&'a str> {
    match after {
        Some(after) if after >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix),
    }
}
