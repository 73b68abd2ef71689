//! Cassettes from any bytes: no panic, and what is taken in comes out again as the same cassette.

use std::sync::Arc;

use cachalot_cache::{Cache, CacheBounds, CacheOptions, Ledger};
use cachalot_core::{Clock, ManualClock, SecretSet};
use cachalot_store::in_process::InProcessStore;
use tokio::runtime::{Builder, Runtime};

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime for one thread");
}

/// Checks one input.
pub fn check(bytes: &[u8]) {
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let Some(once) = played(bytes).await else {
                return;
            };
            let twice = played(&once).await;
            assert_eq!(twice.as_deref(), Some(once.as_slice()));
        });
    });
}

/// The cassette that a cache exports that has imported this one; `None` if it was refused.
async fn played(cassette: &[u8]) -> Option<Vec<u8>> {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(1_750_000_000_123));
    let cache = Cache::new(CacheOptions {
        local: None,
        store: Some(Arc::new(InProcessStore::new(Arc::clone(&clock)))),
        ledger: Ledger::disabled(),
        clock,
        secret_set: Arc::new(SecretSet::empty()),
        bounds: CacheBounds {
            front_bytes: 0,
            ..CacheBounds::default()
        },
        warn: Arc::new(|_| {}),
    });
    cache.import(&mut &*cassette).await.ok()?;
    let mut exported = Vec::new();
    cache.export(&mut exported, None).await.ok()?;
    Some(exported)
}
