//! Large values, each of which is an object of its own in a bucket, or a file in a directory.
//!
//! An object has a random name and is never changed, so that it belongs to one revision of one record. It is written
//! before the transaction that stores its name, and deleted after the transaction that removes it.

use bytes::Bytes;
use cachalot_storage::{ErrorKind as StorageErrorKind, Storage};
use cachalot_store::{Error, ErrorKind};
use futures_util::stream::{self, StreamExt as _};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::runtime::Handle;

use crate::url::StoreUrlError;

/// Maximum size of a value that is stored in its row, in bytes.
const LARGEST_IN_ROW: usize = 64 << 10;

/// Size of the beginning of a large value that is stored in its row, too, in bytes: what a list of records reads.
const HEAD: usize = 4 << 10;

/// Requests for objects at the same time.
pub(super) const CONCURRENT: usize = 16;

/// A value that is an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) name: String,
    /// SHA-256 of the value, in hexadecimal digits.
    pub(super) digest: String,
    /// The size of the value.
    pub(super) size: u64,
}

impl Object {
    /// Creates the object of a value, with a name that no other one has.
    pub(super) fn new(value: &[u8]) -> Result<Self, Error> {
        let mut name = [0; 16];
        SystemRandom::new()
            .fill(&mut name)
            .map_err(|_| Error::new(ErrorKind::Unavailable, "there are no random numbers"))?;
        Ok(Self {
            name: hex::encode(name),
            digest: sha256(value),
            size: value.len() as u64,
        })
    }

    /// True if the object has this value.
    pub(super) fn is(&self, value: &[u8]) -> bool {
        self.size == value.len() as u64 && self.digest == sha256(value)
    }
}

fn sha256(value: &[u8]) -> String {
    hex::encode(digest(&SHA256, value))
}

/// Returns the part of a large value that its row has.
pub(super) fn head(value: &[u8]) -> &[u8] {
    &value[..value.len().min(HEAD)]
}

/// The place of the objects.
#[derive(Clone)]
pub(super) struct LargeValues {
    storage: Storage,
    /// The URI of the folder, without `/` at its end.
    place: String,
}

impl LargeValues {
    /// Reads the URI of a folder: `s3://BUCKET/PREFIX`, `gs://…`, `az://…`, `file:///PATH`, or a path.
    ///
    /// # Errors
    /// Objects cannot be written there.
    pub(super) fn new(place: &str, storage: Storage) -> Result<Self, StoreUrlError> {
        let place = place.trim_end_matches('/');
        let clouds = ["s3://", "gs://", "az://", "abfs://", "abfss://"];
        let is_cloud = clouds.iter().any(|cloud| {
            let bucket = place.strip_prefix(cloud);
            bucket.is_some_and(|bucket| !bucket.is_empty() && !bucket.starts_with('/'))
        });
        if is_cloud || storage.local_path(place).is_some() {
            let place = place.to_owned();
            return Ok(Self { storage, place });
        }
        let form = "write values=s3://BUCKET/PREFIX, gs://…, az://…, or the path of a directory";
        Err(StoreUrlError::Invalid(format!(
            "`{}` is no place for values: {form}",
            cachalot_storage::masked(place)
        )))
    }

    /// True if a value of this size is an object.
    pub(super) fn is_large(size: usize) -> bool {
        size > LARGEST_IN_ROW
    }

    /// The folder, for messages.
    pub(super) fn shown(&self) -> String {
        cachalot_storage::masked(&self.place).into_owned()
    }

    fn uri(&self, name: &str) -> String {
        format!("{}/{name}", self.place)
    }

    pub(super) async fn write(&self, object: &Object, value: Bytes) -> Result<(), Error> {
        await_caller().await;
        let written = self.storage.write(&self.uri(&object.name), value).await;
        written.map_err(failure)
    }

    /// Reads an object. Fails with [`ErrorKind::Corrupt`] if it is not there, or is not what was written.
    pub(super) async fn read(&self, object: &Object) -> Result<Bytes, Error> {
        await_caller().await;
        let uri = self.uri(&object.name);
        let damaged = |fault: &str| {
            let uri = cachalot_storage::masked(&uri);
            Error::new(ErrorKind::Corrupt, format!("the object `{uri}` {fault}"))
        };
        match self.storage.read(&uri, object.size).await {
            Ok(value) if object.is(&value) => Ok(value),
            Ok(_) => Err(damaged(
                "is damaged: it has another content than was stored",
            )),
            Err(error) => Err(match error.kind {
                StorageErrorKind::NotFound => damaged("of a record is missing"),
                StorageErrorKind::TooLarge => damaged("is damaged: it is larger than was stored"),
                _ => failure(error),
            }),
        }
    }
}

/// Leaves requests for objects to the task that awaits the answer: a call waits for nothing.
async fn await_caller() {
    tokio::task::yield_now().await;
}

fn failure(error: cachalot_storage::Error) -> Error {
    let kind = match error.kind {
        StorageErrorKind::Denied => ErrorKind::Denied,
        StorageErrorKind::Unavailable => ErrorKind::Unavailable,
        _ => ErrorKind::Unsupported,
    };
    Error::new(kind, error.to_string()).with_source(error)
}

/// Objects that no record refers to. They are deleted when this is dropped, if the caller does not wait for it.
#[derive(Default)]
pub(super) struct Unreferenced {
    values: Option<LargeValues>,
    names: Vec<String>,
}

impl Unreferenced {
    pub(super) fn new(values: Option<&LargeValues>, names: Vec<String>) -> Self {
        Self {
            values: values.cloned(),
            names,
        }
    }

    pub(super) fn add(&mut self, object: &Object) {
        self.names.push(object.name.clone());
    }

    /// Forgets those that a record refers to now.
    pub(super) fn keep(&mut self, used: &[String]) {
        self.names.retain(|name| !used.contains(name));
    }

    /// Deletes the objects, as far as that is possible: one that stays costs space and nothing else.
    pub(super) async fn delete(mut self) {
        if let Some(values) = self.values.as_ref().filter(|_| !self.names.is_empty()) {
            await_caller().await;
            let delete = async |name: &String| {
                let _ = values.storage.delete(&values.uri(name)).await;
            };
            let names = stream::iter(&self.names);
            names.for_each_concurrent(CONCURRENT, delete).await;
        }
        self.names.clear();
    }
}

impl Drop for Unreferenced {
    fn drop(&mut self) {
        let (values, names) = (self.values.take(), std::mem::take(&mut self.names));
        if let (Some(values), false, Ok(runtime)) =
            (values, names.is_empty(), Handle::try_current())
        {
            runtime.spawn(async move {
                let values = Some(values);
                Self { values, names }.delete().await;
            });
        }
    }
}
