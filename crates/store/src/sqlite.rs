//! The default store: a SQLite file that any number of processes share.
//!
//! **Reads** run inline on the caller's thread, on a pooled connection with prepared statements: a small
//! value takes a few microseconds, a hop to another thread ten times as long. In WAL mode readers do not wait
//! for writers. In the rare cases when a reader would have to wait (recovery after a crash, another process
//! that converts the file), and for values above 256 KiB, the answer is [`StoreReply::Later`].
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
#[path = "../tests/unit/sqlite/cost.rs"]
mod cost;
mod failure;
mod files;
mod labels;
mod read;
mod reader_pool;
mod recall;
mod reservations;
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
    Error, ErrorKind, GetOrReserve, GetOrReserveResult, GetResult, Label, LabelMatch, Lease, Order,
    PageRequest, PutAllResult, PutCondition, PutResult, Recall, RecallHit, Record, RecordFilter,
    RecordPage, ReserveResult, SpaceUsage, Store, StoreInfo, StoreReply, request,
};

use crate::private_files::with_suffix;
use crate::slots::slot;

use self::failure::Context;
use self::read::InlineGet;
use self::reader_pool::ReaderPool;
use self::stamps::Stamps;
use self::writer::{JobSize, Writer};

pub use self::failure::is_full;
pub use self::files::{begins_as_database, files_of, set_aside};

/// Maximum size of a record (key, value and labels), in bytes: half of SQLite's limit for a row.
pub(crate) const MAX_VALUE_BYTES: u64 = 512 << 20;

/// Size in bytes above which values are read off the caller's thread.
const INLINE_VALUE: i64 = 256 << 10;

/// Maximum number of records in a page that is read or erased on the caller's thread.
const INLINE_PAGE: u32 = 64;

/// Options for opening a store.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// The clock for reservations and for the times of writes. All processes that share a file should share a
    /// clock, as they do with [`cachalot_core::SystemClock`].
    pub clock: Arc<dyn Clock>,
    /// Maximum time to wait for a lock that another process holds, before a call fails with
    /// [`crate::ErrorKind::Busy`].
    pub busy_timeout: Duration,
}

impl SqliteOptions {
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
pub struct SqliteStore {
    about: StoreInfo,
    clock: Arc<dyn Clock>,
    reader_pool: Arc<ReaderPool>,
    writer: Writer,
    stamps: Arc<Stamps>,
}

impl SqliteStore {
    /// Opens the file, or creates it with its directories.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) if the file is not a database, is damaged, or lacks tables (see
    /// [`set_aside`]); [`TooNew`](crate::ErrorKind::TooNew) if a newer version of Cachalot wrote it;
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if it is the database of another program;
    /// [`Denied`](crate::ErrorKind::Denied), [`Full`](crate::ErrorKind::Full),
    /// [`Busy`](crate::ErrorKind::Busy) and [`Unavailable`](crate::ErrorKind::Unavailable) as those kinds
    /// specify.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self, Error> {
        let context = Context::new(path);
        let path = files::prepare(path)?;
        let connection = schema::open(&path, &context, options.busy_timeout)?;
        let stamps = Arc::new(Stamps::open(with_suffix(&path, "-stamp")));
        // A writer that began before the file was created changes no slots. Once the write lock was free, every such
        // writer has ended.
        if stamps.is_new() && schema::pass_write_lock(&connection, options.busy_timeout).is_ok() {
            stamps.begin();
        }
        let reader_pool = Arc::new(ReaderPool::new(
            path.clone(),
            context.clone(),
            options.busy_timeout,
            connection,
        ));
        let clock = Arc::clone(&options.clock);
        let writer = Writer::new(path, context.clone(), options, Arc::clone(&stamps));
        let location = context.location();
        let about = StoreInfo::new("sqlite", location, MAX_VALUE_BYTES, MAX_VALUE_BYTES);
        Ok(Self {
            about,
            clock,
            reader_pool,
            writer,
            stamps,
        })
    }

    /// Writes a copy of the database to a file that does not exist.
    ///
    /// # Errors
    /// If the database cannot be read, or the file cannot be written.
    pub async fn copy_to(&self, path: &Path) -> Result<(), Error> {
        let path = path.to_string_lossy().into_owned();
        let copy = self
            .reader_pool
            .later(move |connection| connection.execute("VACUUM INTO ?1", [path]));
        copy.settle().await.map(drop)
    }

    /// The message of an erase on a full disk: the log has to be moved into the database, which may grow by as much.
    fn no_space_to_erase(&self) -> String {
        /// Enough for the transactions that erase one record each.
        const MARGIN: u64 = 512 << 10;
        let log = std::fs::metadata(with_suffix(self.reader_pool.path(), "-wal"));
        let needed = log.map_or(0, |log| log.len()) + MARGIN;
        format!(
            "no space left for the database {}; free {} KiB on its disk: erasing needs as much for a moment",
            self.about.location,
            needed.div_ceil(1024)
        )
    }

    /// The path of the database.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.reader_pool.path().to_owned()
    }
}

impl Store for SqliteStore {
    fn about(&self) -> &StoreInfo {
        &self.about
    }

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> StoreReply<'a, GetResult> {
        let now = self.clock.now();
        match self
            .reader_pool
            .now(|connection| read::get(connection, space, key, counters, now, INLINE_VALUE))
        {
            Some(Ok(InlineGet::GetResult(found))) => return StoreReply::Now(Ok(found)),
            Some(Ok(InlineGet::TooLarge)) | None => {}
            Some(Err(error)) => return StoreReply::Now(Err(error)),
        }
        let (space, key) = (space.to_owned(), key.to_owned());
        let counters: Vec<String> = counters.iter().map(|&name| name.to_owned()).collect();
        self.reader_pool.later(move |connection| {
            let counters: Vec<&str> = counters.iter().map(String::as_str).collect();
            match read::get(connection, &space, &key, &counters, now, i64::MAX)? {
                InlineGet::GetResult(found) => Ok(found),
                InlineGet::TooLarge => Err(rusqlite::Error::QueryReturnedNoRows),
            }
        })
    }

    fn get_or_reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        request: GetOrReserve<'a>,
    ) -> StoreReply<'a, GetOrReserveResult> {
        let now = self.clock.now();
        let got = self.reader_pool.now(|connection| {
            read::get(connection, space, key, request.counters, now, INLINE_VALUE)
        });
        let small = match got {
            Some(Ok(InlineGet::GetResult(found))) if request.stale.is_answered_by(&found) => {
                return StoreReply::Now(Ok(GetOrReserveResult {
                    found,
                    reserved: None,
                }));
            }
            Some(Ok(InlineGet::GetResult(_))) => true,
            Some(Ok(InlineGet::TooLarge)) | None => false,
            Some(Err(error)) => return StoreReply::Now(Err(error)),
        };
        // Checked only when a reservation is needed: a hit stores no labels.
        if let Err(error) = self.about.check_names(request::label_texts(request.labels)) {
            return StoreReply::Now(Err(error));
        }
        StoreReply::later(async move {
            // A large record is read on another thread first. If it answers, the writer has nothing to do.
            if !small {
                let found = self.get(space, key, request.counters).settle().await?;
                if request.stale.is_answered_by(&found) {
                    return Ok(GetOrReserveResult {
                        found,
                        reserved: None,
                    });
                }
            }
            // The transaction reads the record again, which takes too long on the caller's thread if it is large.
            let effort = if small {
                JobSize::SMALL
            } else {
                JobSize::LARGE
            };
            let counters: Vec<String> = request
                .counters
                .iter()
                .map(|&name| name.to_owned())
                .collect();
            let (space, key, labels) = (space.to_owned(), key.to_owned(), request.labels.to_vec());
            let (hold, stale) = (request.hold, request.stale);
            // Another writer may have stored or reserved since the read.
            let entering = self.writer.submit(effort, move |transaction| {
                let counters: Vec<&str> = counters.iter().map(String::as_str).collect();
                let request = GetOrReserve {
                    counters: &counters,
                    labels: &labels,
                    hold,
                    stale,
                };
                transaction.get_or_reserve(&space, &key, &request)
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
    ) -> StoreReply<'a, PutResult> {
        if let Err(error) = self.about.check_put(space, &record, lease, counters) {
            return StoreReply::Now(Err(error));
        }
        record.labels = request::deduplicate(record.labels);
        let effort = JobSize::of_bytes(record.value.len());
        let (space, lease) = (space.to_owned(), lease.cloned());
        let counters: Vec<(String, u64)> = counters
            .iter()
            .map(|&(name, value)| (name.to_owned(), value))
            .collect();
        StoreReply::later(self.writer.submit(effort, move |transaction| {
            transaction.put(&space, &record, lease.as_ref(), &counters)
        }))
    }

    fn put_all<'a>(
        &'a self,
        condition: PutCondition<'a>,
        records: Vec<(&'a str, Record)>,
    ) -> StoreReply<'a, PutAllResult> {
        if let Err(error) = self.about.check_put_all(&condition, &records) {
            return StoreReply::Now(Err(error));
        }
        let bytes = records.iter().map(|(_, record)| record.value.len()).sum();
        let (space, key) = (condition.space.to_owned(), condition.key.to_owned());
        let value = condition.value;
        let records: Vec<(String, Record)> = records
            .into_iter()
            .map(|(space, mut record)| {
                record.labels = request::deduplicate(record.labels);
                (space.to_owned(), record)
            })
            .collect();
        StoreReply::later(
            self.writer
                .submit(JobSize::of_bytes(bytes), move |transaction| {
                    let condition = PutCondition {
                        space: &space,
                        key: &key,
                        value: value.clone(),
                    };
                    transaction.put_all(&condition, &records)
                }),
        )
    }

    fn reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        labels: &'a [Label],
        hold: Duration,
    ) -> StoreReply<'a, ReserveResult> {
        let (space, key, labels) = (space.to_owned(), key.to_owned(), labels.to_vec());
        StoreReply::later(self.writer.submit(JobSize::SMALL, move |transaction| {
            transaction.reserve(&space, &key, &labels, hold)
        }))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, hold: Duration) -> StoreReply<'a, bool> {
        let lease = lease.clone();
        StoreReply::later(self.writer.submit(JobSize::SMALL, move |transaction| {
            transaction.reservations().renew(&lease, hold)
        }))
    }

    fn release(&self, lease: Lease) -> StoreReply<'_, ()> {
        StoreReply::later(self.writer.submit(JobSize::SMALL, move |transaction| {
            transaction.reservations().release(&lease)
        }))
    }

    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        if let Err(error) = request::check_page(filter, &page) {
            return StoreReply::Now(Err(error));
        }
        if page.limit <= INLINE_PAGE && select::stops_early(filter) {
            let find = |connection: &_| read::find(connection, space, filter, &page);
            if let Some(found) = self.reader_pool.now(find) {
                return StoreReply::Now(found);
            }
        }
        let query = select::OwnedQuery::new(space, filter, &page);
        self.reader_pool.later(move |connection| {
            query.with_borrowed(|space, filter, page| read::find(connection, space, filter, page))
        })
    }

    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        if let Err(error) = request::check_page(filter, &page) {
            return StoreReply::Now(Err(error));
        }
        let page = request::erase_step(filter, page);
        let small = page.limit <= INLINE_PAGE && select::stops_early(filter);
        let effort = if small {
            JobSize::SMALL
        } else {
            JobSize::LARGE
        };
        let erase = move |page: PageRequest<'a>| {
            let query = select::OwnedQuery::new(space, filter, &page);
            self.writer.submit(effort, move |transaction| {
                query.with_borrowed(|space, filter, page| transaction.erase(space, filter, page))
            })
        };
        StoreReply::later(async move {
            let mut erased = erase(page).await;
            // A transaction takes space until the log is moved into the database. On a full disk, each of the next ones
            // takes less.
            for limit in [8, 1] {
                if !matches!(&erased, Err(error) if error.kind == ErrorKind::Full) {
                    break;
                }
                self.writer.free_space();
                let limit = page.limit.min(limit);
                erased = erase(PageRequest { limit, ..page }).await;
                if erased.is_ok() {
                    self.writer.free_space();
                }
            }
            if let Err(error) = &mut erased
                && error.kind == ErrorKind::Full
            {
                error.message = self.no_space_to_erase();
            }
            erased
        })
    }

    fn add<'a>(
        &'a self,
        space: &'a str,
        additions: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, Vec<u64>> {
        let names = additions.iter().map(|(name, _)| *name);
        if let Err(error) = self.about.check_names(names) {
            return StoreReply::Now(Err(error));
        }
        let space = space.to_owned();
        let additions: Vec<(String, u64)> = additions
            .iter()
            .map(|&(name, by)| (name.to_owned(), by))
            .collect();
        StoreReply::later(self.writer.submit(JobSize::SMALL, move |transaction| {
            additions
                .iter()
                .map(|(name, by)| {
                    transaction.count(&space, name, |value| value.saturating_add(*by))
                })
                .collect()
        }))
    }

    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> StoreReply<'a, u64> {
        if let Err(error) = self.about.check_names([counter]) {
            return StoreReply::Now(Err(error));
        }
        let (space, counter) = (space.to_owned(), counter.to_owned());
        StoreReply::later(self.writer.submit(JobSize::SMALL, move |transaction| {
            transaction.count(&space, &counter, |before| before.max(value))
        }))
    }

    fn counters<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> StoreReply<'a, Vec<(String, u64)>> {
        if limit <= INLINE_PAGE {
            let read = |connection: &_| read::counters(connection, space, prefix, after, limit);
            if let Some(counters) = self.reader_pool.now(read) {
                return StoreReply::Now(counters);
            }
        }
        let (space, prefix, after) = (
            space.to_owned(),
            prefix.to_owned(),
            after.map(str::to_owned),
        );
        self.reader_pool.later(move |connection| {
            read::counters(connection, &space, &prefix, after.as_deref(), limit)
        })
    }

    fn touch<'a>(&'a self, space: &'a str, used: &'a [(&'a str, Millis)]) -> StoreReply<'a, ()> {
        let effort = if used.len() <= INLINE_PAGE as usize {
            JobSize::SMALL
        } else {
            JobSize::LARGE
        };
        let space = space.to_owned();
        let used: Vec<(String, Millis)> =
            used.iter().map(|&(key, at)| (key.to_owned(), at)).collect();
        StoreReply::later(
            self.writer
                .submit(effort, move |transaction| transaction.touch(&space, &used)),
        )
    }

    fn amend<'a>(&'a self, space: &'a str, record: Record) -> StoreReply<'a, Option<u64>> {
        if let Err(error) = self.about.check_amend(space, &record) {
            return StoreReply::Now(Err(error));
        }
        let effort = JobSize::of_bytes(record.value.len());
        let space = space.to_owned();
        StoreReply::later(self.writer.submit(effort, move |transaction| {
            transaction.amend(&space, &record)
        }))
    }

    fn usage<'a>(&'a self, space: &'a str) -> StoreReply<'a, SpaceUsage> {
        let read = |connection: &_| read::usage(connection, space);
        if let Some(usage) = self.reader_pool.now(read) {
            return StoreReply::Now(usage);
        }
        let space = space.to_owned();
        self.reader_pool
            .later(move |connection| read::usage(connection, &space))
    }

    fn stamp(&self, space: &str, name: &str) -> Option<u64> {
        self.stamps.read(slot(space, name))
    }

    fn stamp_slot(&self, space: &str, name: &str) -> Option<usize> {
        Some(slot(space, name))
    }

    fn stamp_at(&self, slot: usize) -> Option<u64> {
        self.stamps.read(slot)
    }

    fn recall(&self) -> Option<&dyn Recall> {
        Some(self)
    }
}

#[cfg(any(test, feature = "testing"))]
impl crate::conformance::layouts::ChangeLayout for SqliteStore {
    fn set_newer_layout(&self, is_newer: bool) -> StoreReply<'_, ()> {
        let changed = schema::connect(self.reader_pool.path())
            .and_then(|connection| schema::set_newer(&connection, is_newer));
        let context = Context::new(self.reader_pool.path());
        StoreReply::Now(changed.map_err(|error| context.failure(error)))
    }
}

impl Recall for SqliteStore {
    fn search<'a>(
        &'a self,
        query: &'a str,
        labels: &'a [LabelMatch<'a>],
        limit: u32,
    ) -> StoreReply<'a, Vec<RecallHit>> {
        let Some(query) = crate::text::fts5_expression(query) else {
            return StoreReply::Now(Ok(Vec::new()));
        };
        let filter = RecordFilter {
            prefix: "",
            labels,
            expired_before: None,
            order: Order::Key,
        };
        let owned = select::OwnedQuery::new("", &filter, &PageRequest::first(limit));
        self.reader_pool.later(move |connection| {
            owned.with_borrowed(|_, filter, page| {
                recall::search(connection, &query, filter.labels, page.limit)
            })
        })
    }
}
