//! A store in one flat JSON file of questions and their answers, `{ "<question>": "<answer>" }`.
//!
//! This is the format of docker-agent's response cache, and both programs can read and write one file at the
//! same time. It can contain nothing else: keys and values are text, and there are no labels, expiries,
//! counters and reservations. The entries of the cache engine do not fit into it; callers that want such a
//! file use [`Store::get`] and [`Store::put`] directly. It has one space, [`SPACE`]; every other one is
//! empty.
//!
//! A put takes the exclusive lock on `<path>.lock` (a file that is never deleted), reads the current file,
//! adds its entry, and replaces the file by a new one: no process loses the entries of another, and no reader
//! ever reads a partial file. Each put writes the whole file. A lookup takes no lock, and reads the file
//! again only if it is another one than before, or so young (two seconds) that its times would not reveal a
//! change.
//!
//! Three guarantees are weaker than those of [`Store`]:
//!
//! - A revision counts the replacements that this handle has seen.
//! - [`Record::updated`] of a record from the file is the time when the file was last written.
//! - An answer that could not be written stays in this handle, until a later put writes it or another process
//!   answers the question.

mod disk;
mod failure;
mod identity;
mod lock;
mod state;
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_core::{Clock, Millis};
use parking_lot::{Mutex, MutexGuard};

use crate::{
    Error, ErrorKind, GetOrReserve, GetOrReserveResult, GetResult, Label, Lease, Order,
    PageRequest, PutResult, Record, RecordFilter, RecordPage, ReserveResult, SpaceUsage, Store,
    StoreInfo, StoreReply, ValuePart, request,
};

use self::failure::Context;
use self::state::State;
use self::text::Entries;

/// The only space of such a file.
pub const SPACE: &str = crate::space::CACHE;

/// Maximum size of a question and its answer together, in bytes: every put writes all of them.
pub const MAX_ENTRY_BYTES: u64 = 4 << 20;

/// Options for a flat JSON file.
#[derive(Debug, Clone)]
pub struct FlatJsonOptions {
    /// The clock for the times of writes.
    pub clock: Arc<dyn Clock>,
    /// Maximum time that a put waits for other processes before it fails with [`ErrorKind::Busy`].
    pub lock_timeout: Duration,
}

impl FlatJsonOptions {
    /// The defaults: a wait of five seconds.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            lock_timeout: Duration::from_secs(5),
        }
    }
}

/// A store in a flat JSON file. See the [module](self).
#[derive(Debug)]
pub struct FlatJsonStore {
    about: StoreInfo,
    file: Arc<SharedFile>,
}

/// The state shared with puts on other threads.
#[derive(Debug)]
struct SharedFile {
    path: PathBuf,
    options: FlatJsonOptions,
    context: Context,
    /// Never held while waiting for the lock of the file.
    state: Mutex<State>,
}

impl FlatJsonStore {
    /// Opens the file. A missing or empty file has no entries; the first put creates it, readable by its
    /// owner only.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if it is not one flat JSON object of strings; errors of the file system.
    pub fn open(path: &Path, options: FlatJsonOptions) -> Result<Self, Error> {
        let path =
            std::path::absolute(path).map_err(|error| Context::new(path).io("find", error))?;
        let context = Context::new(&path);
        let file = SharedFile {
            state: Mutex::default(),
            path,
            options,
            context,
        };
        file.state().refresh(&file.path, &file.context)?;
        Ok(Self {
            about: StoreInfo {
                name: "flat-json",
                location: file.context.location().to_owned(),
                shared: true,
                reservations: false,
                largest_value: MAX_ENTRY_BYTES,
                longest_name: MAX_ENTRY_BYTES,
                snapshot: true,
            },
            file: Arc::new(file),
        })
    }

    /// Runs work that may wait for other processes on a thread that may block. Once started, it runs to its
    /// end even if the caller stops waiting.
    fn run_blocking<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&SharedFile) -> Result<T, Error> + Send + 'static,
    ) -> StoreReply<'a, T> {
        let file = Arc::clone(&self.file);
        StoreReply::later(async move {
            let location = file.context.location().to_owned();
            tokio::task::spawn_blocking(move || work(&file))
                .await
                .unwrap_or_else(|ended| {
                    let message = format!("the store in {location} was broken off");
                    Err(Error::new(ErrorKind::Unavailable, message).with_source(ended))
                })
        })
    }

    /// Calls `ask` with the current entries; returns the default for any other space.
    fn read<T: Default>(&self, space: &str, ask: impl FnOnce(&State) -> T) -> Result<T, Error> {
        if space != SPACE {
            return Ok(T::default());
        }
        let mut state = self.file.state();
        state.refresh(&self.file.path, &self.file.context)?;
        Ok(ask(&state))
    }

    /// Fails if the record cannot be stored in a flat JSON file.
    fn check(&self, space: &str, record: &Record) -> Result<(), Error> {
        let cannot = if space != SPACE {
            format!("another space than `{SPACE}`: this is `{space:.80}`")
        } else if !record.labels.is_empty() {
            "labels".to_owned()
        } else if record.expires.is_some() {
            "an expiry".to_owned()
        } else if std::str::from_utf8(&record.value).is_err() {
            "a value that is no UTF-8 text".to_owned()
        } else {
            return Ok(());
        };
        Err(self.file.context.unsupported(&cannot))
    }
}

impl SharedFile {
    /// Ignores poisoning: every change consists of steps that cannot panic half-way, so the data is
    /// consistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Changes the current entries, and writes them unless they are the same as before. Holds the lock of the
    /// file until this handle has read the new file and `note` has run.
    fn change<E, T>(
        &self,
        edit: impl FnOnce(&State, &mut Entries) -> E,
        note: impl FnOnce(&mut State, E) -> T,
    ) -> Result<T, Error> {
        let _lock = lock::take(&self.path, self.options.lock_timeout, &self.context)?;
        let (edited, unwritten) = {
            let mut state = self.state();
            state.reread(&self.path, &self.context)?;
            let mut entries = state.merged_entries();
            let edited = edit(&state, &mut entries);
            (
                edited,
                Some(entries).filter(|entries| !state.is_on_disk(entries)),
            )
        };
        if let Some(entries) = unwritten {
            disk::replace(&self.path, &entries, &self.context)?;
            self.state().reread(&self.path, &self.context)?;
        }
        Ok(note(&mut self.state(), edited))
    }

    fn put(&self, question: &str, answer: &str) -> Result<PutResult, Error> {
        let (key, text): (Arc<str>, Arc<str>) = (question.into(), answer.into());
        let now = self.options.clock.now();
        let stored = self.change(
            |state, entries| {
                entries.insert(Arc::clone(&key), Arc::clone(&text));
                state.revision(&key)
            },
            |state, before| PutResult::Stored {
                revision: state.stored(&key, before, now),
            },
        );
        stored.inspect_err(|_| self.state().keep_unwritten(&key, &text, now))
    }

    fn erase(&self, query: &FindQuery) -> Result<RecordPage, Error> {
        {
            let mut state = self.state();
            state.refresh(&self.path, &self.context)?;
            if state.select(query).records.is_empty() {
                return Ok(RecordPage::default());
            }
        }
        self.change(
            |state, entries| {
                let erased = state.select(query);
                for record in &erased.records {
                    entries.remove(record.key.as_str());
                }
                erased
            },
            |state, erased| {
                state.remove_erased(&erased.records);
                erased
            },
        )
    }
}

/// The parameters of a find or erase, owned.
#[derive(Debug)]
struct FindQuery {
    prefix: String,
    after: Option<String>,
    limit: usize,
    values: ValuePart,
}

impl FindQuery {
    /// Converts a filter; `None` if no entry of such a file can match.
    fn from_filter(
        filter: &RecordFilter<'_>,
        page: &PageRequest<'_>,
        context: &Context,
    ) -> Result<Option<Self>, Error> {
        request::check_page(filter, page)?;
        if filter.order != Order::Key {
            return Err(context.unsupported(&format!(
                "the order {:?}: it keeps the order of its keys only",
                filter.order
            )));
        }
        let possible = filter.labels.is_empty() && filter.expired_before.is_none();
        Ok(possible.then(|| Self {
            prefix: filter.prefix.to_owned(),
            after: page.after.map(str::to_owned),
            limit: page.limit as usize,
            values: page.values,
        }))
    }
}

impl Store for FlatJsonStore {
    fn about(&self) -> &StoreInfo {
        &self.about
    }

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> StoreReply<'a, GetResult> {
        StoreReply::Now(
            self.read(space, |state| state.record(key))
                .map(|record| GetResult {
                    record,
                    counters: vec![0; counters.len()],
                    now: self.file.options.clock.now(),
                }),
        )
    }

    /// Always [`ErrorKind::Unsupported`].
    fn get_or_reserve<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: GetOrReserve<'a>,
    ) -> StoreReply<'a, GetOrReserveResult> {
        StoreReply::Now(Err(self.file.context.unsupported("a reservation")))
    }

    /// Stores text under a key; [`ErrorKind::Unsupported`] for a record with labels, an expiry, or bytes that
    /// are not text. No lease can be current, so nothing is stored under one. If writing fails, this handle
    /// still returns the answer; no other handle does.
    fn put<'a>(
        &'a self,
        space: &'a str,
        record: Record,
        lease: Option<&'a Lease>,
        counters: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, PutResult> {
        let checked = request::check_put(&self.about, space, &record, lease, counters)
            .and_then(|()| self.check(space, &record));
        if let Err(error) = checked {
            return StoreReply::Now(Err(error));
        }
        if lease.is_some() {
            return StoreReply::Now(Ok(PutResult::LeaseLost));
        }
        // Every counter is 0.
        if let Some(counter) = counters.iter().position(|(_, value)| *value != 0) {
            return StoreReply::Now(Ok(PutResult::CounterChanged { counter }));
        }
        self.run_blocking(move |file| {
            // Checked above.
            let answer = String::from_utf8_lossy(&record.value);
            file.put(&record.key, &answer)
        })
    }

    /// Always [`ErrorKind::Unsupported`].
    fn reserve<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a [Label],
        _: Duration,
    ) -> StoreReply<'a, ReserveResult> {
        StoreReply::Now(Err(self.file.context.unsupported("a reservation")))
    }

    fn renew<'a>(&'a self, _: &'a Lease, _: Duration) -> StoreReply<'a, bool> {
        StoreReply::Now(Ok(false))
    }

    fn release(&self, _: Lease) -> StoreReply<'_, ()> {
        StoreReply::Now(Ok(()))
    }

    /// In key order only; other orders are [`ErrorKind::Unsupported`].
    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        StoreReply::Now(
            match FindQuery::from_filter(filter, &page, &self.file.context) {
                Ok(Some(query)) => self.read(space, |state| state.select(&query)),
                Ok(None) => Ok(RecordPage::default()),
                Err(error) => Err(error),
            },
        )
    }

    /// In key order only; other orders are [`ErrorKind::Unsupported`].
    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        match FindQuery::from_filter(filter, &page, &self.file.context) {
            Ok(Some(query)) if space == SPACE => self.run_blocking(move |file| file.erase(&query)),
            Ok(_) => StoreReply::Now(Ok(RecordPage::default())),
            Err(error) => StoreReply::Now(Err(error)),
        }
    }

    /// Always [`ErrorKind::Unsupported`]: there is no counter, so each is 0.
    fn add<'a>(&'a self, _: &'a str, _: &'a [(&'a str, u64)]) -> StoreReply<'a, Vec<u64>> {
        StoreReply::Now(Err(self.file.context.unsupported("a counter")))
    }

    /// Always [`ErrorKind::Unsupported`].
    fn raise_to<'a>(&'a self, _: &'a str, _: &'a str, _: u64) -> StoreReply<'a, u64> {
        StoreReply::Now(Err(self.file.context.unsupported("a counter")))
    }

    /// Always empty.
    fn counters<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: Option<&'a str>,
        _: u32,
    ) -> StoreReply<'a, Vec<(String, u64)>> {
        StoreReply::Now(Ok(Vec::new()))
    }

    /// Does nothing.
    fn touch<'a>(&'a self, _: &'a str, _: &'a [(&'a str, Millis)]) -> StoreReply<'a, ()> {
        StoreReply::Now(Ok(()))
    }

    fn usage<'a>(&'a self, space: &'a str) -> StoreReply<'a, SpaceUsage> {
        StoreReply::Now(self.read(space, State::usage))
    }

    fn stamp(&self, _: &str, _: &str) -> Option<u64> {
        None
    }
}

/// Converts an entry to a record.
fn as_record(key: &str, answer: &str, revision: u64, updated: Millis) -> Record {
    Record {
        key: key.to_owned(),
        value: Bytes::copy_from_slice(answer.as_bytes()),
        labels: Vec::new(),
        expires: None,
        revision,
        updated,
    }
}
