//! A memory in one file of JSON lines.
//!
//! Every change is one line at the end of the file; opening the file replays them. What the lines say
//! is kept in the process, so reading never touches the file. One process at a time may have it open.
//! The file only grows: a memory for more than an example would rewrite it now and then.

mod lines;
mod space;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cachalot_core::{Clock, Millis};
use cachalot_store::{
    Error, ErrorKind, GetOrReserve, GetOrReserveResult, GetResult, Label, Lease, Order,
    PageRequest, PutResult, Record, RecordFilter, RecordPage, ReserveResult, SpaceUsage, Store,
    StoreInfo, StoreReply, counter, space as names,
};

use lines::{Line, Lines};
use space::Space;

/// The largest record, in bytes: a line has to fit into the process several times while it is written.
const LARGEST: u64 = 64 << 20;

/// The longest name, in bytes.
const LONGEST: u64 = 64 << 10;

/// The largest value of a counter.
const MOST: u64 = i64::MAX as u64;

/// A store in a file of JSON lines.
pub struct JournalMemory {
    about: StoreInfo,
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
    /// Moves with every change, while the lock is held: one stamp for everything.
    stamp: AtomicU64,
}

struct Kept {
    lines: Lines,
    spaces: HashMap<String, Space>,
}

impl JournalMemory {
    /// Opens the file, or creates it. What a crash left of a last line is cut off.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if another process has it open, [`ErrorKind::Corrupt`] if a line makes no
    /// sense, [`ErrorKind::Unavailable`] for what the file system says.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let mut spaces = HashMap::new();
        let lines = Lines::open(path, |line| replay(&mut spaces, line))?;
        let about = StoreInfo {
            name: "journal",
            location: path.display().to_string(),
            shared: false,
            reservations: true,
            largest_value: LARGEST,
            longest_name: LONGEST,
            snapshot: true,
        };
        Ok(Self {
            about,
            clock,
            kept: Mutex::new(Kept { lines, spaces }),
            stamp: AtomicU64::new(0),
        })
    }

    /// Every change is made in steps that cannot panic half-way, so a poisoned lock guards sound data.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes new values of counters, in one line.
    fn count(
        &self,
        kept: &mut Kept,
        space: &str,
        counters: Vec<(String, u64)>,
    ) -> Result<(), Error> {
        let line = Line::Count {
            space: space.to_owned(),
            counters: counters.clone(),
        };
        kept.lines.append(&line)?;
        self.changed();
        kept.space(space).count(counters);
        Ok(())
    }

    fn changed(&self) {
        self.stamp.fetch_add(1, Ordering::SeqCst);
    }
}

impl Kept {
    fn space(&mut self, name: &str) -> &mut Space {
        self.spaces.entry(name.to_owned()).or_default()
    }

    /// The space, if anything was ever stored there.
    fn known(&mut self, name: &str) -> Option<&mut Space> {
        self.spaces.get_mut(name)
    }
}

/// Does again what a line says.
fn replay(spaces: &mut HashMap<String, Space>, line: Line) {
    let (Line::Put { space, .. }
    | Line::Amend { space, .. }
    | Line::Erase { space, .. }
    | Line::Count { space, .. }) = &line;
    let space = spaces.entry(space.clone()).or_default();
    match line {
        Line::Put { record, .. } => space.put(record.into()),
        Line::Amend { record, .. } => space.amend(record.into()),
        Line::Erase { keys, .. } => space.remove(&keys),
        Line::Count { counters, .. } => space.count(counters),
    }
}

/// A cursor works in key order only.
fn check(filter: &RecordFilter<'_>, page: &PageRequest<'_>) -> Result<(), Error> {
    match page.after {
        Some(_) if filter.order != Order::Key => Err(Error::new(
            ErrorKind::Unsupported,
            "a page continues after a key in key order only",
        )),
        _ => Ok(()),
    }
}

/// A name must be short enough.
fn check_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<(), Error> {
    match names.into_iter().find(|name| name.len() as u64 > LONGEST) {
        None => Ok(()),
        Some(name) => Err(Error::new(
            ErrorKind::TooLarge,
            format!("a name of {} bytes, and {LONGEST} are the most", name.len()),
        )),
    }
}

/// A lease is for its own key, and a record and its names must fit.
fn check_put(space: &str, record: &Record, under: Option<&Lease>) -> Result<(), Error> {
    check_names([space, record.key.as_str()])?;
    check_names(
        record
            .labels
            .iter()
            .flat_map(|label| [&*label.name, &*label.value]),
    )?;
    if under.is_some_and(|lease| lease.space != space || lease.key != record.key) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "the lease is for another key",
        ));
    }
    let size = space::weight(record);
    if size > LARGEST {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("{size} bytes, and {LARGEST} are the most"),
        ));
    }
    Ok(())
}

impl Store for JournalMemory {
    fn about(&self) -> &StoreInfo {
        &self.about
    }

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> StoreReply<'a, GetResult> {
        StoreReply::Now(Ok(self.kept().space(space).found(
            key,
            counters,
            self.clock.now(),
        )))
    }

    fn get_or_reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        request: GetOrReserve<'a>,
    ) -> StoreReply<'a, GetOrReserveResult> {
        let now = self.clock.now();
        let mut kept = self.kept();
        let place = kept.space(space);
        let found = place.found(key, request.counters, now);
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
        if let Err(error) = check_put(space, &record, lease) {
            return StoreReply::Now(Err(error));
        }
        let mut kept = self.kept();
        let now = self.clock.now();
        let place = kept.space(space);
        if lease.is_some_and(|lease| !place.holds(lease)) {
            return StoreReply::Now(Ok(PutResult::LeaseLost));
        }
        let moved = |(counter, value): &(&str, u64)| place.counter(counter) != *value;
        if let Some(counter) = counters.iter().position(moved) {
            return StoreReply::Now(Ok(PutResult::CounterChanged { counter }));
        }
        record.labels.sort();
        record.labels.dedup();
        record.revision = kept
            .space(space)
            .record(&record.key)
            .map_or(0, |old| old.revision)
            + 1;
        record.updated = now;
        let revision = record.revision;
        // The line first: what is not in the file is not stored.
        let line = Line::Put {
            space: space.to_owned(),
            record: (&record).into(),
        };
        StoreReply::Now(kept.lines.append(&line).map(|()| {
            self.changed();
            let space = kept.space(space);
            space.put(record);
            if let Some(lease) = lease {
                space.release(lease);
            }
            PutResult::Stored { revision }
        }))
    }

    fn reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        labels: &'a [Label],
        hold: Duration,
    ) -> StoreReply<'a, ReserveResult> {
        // Reservations die with the process, and with it everybody who could present a lease.
        let now = self.clock.now();
        let mut kept = self.kept();
        StoreReply::Now(Ok(kept.space(space).reserve(space, key, labels, hold, now)))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, hold: Duration) -> StoreReply<'a, bool> {
        let now = self.clock.now();
        let mut kept = self.kept();
        StoreReply::Now(Ok(kept
            .known(&lease.space)
            .is_some_and(|space| space.renew(lease, hold, now))))
    }

    fn release(&self, lease: Lease) -> StoreReply<'_, ()> {
        if let Some(space) = self.kept().known(&lease.space) {
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
        let mut kept = self.kept();
        let found = check(filter, &page).map(|()| {
            kept.known(space)
                .map(|space| space.find(filter, &page))
                .unwrap_or_default()
        });
        StoreReply::Now(found)
    }

    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        if let Err(error) = check(filter, &page) {
            return StoreReply::Now(Err(error));
        }
        let mut kept = self.kept();
        let place = kept.space(space);
        let found = place.find(filter, &page);
        let revokes = space::reaches_reservations(filter);
        let raised = place.erased(self.clock.now());
        let keys: Vec<String> = found
            .records
            .iter()
            .map(|record| record.key.clone())
            .collect();
        if !keys.is_empty() {
            let line = Line::Erase {
                space: space.to_owned(),
                keys: keys.clone(),
            };
            if let Err(error) = kept.lines.append(&line) {
                return StoreReply::Now(Err(error));
            }
            self.changed();
            kept.space(space).remove(&keys);
        }
        if revokes {
            if let Err(error) = self.count(&mut kept, space, vec![(counter::ERASED.into(), raised)])
            {
                return StoreReply::Now(Err(error));
            }
            kept.space(space).revoke(filter);
        }
        StoreReply::Now(Ok(found))
    }

    fn add<'a>(
        &'a self,
        space: &'a str,
        additions: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, Vec<u64>> {
        if let Err(error) = check_names(additions.iter().map(|(name, _)| *name)) {
            return StoreReply::Now(Err(error));
        }
        let mut kept = self.kept();
        let mut raised: Vec<(String, u64)> = Vec::new();
        for (name, by) in additions {
            // A counter may be given more than once.
            let earlier = raised.iter().rev().find(|(earlier, _)| earlier == name);
            let before = match earlier {
                Some((_, value)) => *value,
                None => kept.space(space).counter(name),
            };
            raised.push(((*name).to_owned(), before.saturating_add(*by).min(MOST)));
        }
        let values = raised.iter().map(|(_, value)| *value).collect();
        StoreReply::Now(self.count(&mut kept, space, raised).map(|()| values))
    }

    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> StoreReply<'a, u64> {
        if let Err(error) = check_names([counter]) {
            return StoreReply::Now(Err(error));
        }
        let mut kept = self.kept();
        let value = kept.space(space).counter(counter).max(value.min(MOST));
        let raised = vec![(counter.to_owned(), value)];
        StoreReply::Now(self.count(&mut kept, space, raised).map(|()| value))
    }

    fn counters<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> StoreReply<'a, Vec<(String, u64)>> {
        let mut kept = self.kept();
        StoreReply::Now(Ok(kept.space(space).counters(prefix, after, limit)))
    }

    fn touch<'a>(&'a self, space: &'a str, used: &'a [(&'a str, Millis)]) -> StoreReply<'a, ()> {
        // Best effort: uses are not worth a line, and start anew when the file is opened.
        if let Some(space) = self.kept().known(space) {
            used.iter().for_each(|(key, at)| space.touch(key, *at));
        }
        StoreReply::Now(Ok(()))
    }

    fn amend<'a>(&'a self, space: &'a str, record: Record) -> StoreReply<'a, Option<u64>> {
        let checked = match space {
            names::USER => Err(Error::new(
                ErrorKind::Unsupported,
                format!("`{}`: records of users are not amended", record.key),
            )),
            _ => check_put(space, &record, None),
        };
        if let Err(error) = checked {
            return StoreReply::Now(Err(error));
        }
        let mut kept = self.kept();
        let as_read =
            |there: &Record| (there.revision, there.updated) == (record.revision, record.updated);
        let Some(there) = kept.space(space).record(&record.key).filter(as_read) else {
            return StoreReply::Now(Ok(None));
        };
        let amended = Record {
            value: record.value,
            revision: there.revision + 1,
            ..there
        };
        let line = Line::Amend {
            space: space.to_owned(),
            record: (&amended).into(),
        };
        StoreReply::Now(kept.lines.append(&line).map(|()| {
            self.changed();
            let revision = amended.revision;
            kept.space(space).amend(amended);
            Some(revision)
        }))
    }

    fn usage<'a>(&'a self, space: &'a str) -> StoreReply<'a, SpaceUsage> {
        StoreReply::Now(Ok(self
            .kept()
            .known(space)
            .map(|space| space.usage())
            .unwrap_or_default()))
    }

    fn stamp(&self, _space: &str, _name: &str) -> Option<u64> {
        // Nobody but this process can change the records.
        Some(self.stamp.load(Ordering::SeqCst))
    }
}
