//! A reader for all URIs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use futures_util::stream::BoxStream;

use crate::cloud::Clouds;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::hash::{Algorithm, HashOutput, Hasher};
use crate::http::HttpClient;
use crate::location::{Location, Object};
use crate::mask::masked;
use crate::stat::Stat;
use crate::version::{ObjectVersion, VersionRead};
use crate::{local, transfer};

/// Options of a [`Storage`].
#[derive(Clone)]
pub struct StorageOptions {
    /// The directory at which relative paths start.
    pub directory: PathBuf,
    /// The source of cloud credentials and endpoints.
    pub environment: BTreeMap<String, String>,
    /// The client for remote URIs.
    pub http: HttpClient,
}

/// Reads bytes behind URIs. Cheap to clone; clones share connections.
///
/// A URI is one of:
/// - a path, absolute or relative to [`StorageOptions::directory`], used verbatim: no `~`, no wildcards, no
///   percent-encoding; also with a Windows drive letter;
/// - `file:///path`, percent-encoded, with the host empty or `localhost`;
/// - `http://` or `https://`, read with the unguarded [`HttpClient`], because the user chose the URI;
/// - `s3://bucket/key`, `gs://bucket/key`, `az://container/key`,
///   `abfs(s)://container@account.dfs.core.windows.net/key`. Keys are used verbatim.
///
/// Every function must be called within a Tokio runtime with time and I/O enabled.
#[derive(Clone)]
pub struct Storage {
    shared: Arc<Shared>,
}

struct Shared {
    directory: PathBuf,
    http: HttpClient,
    clouds: Clouds,
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage")
            .field("directory", &self.shared.directory)
            .finish_non_exhaustive()
    }
}

impl Storage {
    /// Creates a storage.
    #[must_use]
    pub fn new(options: StorageOptions) -> Self {
        let StorageOptions {
            directory,
            environment,
            http,
        } = options;
        let clouds = Clouds::new(environment, http.clone());
        Self {
            shared: Arc::new(Shared {
                directory,
                http,
                clouds,
            }),
        }
    }

    /// The client for remote URIs.
    #[must_use]
    pub fn http(&self) -> &HttpClient {
        &self.shared.http
    }

    /// Returns the file that `uri` names: plain paths and `file://`, made absolute with
    /// [`StorageOptions::directory`]. `None` for remote and invalid URIs.
    #[must_use]
    pub fn local_path(&self, uri: &str) -> Option<PathBuf> {
        match self.locate(uri) {
            Ok(Location::Local(path)) => Some(path),
            _ => None,
        }
    }

    /// Returns size, time and version of the bytes behind `uri`.
    ///
    /// # Errors
    /// An error with the matching [`ErrorKind`].
    pub async fn stat(&self, uri: &str) -> Result<Stat, Error> {
        match self.locate(uri)? {
            Location::Local(path) => local::stat(uri.to_owned(), path).await,
            Location::Web(url) => transfer::stat(&self.shared.http, &url).await,
            Location::Object(object) => self.shared.clouds.stat(uri, &object).await,
        }
    }

    /// Returns the bytes behind `uri`, if there are at most `max_bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] as soon as that is known; otherwise the matching
    /// kind. Fewer bytes than the server announced are an error.
    pub async fn read(&self, uri: &str, max_bytes: u64) -> Result<Bytes, Error> {
        match self.locate(uri)? {
            Location::Local(path) => local::read(uri.to_owned(), path, max_bytes).await,
            Location::Web(url) => {
                let response = transfer::get(&self.shared.http, &url).await?;
                transfer::body(response, max_bytes).await
            }
            Location::Object(object) => {
                let (size, chunks) = self.shared.clouds.open(uri, &object).await?;
                transfer::read_limited(&masked(uri), Some(size), chunks, max_bytes).await
            }
        }
    }

    /// Streams the bytes behind `uri`, in constant memory.
    ///
    /// # Errors
    /// An error with the matching kind, returned here or as the last item of the stream. If fewer bytes
    /// arrive than the server announced, the stream ends with an error and never appears complete.
    pub async fn open(&self, uri: &str) -> Result<BoxStream<'static, Result<Bytes, Error>>, Error> {
        match self.locate(uri)? {
            Location::Local(path) => local::chunks(uri.to_owned(), path).await,
            Location::Web(url) => Ok(transfer::chunks(
                transfer::get(&self.shared.http, &url).await?,
            )),
            Location::Object(object) => Ok(self.shared.clouds.open(uri, &object).await?.1),
        }
    }

    /// Returns an object of a cloud store, if its version is not the one that the caller knows. One request.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] if it has more than `max_bytes`,
    /// [`ErrorKind::UnknownScheme`] if `uri` names none; otherwise the matching kind.
    pub async fn read_version(
        &self,
        uri: &str,
        known: Option<&ObjectVersion>,
        max_bytes: u64,
    ) -> Result<VersionRead, Error> {
        let object = self.object(uri)?;
        let clouds = &self.shared.clouds;
        clouds.read_version(uri, &object, known, max_bytes).await
    }

    /// Replaces an object of a cloud store if it has the expected version, or creates it if it is expected to be
    /// absent. Returns the new version; `None` if it was refused: another writer was first, or the request was
    /// repeated because its reply was lost, and the first one had replaced the object. After an error the object may
    /// have been replaced or not.
    ///
    /// # Errors
    /// As those of [`Storage::read_version`].
    pub async fn write_version(
        &self,
        uri: &str,
        bytes: Bytes,
        expected: Option<&ObjectVersion>,
    ) -> Result<Option<ObjectVersion>, Error> {
        let object = self.object(uri)?;
        let clouds = &self.shared.clouds;
        clouds.write_version(uri, &object, bytes, expected).await
    }

    /// Writes a file, in a folder that is created if it does not exist, or an object of a cloud store. Replaces any other.
    /// After an error, a part of a file may be there.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownScheme`] if `uri` names neither; otherwise the matching kind.
    pub async fn write(&self, uri: &str, bytes: Bytes) -> Result<(), Error> {
        match self.locate(uri)? {
            Location::Local(path) => local::write(uri.to_owned(), path, bytes).await,
            _ => {
                let clouds = &self.shared.clouds;
                clouds.write(uri, &self.object(uri)?, bytes).await
            }
        }
    }

    /// Deletes a file or an object of a cloud store, if it exists.
    ///
    /// # Errors
    /// The errors of [`Storage::write`].
    pub async fn delete(&self, uri: &str) -> Result<(), Error> {
        match self.locate(uri)? {
            Location::Local(path) => local::delete(uri.to_owned(), path).await,
            _ => self.shared.clouds.delete(uri, &self.object(uri)?).await,
        }
    }

    fn object(&self, uri: &str) -> Result<Object, Error> {
        match self.locate(uri)? {
            Location::Object(object) => Ok(object),
            _ => Err(Error::new(
                ErrorKind::UnknownScheme,
                format!("`{}` is not an object of a cloud store", masked(uri)),
            )),
        }
    }

    /// Hashes the bytes behind `uri` while they are streamed, in constant memory.
    ///
    /// # Errors
    /// The errors of [`Storage::open`]; an interrupted transfer is an error, never the hash of a part.
    pub async fn hash(&self, uri: &str, algorithm: Algorithm) -> Result<HashOutput, Error> {
        if let Location::Local(path) = self.locate(uri)? {
            return local::hash(uri.to_owned(), path, algorithm).await;
        }
        let mut chunks = self.open(uri).await?;
        let mut hasher = Hasher::new(algorithm);
        while let Some(chunk) = chunks.try_next().await? {
            hasher.update(&chunk);
        }
        Ok(hasher.finish())
    }

    fn locate(&self, uri: &str) -> Result<Location, Error> {
        Location::parse(uri, &self.shared.directory)
    }
}
