//! Notification of all engines with cached results about every write: those of all sessions of a process, and
//! those over stores that outlive it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cachalot_cache::{Cache, WriteGuard};
use parking_lot::{Mutex, MutexGuard};

use cachalot_core::EffectTargets;

use crate::domains::{Domains, EngineLifetime, raised_domains};

/// The engines of a process that are notified of writes. Cheap to clone; clones share the list. Sessions,
/// sub-agents and other code that works on the same files see each other's writes if they share one.
#[derive(Clone, Default)]
pub struct WriteNotifier(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    next: u64,
    engines: BTreeMap<u64, RegisteredEngine>,
    /// The writes in progress.
    writes: BTreeMap<u64, OpenWrite>,
}

/// An engine, and the number of its enrolments.
struct RegisteredEngine {
    engine: Cache,
    engine_lifetime: EngineLifetime,
    holders: usize,
}

impl RegisteredEngine {
    fn announce(&self, domains: &Domains) -> WriteGuard {
        self.engine
            .announce(&domains.clone().for_engine(self.engine_lifetime))
    }
}

struct OpenWrite {
    domains: Arc<Domains>,
    /// Guards of engines that were enrolled during the write.
    late: Vec<WriteGuard>,
}

impl WriteNotifier {
    /// Creates an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Enrols an engine, which is notified of writes from now on, including those in progress.
    pub fn register(&self, engine: &Cache, engine_lifetime: EngineLifetime) -> EngineRegistration {
        let mut state = self.state();
        // Sessions that share an engine enrol it several times. It is in the list once, so that a write is announced to
        // it once.
        let known = state
            .engines
            .iter_mut()
            .find(|(_, entry)| entry.engine.is(engine));
        let number = if let Some((number, entry)) = known {
            entry.holders += 1;
            *number
        } else {
            let entry = RegisteredEngine {
                engine: engine.clone(),
                engine_lifetime,
                holders: 1,
            };
            for open in state.writes.values_mut() {
                // The lock covers the whole step: a write either finds the engine in the list or is found here.
                open.late.push(entry.announce(&open.domains));
            }
            let number = state.next();
            state.engines.insert(number, entry);
            number
        };
        EngineRegistration {
            write_notifier: self.clone(),
            number,
        }
    }

    /// Runs a call with these writes. If it writes at all, the engines are notified before and after it.
    /// `root` is the directory of relative paths.
    pub async fn announce<T>(
        &self,
        writes: &EffectTargets,
        root: &Path,
        call: impl Future<Output = T>,
    ) -> T {
        if writes.is_nothing() {
            return call.await;
        }
        let write = self.begin(raised_domains(writes, root)).await;
        let ended = call.await;
        write.end().await;
        ended
    }

    /// Expires everything that depends on these domains, because something changed outside of this program:
    /// from now on no engine serves, joins or stores anything older. Does not wait; the stores learn of it in
    /// the background, and an engine serves nothing of these domains until its store has.
    pub fn expire(&self, domains: &Domains) {
        for engine in self.state().engines.values() {
            // The end of the write raises the epochs.
            drop(engine.announce(domains));
        }
    }

    /// Begins a write: until it ends, no engine serves, joins or stores anything of these domains. If the
    /// guard is dropped, the write ends in the background.
    pub async fn begin(&self, domains: Domains) -> WriteInProgress {
        let domains = Arc::new(domains);
        let write = {
            let mut state = self.state();
            let announce = |entry: &RegisteredEngine| entry.announce(&domains);
            let guards = state.engines.values().map(announce).collect();
            let number = state.next();
            let open = OpenWrite {
                domains: Arc::clone(&domains),
                late: Vec::new(),
            };
            state.writes.insert(number, open);
            WriteInProgress {
                write_notifier: self.clone(),
                number,
                guards,
            }
        };
        // After the registration of the write: if this future is dropped here, the drop of `write` ends it.
        for guard in &write.guards {
            guard.raise_epochs().await;
        }
        write
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// The enrolment of an engine, which ends when this is dropped.
pub struct EngineRegistration {
    write_notifier: WriteNotifier,
    number: u64,
}

impl Drop for EngineRegistration {
    fn drop(&mut self) {
        let mut state = self.write_notifier.state();
        let last = state.engines.get_mut(&self.number).is_some_and(|entry| {
            entry.holders -= 1;
            entry.holders == 0
        });
        let left = last.then(|| state.engines.remove(&self.number));
        // Dropping an engine may take long, so the lock is released first.
        drop(state);
        drop(left);
    }
}

/// Guard of a write in progress.
#[must_use = "the write ends when this is dropped"]
pub struct WriteInProgress {
    write_notifier: WriteNotifier,
    number: u64,
    guards: Vec<WriteGuard>,
}

impl WriteInProgress {
    /// Ends the write. An engine whose store fails has reported it; its domains stay blocked until the store
    /// recovers.
    pub async fn end(mut self) {
        self.take_late();
        for guard in std::mem::take(&mut self.guards) {
            let _ = guard.finish().await;
        }
    }

    fn take_late(&mut self) {
        // First of all, so that an engine that enrols from now on is not blocked by a write that has ended.
        let open = self.write_notifier.state().writes.remove(&self.number);
        self.guards
            .extend(open.into_iter().flat_map(|open| open.late));
    }
}

impl Drop for WriteInProgress {
    fn drop(&mut self) {
        self.take_late();
    }
}
