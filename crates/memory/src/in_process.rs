//! A store in the memory of this process.
//!
//! One lock around indexed maps: every call is a short piece of local work, so every answer is
//! [`Answer::Now`]. Stamps are read without the lock. They change while it is held, so no caller can read an
//! old record after a stamp has changed and before the record does.

mod space;
mod words;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use cachalot_core::{Clock, Millis};

use crate::slots::{SLOTS, slot};
use crate::{
    About, Answer, Batch, Enter, Entered, Error, Filter, Found, Label, Lease, Match, Memory, Page,
    Put, Recall, Recalled, Record, Reserved, Usage, counter, request, space as names,
};

use self::space::Space;

/// Maximum size of a record, in bytes: the same as in a SQLite file, so that tests on one hold for the other.
const LARGEST: u64 = crate::sqlite::LARGEST;

/// A store in this process. See the [module](self).
#[derive(Debug)]
pub struct InProcessMemory {
    about: About,
    clock: Arc<dyn Clock>,
    spaces: RwLock<HashMap<String, Space>>,
    stamps: Box<[AtomicU64]>,
}

impl InProcessMemory {
    /// Creates an empty store that uses `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            about: About {
                name: "in-process",
                location: "this process".into(),
                shared: false,
                reservations: true,
                largest_value: LARGEST,
                longest_name: LARGEST,
                snapshot: true,
            },
            clock,
            spaces: RwLock::default(),
            stamps: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Ignores poisoning: every change consists of steps that cannot panic half-way, so the data is
    /// consistent.
    fn read(&self) -> RwLockReadGuard<'_, HashMap<String, Space>> {
        self.spaces.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<String, Space>> {
        self.spaces.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, space: &str, name: &str) {
        self.stamps[slot(space, name)].fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns the space, creating it if needed.
fn open<'a>(spaces: &'a mut HashMap<String, Space>, name: &str) -> &'a mut Space {
    spaces.entry(name.to_owned()).or_default()
}

impl Memory for InProcessMemory {
    fn about(&self) -> &About {
        &self.about
    }

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> Answer<'a, Found> {
        let spaces = self.read();
        let now = self.clock.now();
        Answer::Now(Ok(match spaces.get(space) {
            Some(space) => space.found(key, counters, now),
            None => Found {
                record: None,
                counters: vec![0; counters.len()],
                now,
            },
        }))
    }

    fn enter<'a>(&'a self, space: &'a str, key: &'a str, enter: Enter<'a>) -> Answer<'a, Entered> {
        // Most lookups find their record, and need no exclusive lock.
        if let Some(place) = self.read().get(space) {
            let found = place.found(key, enter.counters, self.clock.now());
            if enter.stale.is_answered_by(&found) {
                return Answer::Now(Ok(Entered {
                    found,
                    reserved: None,
                }));
            }
        }
        let mut spaces = self.write();
        let now = self.clock.now();
        let place = open(&mut spaces, space);
        let found = place.found(key, enter.counters, now);
        let answered = enter.stale.is_answered_by(&found);
        let reserved =
            (!answered).then(|| place.reserve(space, key, enter.labels, enter.hold, now));
        Answer::Now(Ok(Entered { found, reserved }))
    }

    fn put<'a>(
        &'a self,
        space: &'a str,
        mut record: Record,
        lease: Option<&'a Lease>,
        counters: &'a [(&'a str, u64)],
    ) -> Answer<'a, Put> {
        if let Err(error) = request::check_put(&self.about, space, &record, lease, counters) {
            return Answer::Now(Err(error));
        }
        record.labels = request::distinct(record.labels);
        let mut spaces = self.write();
        let now = self.clock.now();
        let place = open(&mut spaces, space);
        if let Some(refused) = place.refusal(lease, counters) {
            return Answer::Now(Ok(refused));
        }
        if let Some(lease) = lease {
            place.release(lease);
        }
        self.changed(space, &record.key);
        let revision = place.put(record, now);
        Answer::Now(Ok(Put::Stored { revision }))
    }

    fn reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        labels: &'a [Label],
        hold: Duration,
    ) -> Answer<'a, Reserved> {
        let mut spaces = self.write();
        let now = self.clock.now();
        Answer::Now(Ok(
            open(&mut spaces, space).reserve(space, key, labels, hold, now)
        ))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, hold: Duration) -> Answer<'a, bool> {
        let mut spaces = self.write();
        let now = self.clock.now();
        Answer::Now(Ok(spaces
            .get_mut(&lease.space)
            .is_some_and(|space| space.renew(lease, hold, now))))
    }

    fn release(&self, lease: Lease) -> Answer<'_, ()> {
        if let Some(space) = self.write().get_mut(&lease.space) {
            space.release(&lease);
        }
        Answer::Now(Ok(()))
    }

    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a Filter<'a>,
        page: Page<'a>,
    ) -> Answer<'a, Batch> {
        Answer::Now(request::check_page(filter, &page).map(|()| {
            let spaces = self.read();
            spaces
                .get(space)
                .map(|space| space.find(filter, &page))
                .unwrap_or_default()
        }))
    }

    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a Filter<'a>,
        page: Page<'a>,
    ) -> Answer<'a, Batch> {
        if let Err(error) = request::check_page(filter, &page) {
            return Answer::Now(Err(error));
        }
        let mut spaces = self.write();
        let now = self.clock.now();
        if request::reaches_reservations(filter) {
            self.changed(space, counter::ERASED);
        }
        let erased = open(&mut spaces, space).erase(filter, &page, now);
        for record in &erased.records {
            self.changed(space, &record.key);
        }
        Answer::Now(Ok(erased))
    }

    fn add<'a>(&'a self, space: &'a str, additions: &'a [(&'a str, u64)]) -> Answer<'a, Vec<u64>> {
        let names = additions.iter().map(|(name, _)| *name);
        if let Err(error) = request::check_names(&self.about, names) {
            return Answer::Now(Err(error));
        }
        let mut spaces = self.write();
        let place = open(&mut spaces, space);
        let raised = additions.iter().map(|&(name, by)| {
            self.changed(space, name);
            place.count(name, |value| value.saturating_add(by))
        });
        Answer::Now(Ok(raised.collect()))
    }

    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> Answer<'a, u64> {
        if let Err(error) = request::check_names(&self.about, [counter]) {
            return Answer::Now(Err(error));
        }
        let mut spaces = self.write();
        self.changed(space, counter);
        Answer::Now(Ok(
            open(&mut spaces, space).count(counter, |before| before.max(value))
        ))
    }

    fn counters<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> Answer<'a, Vec<(String, u64)>> {
        Answer::Now(Ok(self
            .read()
            .get(space)
            .map(|space| space.counters(prefix, after, limit))
            .unwrap_or_default()))
    }

    fn touch<'a>(&'a self, space: &'a str, used: &'a [(&'a str, Millis)]) -> Answer<'a, ()> {
        if let Some(space) = self.write().get_mut(space) {
            for &(key, at) in used {
                space.touch(key, at);
            }
        }
        Answer::Now(Ok(()))
    }

    fn amend<'a>(&'a self, space: &'a str, record: Record) -> Answer<'a, Option<u64>> {
        if let Err(error) = request::check_amend(space, &record, self.about.largest_value) {
            return Answer::Now(Err(error));
        }
        let mut spaces = self.write();
        let Some(place) = spaces.get_mut(space) else {
            return Answer::Now(Ok(None));
        };
        self.changed(space, &record.key);
        Answer::Now(Ok(place.amend(&record)))
    }

    fn usage<'a>(&'a self, space: &'a str) -> Answer<'a, Usage> {
        Answer::Now(Ok(self
            .read()
            .get(space)
            .map(Space::usage)
            .unwrap_or_default()))
    }

    fn stamp(&self, space: &str, name: &str) -> Option<u64> {
        Some(self.stamps[slot(space, name)].load(Ordering::SeqCst))
    }

    fn recall(&self) -> Option<&dyn Recall> {
        Some(self)
    }
}

impl Recall for InProcessMemory {
    fn search<'a>(
        &'a self,
        query: &'a str,
        labels: &'a [Match<'a>],
        limit: u32,
    ) -> Answer<'a, Vec<Recalled>> {
        let spaces = self.read();
        let found: Result<Vec<Recalled>, Error> = Ok(spaces
            .get(names::USER)
            .map(|space| words::search(space, query, labels, limit))
            .unwrap_or_default());
        Answer::Now(found)
    }
}
