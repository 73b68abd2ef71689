//! A memory in one flat JSON file: questions and their answers, `{ "<question>": "<answer>" }`.
//!
//! This is the file that docker-agent's response cache keeps, readable and writable by both at once, so
//! it can hold nothing else: keys and values are text, and there are no labels, expiries, counters and
//! reservations. The entries of the cache's engine do not fit into it; whoever wants such a file uses
//! [`Memory::get`] and [`Memory::put`] themselves. It is one space, [`SPACE`]; every other one is empty.
//!
//! A store takes the exclusive lock on `<path>.lock` (a file that is never deleted), reads what is there
//! now, adds to it, and puts a whole new file in the old one's place: no process loses what another one
//! stored, and nobody ever reads half a file. Each store writes the whole file. A lookup takes no lock
//! and reads the file again only if it is another one than before, or so young (two seconds) that its
//! times would not tell.
//!
//! Three things are weaker than [`Memory`] promises: a revision counts the replacements that this handle
//! has seen; [`Record::updated`] of what was found in the file is when the file was last written; and an
//! answer whose store failed is kept by this handle all the same, until a later store writes it or
//! somebody else answers the question.

mod disk;
mod failure;
mod identity;
mod lock;
mod state;
mod text;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cachalot_core::{Clock, Millis};

use crate::{
    About, Answer, Batch, Enter, Entered, Error, ErrorKind, Filter, Found, Label, Lease, Memory,
    Order, Page, Put, Record, Reserved, Usage, Values, request,
};

use self::failure::Context;
use self::state::State;
use self::text::Entries;

/// The one space of such a file.
pub const SPACE: &str = crate::space::CACHE;

/// The largest question and answer together, in bytes: every store writes all of them.
pub const LARGEST: u64 = 4 << 20;

/// How such a file is used.
#[derive(Debug, Clone)]
pub struct Options {
    /// Tells the time of stores.
    pub clock: Arc<dyn Clock>,
    /// How long a store waits for other processes before it fails with [`ErrorKind::Busy`].
    pub patience: Duration,
}

impl Options {
    /// Waits for five seconds.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            patience: Duration::from_secs(5),
        }
    }
}

/// A memory in a flat JSON file. See the [module](self).
#[derive(Debug)]
pub struct FlatJsonMemory {
    about: About,
    file: Arc<Shared>,
}

/// What stores on other threads work on.
#[derive(Debug)]
struct Shared {
    path: PathBuf,
    options: Options,
    context: Context,
    /// Never held while somebody waits for the lock of the file.
    state: Mutex<State>,
}

impl FlatJsonMemory {
    /// Opens the file. One that is not there, or has no bytes, has no entries; it is made, readable by
    /// its owner only, by the first store.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] for what is not one flat JSON object of texts; those of the file system.
    pub fn open(path: &Path, options: Options) -> Result<Self, Error> {
        let path =
            std::path::absolute(path).map_err(|error| Context::new(path).io("find", error))?;
        let context = Context::new(&path);
        let file = Shared {
            state: Mutex::default(),
            path,
            options,
            context,
        };
        file.state().refresh(&file.path, &file.context)?;
        Ok(Self {
            about: About {
                name: "flat-json",
                location: file.context.location().to_owned(),
                shared: true,
                reservations: false,
                largest_value: LARGEST,
                longest_name: LARGEST,
                snapshot: true,
            },
            file: Arc::new(file),
        })
    }

    /// Runs work that may wait for other processes where it holds nobody up. Once begun, it goes on to
    /// its end even if nobody waits for it any more.
    fn elsewhere<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'a, T> {
        let file = Arc::clone(&self.file);
        Answer::later(async move {
            let location = file.context.location().to_owned();
            tokio::task::spawn_blocking(move || work(&file))
                .await
                .unwrap_or_else(|ended| {
                    let message = format!("the store in {location} was broken off");
                    Err(Error::new(ErrorKind::Unavailable, message).because(ended))
                })
        })
    }

    /// What is asked of the entries as they are now; nothing of another space.
    fn look<T: Default>(&self, space: &str, ask: impl FnOnce(&State) -> T) -> Result<T, Error> {
        if space != SPACE {
            return Ok(T::default());
        }
        let mut state = self.file.state();
        state.refresh(&self.file.path, &self.file.context)?;
        Ok(ask(&state))
    }

    /// What a flat JSON file cannot hold.
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

impl Shared {
    /// Every change is made in steps that cannot panic half-way, so a poisoned lock guards sound data.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the entries as they are now, and writes them unless they are the same as before. Until
    /// this handle knows of the new file and `note` has run, nobody else can make another one.
    fn change<E, T>(
        &self,
        edit: impl FnOnce(&State, &mut Entries) -> E,
        note: impl FnOnce(&mut State, E) -> T,
    ) -> Result<T, Error> {
        let _lock = lock::take(&self.path, self.options.patience, &self.context)?;
        let (edited, unwritten) = {
            let mut state = self.state();
            state.reread(&self.path, &self.context)?;
            let mut entries = state.wanted();
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

    fn put(&self, question: &str, answer: &str) -> Result<Put, Error> {
        let (key, text): (Arc<str>, Arc<str>) = (question.into(), answer.into());
        let now = self.options.clock.now();
        let stored = self.change(
            |state, entries| {
                entries.insert(Arc::clone(&key), Arc::clone(&text));
                state.revision(&key)
            },
            |state, before| Put::Stored {
                revision: state.stored(&key, before, now),
            },
        );
        stored.inspect_err(|_| self.state().keep(&key, &text, now))
    }

    fn erase(&self, asked: &Asked) -> Result<Batch, Error> {
        {
            let mut state = self.state();
            state.refresh(&self.path, &self.context)?;
            if state.select(asked).records.is_empty() {
                return Ok(Batch::default());
            }
        }
        self.change(
            |state, entries| {
                let erased = state.select(asked);
                for record in &erased.records {
                    entries.remove(record.key.as_str());
                }
                erased
            },
            |state, erased| {
                state.forget(&erased.records);
                erased
            },
        )
    }
}

/// What is found or erased, apart from who asks.
#[derive(Debug)]
struct Asked {
    prefix: String,
    after: Option<String>,
    limit: usize,
    values: Values,
}

impl Asked {
    /// `None` if no entry of such a file can match.
    fn of(filter: &Filter<'_>, page: &Page<'_>, context: &Context) -> Result<Option<Self>, Error> {
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

impl Memory for FlatJsonMemory {
    fn about(&self) -> &About {
        &self.about
    }

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> Answer<'a, Found> {
        Answer::Now(
            self.look(space, |state| state.record(key))
                .map(|record| Found {
                    record,
                    counters: vec![0; counters.len()],
                    now: self.file.options.clock.now(),
                }),
        )
    }

    /// Always [`ErrorKind::Unsupported`].
    fn enter<'a>(&'a self, _: &'a str, _: &'a str, _: Enter<'a>) -> Answer<'a, Entered> {
        Answer::Now(Err(self.file.context.unsupported("a reservation")))
    }

    /// Stores text under a key; [`ErrorKind::Unsupported`] for anything that has labels, an expiry or
    /// bytes that are no text. No lease on it can be current, so nothing is stored under one. If the
    /// store fails, this handle still answers with it; no other does.
    fn put<'a>(
        &'a self,
        space: &'a str,
        record: Record,
        lease: Option<&'a Lease>,
        counters: &'a [(&'a str, u64)],
    ) -> Answer<'a, Put> {
        let checked = request::check_put(&self.about, space, &record, lease, counters)
            .and_then(|()| self.check(space, &record));
        if let Err(error) = checked {
            return Answer::Now(Err(error));
        }
        if lease.is_some() {
            return Answer::Now(Ok(Put::Overtaken));
        }
        // Every counter is 0.
        if let Some(counter) = counters.iter().position(|(_, value)| *value != 0) {
            return Answer::Now(Ok(Put::Outdated { counter }));
        }
        self.elsewhere(move |file| {
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
    ) -> Answer<'a, Reserved> {
        Answer::Now(Err(self.file.context.unsupported("a reservation")))
    }

    fn renew<'a>(&'a self, _: &'a Lease, _: Duration) -> Answer<'a, bool> {
        Answer::Now(Ok(false))
    }

    fn release(&self, _: Lease) -> Answer<'_, ()> {
        Answer::Now(Ok(()))
    }

    /// In key order only; other orders are [`ErrorKind::Unsupported`].
    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a Filter<'a>,
        page: Page<'a>,
    ) -> Answer<'a, Batch> {
        Answer::Now(match Asked::of(filter, &page, &self.file.context) {
            Ok(Some(asked)) => self.look(space, |state| state.select(&asked)),
            Ok(None) => Ok(Batch::default()),
            Err(error) => Err(error),
        })
    }

    /// In key order only; other orders are [`ErrorKind::Unsupported`].
    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a Filter<'a>,
        page: Page<'a>,
    ) -> Answer<'a, Batch> {
        match Asked::of(filter, &page, &self.file.context) {
            Ok(Some(asked)) if space == SPACE => self.elsewhere(move |file| file.erase(&asked)),
            Ok(_) => Answer::Now(Ok(Batch::default())),
            Err(error) => Answer::Now(Err(error)),
        }
    }

    /// Always [`ErrorKind::Unsupported`]: there is no counter, so each is 0.
    fn add<'a>(&'a self, _: &'a str, _: &'a [(&'a str, u64)]) -> Answer<'a, Vec<u64>> {
        Answer::Now(Err(self.file.context.unsupported("a counter")))
    }

    /// Always [`ErrorKind::Unsupported`].
    fn raise_to<'a>(&'a self, _: &'a str, _: &'a str, _: u64) -> Answer<'a, u64> {
        Answer::Now(Err(self.file.context.unsupported("a counter")))
    }

    /// There is none.
    fn counters<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: Option<&'a str>,
        _: u32,
    ) -> Answer<'a, Vec<(String, u64)>> {
        Answer::Now(Ok(Vec::new()))
    }

    /// Notes nothing.
    fn touch<'a>(&'a self, _: &'a str, _: &'a [(&'a str, Millis)]) -> Answer<'a, ()> {
        Answer::Now(Ok(()))
    }

    fn usage<'a>(&'a self, space: &'a str) -> Answer<'a, Usage> {
        Answer::Now(self.look(space, State::usage))
    }

    fn stamp(&self, _: &str, _: &str) -> Option<u64> {
        None
    }
}

/// An entry as a record.
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
