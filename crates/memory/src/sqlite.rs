//! The default store: a SQLite file that any number of processes share.
//!
//! **Reads** run inline on the caller's thread, on a pooled connection with prepared statements: a small
//! value takes a few microseconds, a hop to another thread ten times as long. In WAL mode readers do not wait
//! for writers. In the rare cases when a reader would have to wait (recovery after a crash, another process
//! that converts the file), and for values above 256 KiB, the answer is [`Answer::Later`].
//!
//! **Writes** are queued. A caller that finds the writer idle executes the whole queue in one transaction. A
//! caller that finds it busy waits for its answer, which comes after the commit. Work that would block the
//! caller (a lock of another process, a large erase, a checkpoint) goes to the writer's own thread.
//!
//! **Stamps** are counters in a small file beside the database, `<database>-stamp`, which all processes map.
//! Delete it only together with the database, and only while no process uses them.
//!
//! Files that this store creates are readable by their owner only.

#[cfg(test)]
mod cost;
mod failure;
mod files;
mod labels;
mod read;
mod readers;
mod recall;
mod reserve;
mod schema;
mod select;
mod stamps;
mod write;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{Clock, Millis};

use crate::{
    About, Answer, Batch, Enter, Entered, Error, Filter, Found, Label, Lease, Match, Memory, Order,
    Page, Put, Recall, Recalled, Record, Reserved, Usage, request,
};

use self::failure::Context;
use self::read::Got;
use self::readers::Readers;
use self::stamps::Stamps;
use self::writer::{Effort, Writer};

pub use self::failure::is_full;
pub use self::files::{files_of, set_aside};

/// Maximum size of a record (key, value and labels), in bytes: half of SQLite's limit for a row.
pub(crate) const LARGEST: u64 = 512 << 20;

/// Size in bytes above which values are read off the caller's thread.
const INLINE_VALUE: i64 = 256 << 10;

/// Maximum number of records in a page that is read or erased on the caller's thread.
const INLINE_PAGE: u32 = 64;

/// Options for opening a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// The clock for reservations and for the times of writes. All processes that share a file should share a
    /// clock, as they do with [`cachalot_core::SystemClock`].
    pub clock: Arc<dyn Clock>,
    /// Maximum time to wait for a lock that another process holds, before a call fails with
    /// [`crate::ErrorKind::Busy`].
    pub busy_timeout: Duration,
}

impl Options {
    /// The defaults: a busy timeout of two seconds.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            busy_timeout: Duration::from_secs(2),
        }
    }
}

/// A store in a SQLite file. See the [module](self).
#[derive(Debug)]
pub struct SqliteMemory {
    about: About,
    clock: Arc<dyn Clock>,
    readers: Arc<Readers>,
    writer: Writer,
    stamps: Arc<Stamps>,
}

impl SqliteMemory {
    /// Opens the file, or creates it with its directories.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) if the file is not a database, is damaged, or lacks tables (see
    /// [`set_aside`]); [`TooNew`](crate::ErrorKind::TooNew) if a newer version of Cachalot wrote it;
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if it is the database of another program;
    /// [`Denied`](crate::ErrorKind::Denied), [`Full`](crate::ErrorKind::Full),
    /// [`Busy`](crate::ErrorKind::Busy) and [`Unavailable`](crate::ErrorKind::Unavailable) as those kinds
    /// specify.
    pub fn open(path: &Path, options: Options) -> Result<Self, Error> {
        let context = Context::new(path);
        let path = files::prepare(path)?;
        let connection = schema::open(&path, &context, options.busy_timeout)?;
        let stamps = Arc::new(Stamps::open(files::beside(&path, "-stamp")));
        if stamps.are_new() && schema::pass_write_lock(&connection, options.busy_timeout).is_ok() {
            stamps.begin();
        }
        let readers = Arc::new(Readers::new(
            path.clone(),
            context.clone(),
            options.busy_timeout,
            connection,
        ));
        let clock = Arc::clone(&options.clock);
        let writer = Writer::new(path, context.clone(), options, Arc::clone(&stamps));
        let about = About {
            name: "sqlite",
            location: context.location().to_owned(),
            shared: true,
            reservations: true,
            largest_value: LARGEST,
            longest_name: LARGEST,
            snapshot: true,
        };
        Ok(Self {
            about,
            clock,
            readers,
            writer,
            stamps,
        })
    }

    /// The path of the database.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.readers.path().to_owned()
    }
}

impl Memory for SqliteMemory {
    fn about(&self) -> &About {
        &self.about
    }

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> Answer<'a, Found> {
        let now = self.clock.now();
        match self
            .readers
            .now(|connection| read::get(connection, space, key, counters, now, INLINE_VALUE))
        {
            Ok(Some(Got::Found(found))) => return Answer::Now(Ok(found)),
            Ok(Some(Got::TooLargeForNow) | None) => {}
            Err(error) => return Answer::Now(Err(error)),
        }
        let (space, key) = (space.to_owned(), key.to_owned());
        let counters: Vec<String> = counters.iter().map(|&name| name.to_owned()).collect();
        self.readers.later(move |connection| {
            let counters: Vec<&str> = counters.iter().map(String::as_str).collect();
            match read::get(connection, &space, &key, &counters, now, i64::MAX)? {
                Got::Found(found) => Ok(found),
                Got::TooLargeForNow => Err(rusqlite::Error::QueryReturnedNoRows),
            }
        })
    }

    fn enter<'a>(&'a self, space: &'a str, key: &'a str, enter: Enter<'a>) -> Answer<'a, Entered> {
        let now = self.clock.now();
        let got = self
            .readers
            .now(|connection| read::get(connection, space, key, enter.counters, now, INLINE_VALUE));
        let small = match got {
            Ok(Some(Got::Found(found))) if enter.stale.is_answered_by(&found) => {
                return Answer::Now(Ok(Entered {
                    found,
                    reserved: None,
                }));
            }
            Ok(Some(Got::Found(_))) => true,
            Ok(Some(Got::TooLargeForNow) | None) => false,
            Err(error) => return Answer::Now(Err(error)),
        };
        if let Err(error) = request::check_names(&self.about, request::names_of(enter.labels)) {
            return Answer::Now(Err(error));
        }
        Answer::later(async move {
            if !small {
                let found = self.get(space, key, enter.counters).settle().await?;
                if enter.stale.is_answered_by(&found) {
                    return Ok(Entered {
                        found,
                        reserved: None,
                    });
                }
            }
            let effort = if small { Effort::SMALL } else { Effort::LARGE };
            let counters: Vec<String> =
                enter.counters.iter().map(|&name| name.to_owned()).collect();
            let (space, key, labels) = (space.to_owned(), key.to_owned(), enter.labels.to_vec());
            let (hold, stale) = (enter.hold, enter.stale);
            // Another writer may have stored or reserved since the read.
            let entering = self.writer.submit(effort, move |changes| {
                let counters: Vec<&str> = counters.iter().map(String::as_str).collect();
                let enter = Enter {
                    counters: &counters,
                    labels: &labels,
                    hold,
                    stale,
                };
                changes.enter(&space, &key, &enter)
            });
            entering.await
        })
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
        let effort = Effort::of_bytes(record.value.len());
        let (space, lease) = (space.to_owned(), lease.cloned());
        let counters: Vec<(String, u64)> = counters
            .iter()
            .map(|&(name, value)| (name.to_owned(), value))
            .collect();
        Answer::later(self.writer.submit(effort, move |changes| {
            changes.put(&space, &record, lease.as_ref(), &counters)
        }))
    }

    fn reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        labels: &'a [Label],
        hold: Duration,
    ) -> Answer<'a, Reserved> {
        let (space, key, labels) = (space.to_owned(), key.to_owned(), labels.to_vec());
        Answer::later(self.writer.submit(Effort::SMALL, move |changes| {
            changes.reserve(&space, &key, &labels, hold)
        }))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, hold: Duration) -> Answer<'a, bool> {
        let lease = lease.clone();
        Answer::later(
            self.writer
                .submit(Effort::SMALL, move |changes| changes.renew(&lease, hold)),
        )
    }

    fn release(&self, lease: Lease) -> Answer<'_, ()> {
        Answer::later(
            self.writer
                .submit(Effort::SMALL, move |changes| changes.release(&lease)),
        )
    }

    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a Filter<'a>,
        page: Page<'a>,
    ) -> Answer<'a, Batch> {
        if let Err(error) = request::check_page(filter, &page) {
            return Answer::Now(Err(error));
        }
        if page.limit <= INLINE_PAGE && select::stops_early(filter) {
            match self
                .readers
                .now(|connection| read::find(connection, space, filter, &page))
            {
                Ok(Some(batch)) => return Answer::Now(Ok(batch)),
                Ok(None) => {}
                Err(error) => return Answer::Now(Err(error)),
            }
        }
        let question = select::Question::new(space, filter, &page);
        self.readers.later(move |connection| {
            question.ask(|space, filter, page| read::find(connection, space, filter, page))
        })
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
        let small = page.limit <= INLINE_PAGE && select::stops_early(filter);
        let effort = if small { Effort::SMALL } else { Effort::LARGE };
        let question = select::Question::new(space, filter, &page);
        Answer::later(self.writer.submit(effort, move |changes| {
            question.ask(|space, filter, page| changes.erase(space, filter, page))
        }))
    }

    fn add<'a>(&'a self, space: &'a str, additions: &'a [(&'a str, u64)]) -> Answer<'a, Vec<u64>> {
        let names = additions.iter().map(|(name, _)| *name);
        if let Err(error) = request::check_names(&self.about, names) {
            return Answer::Now(Err(error));
        }
        let space = space.to_owned();
        let additions: Vec<(String, u64)> = additions
            .iter()
            .map(|&(name, by)| (name.to_owned(), by))
            .collect();
        Answer::later(self.writer.submit(Effort::SMALL, move |changes| {
            additions
                .iter()
                .map(|(name, by)| changes.count(&space, name, |value| value.saturating_add(*by)))
                .collect()
        }))
    }

    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> Answer<'a, u64> {
        if let Err(error) = request::check_names(&self.about, [counter]) {
            return Answer::Now(Err(error));
        }
        let (space, counter) = (space.to_owned(), counter.to_owned());
        Answer::later(self.writer.submit(Effort::SMALL, move |changes| {
            changes.count(&space, &counter, |before| before.max(value))
        }))
    }

    fn counters<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> Answer<'a, Vec<(String, u64)>> {
        if limit <= INLINE_PAGE {
            let read = |connection: &_| read::counters(connection, space, prefix, after, limit);
            match self.readers.now(read) {
                Ok(Some(counters)) => return Answer::Now(Ok(counters)),
                Ok(None) => {}
                Err(error) => return Answer::Now(Err(error)),
            }
        }
        let (space, prefix, after) = (
            space.to_owned(),
            prefix.to_owned(),
            after.map(str::to_owned),
        );
        self.readers.later(move |connection| {
            read::counters(connection, &space, &prefix, after.as_deref(), limit)
        })
    }

    fn touch<'a>(&'a self, space: &'a str, used: &'a [(&'a str, Millis)]) -> Answer<'a, ()> {
        let effort = if used.len() <= INLINE_PAGE as usize {
            Effort::SMALL
        } else {
            Effort::LARGE
        };
        let space = space.to_owned();
        let used: Vec<(String, Millis)> =
            used.iter().map(|&(key, at)| (key.to_owned(), at)).collect();
        Answer::later(
            self.writer
                .submit(effort, move |changes| changes.touch(&space, &used)),
        )
    }

    fn amend<'a>(&'a self, space: &'a str, record: Record) -> Answer<'a, Option<u64>> {
        if let Err(error) = request::check_amend(space, &record, self.about.largest_value) {
            return Answer::Now(Err(error));
        }
        let effort = Effort::of_bytes(record.value.len());
        let space = space.to_owned();
        Answer::later(
            self.writer
                .submit(effort, move |changes| changes.amend(&space, &record)),
        )
    }

    fn usage<'a>(&'a self, space: &'a str) -> Answer<'a, Usage> {
        match self
            .readers
            .now(|connection| read::usage(connection, space))
        {
            Ok(Some(usage)) => Answer::Now(Ok(usage)),
            Ok(None) => {
                let space = space.to_owned();
                self.readers
                    .later(move |connection| read::usage(connection, &space))
            }
            Err(error) => Answer::Now(Err(error)),
        }
    }

    fn stamp(&self, space: &str, name: &str) -> Option<u64> {
        self.stamps.read(space, name)
    }

    fn recall(&self) -> Option<&dyn Recall> {
        Some(self)
    }
}

impl Recall for SqliteMemory {
    fn search<'a>(
        &'a self,
        query: &'a str,
        labels: &'a [Match<'a>],
        limit: u32,
    ) -> Answer<'a, Vec<Recalled>> {
        let Some(query) = recall::expression(query) else {
            return Answer::Now(Ok(Vec::new()));
        };
        let filter = Filter {
            prefix: "",
            labels,
            expired_before: None,
            order: Order::Key,
        };
        let question = select::Question::new("", &filter, &Page::first(limit));
        self.readers.later(move |connection| {
            question.ask(|_, filter, page| {
                recall::search(connection, &query, filter.labels, page.limit)
            })
        })
    }
}
