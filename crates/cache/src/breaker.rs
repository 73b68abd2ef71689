//! Circuit breakers: a store that does not answer is asked in the background, and not by every call.

use std::sync::{Arc, Weak};
use std::time::Duration;

use cachalot_store::{Error, ErrorKind, Store, StoreReply, space};
use tokio::time::Instant;

use crate::sync::{Mutex, lock};

/// Failures in a row after which calls do not ask the store.
const MAX_FAILURES: u32 = 3;

/// The first pause before the store is asked in the background, and the longest one. With [`PROBE_TIMEOUT`], calls ask it
/// again about two seconds after it answers again, however long it did not.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];

/// Maximum time of an answer in the background, which may need a new connection.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The kinds of calls that fail independently: writes may wait for a lock, or for replicas, while reads are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// The breaker of one kind of calls.
pub(crate) struct Breaker {
    access: Access,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Failures since the last answer.
    failures: u32,
    /// The longest time that one of these calls has waited for an answer.
    patience: Duration,
    /// True while the store is asked in the background.
    is_probed: bool,
}

impl Breaker {
    pub(crate) fn new(access: Access) -> Arc<Self> {
        Arc::new(Self {
            access,
            state: Mutex::default(),
        })
    }

    /// True if a call may ask the store. If nothing asks it in the background, because the runtime of that has ended, the
    /// call finds out whether the store answers.
    pub(crate) fn permits(&self) -> bool {
        let state = lock(&self.state);
        state.failures < MAX_FAILURES || !state.is_probed
    }

    /// True while calls do not ask the store.
    pub(crate) fn is_open(&self) -> bool {
        !self.permits()
    }

    /// Notes that the store answered.
    pub(crate) fn answered(&self) {
        let mut state = lock(&self.state);
        if state.failures >= MAX_FAILURES {
            tracing::info!(access = ?self.access, "the store answers again");
        }
        state.failures = 0;
        state.patience = Duration::ZERO;
    }

    /// Notes that the store did not answer a call, which would have waited for `patience`. From a number of failures on,
    /// the store is asked in the background.
    pub(crate) fn failed(self: &Arc<Self>, store: &Arc<dyn Store>, patience: Duration) {
        // Without a runtime, nothing can ask in the background, so calls keep asking.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let mut state = lock(&self.state);
        state.failures = state.failures.saturating_add(1);
        state.patience = state.patience.max(patience);
        if state.failures < MAX_FAILURES || state.is_probed {
            return;
        }
        tracing::info!(access = ?self.access, "the store did not answer several times; calls do not wait for it");
        state.is_probed = true;
        let probing = Probing(Arc::downgrade(self));
        runtime.spawn(probe(probing, Arc::downgrade(store)));
    }

    /// True if the store has answered a call since the failures.
    fn is_closed(&self) -> bool {
        lock(&self.state).failures < MAX_FAILURES
    }

    /// Asks the store, in a way that changes nothing.
    fn ask<'a>(&self, store: &'a dyn Store) -> StoreReply<'a, ()> {
        match self.access {
            Access::Read => {
                let found = store.get(space::CACHE, "", &[]);
                found.and_then(|_| StoreReply::Now(Ok(())))
            }
            // Unknown keys are ignored.
            Access::Write => store.touch(space::CACHE, &[("", 0)]),
        }
    }

    /// Notes an answer in the background. One that a call would not have waited for does not count.
    fn probed(&self, took: Duration) {
        let is_in_time = took <= lock(&self.state).patience;
        if is_in_time {
            self.answered();
        }
    }
}

/// True if the store did not answer.
pub(crate) fn is_unavailable(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Unavailable | ErrorKind::TimedOut)
}

/// The task that asks the store. If its runtime drops it, the next failure starts another one.
struct Probing(Weak<Breaker>);

impl Drop for Probing {
    fn drop(&mut self) {
        if let Some(breaker) = self.0.upgrade() {
            lock(&breaker.state).is_probed = false;
        }
    }
}

/// Asks the store until it answers, or the engine ends.
async fn probe(probing: Probing, store: Weak<dyn Store>) {
    let mut pause = PAUSES[0];
    loop {
        tokio::time::sleep(pause).await;
        pause = PAUSES[1].min(2 * pause);
        // Held only while the store is asked, so that the task does not keep the engine.
        let (Some(breaker), Some(store)) = (probing.0.upgrade(), store.upgrade()) else {
            return;
        };
        let asked = Instant::now();
        match breaker.ask(store.as_ref()).within(PROBE_TIMEOUT).await {
            Err(error) if is_unavailable(&error) => {}
            Ok(()) | Err(_) => breaker.probed(asked.elapsed()),
        }
        if breaker.is_closed() {
            return;
        }
    }
}
