//! Announced writes: while a domain is being written, nothing of it is served, joined or stored.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use cachalot_store::space;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::access::StoreAccess;
use crate::epoch::{Epochs, LocalEpochs};
use crate::policy::{DEFAULT_LOOKUP_TIMEOUT, Domain};
use crate::reason::Failure;
use crate::sync::{Mutex, lock};

/// The minimum and the maximum pause between two attempts to raise epochs in the background.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));

/// The maximum number of epochs that one attempt raises.
const MAX_DOMAINS_PER_RAISE: usize = 1_000;

/// Guard of a write, whose end raises the epochs once more. A guard that is dropped does so in the
/// background; until the store has raised them, the domain stays blocked in this process.
#[must_use = "the write ends when this is dropped"]
pub struct WriteGuard {
    writes: Arc<Writes>,
    domains: Vec<Domain>,
    ended: bool,
}

/// The announced writes of this process.
pub(crate) struct Writes {
    access: Arc<StoreAccess>,
    epochs: Epochs,
    pending_raises: PendingRaises,
}

impl Writes {
    pub(crate) fn new(access: &Arc<StoreAccess>) -> Self {
        Self {
            access: Arc::clone(access),
            epochs: Epochs::default(),
            pending_raises: PendingRaises::default(),
        }
    }

    /// The state of these domains in this process.
    pub(crate) fn local_epochs(&self, domains: &[Domain]) -> LocalEpochs {
        self.epochs.local_epochs(domains)
    }

    /// Implements [`crate::Cache::announce`].
    pub(crate) fn announce(self: &Arc<Self>, domains: &[Domain]) -> WriteGuard {
        // Blocked in this process first: nothing of the domains is served or joined from here on, even if the store
        // cannot raise their epochs.
        self.epochs.begin_write(domains);
        WriteGuard {
            writes: Arc::clone(self),
            domains: domains.to_vec(),
            ended: false,
        }
    }

    async fn raise(&self, domains: &[Domain]) -> Result<(), cachalot_store::Error> {
        let Ok(store) = self.access.store() else {
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
            self.access.fault(&error);
            return Err(error);
        }
        for (domain, writes) in pending {
            self.pending_raises.remove_raised(&domain, writes);
            self.epochs.end_writes(&domain, writes);
        }
        Ok(())
    }

    /// Starts the task unless it runs or there is no runtime: the domains then stay blocked, which is safe,
    /// until the next guard or [`crate::Cache::close`].
    fn start_retries(self: &Arc<Self>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let mut state = lock(&self.pending_raises.state);
        let runs = state.task.as_ref().is_some_and(|task| !task.is_finished());
        if !runs && !state.writes.is_empty() {
            let task = runtime.spawn(retry(Arc::clone(self)));
            state.task = Some(task.abort_handle());
        }
    }
}

/// Ended writes whose epochs the store has not raised yet. Their domains stay blocked in this process until
/// it has. One task per engine retries for all of them. After the first attempt it holds the writes
/// only during an attempt, so that it ends with the engine.
#[derive(Default)]
struct PendingRaises {
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
async fn retry(writes: Arc<Writes>) {
    let weak: Weak<Writes> = Arc::downgrade(&writes);
    let added = Arc::clone(&writes.pending_raises.added);
    let mut pause = RETRY_PAUSE.0;
    let mut held = Some(writes);
    while let Some(writes) = held.take().or_else(|| weak.upgrade()) {
        if writes.raise_pending().await.is_ok() {
            if writes.pending_raises.stop_if_empty() {
                return;
            }
            pause = RETRY_PAUSE.0;
            continue;
        }
        drop(writes);
        tokio::time::sleep(RETRY_PAUSE.0).await;
        // An attempt follows when the pause is over or another write has ended.
        let _ = tokio::time::timeout(pause, added.notified()).await;
        pause = (pause * 2).min(RETRY_PAUSE.1);
    }
}

impl WriteGuard {
    /// Raises the epochs in the store at the start of the write. Reports a fault as a warning.
    pub async fn raise_epochs(&self) {
        if let Err(error) = self.writes.raise(&self.domains).await {
            self.writes.access.fault(&error);
        }
    }

    /// Ends the write.
    ///
    /// # Errors
    /// If the store did not raise the epochs. The domains then stay blocked in this process while a
    /// background task retries; other processes may serve older answers until then.
    pub async fn finish(mut self) -> Result<(), Failure> {
        match self.writes.raise(&self.domains).await {
            Ok(()) => {
                self.ended = true;
                // Only after the store has raised the epochs. Before, an entry from the time of the write would still
                // have the current epoch.
                self.writes.epochs.end_write(&self.domains);
                Ok(())
            }
            Err(error) => {
                // `ended` stays false: the drop of the guard passes the raise to the background task.
                self.writes.access.fault(&error);
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
        // Before the task is looked for: a task that ends checks under the same lock that nothing waits.
        self.writes.pending_raises.add(&self.domains);
        self.writes.start_retries();
    }
}
