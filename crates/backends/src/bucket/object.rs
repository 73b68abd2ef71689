//! The database as an object of a bucket, and the copy of it on this machine.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cachalot_core::Clock;
use cachalot_storage::{ErrorKind as StorageErrorKind, ObjectVersion, Storage, VersionRead};
use cachalot_store::sqlite::{SqliteOptions, SqliteStore};
use cachalot_store::{Error, ErrorKind, Millis, PageRequest, Record, RecordFilter, Store as _};

/// The time without a byte of a reply after which a read is repeated on another connection.
pub const MAX_SILENCE: Duration = Duration::from_secs(5);

/// Maximum size of the database, in bytes: each write uploads it.
pub(super) const LARGEST_DATABASE: u64 = 64 << 20;

/// The space of the last upload of each writer. See [`DatabaseObject::contains`].
const UPLOADS: &str = "uploads";

/// The time for which the last upload of a writer is kept: longer than all attempts of a write take.
const UPLOAD_KEPT: Duration = Duration::from_secs(600);

/// The clients of an object.
#[derive(Debug, Clone)]
pub struct Storages {
    /// Ends a request on which nothing arrives for [`MAX_SILENCE`].
    pub reads: Storage,
    /// Waits longer, since nothing arrives while a database is uploaded.
    pub writes: Storage,
}

/// The object.
pub(super) struct DatabaseObject {
    /// For messages.
    pub(super) location: String,
    pub(super) uri: String,
    pub(super) storages: Storages,
    pub(super) clock: Arc<dyn Clock>,
    /// Random name of this store among the writers of the object.
    pub(super) writer: String,
}

/// The state of a store.
#[derive(Default)]
pub(super) struct State {
    pub(super) copy: Option<LocalCopy>,
    /// When the last comparison with the object began.
    pub(super) compared: Option<Instant>,
    /// Uses of records that are not in the object yet: a write for them alone is not worth an upload.
    pub(super) uses: Vec<(String, String, Millis)>,
    /// Number of the last upload of this store.
    pub(super) uploads: u64,
}

/// The changes that a store makes without a pause. Another writer needs longer, since it has to download each of them
/// first: without pauses, all of its attempts would be refused.
#[derive(Default)]
pub(super) struct Turn {
    /// The end of the last change, and the time that it took.
    last: Option<(Instant, Duration)>,
    changes: u32,
}

impl Turn {
    /// Maximum number of changes without a pause.
    const MAX_CHANGES: u32 = 8;
    /// The length of the pause, in changes.
    const PAUSE: u32 = 4;

    /// Returns the pause before the next change.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = match self.last.filter(|(end, took)| end.elapsed() < *took) {
            Some(_) if self.changes < Self::MAX_CHANGES => return Duration::ZERO,
            Some((_, took)) => took * Self::PAUSE,
            None => Duration::ZERO,
        };
        self.changes = 0;
        pause
    }

    /// Notes the end of a change that took this time.
    pub(super) fn end(&mut self, took: Duration) {
        self.last = Some((Instant::now(), took));
        self.changes += 1;
    }
}

/// The downloaded database.
pub(super) struct LocalCopy {
    pub(super) store: Arc<SqliteStore>,
    /// `None` if there was no object.
    pub(super) version: Option<ObjectVersion>,
    /// Removed with the copy.
    directory: tempfile::TempDir,
}

impl DatabaseObject {
    /// Downloads the object if its version is not that of the copy.
    pub(super) async fn refresh(&self, state: &mut State) -> Result<(), Error> {
        let began = Instant::now();
        let known = state.copy.as_ref().and_then(|copy| copy.version.as_ref());
        let read = self
            .storages
            .reads
            .read_version(&self.uri, known, LARGEST_DATABASE)
            .await;
        let is_known_absent = || matches!(&state.copy, Some(copy) if copy.version.is_none());
        let content = match read.map_err(failure)? {
            VersionRead::Unchanged => None,
            VersionRead::Absent if is_known_absent() => None,
            VersionRead::Absent => Some(None),
            VersionRead::Found(bytes, version) => Some(Some((bytes, version))),
        };
        if let Some(content) = content {
            let copy = self.open(state.copy.take(), content).await?;
            // Uses that are not in the object yet are repeated on the new copy.
            for (space, key, at) in &state.uses {
                copy.store.touch(space, &[(key, *at)]).settle().await?;
            }
            state.copy = Some(copy);
        }
        state.compared = Some(began);
        Ok(())
    }

    /// Opens a copy with a content, and closes the one before it, on a thread that may block.
    async fn open(
        &self,
        before: Option<LocalCopy>,
        content: Option<(Bytes, ObjectVersion)>,
    ) -> Result<LocalCopy, Error> {
        let clock = Arc::clone(&self.clock);
        let opening = tokio::task::spawn_blocking(move || {
            drop(before);
            LocalCopy::open(content, clock)
        });
        let opened = opening.await.map_err(|_| interrupted())?;
        opened.map_err(|error| {
            let message = format!("the database {} : {error}", self.location);
            Error::new(error.kind, message)
        })
    }

    /// Uploads a copy that was changed, as the upload of this store with this number. Returns `None` if the object
    /// has another version than the copy: then another writer was first, or the object contains this upload
    /// already.
    pub(super) async fn upload(
        &self,
        mut copy: LocalCopy,
        number: u64,
    ) -> Result<Option<LocalCopy>, Error> {
        self.note_upload(&copy, number).await?;
        let file = copy.directory.path().join("upload.db");
        copy.store.copy_to(&file).await?;
        let bytes = tokio::fs::read(&file).await.map_err(unreadable)?;
        tokio::fs::remove_file(&file).await.map_err(unreadable)?;
        if bytes.len() as u64 > LARGEST_DATABASE {
            return Err(Error::new(
                ErrorKind::Full,
                format!(
                    "{} would have {} MiB, and each write uploads it whole: at most {} are allowed; erase entries, or \
                     use another store",
                    self.location,
                    bytes.len() >> 20,
                    LARGEST_DATABASE >> 20
                ),
            ));
        }
        let expected = copy.version.as_ref();
        let written = self
            .storages
            .writes
            .write_version(&self.uri, bytes.into(), expected);
        let version = written.await.map_err(failure)?;
        Ok(version.map(|version| {
            copy.version = Some(version);
            copy
        }))
    }

    /// Returns true if a copy contains an upload of this store. A request that replaces the object is repeated if its
    /// reply is lost, and is refused then because it has been successful.
    pub(super) async fn contains(&self, copy: &LocalCopy, number: u64) -> Result<bool, Error> {
        let found = copy.store.get(UPLOADS, &self.writer, &[]).settle().await?;
        let is_upload = |record: &Record| *record.value == number.to_be_bytes();
        Ok(found.record.as_ref().is_some_and(is_upload))
    }

    async fn note_upload(&self, copy: &LocalCopy, number: u64) -> Result<(), Error> {
        let now = self.clock.now();
        let old = RecordFilter {
            expired_before: Some(now),
            ..RecordFilter::default()
        };
        let erased = copy.store.erase(UPLOADS, &old, PageRequest::keys(100));
        erased.settle().await?;
        let upload = Record {
            key: self.writer.clone(),
            value: Bytes::copy_from_slice(&number.to_be_bytes()),
            labels: Vec::new(),
            expires: Some(now.saturating_add(UPLOAD_KEPT.as_millis() as Millis)),
            revision: 0,
            updated: 0,
        };
        let put = copy.store.put(UPLOADS, upload, None, &[]);
        put.settle().await.map(drop)
    }
}

impl LocalCopy {
    fn open(content: Option<(Bytes, ObjectVersion)>, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let unwritable = |error: std::io::Error| {
            let message = format!("a temporary file cannot be written: {error}");
            Error::new(ErrorKind::Unavailable, message).with_source(error)
        };
        let directory = tempfile::tempdir().map_err(unwritable)?;
        let path: &Path = &directory.path().join("store.db");
        let version = match content {
            Some((bytes, version)) => {
                std::fs::write(path, bytes).map_err(unwritable)?;
                Some(version)
            }
            None => None,
        };
        let store = SqliteStore::open(path, SqliteOptions::new(clock))?;
        Ok(Self {
            store: Arc::new(store),
            version,
            directory,
        })
    }
}

fn failure(error: cachalot_storage::Error) -> Error {
    let kind = match error.kind {
        StorageErrorKind::Denied => ErrorKind::Denied,
        StorageErrorKind::Unavailable => ErrorKind::Unavailable,
        StorageErrorKind::TooLarge => ErrorKind::Full,
        _ => ErrorKind::Unsupported,
    };
    Error::new(kind, error.to_string()).with_source(error)
}

fn unreadable(error: std::io::Error) -> Error {
    let message = format!("a temporary file cannot be read: {error}");
    Error::new(ErrorKind::Unavailable, message).with_source(error)
}

pub(super) fn interrupted() -> Error {
    Error::new(ErrorKind::Unavailable, "the runtime is shutting down")
}
