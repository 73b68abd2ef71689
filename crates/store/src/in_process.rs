//! A store in the memory of this process.
//!
//! One lock around indexed maps: every call is a short piece of local work, so every answer is
//! [`StoreReply::Now`]. Stamps are read without the lock. They change while it is held, so no caller can read an
//! old record after a stamp has changed and before the record does.

mod space;
mod words;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cachalot_core::{Clock, Millis};
use parking_lot::RwLock;

use crate::slots::{SLOTS, slot};
use crate::{
    Error, GetOrReserve, GetOrReserveResult, GetResult, Label, LabelMatch, Lease, PageRequest,
    PutAllResult, PutCondition, PutResult, Recall, RecallHit, Record, RecordFilter, RecordPage,
    ReserveResult, SpaceUsage, Store, StoreInfo, StoreReply, counter, request, space as names,
};

use self::space::Space;

/// Maximum size of a record, in bytes: the same as in a SQLite file, so that tests on one hold for the other.
const MAX_VALUE_BYTES: u64 = crate::sqlite::MAX_VALUE_BYTES;

/// A store in this process. See the [module](self).
#[derive(Debug)]
pub struct InProcessStore {
    about: StoreInfo,
    clock: Arc<dyn Clock>,
    spaces: RwLock<HashMap<String, Space>>,
    stamps: Box<[AtomicU64]>,
}

impl InProcessStore {
    /// Creates an empty store that uses `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            about: StoreInfo {
                name: "in-process",
                location: "this process".into(),
                shared: false,
                reservations: true,
                largest_value: MAX_VALUE_BYTES,
                longest_name: MAX_VALUE_BYTES,
                snapshot: true,
            },
            clock,
            spaces: RwLock::default(),
            stamps: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn changed(&self, space: &str, name: &str) {
        self.stamps[slot(space, name)].fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns the space, creating it if needed.
fn open<'a>(spaces: &'a mut HashMap<String, Space>, name: &str) -> &'a mut Space {
    spaces.entry(name.to_owned()).or_default()
}

impl Store for InProcessStore {
    fn about(&self) -> &StoreInfo {
        &self.about
    }

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> StoreReply<'a, GetResult> {
        let spaces = self.spaces.read();
        let now = self.clock.now();
        StoreReply::Now(Ok(match spaces.get(space) {
            Some(space) => space.get(key, counters, now),
            None => GetResult {
                record: None,
                counters: vec![0; counters.len()],
                now,
            },
        }))
    }

    fn get_or_reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        request: GetOrReserve<'a>,
    ) -> StoreReply<'a, GetOrReserveResult> {
        // Most lookups find their record, and need no exclusive lock.
        if let Some(place) = self.spaces.read().get(space) {
            let found = place.get(key, request.counters, self.clock.now());
            if request.stale.is_answered_by(&found) {
                return StoreReply::Now(Ok(GetOrReserveResult {
                    found,
                    reserved: None,
                }));
            }
        }
        let mut spaces = self.spaces.write();
        let now = self.clock.now();
        let place = open(&mut spaces, space);
        let found = place.get(key, request.counters, now);
        let answered = request.stale.is_answered_by(&found);
        let reserved =
            (!answered).then(|| place.reserve(space, key, request.labels, request.hold, now));
        StoreReply::Now(Ok(GetOrReserveResult { found, reserved }))
    }

    fn put<'a>(
        &'a self,
        space: &'a str,
        mut record: Record,
        lease: Option<&'a Lease>,
        counters: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, PutResult> {
        let checked = self.about.check_put(space, &record, lease, counters);
        StoreReply::Now(checked.map(|()| {
            record.labels = request::deduplicate(record.labels);
            let mut spaces = self.spaces.write();
            let now = self.clock.now();
            let place = open(&mut spaces, space);
            if let Some(refused) = place.refusal(lease, counters) {
                return refused;
            }
            if let Some(lease) = lease {
                place.release(lease);
            }
            self.changed(space, &record.key);
            let revision = place.put(record, now);
            PutResult::Stored { revision }
        }))
    }

    fn put_all<'a>(
        &'a self,
        condition: PutCondition<'a>,
        records: Vec<(&'a str, Record)>,
    ) -> StoreReply<'a, PutAllResult> {
        let checked = self.about.check_put_all(&condition, &records);
        StoreReply::Now(checked.map(|()| {
            let mut spaces = self.spaces.write();
            let now = self.clock.now();
            let place = open(&mut spaces, condition.space);
            if let Some(left) = place.reserved_for(condition.key, now) {
                return PutAllResult::Busy { left };
            }
            if place.value(condition.key) != condition.value.as_ref() {
                return PutAllResult::Changed;
            }
            place.revoke(condition.key);
            for (space, mut record) in records {
                record.labels = request::deduplicate(record.labels);
                let place = open(&mut spaces, space);
                if !place.contains(&record) {
                    self.changed(space, &record.key);
                    place.put(record, now);
                }
            }
            PutAllResult::Stored
        }))
    }

    fn reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        labels: &'a [Label],
        hold: Duration,
    ) -> StoreReply<'a, ReserveResult> {
        let mut spaces = self.spaces.write();
        let now = self.clock.now();
        StoreReply::Now(Ok(
            open(&mut spaces, space).reserve(space, key, labels, hold, now)
        ))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, hold: Duration) -> StoreReply<'a, bool> {
        let mut spaces = self.spaces.write();
        let now = self.clock.now();
        StoreReply::Now(Ok(spaces
            .get_mut(&lease.space)
            .is_some_and(|space| space.renew(lease, hold, now))))
    }

    fn release(&self, lease: Lease) -> StoreReply<'_, ()> {
        if let Some(space) = self.spaces.write().get_mut(&lease.space) {
            space.release(&lease);
        }
        StoreReply::Now(Ok(()))
    }

    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        StoreReply::Now(request::check_page(filter, &page).map(|()| {
            let spaces = self.spaces.read();
            spaces
                .get(space)
                .map(|space| space.find(filter, &page))
                .unwrap_or_default()
        }))
    }

    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        let page = request::erase_step(filter, page);
        StoreReply::Now(request::check_page(filter, &page).map(|()| {
            let mut spaces = self.spaces.write();
            let now = self.clock.now();
            if request::reaches_reservations(filter) {
                self.changed(space, counter::ERASED);
            }
            let erased = open(&mut spaces, space).erase(filter, &page, now);
            for record in &erased.records {
                self.changed(space, &record.key);
            }
            erased
        }))
    }

    fn add<'a>(
        &'a self,
        space: &'a str,
        additions: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, Vec<u64>> {
        let names = additions.iter().map(|(name, _)| *name);
        StoreReply::Now(self.about.check_names(names).map(|()| {
            let mut spaces = self.spaces.write();
            let place = open(&mut spaces, space);
            let raised = additions.iter().map(|&(name, by)| {
                self.changed(space, name);
                place.count(name, |value| value.saturating_add(by))
            });
            raised.collect()
        }))
    }

    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> StoreReply<'a, u64> {
        StoreReply::Now(self.about.check_names([counter]).map(|()| {
            let mut spaces = self.spaces.write();
            self.changed(space, counter);
            open(&mut spaces, space).count(counter, |before| before.max(value))
        }))
    }

    fn counters<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> StoreReply<'a, Vec<(String, u64)>> {
        StoreReply::Now(Ok(self
            .spaces
            .read()
            .get(space)
            .map(|space| space.counters(prefix, after, limit))
            .unwrap_or_default()))
    }

    fn touch<'a>(&'a self, space: &'a str, used: &'a [(&'a str, Millis)]) -> StoreReply<'a, ()> {
        if let Some(space) = self.spaces.write().get_mut(space) {
            for &(key, at) in used {
                space.touch(key, at);
            }
        }
        StoreReply::Now(Ok(()))
    }

    fn amend<'a>(&'a self, space: &'a str, record: Record) -> StoreReply<'a, Option<u64>> {
        StoreReply::Now(self.about.check_amend(space, &record).map(|()| {
            let mut spaces = self.spaces.write();
            let place = spaces.get_mut(space)?;
            self.changed(space, &record.key);
            place.amend(&record)
        }))
    }

    fn usage<'a>(&'a self, space: &'a str) -> StoreReply<'a, SpaceUsage> {
        StoreReply::Now(Ok(self
            .spaces
            .read()
            .get(space)
            .map(Space::usage)
            .unwrap_or_default()))
    }

    fn stamp(&self, space: &str, name: &str) -> Option<u64> {
        self.stamp_at(slot(space, name))
    }

    fn stamp_slot(&self, space: &str, name: &str) -> Option<usize> {
        Some(slot(space, name))
    }

    fn stamp_at(&self, slot: usize) -> Option<u64> {
        Some(self.stamps.get(slot)?.load(Ordering::SeqCst))
    }

    fn recall(&self) -> Option<&dyn Recall> {
        Some(self)
    }
}

impl Recall for InProcessStore {
    fn search<'a>(
        &'a self,
        query: &'a str,
        labels: &'a [LabelMatch<'a>],
        limit: u32,
    ) -> StoreReply<'a, Vec<RecallHit>> {
        let spaces = self.spaces.read();
        let found: Result<Vec<RecallHit>, Error> = Ok(spaces
            .get(names::USER)
            .map(|space| words::search(space, query, labels, limit))
            .unwrap_or_default());
        StoreReply::Now(found)
    }
}
