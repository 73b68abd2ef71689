//! Stores of engines that users operate themselves, one module, feature and row of [`BACKENDS`] each. SQLite files and
//! stores in the process are in `cachalot-store`.

#[cfg(feature = "bucket")]
pub mod bucket;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub mod changes;
#[cfg(feature = "duckdb")]
pub mod duckdb;
pub mod encrypted;
#[cfg(feature = "firestore")]
pub mod firestore;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub mod followed;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod liveness;
mod open_options;
#[cfg(any(feature = "bucket", feature = "firestore"))]
mod pause;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(
    feature = "bucket",
    feature = "firestore",
    feature = "postgres",
    feature = "redis"
))]
mod random;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod repetition;
#[cfg(all(unix, feature = "testing"))]
pub mod testing;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod trust;
#[cfg(feature = "turso")]
pub mod turso;
mod url;

use std::sync::Arc;

use cachalot_store::Store;

pub use open_options::OpenOptions;
pub use url::{StoreUrl, StoreUrlError};

/// The default of [`OpenOptions::connect_timeout`].
const CONNECT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// Opens the store that a URL of the backend names.
pub(crate) type Open = fn(&StoreUrl, &OpenOptions) -> Result<Arc<dyn Store>, StoreUrlError>;

/// The form of the part of a URL that follows the scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Address {
    /// The path of a file, as it is written.
    Path,
    /// A host or a bucket; several hosts if the scheme has a hyphen.
    Host,
    /// Hosts, which parameters may name, too, as in URLs of libpq.
    Hosts,
}

/// A scheme of which others are spellings, and the port that a URL without one means.
#[derive(Debug)]
pub(crate) struct DefaultPort {
    pub(crate) schemes: &'static [&'static str],
    pub(crate) counts_as: &'static str,
    pub(crate) port: u16,
}

/// A backend: what is known about it without a server.
#[derive(Debug)]
pub struct Backend {
    /// Its name in `settings.ltm.backend`.
    pub name: &'static str,
    /// The schemes of its URLs.
    pub schemes: &'static [&'static str],
    /// An example of a URL.
    pub example: &'static str,
    /// The environment variable from which its own programs read a password.
    pub password_variable: Option<&'static str>,
    /// The feature with which it is built.
    pub feature: &'static str,
    pub(crate) address: Address,
    pub(crate) default_ports: &'static [DefaultPort],
    /// The path that a URL without one means.
    pub(crate) default_path: Option<&'static str>,
    /// `None` without the feature.
    pub(crate) open: Option<Open>,
}

/// Returns the function that opens a store, if its feature is built.
macro_rules! built {
    ($feature:literal, $open:path) => {{
        #[cfg(feature = $feature)]
        {
            Some($open)
        }
        #[cfg(not(feature = $feature))]
        {
            None
        }
    }};
}

/// All backends.
pub static BACKENDS: [Backend; 6] = [
    Backend {
        name: "postgres",
        schemes: &["postgres", "postgresql"],
        example: "postgres://USER@HOST/DATABASE",
        password_variable: Some("PGPASSWORD"),
        feature: "postgres",
        address: Address::Hosts,
        default_ports: &[DefaultPort {
            schemes: &["postgres", "postgresql"],
            counts_as: "postgres",
            port: 5432,
        }],
        default_path: None,
        open: built!("postgres", crate::postgres::open),
    },
    Backend {
        name: "redis",
        schemes: &[
            "redis",
            "rediss",
            "valkey",
            "valkeys",
            "unix",
            "redis-cluster",
            "rediss-cluster",
            "redis-sentinel",
            "rediss-sentinel",
        ],
        example: "redis://HOST:6379/0",
        password_variable: Some("REDISCLI_AUTH"),
        feature: "redis",
        address: Address::Host,
        default_ports: &[
            DefaultPort {
                schemes: &["redis", "valkey"],
                counts_as: "redis",
                port: 6379,
            },
            DefaultPort {
                schemes: &["rediss", "valkeys"],
                counts_as: "rediss",
                port: 6379,
            },
        ],
        default_path: Some("/0"),
        open: built!("redis", crate::redis::open),
    },
    Backend {
        name: "turso",
        schemes: &["libsql", "https"],
        example: "libsql://NAME.turso.io",
        password_variable: Some("TURSO_AUTH_TOKEN"),
        feature: "turso",
        address: Address::Host,
        default_ports: &[],
        default_path: None,
        open: built!("turso", crate::turso::open),
    },
    Backend {
        name: "blob-sqlite",
        schemes: &["s3", "gs", "az"],
        example: "s3://BUCKET/PATH/NAME.db",
        password_variable: None,
        feature: "bucket",
        address: Address::Host,
        default_ports: &[],
        default_path: None,
        open: built!("bucket", crate::bucket::open),
    },
    Backend {
        name: "firestore",
        schemes: &["firestore"],
        example: "firestore://PROJECT/COLLECTION",
        password_variable: None,
        feature: "firestore",
        address: Address::Host,
        default_ports: &[],
        default_path: None,
        open: built!("firestore", crate::firestore::open),
    },
    Backend {
        name: "duckdb",
        schemes: &["duckdb"],
        example: "duckdb:FILE.duckdb",
        password_variable: None,
        feature: "duckdb",
        address: Address::Path,
        default_ports: &[],
        default_path: None,
        open: built!("duckdb", crate::duckdb::open),
    },
];

impl Backend {
    /// True if it is part of this build.
    #[must_use]
    pub fn is_built(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the backend of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        BACKENDS.iter().find(|backend| backend.name == name)
    }

    /// Returns the backend whose URLs have this scheme, in lower case.
    #[must_use]
    pub fn of_scheme(scheme: &str) -> Option<&'static Self> {
        let mut backends = BACKENDS.iter();
        backends.find(|backend| backend.schemes.contains(&scheme))
    }
}

/// Opens the store that a URL names; connects with its first call.
///
/// # Errors
/// If the URL names no store of this build.
pub fn open(url: &StoreUrl, options: &OpenOptions) -> Result<Arc<dyn Store>, StoreUrlError> {
    let Some(backend) = Backend::of_scheme(url.scheme()) else {
        return Err(StoreUrlError::UnknownScheme(url.scheme().to_owned()));
    };
    let open = backend.open.ok_or(StoreUrlError::NotBuilt(backend.name))?;
    open(url, options)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../tests/unit/lib.rs"]
mod tests;
