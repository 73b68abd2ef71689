//! Interruption of a turn from outside.

use std::future::Future;

use cachalot_model::budget::Meter;

use crate::CancellationToken;
use crate::hook_emitter::GRACE;
use crate::report::Stop;

/// Interrupts a turn from outside: by its cancellation signal, or when the time budget is used up. Sub-agents
/// have neither: they are dropped with the turn that runs them.
#[derive(Clone, Default)]
pub(super) struct TurnCancellation(Option<(CancellationToken, Meter)>);

impl TurnCancellation {
    pub(super) fn new(cancel: &CancellationToken, meter: &Meter) -> Self {
        Self(Some((cancel.clone(), meter.clone())))
    }

    /// Runs `work`, unless the turn must end before: then `work` is dropped. Writes to a session are not run
    /// this way, because a completed write is better than a partial one.
    pub(super) async fn run_until_cancelled<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, Stop> {
        let Some((cancel, meter)) = &self.0 else {
            return Ok(work.await);
        };
        tokio::select! {
            // An interrupt wins over work that completes at the same moment, so that the end of the turn does not
            // depend on chance.
            biased;
            () = cancel.cancelled() => Err(Stop::Interrupted),
            over = wait_for_time_limit(meter) => Err(Stop::Budget(over)),
            done = work => Ok(done),
        }
    }

    /// Runs work at the end of a turn. Once the turn is interrupted, the work may take a little longer
    /// ([`GRACE`]), and is then dropped.
    pub(super) async fn run_with_grace<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let Some((cancel, meter)) = &self.0 else {
            return Some(work.await);
        };
        let grace_is_over = async {
            tokio::select! {
                () = cancel.cancelled() => {}
                _ = wait_for_time_limit(meter) => {}
            }
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            // The reverse order of `run_until_cancelled`: work that is complete when the grace period ends counts.
            biased;
            done = work => Some(done),
            () = grace_is_over => None,
        }
    }
}

/// Waits until the time budget is used up, and returns the message.
async fn wait_for_time_limit(meter: &Meter) -> String {
    loop {
        match meter.time_left() {
            None => std::future::pending().await,
            Some(left) => tokio::time::sleep(left).await,
        }
        if let Err(over) = meter.check() {
            return over.message;
        }
    }
}
