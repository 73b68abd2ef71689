//! Settings of an engine and of a store on a server, declared once for all files that have them.

use std::time::Duration;

use cachalot_core::config::{self, ParameterKind as Kind};
use cachalot_core::duration::Range;

use crate::CacheBounds;

/// The values of times that calls wait for a store.
pub const WAITING: Range = Range::ANY
    .at_least(Duration::from_millis(1))
    .at_most(Duration::from_secs(3_600));

/// The values of `staleness`.
const STALENESS: Range = Range::ANY.at_most(Duration::from_secs(3_600));

/// Limits of the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, config::Settings)]
#[settings(name = "`settings.cache`")]
pub struct EngineSettings {
    /// The maximum bytes of all cached entries together; 1 GiB by default. The least recently used are evicted first.
    pub max_bytes: Option<u64>,
    /// The maximum number of cached entries; 1,000,000 by default.
    pub max_entries: Option<u64>,
    /// The bytes of entries, with their decoded forms, that the process keeps in memory; 64 MiB by default.
    pub front_bytes: Option<u64>,
    /// How long a call waits for a slow store before it runs uncached; `250ms` by default.
    #[setting(kind = Kind::Duration(WAITING))]
    pub patience: Option<Duration>,
    /// The maximum time for storing an answer, apart from the lookup; `5s` by default.
    #[setting(kind = Kind::Duration(WAITING))]
    pub store_timeout: Option<Duration>,
}

impl EngineSettings {
    /// Returns the bounds, with the defaults of those that are not set.
    #[must_use]
    pub fn bounds(&self) -> CacheBounds {
        let default = CacheBounds::default();
        CacheBounds {
            bytes: self.max_bytes.unwrap_or(default.bytes),
            entries: self.max_entries.unwrap_or(default.entries),
            front_bytes: self.front_bytes.unwrap_or(default.front_bytes),
            lookup_timeout: self.patience.unwrap_or(default.lookup_timeout),
            store_timeout: self.store_timeout.unwrap_or(default.store_timeout),
            ..default
        }
    }
}

/// A store that other machines use, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, config::Settings)]
#[settings(name = "`settings.ltm`")]
pub struct SharedStoreSettings {
    /// For how long a cached answer may be served after another machine has changed or erased it, such as `2s`; 0 by
    /// default: every hit asks the server. For Postgres and a single Redis server.
    #[setting(kind = Kind::Duration(STALENESS), default)]
    pub staleness: Duration,
    /// Says that a Redis server loses nothing when it starts again, so that cached answers survive that; its settings
    /// are checked. False by default.
    pub durable: bool,
    /// Keeps copies of cached answers on this machine: they answer while the server does not, within their time to
    /// live; answers of that time are sent later. For stores on a server; false by default.
    pub local: bool,
}
