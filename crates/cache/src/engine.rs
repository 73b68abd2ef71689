//! The parts that all calls of an engine share.

use std::sync::Arc;

use cachalot_core::{Clock, SecretSet};
use cachalot_store::Store;

use crate::access::StoreAccess;
use crate::bounds::CacheBounds;
use crate::evict::Eviction;
use crate::flight::Flights;
use crate::front::Front;
use crate::ledger::Ledger;
use crate::renew::Renewals;
use crate::write_back::WriteBacks;
use crate::write_guard::Writes;

/// The parts of an engine.
pub struct CacheOptions {
    /// The store of the entries; `None` disables caching: every call runs.
    pub store: Option<Arc<dyn Store>>,
    /// The ledger that accounts for calls.
    pub ledger: Ledger,
    /// The clock for expiry.
    pub clock: Arc<dyn Clock>,
    /// Secrets: an answer that contains one is not stored.
    pub secret_set: Arc<SecretSet>,
    /// Maximum size of the cache.
    pub bounds: CacheBounds,
    /// Receives warnings of one sentence each, about faults of the store and long waits; the work continues.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The parts of an engine. The phases of a call are functions of the modules `lookup`, `join`, `reserve`,
/// `ticket` and `store_answer`; `begin` composes them.
pub(crate) struct Engine {
    pub(crate) access: Arc<StoreAccess>,
    pub(crate) ledger: Ledger,
    pub(crate) bounds: CacheBounds,
    pub(crate) front: Front,
    pub(crate) flights: Arc<Flights>,
    pub(crate) writes: Arc<Writes>,
    pub(crate) renewals: Arc<Renewals>,
    pub(crate) write_backs: WriteBacks,
    pub(crate) eviction: Arc<Eviction>,
}

impl Engine {
    pub(crate) fn new(options: CacheOptions, exact: bool) -> Self {
        let CacheOptions {
            store,
            ledger,
            clock,
            secret_set,
            bounds,
            warn,
        } = options;
        let front_bytes = match store {
            Some(_) => bounds.front_bytes,
            None => 0,
        };
        let access = Arc::new(StoreAccess::new(store, clock, secret_set, warn));
        let flights = Arc::new(Flights::default());
        Self {
            ledger,
            bounds,
            front: Front::new(front_bytes),
            writes: Arc::new(Writes::new(&access)),
            renewals: Arc::new(Renewals::new(&access, &flights)),
            write_backs: WriteBacks::new(&access),
            eviction: Arc::new(Eviction::new(&access, bounds, exact)),
            flights,
            access,
        }
    }
}
