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
use crate::stored_lease::refusal;
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
                shared: false,
                ..StoreInfo::new(
                    "in-process",
                    "this process",
                    MAX_VALUE_BYTES,
                    MAX_VALUE_BYTES,
                )
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
    crate::forward_to_store!(now: get get_or_reserve put put_all reserve renew release find erase add);
    crate::forward_to_store!(now: raise_to counters touch amend usage);

    fn about(&self) -> &StoreInfo {
        &self.about
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

/// The calls of [`Store`].
impl InProcessStore {
    fn get(&self, space: &str, key: &str, counters: &[&str]) -> Result<GetResult, Error> {
        let spaces = self.spaces.read();
        let now = self.clock.now();
        Ok(match spaces.get(space) {
            Some(space) => space.get(key, counters, now),
            None => GetResult {
                record: None,
                counters: vec![0; counters.len()],
                now,
            },
        })
    }

    fn get_or_reserve(
        &self,
        space: &str,
        key: &str,
        request: GetOrReserve<'_>,
    ) -> Result<GetOrReserveResult, Error> {
        // Most lookups find their record, and need no exclusive lock.
        if let Some(place) = self.spaces.read().get(space) {
            let found = place.get(key, request.counters, self.clock.now());
            if request.stale.is_answered_by(&found) {
                let reserved = None;
                return Ok(GetOrReserveResult { found, reserved });
            }
        }
        let mut spaces = self.spaces.write();
        let now = self.clock.now();
        let place = open(&mut spaces, space);
        // Read again under the exclusive lock: another caller may have stored or reserved since.
        let found = place.get(key, request.counters, now);
        let answered = request.stale.is_answered_by(&found);
        let reserved =
            (!answered).then(|| place.reserve(space, key, request.labels, request.hold, now));
        Ok(GetOrReserveResult { found, reserved })
    }

    fn put(
        &self,
        space: &str,
        mut record: Record,
        lease: Option<&Lease>,
        counters: &[(&str, u64)],
    ) -> Result<PutResult, Error> {
        self.about.check_put(space, &record, lease, counters)?;
        record.labels = request::deduplicate(record.labels);
        let mut spaces = self.spaces.write();
        let now = self.clock.now();
        let place = open(&mut spaces, space);
        let stored = |lease: &Lease| Ok(place.lease(&lease.key));
        let count = |name: &str| Ok(place.counter(name));
        if let Some(refused) = refusal(lease, counters, stored, count)? {
            return Ok(refused);
        }
        if let Some(lease) = lease {
            place.release(lease);
        }
        self.changed(space, &record.key);
        let revision = place.put(record, now);
        Ok(PutResult::Stored { revision })
    }

    fn put_all(
        &self,
        condition: PutCondition<'_>,
        records: Vec<(&str, Record)>,
    ) -> Result<PutAllResult, Error> {
        self.about.check_put_all(&condition, &records)?;
        let mut spaces = self.spaces.write();
        let now = self.clock.now();
        let place = open(&mut spaces, condition.space);
        let lease = place.lease(condition.key);
        if let Some(left) = lease.and_then(|lease| lease.left(now)) {
            return Ok(PutAllResult::Busy { left });
        }
        if place.value(condition.key) != condition.value.as_ref() {
            return Ok(PutAllResult::Changed);
        }
        // A lapsed lease still permits its holder to store, so it is ended.
        place.revoke(condition.key);
        for (space, mut record) in records {
            record.labels = request::deduplicate(record.labels);
            let place = open(&mut spaces, space);
            if !place.contains(&record) {
                self.changed(space, &record.key);
                place.put(record, now);
            }
        }
        Ok(PutAllResult::Stored)
    }

    fn reserve(
        &self,
        space: &str,
        key: &str,
        labels: &[Label],
        hold: Duration,
    ) -> Result<ReserveResult, Error> {
        let mut spaces = self.spaces.write();
        let now = self.clock.now();
        Ok(open(&mut spaces, space).reserve(space, key, labels, hold, now))
    }

    fn renew(&self, lease: &Lease, hold: Duration) -> Result<bool, Error> {
        let mut spaces = self.spaces.write();
        let now = self.clock.now();
        let space = spaces.get_mut(&lease.space);
        Ok(space.is_some_and(|space| space.renew(lease, hold, now)))
    }

    fn release(&self, lease: Lease) -> Result<(), Error> {
        if let Some(space) = self.spaces.write().get_mut(&lease.space) {
            space.release(&lease);
        }
        Ok(())
    }

    fn find(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: PageRequest<'_>,
    ) -> Result<RecordPage, Error> {
        request::check_page(filter, &page)?;
        let spaces = self.spaces.read();
        let found = spaces.get(space).map(|space| space.find(filter, &page));
        Ok(found.unwrap_or_default())
    }

    fn erase(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: PageRequest<'_>,
    ) -> Result<RecordPage, Error> {
        request::check_page(filter, &page)?;
        let page = request::erase_step(filter, page);
        let mut spaces = self.spaces.write();
        let now = self.clock.now();
        if request::reaches_reservations(filter) {
            self.changed(space, counter::ERASED);
        }
        let erased = open(&mut spaces, space).erase(filter, &page, now);
        for record in &erased.records {
            self.changed(space, &record.key);
        }
        Ok(erased)
    }

    fn add(&self, space: &str, additions: &[(&str, u64)]) -> Result<Vec<u64>, Error> {
        self.about
            .check_names(additions.iter().map(|(name, _)| *name))?;
        let mut spaces = self.spaces.write();
        let place = open(&mut spaces, space);
        let raised = additions.iter().map(|&(name, by)| {
            self.changed(space, name);
            place.count(name, |value| value.saturating_add(by))
        });
        Ok(raised.collect())
    }

    fn raise_to(&self, space: &str, counter: &str, value: u64) -> Result<u64, Error> {
        self.about.check_names([counter])?;
        let mut spaces = self.spaces.write();
        self.changed(space, counter);
        Ok(open(&mut spaces, space).count(counter, |before| before.max(value)))
    }

    fn counters(
        &self,
        space: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, u64)>, Error> {
        let spaces = self.spaces.read();
        let space = spaces.get(space);
        let counters = space.map(|space| space.counters(prefix, after, limit));
        Ok(counters.unwrap_or_default())
    }

    fn touch(&self, space: &str, used: &[(&str, Millis)]) -> Result<(), Error> {
        if let Some(space) = self.spaces.write().get_mut(space) {
            for &(key, at) in used {
                space.touch(key, at);
            }
        }
        Ok(())
    }

    fn amend(&self, space: &str, record: Record) -> Result<Option<u64>, Error> {
        self.about.check_amend(space, &record)?;
        let mut spaces = self.spaces.write();
        let Some(place) = spaces.get_mut(space) else {
            return Ok(None);
        };
        self.changed(space, &record.key);
        Ok(place.amend(&record))
    }

    fn usage(&self, space: &str) -> Result<SpaceUsage, Error> {
        let spaces = self.spaces.read();
        Ok(spaces.get(space).map(Space::usage).unwrap_or_default())
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
