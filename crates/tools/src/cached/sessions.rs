//! The cached results of each session, and their lifetime.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachalot_cache::{Cache, CacheBounds, CacheOptions, Scope};
use cachalot_store::in_process::InProcessStore;
use indexmap::IndexMap;
use parking_lot::{Mutex, MutexGuard};

use super::CachedToolsOptions;
use super::counters::{CacheStats, Counters, SessionCounters};
use super::deliveries::Deliveries;
use super::settings::ToolCacheScope;
use cachalot_operation::domains::EngineLifetime;
use cachalot_operation::write_notifier::EngineRegistration;

/// Maximum number of sessions with cached results; the least recently used ones are dropped.
const MAX_SESSIONS: usize = 256;

/// The cache of a session.
pub(super) struct SessionCache {
    /// The root of the session's workspace.
    root: PathBuf,
    /// The engine that stores its results.
    pub(super) engine: Cache,
    /// The lifetime of results in the engine.
    pub(super) engine_lifetime: EngineLifetime,
    /// The scope in which the results are shared.
    pub(super) scope: Scope,
    session_counters: Arc<Mutex<SessionCounters>>,
    deliveries: Mutex<Deliveries>,
    /// Notifies the engine of writes during the session.
    _registration: Option<EngineRegistration>,
}

impl SessionCache {
    fn new(name: &str, root: &Path, options: &CachedToolsOptions) -> Self {
        let session_counters = Arc::<Mutex<SessionCounters>>::default();
        let (engine, scope, enrolled) = match (&options.persistent, options.settings.scope) {
            (Some(engine), ToolCacheScope::Workspace) => {
                (engine.clone(), Scope::Workspace(path_text(root)), None)
            }
            (Some(engine), ToolCacheScope::User) if !options.user.trim().is_empty() => {
                (engine.clone(), Scope::User(options.user.clone()), None)
            }
            _ => {
                let engine = session_engine(options, &session_counters);
                let enrolled = options
                    .write_notifier
                    .register(&engine, EngineLifetime::Session);
                (engine, Scope::Session(name.to_owned()), Some(enrolled))
            }
        };
        Self {
            root: root.to_owned(),
            engine_lifetime: match &enrolled {
                Some(_) => EngineLifetime::Session,
                None => EngineLifetime::Persistent,
            },
            engine,
            scope,
            session_counters,
            deliveries: Mutex::default(),
            _registration: enrolled,
        }
    }

    /// Updates the statistics of a tool.
    pub(super) fn count(&self, tool: &str, count: impl FnOnce(&mut Counters)) {
        self.session_counters.lock().count(tool, count);
    }

    pub(super) fn deliveries(&self) -> MutexGuard<'_, Deliveries> {
        self.deliveries.lock()
    }
}

/// Creates an engine for one session, over a store that is dropped with it.
fn session_engine(
    options: &CachedToolsOptions,
    session_counters: &Arc<Mutex<SessionCounters>>,
) -> Cache {
    let engine = Cache::exact(CacheOptions {
        local: None,
        store: Some(Arc::new(InProcessStore::new(Arc::clone(&options.clock)))),
        ledger: options.ledger.clone(),
        clock: Arc::clone(&options.clock),
        secret_set: Arc::clone(&options.secret_set),
        bounds: CacheBounds {
            entries: options.settings.max_size,
            bytes: options.settings.max_bytes,
            // The store is as fast as the front; the front is only for decoded results.
            front_bytes: options.settings.max_bytes.saturating_mul(3),
            ..CacheBounds::default()
        },
        warn: Arc::clone(&options.log),
    });
    let session_counters = Arc::clone(session_counters);
    engine.on_eviction(move |tool| {
        session_counters
            .lock()
            .count(tool, |counters| counters.evicted += 1);
    });
    engine
}

/// Converts a path to text, injectively.
pub(super) fn path_text(path: &Path) -> String {
    match path.to_str() {
        Some(text) => text.to_owned(),
        // Quoted, which no absolute path is.
        None => format!("{path:?}"),
    }
}

/// All sessions with a cache, the least recently used one first.
#[derive(Default)]
pub(super) struct SessionCaches(Mutex<IndexMap<String, Arc<SessionCache>>>);

impl SessionCaches {
    /// Returns the session of this name in this workspace. A session that changes its workspace starts with
    /// an empty cache.
    pub(super) fn get_or_create(
        &self,
        name: &str,
        root: &Path,
        options: &CachedToolsOptions,
    ) -> Arc<SessionCache> {
        let mut sessions = self.0.lock();
        let mut left = sessions.shift_remove(name);
        let kept = left.take_if(|known| known.root.as_os_str() == root.as_os_str());
        let session = kept.unwrap_or_else(|| Arc::new(SessionCache::new(name, root, options)));
        sessions.insert(name.to_owned(), Arc::clone(&session));
        let crowded_out = if sessions.len() > MAX_SESSIONS {
            sessions.shift_remove_index(0)
        } else {
            None
        };
        // Released before the ends below, which write log messages.
        drop(sessions);
        for ended in left.into_iter().chain(crowded_out.map(|(_, ended)| ended)) {
            ended.end(options);
        }
        session
    }

    /// Drops the cache of a session.
    pub(super) fn end(&self, name: &str, options: &CachedToolsOptions) {
        let ended = self.0.lock().shift_remove(name);
        if let Some(session) = ended {
            session.end(options);
        }
    }

    pub(super) fn stats(&self, name: &str) -> CacheStats {
        self.session_counters(name)
            .map(|session_counters| session_counters.lock().stats())
            .unwrap_or_default()
    }

    pub(super) fn counters(&self, name: &str) -> BTreeMap<String, Counters> {
        self.session_counters(name)
            .map(|session_counters| session_counters.lock().all())
            .unwrap_or_default()
    }

    fn session_counters(&self, name: &str) -> Option<Arc<Mutex<SessionCounters>>> {
        let sessions = self.0.lock();
        Some(Arc::clone(&sessions.get(name)?.session_counters))
    }
}

impl SessionCache {
    /// Logs the statistics. Calls in progress keep their references.
    fn end(&self, options: &CachedToolsOptions) {
        if let Some(line) = self.session_counters.lock().stats().line() {
            (options.log)(&line);
        }
    }
}
