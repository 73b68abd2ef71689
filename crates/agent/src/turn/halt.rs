//! What ends a turn from outside.

use std::future::Future;

use cachalot_model::budget::Meter;

use crate::Cancel;
use crate::herald::GRACE;
use crate::report::Stop;

/// What ends a turn from outside: its switch, and the budget's time. Neither for a sub-agent: whoever
/// ends the turn that it works for drops it.
#[derive(Clone, Default)]
pub(super) struct Halt(Option<(Cancel, Meter)>);

impl Halt {
    pub(super) fn when(cancel: &Cancel, meter: &Meter) -> Self {
        Self(Some((cancel.clone(), meter.clone())))
    }

    /// Does what may take long, unless the turn has to end before: then it is dropped. What is
    /// written to a session is not done like this, since it is better done than half done.
    pub(super) async fn unless<T>(&self, work: impl Future<Output = T>) -> Result<T, Stop> {
        let Some((cancel, meter)) = &self.0 else {
            return Ok(work.await);
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(Stop::Interrupted),
            over = time_over(meter) => Err(Stop::Budget(over)),
            done = work => Ok(done),
        }
    }

    /// Does what belongs to the end of a turn. Once the turn has to end from outside, it may take a
    /// little longer, and is dropped then.
    pub(super) async fn with_grace<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let Some((cancel, meter)) = &self.0 else {
            return Some(work.await);
        };
        let grace_is_over = async {
            tokio::select! {
                () = cancel.cancelled() => {}
                _ = time_over(meter) => {}
            }
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = grace_is_over => None,
        }
    }
}

/// Resolves when the budget's time is used up; says so.
async fn time_over(meter: &Meter) -> String {
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
