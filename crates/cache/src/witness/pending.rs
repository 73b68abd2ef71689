//! Observations in progress: begun, but not recorded yet.

use tokio::sync::Notify;

use crate::sync::{Mutex, lock, wait_until};

#[derive(Default)]
pub(super) struct PendingObservations {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Default)]
struct State {
    /// The number of the next observation.
    next: u64,
    open: Vec<u64>,
}

/// Guard of an observation in progress, which ends when it is dropped.
pub(super) struct ObservationGuard<'a> {
    pending: &'a PendingObservations,
    number: u64,
}

impl PendingObservations {
    pub(super) fn begin(&self) -> ObservationGuard<'_> {
        let mut state = lock(&self.state);
        let number = state.next;
        state.next += 1;
        state.open.push(number);
        ObservationGuard {
            pending: self,
            number,
        }
    }

    /// Resolves when all observations that have begun so far have ended.
    pub(super) async fn ended(&self) {
        // Observations that begin later do not count. Otherwise a steady flow of them could keep this waiting.
        let before = lock(&self.state).next;
        let have_ended = || {
            let state = lock(&self.state);
            let mut open = state.open.iter();
            open.all(|number| *number >= before).then_some(())
        };
        wait_until(&self.ended, have_ended).await;
    }
}

impl Drop for ObservationGuard<'_> {
    fn drop(&mut self) {
        lock(&self.pending.state)
            .open
            .retain(|number| *number != self.number);
        self.pending.ended.notify_waiters();
    }
}
