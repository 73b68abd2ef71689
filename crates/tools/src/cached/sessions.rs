//! The cached results of each session, and their lifetime.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cachalot_cache::{Bounds, Cache, Options, Scope};
use cachalot_memory::in_process::InProcessMemory;

use super::Origins;
use super::counters::{CacheStats, Counters, Tallies};
use super::deliveries::Deliveries;
use super::domains::Lasting;
use super::settings::{Settings, Sharing};
use super::writers::Enrolled;

/// Maximum number of sessions with cached results; the least recently used ones are dropped.
const MOST_SESSIONS: usize = 256;

/// The cache of a session.
pub(super) struct Session {
    /// The root of the session's workspace.
    root: PathBuf,
    /// The engine that stores its results.
    pub(super) engine: Cache,
    /// The lifetime of results in the engine.
    pub(super) lasting: Lasting,
    /// The scope in which the results are shared.
    pub(super) scope: Scope,
    tallies: Arc<Mutex<Tallies>>,
    deliveries: Mutex<Deliveries>,
    /// Notifies the engine of writes during the session.
    _enrolled: Option<Enrolled>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    fn new(name: &str, root: &Path, settings: &Settings, origins: &Origins) -> Self {
        let tallies = Arc::<Mutex<Tallies>>::default();
        let (engine, scope, enrolled) = match (&origins.persistent, settings.scope) {
            (Some((engine, _)), Sharing::Workspace) => {
                (engine.clone(), Scope::Workspace(text_of(root)), None)
            }
            (Some((engine, _)), Sharing::User) if !origins.user.trim().is_empty() => {
                (engine.clone(), Scope::User(origins.user.clone()), None)
            }
            _ => {
                let engine = own_engine(settings, origins, &tallies);
                let enrolled = origins.writers.enrol(&engine, Lasting::Session);
                (engine, Scope::Session(name.to_owned()), Some(enrolled))
            }
        };
        Self {
            root: root.to_owned(),
            lasting: match &enrolled {
                Some(_) => Lasting::Session,
                None => Lasting::Longer,
            },
            engine,
            scope,
            tallies,
            deliveries: Mutex::default(),
            _enrolled: enrolled,
        }
    }

    /// Updates the statistics of a tool.
    pub(super) fn count(&self, tool: &str, count: impl FnOnce(&mut Counters)) {
        lock(&self.tallies).count(tool, count);
    }

    pub(super) fn deliveries(&self) -> MutexGuard<'_, Deliveries> {
        lock(&self.deliveries)
    }
}

/// Creates an engine for one session, over a store that is dropped with it.
fn own_engine(settings: &Settings, origins: &Origins, tallies: &Arc<Mutex<Tallies>>) -> Cache {
    let engine = Cache::exact(Options {
        memory: Some(Arc::new(InProcessMemory::new(Arc::clone(&origins.clock)))),
        ledger: origins.ledger.clone(),
        clock: Arc::clone(&origins.clock),
        seals: Arc::clone(&origins.seals),
        bounds: Bounds {
            entries: settings.max_size,
            bytes: settings.max_bytes,
            // The store is as fast as the front; the front is only for decoded results.
            front_bytes: settings.max_bytes.saturating_mul(3),
        },
        warn: Arc::clone(&origins.log),
    });
    let tallies = Arc::clone(tallies);
    engine.tell_of_evictions(move |tool| {
        lock(&tallies).count(tool, |counters| counters.evicted += 1);
    });
    engine
}

/// Converts a path to text, injectively.
pub(super) fn text_of(path: &Path) -> String {
    match path.to_str() {
        Some(text) => text.to_owned(),
        // Quoted, which no absolute path is.
        None => format!("{path:?}"),
    }
}

/// All sessions with a cache.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Table>);

#[derive(Default)]
struct Table {
    sessions: HashMap<String, (Arc<Session>, u64)>,
    /// Number of session lookups, as a clock for last uses.
    uses: u64,
}

impl Sessions {
    /// Returns the session of this name in this workspace. A session that changes its workspace starts with
    /// an empty cache.
    pub(super) fn of(
        &self,
        name: &str,
        root: &Path,
        settings: &Settings,
        origins: &Origins,
    ) -> Arc<Session> {
        let mut table = lock(&self.0);
        table.uses += 1;
        let uses = table.uses;
        if let Some((session, used)) = table.sessions.get_mut(name)
            && session.root.as_os_str() == root.as_os_str()
        {
            *used = uses;
            return Arc::clone(session);
        }
        let session = Arc::new(Session::new(name, root, settings, origins));
        let left = table
            .sessions
            .insert(name.to_owned(), (Arc::clone(&session), uses));
        let oldest = (table.sessions.len() > MOST_SESSIONS)
            .then(|| table.least_recently_used())
            .flatten();
        let crowded_out = oldest.and_then(|name| table.sessions.remove(&name));
        drop(table);
        for (ended, _) in left.into_iter().chain(crowded_out) {
            ended.end(origins);
        }
        session
    }

    /// Drops the cache of a session.
    pub(super) fn end(&self, name: &str, origins: &Origins) {
        let ended = lock(&self.0).sessions.remove(name);
        if let Some((session, _)) = ended {
            session.end(origins);
        }
    }

    pub(super) fn stats(&self, name: &str) -> CacheStats {
        self.tallies(name)
            .map(|tallies| lock(&tallies).stats())
            .unwrap_or_default()
    }

    pub(super) fn counters(&self, name: &str) -> BTreeMap<String, Counters> {
        self.tallies(name)
            .map(|tallies| lock(&tallies).all())
            .unwrap_or_default()
    }

    fn tallies(&self, name: &str) -> Option<Arc<Mutex<Tallies>>> {
        let table = lock(&self.0);
        let (session, _) = table.sessions.get(name)?;
        Some(Arc::clone(&session.tallies))
    }
}

impl Table {
    fn least_recently_used(&self) -> Option<String> {
        let coldest = self.sessions.iter().min_by_key(|(_, (_, used))| *used);
        coldest.map(|(name, _)| name.clone())
    }
}

impl Session {
    /// Logs the statistics. Calls in progress keep their references.
    fn end(&self, origins: &Origins) {
        if let Some(line) = lock(&self.tallies).stats().line() {
            (origins.log)(&line);
        }
    }
}
