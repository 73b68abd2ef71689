//! A store in a SQLite database that is an object in a bucket (S3, Google Cloud Storage, Azure Blob Storage), for few
//! writers and functions without a disk.
//!
//! Each call compares the version of the object with the one that was downloaded last (one conditional request). A call
//! that writes changes the downloaded copy and uploads it on the condition that the object still has that version;
//! otherwise it is repeated on the new version. So each write uploads the whole database: it has a maximum size. There
//! are no reservations, and the times are those of this machine.
//!
//! Comparisons, downloads and uploads run in a task that outlives its caller, one at a time: a database whose transfer
//! takes longer than a caller waits is there for later calls.

mod object;

pub use object::{MAX_SILENCE, Storages};

use std::sync::Arc;
use std::time::{Duration, Instant};

use cachalot_core::Clock;
use cachalot_store::implementation::{check_page, erase_step, reaches_reservations};
use cachalot_store::sqlite::SqliteStore;
use cachalot_store::{
    Error, ErrorKind, Finding, GetOrReserve, GetOrReserveResult, GetResult, Label, LabelMatch,
    Lease, Millis, PageRequest, PutAllResult, PutCondition, PutResult, Recall, RecallHit, Record,
    RecordFilter, RecordPage, ReserveResult, SpaceUsage, Store, StoreInfo, StoreReply,
};
use ring::rand::SystemRandom;
use tokio::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard, watch};

use crate::open::OpenOptions;
use crate::pause::{max_pause, random_within};
use crate::url::{StoreUrl, StoreUrlError};
use object::{DatabaseObject, LARGEST_DATABASE, LocalCopy, State, Turn, interrupted};

/// Maximum size of a record, in bytes.
const LARGEST_VALUE: u64 = 8 << 20;

/// Attempts of a write, if others write at the same time.
const MAX_ATTEMPTS: u32 = 40;

/// Maximum number of uses of records that wait for the next write.
const MAX_USES: usize = 10_000;

/// A store in an object. See the [module](self).
pub struct BucketStore {
    about: StoreInfo,
    object: Arc<DatabaseObject>,
    /// Locked during a change, before the state. Lookups do not wait for the pauses of writers.
    turn: Mutex<Turn>,
    state: Arc<Mutex<State>>,
    /// Dropped with the store, which ends its task.
    alive: watch::Sender<()>,
}

pub(crate) fn open(url: &StoreUrl, options: &OpenOptions) -> Result<Arc<dyn Store>, StoreUrlError> {
    let storages = Storages {
        reads: options.storage(Some(MAX_SILENCE))?,
        writes: options.storage(None)?,
    };
    let store = BucketStore::new(url, storages, Arc::clone(&options.clock))?;
    Ok(Arc::new(store))
}

impl BucketStore {
    /// Creates a store in the object that a URL names. Downloads it with the first call.
    ///
    /// # Errors
    /// The URL names no object, or the system has no random numbers.
    pub fn new(
        url: &StoreUrl,
        storages: Storages,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreUrlError> {
        if let Some(fault) = url.fault() {
            return Err(StoreUrlError::Invalid(format!(
                "the URL of {} is invalid: {fault}",
                url.location()
            )));
        }
        let object = url.text().split_once("://").map_or("", |(_, rest)| rest);
        if !matches!(object.split_once('/'), Some((bucket, key)) if !bucket.is_empty() && !key.is_empty())
        {
            return Err(StoreUrlError::Invalid(format!(
                "{} names no object: write {}://BUCKET/PATH/NAME.db",
                url.location(),
                url.scheme()
            )));
        }
        let about = StoreInfo {
            name: "blob-sqlite",
            location: url.location().to_owned(),
            shared: true,
            reservations: false,
            largest_value: LARGEST_VALUE,
            longest_name: 64 << 10,
            snapshot: true,
        };
        let writer = ring::rand::generate::<[u8; 16]>(&SystemRandom::new());
        let writer = writer.map_err(|_| {
            StoreUrlError::Invalid("the system returned no random number".to_owned())
        })?;
        let object = DatabaseObject {
            location: url.location().to_owned(),
            uri: url.text().to_owned(),
            storages,
            clock,
            writer: hex::encode(writer.expose()),
        };
        Ok(Self {
            about,
            object: Arc::new(object),
            turn: Mutex::default(),
            state: Arc::default(),
            alive: watch::Sender::default(),
        })
    }

    /// Returns a copy that was equal to the object at some moment of this call.
    async fn copy(&self) -> Result<OwnedMappedMutexGuard<State, LocalCopy>, Error> {
        let arrived = Instant::now();
        let state = Arc::clone(&self.state).lock_owned().await;
        let state = self.refresh(state, arrived).await?;
        OwnedMutexGuard::try_map(state, |state| state.copy.as_mut()).map_err(|_| without_copy())
    }

    /// Downloads the object if its version is not that of the copy. A comparison that began after `arrived` counts, so
    /// that concurrent calls share one.
    async fn refresh(
        &self,
        mut state: OwnedMutexGuard<State>,
        arrived: Instant,
    ) -> Result<OwnedMutexGuard<State>, Error> {
        let is_fresh = state.compared.is_some_and(|compared| compared >= arrived);
        if is_fresh && state.copy.is_some() {
            return Ok(state);
        }
        let object = Arc::clone(&self.object);
        let refreshing = async move { object.refresh(&mut state).await.map(|()| state) };
        self.outlive_caller(refreshing).await?
    }

    /// Runs work in a task that goes on without its caller, and ends with the store. The work has the lock of the
    /// state, so that there is one such task at a time.
    async fn outlive_caller<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Error> {
        let mut alive = self.alive.subscribe();
        let task = tokio::spawn(async move {
            tokio::select! {
                done = work => Some(done),
                _ = alive.changed() => None,
            }
        });
        task.await.ok().flatten().ok_or_else(interrupted)
    }

    /// Makes a change to the copy and uploads it; repeats it on the new version if another writer was first. `change`
    /// returns true with its result if it has changed something.
    async fn change<T, F>(&self, change: impl Fn(Arc<SqliteStore>) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<(T, bool), Error>>,
    {
        let mut turn = self.turn.lock().await;
        tokio::time::sleep(turn.pause()).await;
        let mut state = Arc::clone(&self.state).lock_owned().await;
        // The result of the last attempt, whose upload was refused.
        let mut refused: Option<T> = None;
        let mut took = Duration::ZERO;
        for attempt in 0..MAX_ATTEMPTS {
            if attempt > 0 {
                // As long as an attempt takes, so that it may begin before that of another writer.
                tokio::time::sleep(random_within(took.max(max_pause(attempt)))).await;
            }
            let began = Instant::now();
            state = self.refresh(state, began).await?;
            // Returned only if all that it contains is in the object: not after an error, nor if this call is dropped.
            let copy = state.copy.take().ok_or_else(without_copy)?;
            if let Some(result) = refused.take()
                && self.object.contains(&copy, state.uploads).await?
            {
                state.uses.clear();
                state.copy = Some(copy);
                return Ok(result);
            }
            let (result, is_changed) = change(Arc::clone(&copy.store)).await?;
            if !is_changed {
                state.copy = Some(copy);
                return Ok(result);
            }
            state.uploads += 1;
            let object = Arc::clone(&self.object);
            let uploading = async move {
                state.copy = object.upload(copy, state.uploads).await?;
                if state.copy.is_some() {
                    state.uses.clear();
                }
                Ok(state)
            };
            state = self.outlive_caller(uploading).await??;
            took = began.elapsed();
            if state.copy.is_some() {
                turn.end(took);
                return Ok(result);
            }
            refused = Some(result);
        }
        Err(Error::new(
            ErrorKind::Busy,
            format!(
                "{} was changed by others during each of {MAX_ATTEMPTS} attempts to write",
                self.about.location
            ),
        ))
    }

    fn without_reservations(&self) -> Error {
        let location = &self.about.location;
        Error::new(
            ErrorKind::Unsupported,
            format!("{location} is an object in a bucket, which has no reservations"),
        )
    }
}

fn without_copy() -> Error {
    Error::new(ErrorKind::Unavailable, "there is no copy of the database")
}

impl Store for BucketStore {
    fn about(&self) -> &StoreInfo {
        &self.about
    }

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> StoreReply<'a, GetResult> {
        StoreReply::later(async move {
            self.about
                .check_names([space, key].into_iter().chain(counters.iter().copied()))?;
            let copy = self.copy().await?;
            copy.store.get(space, key, counters).settle().await
        })
    }

    fn get_or_reserve<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: GetOrReserve<'a>,
    ) -> StoreReply<'a, GetOrReserveResult> {
        StoreReply::Now(Err(self.without_reservations()))
    }

    fn put<'a>(
        &'a self,
        space: &'a str,
        record: Record,
        lease: Option<&'a Lease>,
        counters: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, PutResult> {
        StoreReply::later(async move {
            self.about.check_put(space, &record, lease, counters)?;
            if lease.is_some() {
                return Err(self.without_reservations());
            }
            self.change(|store| {
                let record = record.clone();
                async move {
                    let put = store.put(space, record, None, counters).settle().await?;
                    Ok((put, matches!(put, PutResult::Stored { .. })))
                }
            })
            .await
        })
    }

    fn put_all<'a>(
        &'a self,
        condition: PutCondition<'a>,
        records: Vec<(&'a str, Record)>,
    ) -> StoreReply<'a, PutAllResult> {
        StoreReply::later(async move {
            self.about.check_put_all(&condition, &records)?;
            self.change(|store| {
                let (condition, records) = (condition.clone(), records.clone());
                async move {
                    let put = store.put_all(condition, records).settle().await?;
                    Ok((put, put == PutAllResult::Stored))
                }
            })
            .await
        })
    }

    fn put_new<'a>(&'a self, space: &'a str, records: Vec<Record>) -> StoreReply<'a, Vec<bool>> {
        StoreReply::later(async move {
            for record in &records {
                self.about.check_put(space, record, None, &[])?;
            }
            self.change(|store| {
                let records = records.clone();
                async move {
                    let put = store.put_new(space, records).settle().await?;
                    let is_changed = put.contains(&true);
                    Ok((put, is_changed))
                }
            })
            .await
        })
    }

    fn reserve<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a [Label],
        _: Duration,
    ) -> StoreReply<'a, ReserveResult> {
        StoreReply::Now(Err(self.without_reservations()))
    }

    fn renew<'a>(&'a self, _: &'a Lease, _: Duration) -> StoreReply<'a, bool> {
        StoreReply::Now(Err(self.without_reservations()))
    }

    fn release(&self, _: Lease) -> StoreReply<'_, ()> {
        StoreReply::Now(Err(self.without_reservations()))
    }

    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        StoreReply::later(async move {
            let copy = self.copy().await?;
            copy.store.find(space, filter, page).settle().await
        })
    }

    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        StoreReply::later(async move {
            check_page(filter, &page)?;
            self.change(|store| async move {
                let mut erased = store.erase(space, filter, page).settle().await?;
                // The copy may erase a part of the page at a time. Each change of the object writes all of it, so one
                // has as much of the page as there is.
                let is_part = erase_step(filter, page).limit < page.limit;
                while is_part && !erased.records.is_empty() {
                    let limit = page.limit.saturating_sub(erased.records.len() as u32);
                    let rest = store.erase(space, filter, PageRequest { limit, ..page });
                    let rest = rest.settle().await?;
                    if rest.records.is_empty() {
                        break;
                    }
                    erased.records.extend(rest.records);
                    erased.sizes.extend(rest.sizes);
                }
                let is_changed = reaches_reservations(filter) || !erased.records.is_empty();
                Ok((erased, is_changed))
            })
            .await
        })
    }

    fn add<'a>(
        &'a self,
        space: &'a str,
        additions: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, Vec<u64>> {
        StoreReply::later(async move {
            let names = additions.iter().map(|(name, _)| *name);
            self.about.check_names([space].into_iter().chain(names))?;
            self.change(
                |store| async move { Ok((store.add(space, additions).settle().await?, true)) },
            )
            .await
        })
    }

    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> StoreReply<'a, u64> {
        StoreReply::later(async move {
            self.about.check_names([space, counter])?;
            self.change(|store| async move {
                let raised = store.raise_to(space, counter, value).settle().await?;
                Ok((raised, true))
            })
            .await
        })
    }

    fn counters<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> StoreReply<'a, Vec<(String, u64)>> {
        StoreReply::later(async move {
            let copy = self.copy().await?;
            copy.store
                .counters(space, prefix, after, limit)
                .settle()
                .await
        })
    }

    /// In the copy alone: the next write uploads it.
    fn touch<'a>(&'a self, space: &'a str, used: &'a [(&'a str, Millis)]) -> StoreReply<'a, ()> {
        StoreReply::later(async move {
            let mut state = self.state.lock().await;
            let left = MAX_USES.saturating_sub(state.uses.len());
            let uses = used.iter().take(left);
            let uses = uses.map(|(key, at)| (space.to_owned(), (*key).to_owned(), *at));
            state.uses.extend(uses);
            match &state.copy {
                Some(copy) => copy.store.touch(space, used).settle().await,
                None => Ok(()),
            }
        })
    }

    fn amend<'a>(&'a self, space: &'a str, record: Record) -> StoreReply<'a, Option<u64>> {
        StoreReply::later(async move {
            self.about.check_amend(space, &record)?;
            self.change(|store| {
                let record = record.clone();
                async move {
                    let amended = store.amend(space, record).settle().await?;
                    Ok((amended, amended.is_some()))
                }
            })
            .await
        })
    }

    fn usage<'a>(&'a self, space: &'a str) -> StoreReply<'a, SpaceUsage> {
        StoreReply::later(async move {
            let copy = self.copy().await?;
            copy.store.usage(space).settle().await
        })
    }

    fn inspect(&self) -> StoreReply<'_, Vec<Finding>> {
        StoreReply::later(async move {
            let copy = self.copy().await?;
            let size = std::fs::metadata(copy.store.path()).map_or(0, |file| file.len());
            let state = match copy.version {
                Some(_) => format!(
                    "about {} KiB, of at most {} MiB",
                    size >> 10,
                    LARGEST_DATABASE >> 20
                ),
                None => "does not exist yet; the first write creates it".to_owned(),
            };
            Ok(vec![Finding::good("database", state)])
        })
    }

    fn recall(&self) -> Option<&dyn Recall> {
        Some(self)
    }
}

impl Recall for BucketStore {
    fn search<'a>(
        &'a self,
        query: &'a str,
        labels: &'a [LabelMatch<'a>],
        limit: u32,
    ) -> StoreReply<'a, Vec<RecallHit>> {
        StoreReply::later(async move {
            let copy = self.copy().await?;
            match copy.store.recall() {
                Some(recall) => recall.search(query, labels, limit).settle().await,
                None => Ok(Vec::new()),
            }
        })
    }
}
