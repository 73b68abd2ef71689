//! Opens the store that a URL names.

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
use cachalot_store::Store;

use crate::url::{StoreUrl, StoreUrlError};

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

/// Opens the store that a URL names; connects with its first call.
///
/// # Errors
/// If the URL names no store of this build.
pub fn open(url: &StoreUrl, options: &OpenOptions) -> Result<Arc<dyn Store>, StoreUrlError> {
    let password = options.password.as_ref();
    let password = password.map(|password| password.expose().as_str());
    match url.backend() {
        #[cfg(feature = "postgres")]
        Some("postgres") => {
            let server = crate::postgres::Server::new(url, password);
            let server = server?.connecting_within(options.connect_timeout);
            Ok(followed(
                crate::postgres::PostgresStore::new(server),
                options,
            ))
        }
        #[cfg(feature = "redis")]
        Some("redis") => {
            let server = crate::redis::Server::new(url, password);
            let server = server?.durable(options.durable);
            let server = server.connecting_within(options.connect_timeout);
            Ok(followed(crate::redis::RedisStore::new(server), options))
        }
        #[cfg(feature = "bucket")]
        Some("blob-sqlite") => {
            use crate::bucket::{BucketStore, MAX_SILENCE, Storages};
            let storages = Storages {
                reads: storage(options, MAX_SILENCE)?,
                writes: storage(options, HttpOptions::default().idle_timeout)?,
            };
            let store = BucketStore::new(url, storages, Arc::clone(&options.clock));
            Ok(Arc::new(store?))
        }
        #[cfg(feature = "turso")]
        Some("turso") => {
            let server = crate::turso::Server::new(
                url,
                password,
                http_client(options, HttpOptions::default().idle_timeout)?,
            )?;
            Ok(Arc::new(crate::turso::TursoStore::new(server)))
        }
        #[cfg(feature = "firestore")]
        Some("firestore") => {
            let http = http_client(options, HttpOptions::default().idle_timeout)?;
            let server = crate::firestore::Server::new(url, &options.environment, http)?;
            Ok(Arc::new(crate::firestore::FirestoreStore::new(server)))
        }
        #[cfg(feature = "duckdb")]
        Some("duckdb") => {
            let clock = Arc::clone(&options.clock);
            let store = crate::duckdb::DuckdbStore::new(
                url,
                storage(options, HttpOptions::default().idle_timeout)?,
                clock,
            );
            Ok(Arc::new(store?))
        }
        Some(backend) => {
            let _ = password;
            Err(StoreUrlError::NotBuilt(backend))
        }
        None => Err(StoreUrlError::UnknownScheme(url.scheme().to_owned())),
    }
}

/// Returns a store that may serve copies of its entries if the options allow it.
#[cfg(any(feature = "postgres", feature = "redis"))]
fn followed<S: Store + crate::changes::Subscribe>(
    store: S,
    options: &OpenOptions,
) -> Arc<dyn Store> {
    match options.staleness {
        Duration::ZERO => Arc::new(store),
        staleness => Arc::new(crate::followed::FollowedStore::new(store, staleness)),
    }
}

#[cfg(any(feature = "bucket", feature = "duckdb"))]
fn storage(options: &OpenOptions, idle_timeout: Duration) -> Result<Storage, StoreUrlError> {
    Ok(Storage::new(StorageOptions {
        directory: std::path::PathBuf::new(),
        environment: options.environment.clone(),
        http: http_client(options, idle_timeout)?,
    }))
}

#[cfg(any(
    feature = "bucket",
    feature = "duckdb",
    feature = "firestore",
    feature = "turso"
))]
fn http_client(options: &OpenOptions, idle_timeout: Duration) -> Result<HttpClient, StoreUrlError> {
    let client = HttpClient::new(HttpOptions {
        environment: options.environment.clone(),
        idle_timeout,
        ..HttpOptions::default()
    });
    client.map_err(|error| StoreUrlError::Invalid(error.to_string()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn stores_that_are_not_built_are_known_by_name() {
        let error = |url| open(&StoreUrl::recognize(url).unwrap(), &OpenOptions::default()).err();
        #[cfg(not(feature = "duckdb"))]
        assert_eq!(
            error("duckdb:file.db"),
            Some(StoreUrlError::NotBuilt("duckdb"))
        );
        assert_eq!(
            error("mysql://host"),
            Some(StoreUrlError::UnknownScheme("mysql".into()))
        );
        assert!(matches!(
            error("postgres://host:no/x"),
            Some(StoreUrlError::Invalid(_))
        ));
        for url in [
            "redis://host/no",
            "s3://bucket",
            "gs://bucket/",
            "az:///x.db",
        ] {
            let error = error(url);
            assert!(
                matches!(error, Some(StoreUrlError::Invalid(_))),
                "{url}: {error:?}"
            );
        }
    }
}
