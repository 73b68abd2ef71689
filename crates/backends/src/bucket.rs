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
    Error, ErrorKind, Finding, GetResult, LabelMatch, Lease, Millis, PageRequest, PutAllResult,
    PutCondition, PutResult, Recall, RecallHit, Record, RecordFilter, RecordPage, Store, StoreInfo,
};
use ring::rand::SystemRandom;
use tokio::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard, watch};

use crate::open_options::OpenOptions;
use crate::pause::{max_pause, random_within};
use crate::url::{StoreUrl, StoreUrlError};
use object::{DatabaseObject, LARGEST_DATABASE, LocalCopy, State, Turn, interrupted};

/// Maximum size of a record, in bytes.
const LARGEST_VALUE: u64 = 8 << 20;

/// Maximum length of a name, in bytes.
const LONGEST_NAME: u64 = 64 << 10;

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
        url.check()?;
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
            reservations: false,
            ..StoreInfo::new("blob-sqlite", url.location(), LARGEST_VALUE, LONGEST_NAME)
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
        // Before the state is locked, so that lookups do not wait for this pause.
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
            // The refused upload may have arrived before, with its answer lost. The change is in the object then.
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
                // The uploaded copy contains the uses.
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
    cachalot_store::forward_to_store!(later copy store: find counters usage);
    cachalot_store::forward_to_store!(checked: get add raise_to amend);
    cachalot_store::forward_to_store!(async: put put_all put_new erase touch inspect);
    cachalot_store::forward_to_store!(refuse without_reservations: get_or_reserve reserve renew release);

    fn about(&self) -> &StoreInfo {
        &self.about
    }

    fn recall(&self) -> Option<&dyn Recall> {
        Some(self)
    }
}

/// The calls of [`Store`] and [`Recall`].
impl BucketStore {
    async fn get(&self, space: &str, key: &str, counters: &[&str]) -> Result<GetResult, Error> {
        let copy = self.copy().await?;
        copy.store.get(space, key, counters).settle().await
    }

    async fn put(
        &self,
        space: &str,
        record: Record,
        lease: Option<&Lease>,
        counters: &[(&str, u64)],
    ) -> Result<PutResult, Error> {
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
    }

    async fn put_all(
        &self,
        condition: PutCondition<'_>,
        records: Vec<(&str, Record)>,
    ) -> Result<PutAllResult, Error> {
        self.about.check_put_all(&condition, &records)?;
        self.change(|store| {
            let (condition, records) = (condition.clone(), records.clone());
            async move {
                let put = store.put_all(condition, records).settle().await?;
                Ok((put, put == PutAllResult::Stored))
            }
        })
        .await
    }

    async fn put_new(&self, space: &str, records: Vec<Record>) -> Result<Vec<bool>, Error> {
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
    }

    async fn erase(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: PageRequest<'_>,
    ) -> Result<RecordPage, Error> {
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
            // An erase that reaches reservations raises the counter of erasures, also if no record matches.
            let is_changed = reaches_reservations(filter) || !erased.records.is_empty();
            Ok((erased, is_changed))
        })
        .await
    }

    async fn add(&self, space: &str, additions: &[(&str, u64)]) -> Result<Vec<u64>, Error> {
        self.change(|store| async move { Ok((store.add(space, additions).settle().await?, true)) })
            .await
    }

    async fn raise_to(&self, space: &str, counter: &str, value: u64) -> Result<u64, Error> {
        self.change(|store| async move {
            let raised = store.raise_to(space, counter, value).settle().await?;
            Ok((raised, true))
        })
        .await
    }

    /// In the copy alone: the next write uploads it.
    async fn touch(&self, space: &str, used: &[(&str, Millis)]) -> Result<(), Error> {
        let mut state = self.state.lock().await;
        let left = MAX_USES.saturating_sub(state.uses.len());
        let uses = used.iter().take(left);
        let uses = uses.map(|(key, at)| (space.to_owned(), (*key).to_owned(), *at));
        state.uses.extend(uses);
        match &state.copy {
            Some(copy) => copy.store.touch(space, used).settle().await,
            None => Ok(()),
        }
    }

    async fn amend(&self, space: &str, record: Record) -> Result<Option<u64>, Error> {
        self.change(|store| {
            let record = record.clone();
            async move {
                let amended = store.amend(space, record).settle().await?;
                Ok((amended, amended.is_some()))
            }
        })
        .await
    }

    async fn inspect(&self) -> Result<Vec<Finding>, Error> {
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
    }

    async fn search(
        &self,
        query: &str,
        labels: &[LabelMatch<'_>],
        limit: u32,
    ) -> Result<Vec<RecallHit>, Error> {
        let copy = self.copy().await?;
        match copy.store.recall() {
            Some(recall) => recall.search(query, labels, limit).settle().await,
            None => Ok(Vec::new()),
        }
    }
}

impl Recall for BucketStore {
    cachalot_store::forward_to_store!(async: search);
}
