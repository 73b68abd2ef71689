//! Options with which a store is opened.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{Clock, Secret, SystemClock};
#[cfg(any(
    feature = "bucket",
    feature = "duckdb",
    feature = "firestore",
    feature = "turso"
))]
use cachalot_storage::{HttpClient, HttpOptions};
#[cfg(any(feature = "bucket", feature = "duckdb"))]
use cachalot_storage::{Storage, StorageOptions};
#[cfg(any(feature = "postgres", feature = "redis"))]
use cachalot_store::Store;

#[cfg(any(
    feature = "bucket",
    feature = "duckdb",
    feature = "firestore",
    feature = "turso"
))]
use crate::url::StoreUrlError;

/// What a store may need beside its URL.
#[derive(Clone)]
pub struct OpenOptions {
    /// Used if the URL has none.
    pub password: Option<Secret<String>>,
    /// The source of cloud credentials and endpoints.
    pub environment: BTreeMap<String, String>,
    /// The clock of stores on servers that have none.
    pub clock: Arc<dyn Clock>,
    /// For how long an entry may be served after it was changed on a server that reports changes.
    pub staleness: Duration,
    /// The maximum time to connect to a server that is used over connections that stay. Default 5 s.
    pub connect_timeout: Duration,
    /// True if the operator says that a Redis server has all acknowledged writes when it starts again, which its settings
    /// have to confirm.
    pub durable: bool,
}

impl fmt::Debug for OpenOptions {
    /// Omits secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenOptions").finish_non_exhaustive()
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            password: None,
            environment: BTreeMap::new(),
            clock: Arc::new(SystemClock),
            staleness: Duration::ZERO,
            connect_timeout: crate::CONNECT_TIMEOUT,
            durable: false,
        }
    }
}

impl OpenOptions {
    #[cfg(any(feature = "postgres", feature = "redis", feature = "turso"))]
    pub(crate) fn password(&self) -> Option<&str> {
        let password = self.password.as_ref();
        password.map(|password| password.expose().as_str())
    }

    /// Returns a store that may serve copies of its entries if the options allow it.
    #[cfg(any(feature = "postgres", feature = "redis"))]
    pub(crate) fn followed<S: Store + crate::changes::Subscribe>(
        &self,
        store: S,
    ) -> Arc<dyn Store> {
        match self.staleness {
            Duration::ZERO => Arc::new(store),
            staleness => Arc::new(crate::followed::FollowedStore::new(store, staleness)),
        }
    }

    /// Returns a client of files and buckets; `idle_timeout` in place of the default.
    #[cfg(any(feature = "bucket", feature = "duckdb"))]
    pub(crate) fn storage(&self, idle_timeout: Option<Duration>) -> Result<Storage, StoreUrlError> {
        Ok(Storage::new(StorageOptions {
            directory: std::path::PathBuf::new(),
            environment: self.environment.clone(),
            http: self.http_client(idle_timeout)?,
        }))
    }

    /// Returns an HTTP client; `idle_timeout` in place of the default.
    #[cfg(any(
        feature = "bucket",
        feature = "duckdb",
        feature = "firestore",
        feature = "turso"
    ))]
    pub(crate) fn http_client(
        &self,
        idle_timeout: Option<Duration>,
    ) -> Result<HttpClient, StoreUrlError> {
        let defaults = HttpOptions::default();
        let client = HttpClient::new(HttpOptions {
            environment: self.environment.clone(),
            idle_timeout: idle_timeout.unwrap_or(defaults.idle_timeout),
            ..defaults
        });
        client.map_err(|error| StoreUrlError::Invalid(error.to_string()))
    }
}
