//! A memory that gives way to others before and after everything it does, and fails when it is told to.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use cachalot_core::Clock;
use cachalot_memory::{
    About, Answer, Batch, Error, ErrorKind, Filter, Found, Label, Lease, Memory, Millis, Page, Put,
    Record, Reserved, Usage,
};

/// A clock that goes on whenever somebody looks: what is reserved and never given back lapses soon.
#[derive(Debug, Default)]
pub(crate) struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Millis {
        self.0.fetch_add(200, Ordering::SeqCst)
    }
}

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails and does nothing.
    Refused,
    /// It does everything, and fails.
    Unheard,
}

/// See the [module](self).
pub(crate) struct SlowMemory {
    inner: Arc<dyn Memory>,
    /// How many calls there were.
    calls: AtomicUsize,
    /// From which call on which calls fail, and how.
    faults: std::sync::Mutex<Option<(usize, usize, Fault)>>,
}

impl SlowMemory {
    pub(crate) fn over(inner: Arc<dyn Memory>) -> Self {
        Self {
            inner,
            calls: AtomicUsize::new(0),
            faults: std::sync::Mutex::default(),
        }
    }

    /// Of the calls from now on, `first` succeed and `many` fail.
    pub(crate) fn fail(&self, first: usize, many: usize, fault: Fault) {
        let from = self.calls.load(Ordering::SeqCst) + first;
        *self.faults.lock().unwrap() = Some((from, from.saturating_add(many), fault));
    }

    /// No call fails any more; whether one did.
    pub(crate) fn recover(&self) -> bool {
        let faults = self.faults.lock().unwrap().take();
        faults.is_some_and(|(from, ..)| self.calls.load(Ordering::SeqCst) > from)
    }

    fn slowly<'a, T: Send + 'a>(
        &'a self,
        call: impl FnOnce() -> Answer<'a, T> + Send + 'a,
    ) -> Answer<'a, T> {
        Answer::later(async move {
            give_way().await;
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
            let answer = call().settle().await;
            give_way().await;
            match fault {
                Some(_) => Err(failure()),
                None => answer,
            }
        })
    }
}

async fn give_way() {
    let mut given = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
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

impl Memory for SlowMemory {
    fn about(&self) -> &About {
        self.inner.about()
    }

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> Answer<'a, Found> {
        self.slowly(move || self.inner.get(space, key, counters))
    }

    fn put<'a>(
        &'a self,
        space: &'a str,
        record: Record,
        under: Option<&'a Lease>,
    ) -> Answer<'a, Put> {
        self.slowly(move || self.inner.put(space, record, under))
    }

    fn reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        labels: &'a [Label],
        hold: Duration,
    ) -> Answer<'a, Reserved> {
        self.slowly(move || self.inner.reserve(space, key, labels, hold))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, hold: Duration) -> Answer<'a, bool> {
        self.slowly(move || self.inner.renew(lease, hold))
    }

    fn release(&self, lease: Lease) -> Answer<'_, ()> {
        self.slowly(move || self.inner.release(lease))
    }

    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a Filter<'a>,
        page: Page<'a>,
    ) -> Answer<'a, Batch> {
        self.slowly(move || self.inner.find(space, filter, page))
    }

    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a Filter<'a>,
        page: Page<'a>,
    ) -> Answer<'a, Batch> {
        self.slowly(move || self.inner.erase(space, filter, page))
    }

    fn raise<'a>(&'a self, space: &'a str, counter: &'a str) -> Answer<'a, u64> {
        self.slowly(move || self.inner.raise(space, counter))
    }

    fn touch<'a>(&'a self, space: &'a str, used: &'a [(&'a str, Millis)]) -> Answer<'a, ()> {
        self.slowly(move || self.inner.touch(space, used))
    }

    fn usage<'a>(&'a self, space: &'a str) -> Answer<'a, Usage> {
        self.slowly(move || self.inner.usage(space))
    }

    fn stamp(&self, space: &str, name: &str) -> Option<u64> {
        self.inner.stamp(space, name)
    }
}
