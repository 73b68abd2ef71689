//! One reader for all URIs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::Millis;
use futures_util::TryStreamExt as _;
use futures_util::stream::BoxStream;

use crate::cloud::Clouds;
use crate::error::Error;
use crate::hash::{Algorithm, Hashed, Hasher};
use crate::http::HttpClient;
use crate::location::Location;
use crate::mask::masked;
use crate::{local, transfer};

/// What a [`Storage`] is made from.
#[derive(Clone)]
pub struct Options {
    /// Where relative paths start.
    pub directory: PathBuf,
    /// Where the credentials and endpoints of the clouds are read from.
    pub environment: BTreeMap<String, String>,
    /// The client that remote URIs are read through.
    pub http: HttpClient,
}

impl fmt::Debug for Options {
    /// Without the environment, which holds secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("directory", &self.directory)
            .field("http", &self.http)
            .finish_non_exhaustive()
    }
}

/// What is known about the bytes behind a URI without reading them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// How many bytes there are.
    pub size: u64,
    /// When they were last changed, if that is known.
    pub modified: Option<Millis>,
    /// The server's tag of this version, as it wrote it; `None` for files.
    pub etag: Option<String>,
}

/// Bytes behind URIs. Cheap to clone; clones share connections.
///
/// A URI is one of:
/// - a path, absolute or relative to [`Options::directory`], taken as it is: no `~`, no wildcards,
///   no percent-encoding; also with a Windows drive letter;
/// - `file:///path`, percent-encoded, the host empty or `localhost`;
/// - `http://` or `https://`, with the unguarded [`HttpClient`]: the URI is the user's own;
/// - `s3://bucket/key`, `gs://bucket/key`, `az://container/key`,
///   `abfs(s)://container@account.dfs.core.windows.net/key`. Keys are taken as they are.
///
/// Every function must be called inside a Tokio runtime with time and I/O enabled.
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
    /// A storage that has not read anything yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let Options {
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

    /// The client that remote URIs are read through.
    #[must_use]
    pub fn http(&self) -> &HttpClient {
        &self.shared.http
    }

    /// The file that `uri` names: plain paths and `file://`, made absolute by the directory that
    /// relative paths start at. `None` for remote URIs and for what is no valid URI.
    #[must_use]
    pub fn local_path(&self, uri: &str) -> Option<PathBuf> {
        match self.locate(uri) {
            Ok(Location::Local(path)) => Some(path),
            _ => None,
        }
    }

    /// Size, time and version of the bytes behind `uri`.
    ///
    /// # Errors
    /// Whatever [`ErrorKind`](crate::ErrorKind) fits.
    pub async fn stat(&self, uri: &str) -> Result<Stat, Error> {
        match self.locate(uri)? {
            Location::Local(path) => local::stat(uri.to_owned(), path).await,
            Location::Web(url) => transfer::stat(&self.shared.http, &url).await,
            Location::Object(object) => self.shared.clouds.stat(uri, &object).await,
        }
    }

    /// The bytes behind `uri`, if there are at most `max_bytes` of them.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge) as soon as that is known; else whatever
    /// kind fits. Fewer bytes than the server announced are an error.
    pub async fn read(&self, uri: &str, max_bytes: u64) -> Result<Bytes, Error> {
        match self.locate(uri)? {
            Location::Local(path) => local::read(uri.to_owned(), path, max_bytes).await,
            Location::Web(url) => {
                let response = transfer::get(&self.shared.http, &url).await?;
                transfer::body(response, max_bytes).await
            }
            Location::Object(object) => {
                let (size, chunks) = self.shared.clouds.open(uri, &object).await?;
                transfer::gather(&masked(uri), Some(size), chunks, max_bytes).await
            }
        }
    }

    /// The bytes behind `uri` as they come in, in constant memory.
    ///
    /// # Errors
    /// Whatever kind fits, here or as the last item of the stream. Fewer bytes than the server
    /// announced end in an error, never in a stream that looks complete.
    pub async fn open(&self, uri: &str) -> Result<BoxStream<'static, Result<Bytes, Error>>, Error> {
        match self.locate(uri)? {
            Location::Local(path) => local::chunks(uri.to_owned(), path).await,
            Location::Web(url) => Ok(transfer::chunks(
                transfer::get(&self.shared.http, &url).await?,
            )),
            Location::Object(object) => Ok(self.shared.clouds.open(uri, &object).await?.1),
        }
    }

    /// The hash of the bytes behind `uri`, computed while they stream by, in constant memory.
    ///
    /// # Errors
    /// As of [`Storage::open`]; a broken transfer is an error, never the hash of a part.
    pub async fn hash(&self, uri: &str, algorithm: Algorithm) -> Result<Hashed, Error> {
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
