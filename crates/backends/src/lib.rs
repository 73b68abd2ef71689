//! Stores of engines that users operate themselves, one module and feature each. SQLite files and stores in
//! the process are in `cachalot-store`.

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
mod open;
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
mod registry;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod repetition;
#[cfg(all(unix, feature = "testing"))]
pub mod testing;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod trust;
#[cfg(feature = "turso")]
pub mod turso;
mod url;

/// The default of [`OpenOptions::connect_timeout`].
const CONNECT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

pub use open::{OpenOptions, open};
pub use registry::{BACKENDS, Backend};
pub use url::{StoreUrl, StoreUrlError};
