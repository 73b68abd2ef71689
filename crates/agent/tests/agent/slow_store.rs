//! A memory that gives way to others before and after everything it does, and fails when it is told
//! to. Its time passes only for those who wait for a reservation: what is never given back lapses.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use cachalot_core::ManualClock;
use cachalot_store::in_process::InProcessStore;
use cachalot_store::{
    Error, ErrorKind, GetOrReserve, GetOrReserveResult, GetResult, Label, Lease, Millis,
    PageRequest, PutAllResult, PutCondition, PutResult, Record, RecordFilter, RecordPage,
    ReserveResult, SpaceUsage, Store, StoreInfo, StoreReply,
};

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

    fn slowly<'a, T: Send + 'a>(
        &'a self,
        call: impl FnOnce() -> StoreReply<'a, T> + Send + 'a,
    ) -> StoreReply<'a, T> {
        StoreReply::later(async move {
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

impl Store for SlowStore {
    fn about(&self) -> &StoreInfo {
        self.inner.about()
    }

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> StoreReply<'a, GetResult> {
        self.slowly(move || self.inner.get(space, key, counters))
    }

    fn get_or_reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        request: GetOrReserve<'a>,
    ) -> StoreReply<'a, GetOrReserveResult> {
        let entering = async move {
            let entered = self
                .inner
                .get_or_reserve(space, key, request)
                .settle()
                .await;
            let busy = |entered: &GetOrReserveResult| {
                matches!(entered.reserved, Some(ReserveResult::Busy { .. }))
            };
            if entered.as_ref().is_ok_and(busy) {
                self.clock.advance(Duration::from_secs(1));
            }
            entered
        };
        self.slowly(move || StoreReply::later(entering))
    }

    fn put<'a>(
        &'a self,
        space: &'a str,
        record: Record,
        lease: Option<&'a Lease>,
        counters: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, PutResult> {
        self.slowly(move || self.inner.put(space, record, lease, counters))
    }

    fn put_all<'a>(
        &'a self,
        condition: PutCondition<'a>,
        records: Vec<(&'a str, Record)>,
    ) -> StoreReply<'a, PutAllResult> {
        self.slowly(move || self.inner.put_all(condition, records))
    }

    fn reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        labels: &'a [Label],
        hold: Duration,
    ) -> StoreReply<'a, ReserveResult> {
        let reserving = async move {
            let reserved = self.inner.reserve(space, key, labels, hold).settle().await;
            if matches!(reserved, Ok(ReserveResult::Busy { .. })) {
                self.clock.advance(Duration::from_secs(1));
            }
            reserved
        };
        self.slowly(move || StoreReply::later(reserving))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, hold: Duration) -> StoreReply<'a, bool> {
        self.slowly(move || self.inner.renew(lease, hold))
    }

    fn release(&self, lease: Lease) -> StoreReply<'_, ()> {
        self.slowly(move || self.inner.release(lease))
    }

    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        self.slowly(move || self.inner.find(space, filter, page))
    }

    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        self.slowly(move || self.inner.erase(space, filter, page))
    }

    fn add<'a>(
        &'a self,
        space: &'a str,
        additions: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, Vec<u64>> {
        self.slowly(move || self.inner.add(space, additions))
    }

    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> StoreReply<'a, u64> {
        self.slowly(move || self.inner.raise_to(space, counter, value))
    }

    fn counters<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> StoreReply<'a, Vec<(String, u64)>> {
        self.slowly(move || self.inner.counters(space, prefix, after, limit))
    }

    fn touch<'a>(&'a self, space: &'a str, used: &'a [(&'a str, Millis)]) -> StoreReply<'a, ()> {
        self.slowly(move || self.inner.touch(space, used))
    }

    fn usage<'a>(&'a self, space: &'a str) -> StoreReply<'a, SpaceUsage> {
        self.slowly(move || self.inner.usage(space))
    }

    fn stamp(&self, space: &str, name: &str) -> Option<u64> {
        self.inner.stamp(space, name)
    }
}
