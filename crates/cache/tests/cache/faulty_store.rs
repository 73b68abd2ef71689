//! A store that delegates to another one and fails, hangs, is slow and counts as scripted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cachalot_core::Millis;
use cachalot_store::{
    Error, ErrorKind, GetOrReserve, GetOrReserveResult, GetResult, Label, Lease, PageRequest,
    PutResult, Record, RecordFilter, RecordPage, ReserveResult, SpaceUsage, Store, StoreInfo,
    StoreReply, ValuePart,
};

/// Operations of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Get,
    Enter,
    Put,
    Reserve,
    Renew,
    Release,
    Find,
    Erase,
    Raise,
    Touch,
    Amend,
    Usage,
}

/// Behavior of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreBehavior {
    Pass,
    Fail,
    Hang,
    Slow(Duration),
    /// Runs the operation at once, and answers late.
    Late(Duration),
}

type Script = Box<dyn Fn(Op) -> StoreBehavior + Send + Sync>;

pub(crate) struct FaultyStore {
    inner: Arc<dyn Store>,
    about: StoreInfo,
    stamps: bool,
    script: Mutex<Script>,
    counts: Mutex<HashMap<Op, usize>>,
    /// Bytes of values that were read by pages.
    paged: AtomicU64,
}

impl FaultyStore {
    /// Delegates everything until [`Self::now`] is called.
    pub(crate) fn over(inner: Arc<dyn Store>) -> Self {
        let about = inner.about().clone();
        Self {
            inner,
            about,
            stamps: true,
            script: Mutex::new(Box::new(|_| StoreBehavior::Pass)),
            counts: Mutex::default(),
            paged: AtomicU64::new(0),
        }
    }

    pub(crate) fn always(inner: Arc<dyn Store>, fate: StoreBehavior) -> Self {
        let faulty_store = Self::over(inner);
        faulty_store.now(move |_| fate);
        faulty_store
    }

    pub(crate) fn without_reservations(mut self) -> Self {
        self.about.reservations = false;
        self
    }

    pub(crate) fn with_names_of(mut self, longest: u64) -> Self {
        self.about.longest_name = longest;
        self
    }

    pub(crate) fn without_stamps(mut self) -> Self {
        self.stamps = false;
        self
    }

    pub(crate) fn now(&self, script: impl Fn(Op) -> StoreBehavior + Send + Sync + 'static) {
        *self.script.lock().unwrap() = Box::new(script);
    }

    /// The bytes of values that pages have requested so far, at least.
    pub(crate) fn paged(&self) -> u64 {
        self.paged.load(Ordering::SeqCst)
    }

    fn note_page(&self, page: PageRequest<'_>) {
        let bytes = match page.values {
            ValuePart::None => 0,
            ValuePart::First(bytes) => u64::from(bytes),
            ValuePart::All => u64::MAX / 1_000,
        };
        self.paged.fetch_add(bytes, Ordering::SeqCst);
    }

    /// The number of calls per operation.
    pub(crate) fn counted(&self) -> HashMap<Op, usize> {
        self.counts.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, op: Op) -> usize {
        self.counts.lock().unwrap().get(&op).copied().unwrap_or(0)
    }

    fn answer<'a, T: Send + 'a>(
        &self,
        op: Op,
        inner: impl FnOnce() -> StoreReply<'a, T> + Send + 'a,
    ) -> StoreReply<'a, T> {
        *self.counts.lock().unwrap().entry(op).or_default() += 1;
        let fate = (self.script.lock().unwrap())(op);
        match fate {
            StoreBehavior::Pass => inner(),
            StoreBehavior::Fail => StoreReply::Now(Err(Error::new(
                ErrorKind::Unavailable,
                format!("no {op:?} today"),
            ))),
            StoreBehavior::Hang => StoreReply::later(std::future::pending()),
            StoreBehavior::Late(by) => StoreReply::later(async move {
                let answer = inner().settle().await;
                tokio::time::sleep(by).await;
                answer
            }),
            StoreBehavior::Slow(by) => StoreReply::later(async move {
                tokio::time::sleep(by).await;
                inner().settle().await
            }),
        }
    }
}

impl Store for FaultyStore {
    fn about(&self) -> &StoreInfo {
        &self.about
    }

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> StoreReply<'a, GetResult> {
        self.answer(Op::Get, move || self.inner.get(space, key, counters))
    }

    fn get_or_reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        request: GetOrReserve<'a>,
    ) -> StoreReply<'a, GetOrReserveResult> {
        self.answer(Op::Enter, move || {
            self.inner.get_or_reserve(space, key, request)
        })
    }

    fn put<'a>(
        &'a self,
        space: &'a str,
        record: Record,
        lease: Option<&'a Lease>,
        counters: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, PutResult> {
        self.answer(Op::Put, move || {
            self.inner.put(space, record, lease, counters)
        })
    }

    fn reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        labels: &'a [Label],
        hold: Duration,
    ) -> StoreReply<'a, ReserveResult> {
        self.answer(Op::Reserve, move || {
            self.inner.reserve(space, key, labels, hold)
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, hold: Duration) -> StoreReply<'a, bool> {
        self.answer(Op::Renew, move || self.inner.renew(lease, hold))
    }

    fn release(&self, lease: Lease) -> StoreReply<'_, ()> {
        self.answer(Op::Release, move || self.inner.release(lease))
    }

    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        self.note_page(page);
        self.answer(Op::Find, move || self.inner.find(space, filter, page))
    }

    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        self.note_page(page);
        self.answer(Op::Erase, move || self.inner.erase(space, filter, page))
    }

    fn add<'a>(
        &'a self,
        space: &'a str,
        additions: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, Vec<u64>> {
        self.answer(Op::Raise, move || self.inner.add(space, additions))
    }

    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> StoreReply<'a, u64> {
        self.answer(Op::Raise, move || {
            self.inner.raise_to(space, counter, value)
        })
    }

    fn counters<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> StoreReply<'a, Vec<(String, u64)>> {
        self.answer(Op::Find, move || {
            self.inner.counters(space, prefix, after, limit)
        })
    }

    fn touch<'a>(&'a self, space: &'a str, used: &'a [(&'a str, Millis)]) -> StoreReply<'a, ()> {
        self.answer(Op::Touch, move || self.inner.touch(space, used))
    }

    fn amend<'a>(&'a self, space: &'a str, record: Record) -> StoreReply<'a, Option<u64>> {
        self.answer(Op::Amend, move || self.inner.amend(space, record))
    }

    fn usage<'a>(&'a self, space: &'a str) -> StoreReply<'a, SpaceUsage> {
        self.answer(Op::Usage, move || self.inner.usage(space))
    }

    fn stamp(&self, space: &str, name: &str) -> Option<u64> {
        if self.stamps {
            self.inner.stamp(space, name)
        } else {
            None
        }
    }
}
