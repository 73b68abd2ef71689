//! A slow store with scripted failures.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use cachalot_store::{
    Error, ErrorKind, GetOrReserve, GetOrReserveResult, GetResult, Label, Lease, Millis,
    PageRequest, PutAllResult, PutCondition, PutResult, Record, RecordFilter, RecordPage,
    ReserveResult, SpaceUsage, Store, StoreInfo, StoreReply,
};

/// Behavior of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallBehavior {
    Done,
    /// Fails without an effect.
    Refused,
    /// Has its effect, and fails.
    Unheard,
}

type Decide = Box<dyn Fn(u64) -> CallBehavior + Send + Sync>;

/// A store that yields before and after each call.
pub(crate) struct SlowStore {
    inner: Arc<dyn Store>,
    calls: AtomicU64,
    decide: Decide,
    /// The duration of a call in milliseconds.
    takes: u64,
    /// By what calls differ in how long they take; 0: they do not.
    pace: u64,
}

impl SlowStore {
    pub(crate) fn new(
        inner: Arc<dyn Store>,
        decide: impl Fn(u64) -> CallBehavior + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner,
            calls: AtomicU64::new(0),
            decide: Box::new(decide),
            takes: 0,
            pace: 0,
        }
    }

    /// Every call takes so many milliseconds.
    pub(crate) fn each_takes(self, takes: u64) -> Self {
        Self { takes, ..self }
    }

    /// Calls take more or less time than others, those made at once as well.
    pub(crate) fn at_pace(self, pace: u64) -> Self {
        Self { pace, ..self }
    }

    /// The number of yields before a call has its effect: mostly one, sometimes up to 24.
    fn turns(&self, number: u64) -> u64 {
        let mixed = (number ^ self.pace).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        match self.pace {
            0 => 1,
            _ if !mixed.is_multiple_of(3) => 1,
            _ => 1 + mixed / 3 % 24,
        }
    }

    fn slowly<'a, T: Send + 'a>(
        &'a self,
        call: impl FnOnce() -> StoreReply<'a, T> + Send + 'a,
    ) -> StoreReply<'a, T> {
        StoreReply::later(async move {
            let number = self.calls.fetch_add(1, Ordering::SeqCst);
            for _ in 0..self.turns(number) {
                give_way().await;
            }
            if self.takes > 0 {
                tokio::time::sleep(Duration::from_millis(self.takes)).await;
            }
            let fate = (self.decide)(number);
            let failure = || Error::new(ErrorKind::Unavailable, format!("call {number} fails"));
            if fate == CallBehavior::Refused {
                return Err(failure());
            }
            let answer = call().settle().await;
            give_way().await;
            match fate {
                CallBehavior::Unheard => Err(failure()),
                _ => answer,
            }
        })
    }
}

/// Lets others go first, once.
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
        self.slowly(move || self.inner.get_or_reserve(space, key, request))
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
        self.slowly(move || self.inner.reserve(space, key, labels, hold))
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
