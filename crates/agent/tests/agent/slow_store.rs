//! A store that yields before and after every call, and fails on request. Its clock advances only when a
//! caller finds a key reserved, so that a reservation that is never released lapses.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use cachalot_core::ManualClock;
use cachalot_store::in_process::InProcessStore;
use cachalot_store::intercepted::{Interceptor, StoreOperation};
use cachalot_store::{Error, ErrorKind, GetOrReserveResult, ReserveResult, Store, StoreReply};

/// Fault of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails and does nothing.
    Refused,
    /// It does everything, and fails.
    Unheard,
}

/// See the [module](self).
pub(crate) struct SlowStore {
    inner: InProcessStore,
    clock: Arc<ManualClock>,
    /// The number of calls.
    calls: AtomicUsize,
    /// From which call on which calls fail, and how.
    faults: std::sync::Mutex<Option<(usize, usize, Fault)>>,
}

impl SlowStore {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::at(0));
        Self {
            inner: InProcessStore::new(Arc::clone(&clock) as _),
            clock,
            calls: AtomicUsize::new(0),
            faults: std::sync::Mutex::default(),
        }
    }

    /// From now on, `first` calls succeed and the next `many` fail.
    pub(crate) fn fail(&self, first: usize, many: usize, fault: Fault) {
        let from = self.calls.load(Ordering::SeqCst) + first;
        *self.faults.lock().unwrap() = Some((from, from.saturating_add(many), fault));
    }

    /// No call fails any more; whether one did.
    pub(crate) fn recover(&self) -> bool {
        let faults = self.faults.lock().unwrap().take();
        faults.is_some_and(|(from, ..)| self.calls.load(Ordering::SeqCst) > from)
    }
}

/// Polls a future so often, and then does this before it goes on.
pub(crate) async fn after_polls<F: Future>(
    mut future: Pin<&mut F>,
    polls: usize,
    mut then: impl FnMut(),
) -> F::Output {
    let mut polled = 0;
    poll_fn(move |context| {
        if polled == polls {
            then();
        }
        polled += 1;
        future.as_mut().poll(context)
    })
    .await
}

/// Polls a future at most so often; `None` if it was not ready then.
pub(crate) async fn at_most<F: Future>(mut future: Pin<&mut F>, polls: usize) -> Option<F::Output> {
    let mut left = polls;
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

impl Interceptor for SlowStore {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn intercept<'a, T: Send + 'static>(
        &'a self,
        _: StoreOperation,
        pass: impl FnOnce() -> StoreReply<'a, T> + Send + 'a,
    ) -> StoreReply<'a, T> {
        StoreReply::later(async move {
            tokio::task::yield_now().await;
            let number = self.calls.fetch_add(1, Ordering::SeqCst);
            let fault = self
                .faults
                .lock()
                .unwrap()
                .and_then(|(from, to, fault)| (from..to).contains(&number).then_some(fault));
            let failure = || Error::new(ErrorKind::Unavailable, format!("call {number} fails"));
            if fault == Some(Fault::Refused) {
                return Err(failure());
            }
            let answer = pass().settle().await;
            if answer.as_ref().is_ok_and(|answer| is_busy(answer)) {
                self.clock.advance(Duration::from_secs(1));
            }
            tokio::task::yield_now().await;
            match fault {
                Some(_) => Err(failure()),
                None => answer,
            }
        })
    }
}

/// True for the answer of a call that found its key reserved.
fn is_busy(answer: &dyn Any) -> bool {
    let busy = |reserved: &ReserveResult| matches!(reserved, ReserveResult::Busy { .. });
    let got: Option<&GetOrReserveResult> = answer.downcast_ref();
    answer.downcast_ref().is_some_and(busy)
        || got.and_then(|got| got.reserved.as_ref()).is_some_and(busy)
}
