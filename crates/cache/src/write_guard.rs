//! Announced writes: while a domain is being written, nothing of it is served, joined or stored.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use cachalot_store::space;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::engine::Engine;
use crate::policy::{DEFAULT_LOOKUP_TIMEOUT, Domain};
use crate::sync::{Mutex, lock};
use crate::{Cache, Failure};

/// The minimum and the maximum pause between two attempts to raise epochs in the background.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));

/// The maximum number of epochs that one attempt raises.
const MAX_DOMAINS_PER_RAISE: usize = 1_000;

/// Guard of a write, whose end raises the epochs once more. A guard that is dropped does so in the
/// background; until the store has raised them, the domain stays blocked in this process.
#[must_use = "the write ends when this is dropped"]
pub struct WriteGuard {
    engine: Arc<Engine>,
    domains: Vec<Domain>,
    ended: bool,
}

impl Cache {
    /// Raises the domains' epochs now and again when the guard ends. In between, nothing of them is served,
    /// joined or stored in this process; other processes serve nothing that is older.
    ///
    /// Both raises are needed. With the first one alone, a read that starts in between stores old bytes. With
    /// the second one alone, a crash loses the invalidation.
    pub async fn write_guard(&self, domains: &[Domain]) -> WriteGuard {
        let write_guard = self.announce(domains);
        write_guard.raise_epochs().await;
        write_guard
    }

    /// Starts a write like [`Cache::write_guard`], without waiting for the store: from now on nothing of these
    /// domains is served, joined or stored in this process. Other processes do not know of it before
    /// [`WriteGuard::raise_epochs`].
    pub fn announce(&self, domains: &[Domain]) -> WriteGuard {
        self.0.epochs.begin_write(domains);
        WriteGuard {
            engine: Arc::clone(&self.0),
            domains: domains.to_vec(),
            ended: false,
        }
    }
}

/// Ended writes whose epochs the store has not raised yet. Their domains stay blocked in this process until
/// it has. One task per engine retries for all of them. After the first attempt it holds the engine only
/// during an attempt, so that it ends with the engine.
#[derive(Default)]
pub(crate) struct PendingRaises {
    state: Mutex<PendingWrites>,
    /// Held during an attempt: two concurrent attempts would end the same writes twice.
    attempt: tokio::sync::Mutex<()>,
    /// Signalled when a write is added; shared with the task, which holds nothing else while it sleeps.
    added: Arc<Notify>,
}

#[derive(Default)]
struct PendingWrites {
    /// Number of ended writes per domain.
    writes: HashMap<Domain, u32>,
    task: Option<AbortHandle>,
}

impl PendingRaises {
    fn add(&self, domains: &[Domain]) {
        let mut state = lock(&self.state);
        for domain in domains {
            *state.writes.entry(domain.clone()).or_default() += 1;
        }
        drop(state);
        self.added.notify_one();
    }

    /// Returns waiting domains, at most [`MAX_DOMAINS_PER_RAISE`], with the number of their writes.
    fn pending(&self) -> Vec<(Domain, u32)> {
        let state = lock(&self.state);
        let writes = state.writes.iter().take(MAX_DOMAINS_PER_RAISE);
        writes.map(|(domain, n)| (domain.clone(), *n)).collect()
    }

    /// Removes writes whose epochs were raised. Writes that ended since keep waiting.
    fn remove_raised(&self, domain: &Domain, writes: u32) {
        let mut state = lock(&self.state);
        if let Some(left) = state.writes.get_mut(domain) {
            *left = left.saturating_sub(writes);
            if *left == 0 {
                state.writes.remove(domain);
            }
        }
    }

    /// Starts the task unless it runs or there is no runtime: the domains then stay blocked, which is safe,
    /// until the next guard or [`Cache::close`].
    fn start_retries(engine: &Arc<Engine>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let mut state = lock(&engine.pending_raises.state);
        let runs = state.task.as_ref().is_some_and(|task| !task.is_finished());
        if !runs && !state.writes.is_empty() {
            let task = runtime.spawn(retry(Arc::clone(engine)));
            state.task = Some(task.abort_handle());
        }
    }

    /// True if nothing waits; the task then ends, and the next guard starts another.
    fn stop_if_empty(&self) -> bool {
        let mut state = lock(&self.state);
        let is_empty = state.writes.is_empty();
        if is_empty {
            state.task = None;
        }
        is_empty
    }
}

/// Retries until nothing waits or the engine is gone. A guard that is added in the meantime is tried after
/// the shortest pause.
async fn retry(engine: Arc<Engine>) {
    let weak: Weak<Engine> = Arc::downgrade(&engine);
    let added = Arc::clone(&engine.pending_raises.added);
    let mut pause = RETRY_PAUSE.0;
    let mut held = Some(engine);
    while let Some(engine) = held.take().or_else(|| weak.upgrade()) {
        if engine.raise_pending().await.is_ok() {
            if engine.pending_raises.stop_if_empty() {
                return;
            }
            pause = RETRY_PAUSE.0;
            continue;
        }
        drop(engine);
        tokio::time::sleep(RETRY_PAUSE.0).await;
        // An attempt follows when the pause is over or another write has ended.
        let _ = tokio::time::timeout(pause, added.notified()).await;
        pause = (pause * 2).min(RETRY_PAUSE.1);
    }
}

impl Engine {
    async fn raise(&self, domains: &[Domain]) -> Result<(), cachalot_store::Error> {
        let Ok(store) = self.store() else {
            return Ok(());
        };
        let counters: Vec<String> = domains.iter().map(Domain::counter).collect();
        let raises: Vec<(&str, u64)> = counters.iter().map(|name| (name.as_str(), 1)).collect();
        if raises.is_empty() {
            return Ok(());
        }
        // One request, which costs a store one commit for any number of domains.
        store
            .add(space::CACHE, &raises)
            .within(DEFAULT_LOOKUP_TIMEOUT)
            .await?;
        Ok(())
    }

    /// Tries once to raise the epochs of ended writes, and unblocks their domains. Reports a fault as a
    /// warning.
    pub(crate) async fn raise_pending(&self) -> Result<(), cachalot_store::Error> {
        let _attempt = self.pending_raises.attempt.lock().await;
        let pending = self.pending_raises.pending();
        if pending.is_empty() {
            return Ok(());
        }
        let domains: Vec<Domain> = pending.iter().map(|(domain, _)| domain.clone()).collect();
        if let Err(error) = self.raise(&domains).await {
            self.fault(&error);
            return Err(error);
        }
        for (domain, writes) in pending {
            self.pending_raises.remove_raised(&domain, writes);
            self.epochs.end_writes(&domain, writes);
        }
        Ok(())
    }
}

impl WriteGuard {
    /// Raises the epochs in the store at the start of the write. Reports a fault as a warning.
    pub async fn raise_epochs(&self) {
        if let Err(error) = self.engine.raise(&self.domains).await {
            self.engine.fault(&error);
        }
    }

    /// Ends the write.
    ///
    /// # Errors
    /// If the store did not raise the epochs. The domains then stay blocked in this process while a
    /// background task retries; other processes may serve older answers until then.
    pub async fn finish(mut self) -> Result<(), Failure> {
        match self.engine.raise(&self.domains).await {
            Ok(()) => {
                self.ended = true;
                self.engine.epochs.end_write(&self.domains);
                Ok(())
            }
            Err(error) => {
                self.engine.fault(&error);
                Err(Failure::new(error))
            }
        }
    }
}

impl Drop for WriteGuard {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        self.engine.pending_raises.add(&self.domains);
        PendingRaises::start_retries(&self.engine);
    }
}
