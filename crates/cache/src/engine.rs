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
use crate::local::LocalCopies;
use crate::orphans::Orphans;
use crate::renew::Renewals;
use crate::write_back::WriteBacks;
use crate::write_guard::Writes;

/// The parts of an engine.
pub struct CacheOptions {
    /// The store of the entries; `None` disables caching: every call runs.
    pub store: Option<Arc<dyn Store>>,
    /// Copies of the entries on this machine, if `store` is on a server.
    pub local: Option<LocalStore>,
    /// The ledger that accounts for calls.
    pub ledger: Ledger,
    /// The clock for expiry.
    pub clock: Arc<dyn Clock>,
    /// Secrets: an answer that contains one is not stored.
    pub secret_set: Arc<SecretSet>,
    /// Maximum size of the cache, and of its runs without readers.
    pub bounds: CacheBounds,
    /// Receives warnings of one sentence each, about faults of the store and long waits; the work continues.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
}

/// A store on this machine with copies of the entries of a store on a server. They answer calls while the server does
/// not answer, within their time to live, and without domains.
pub struct LocalStore {
    /// The store.
    pub store: Arc<dyn Store>,
    /// False if entries are neither copied nor served, but only erased there too.
    pub is_served: bool,
}

/// The parts of an engine. `call_path` walks a call through them.
pub(crate) struct Engine {
    pub(crate) access: Arc<StoreAccess>,
    pub(crate) ledger: Ledger,
    pub(crate) bounds: CacheBounds,
    pub(crate) front: Front,
    pub(crate) flights: Arc<Flights>,
    pub(crate) orphans: Orphans,
    pub(crate) writes: Arc<Writes>,
    pub(crate) renewals: Arc<Renewals>,
    pub(crate) write_backs: WriteBacks,
    pub(crate) eviction: Arc<Eviction>,
    pub(crate) local: Option<Arc<LocalCopies>>,
}

impl Engine {
    pub(crate) fn new(options: CacheOptions, exact: bool) -> Self {
        let CacheOptions {
            store,
            local,
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
        let access = |store| {
            let (clock, secret_set) = (Arc::clone(&clock), Arc::clone(&secret_set));
            Arc::new(StoreAccess::new(
                store,
                clock,
                secret_set,
                Arc::clone(&warn),
            ))
        };
        let local = local.map(|local| (access(Some(local.store)), local.is_served));
        let access = access(store);
        let local = local.map(|(local, is_served)| {
            let eviction = Arc::new(Eviction::new(&local, bounds, exact));
            let server = Arc::clone(&access);
            Arc::new(LocalCopies::new(local, server, eviction, is_served))
        });
        let flights = Arc::new(Flights::default());
        Self {
            ledger,
            bounds,
            front: Front::new(front_bytes),
            orphans: Orphans::new(&bounds),
            writes: Arc::new(Writes::new(&access)),
            renewals: Arc::new(Renewals::new(&access, &flights)),
            write_backs: WriteBacks::new(&access),
            eviction: Arc::new(Eviction::new(&access, bounds, exact)),
            local,
            flights,
            access,
        }
    }
}
