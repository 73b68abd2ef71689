//! A store that delegates to another one and fails or hangs as scripted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cachalot_core::{Clock, Millis};
use cachalot_store::in_process::InProcessStore;
use cachalot_store::{
    Error, ErrorKind, GetOrReserve, GetOrReserveResult, GetResult, Label, Lease, PageRequest,
    PutResult, Record, RecordFilter, RecordPage, ReserveResult, SpaceUsage, Store, StoreInfo,
    StoreReply,
};

/// Operations of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreOperation {
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
    Usage,
}

impl StoreOperation {
    pub(crate) const ALL: [Self; 11] = [
        Self::Enter,
        Self::Get,
        Self::Put,
        Self::Reserve,
        Self::Renew,
        Self::Release,
        Self::Find,
        Self::Erase,
        Self::Raise,
        Self::Touch,
        Self::Usage,
    ];
}

/// Fault of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreFault {
    None,
    Fails,
    Hangs,
}

type Fate = Box<dyn Fn(StoreOperation) -> StoreFault + Send + Sync>;

pub(crate) struct FaultyStore {
    sound: InProcessStore,
    fate: Mutex<Fate>,
    asked: AtomicUsize,
}

impl FaultyStore {
    pub(crate) fn by(
        clock: Arc<dyn Clock>,
        fate: impl Fn(StoreOperation) -> StoreFault + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            sound: InProcessStore::new(clock),
            fate: Mutex::new(Box::new(fate)),
            asked: AtomicUsize::new(0),
        })
    }

    pub(crate) fn falls_from_now_on(
        &self,
        fate: impl Fn(StoreOperation) -> StoreFault + Send + Sync + 'static,
    ) {
        *self.fate.lock().unwrap() = Box::new(fate);
    }

    /// The number of calls.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn answer<'a, T: Send + 'a>(
        &self,
        asked: StoreOperation,
        sound: impl FnOnce() -> StoreReply<'a, T>,
    ) -> StoreReply<'a, T> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let trouble = (self.fate.lock().unwrap())(asked);
        match trouble {
            StoreFault::None => sound(),
            StoreFault::Fails => {
                let error = Error::new(ErrorKind::Unavailable, format!("no {asked:?} today"));
                StoreReply::Now(Err(error))
            }
            StoreFault::Hangs => StoreReply::later(std::future::pending()),
        }
    }
}

impl Store for FaultyStore {
    fn about(&self) -> &StoreInfo {
        self.sound.about()
    }

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> StoreReply<'a, GetResult> {
        self.answer(StoreOperation::Get, || self.sound.get(space, key, counters))
    }

    fn get_or_reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        request: GetOrReserve<'a>,
    ) -> StoreReply<'a, GetOrReserveResult> {
        self.answer(StoreOperation::Enter, || {
            self.sound.get_or_reserve(space, key, request)
        })
    }

    fn put<'a>(
        &'a self,
        space: &'a str,
        record: Record,
        lease: Option<&'a Lease>,
        counters: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, PutResult> {
        self.answer(StoreOperation::Put, || {
            self.sound.put(space, record, lease, counters)
        })
    }

    fn reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        labels: &'a [Label],
        hold: Duration,
    ) -> StoreReply<'a, ReserveResult> {
        let reserve = || self.sound.reserve(space, key, labels, hold);
        self.answer(StoreOperation::Reserve, reserve)
    }

    fn renew<'a>(&'a self, lease: &'a Lease, hold: Duration) -> StoreReply<'a, bool> {
        self.answer(StoreOperation::Renew, || self.sound.renew(lease, hold))
    }

    fn release(&self, lease: Lease) -> StoreReply<'_, ()> {
        self.answer(StoreOperation::Release, || self.sound.release(lease))
    }

    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        self.answer(StoreOperation::Find, || {
            self.sound.find(space, filter, page)
        })
    }

    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        self.answer(StoreOperation::Erase, || {
            self.sound.erase(space, filter, page)
        })
    }

    fn add<'a>(
        &'a self,
        space: &'a str,
        additions: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, Vec<u64>> {
        self.answer(StoreOperation::Raise, || self.sound.add(space, additions))
    }

    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> StoreReply<'a, u64> {
        self.answer(StoreOperation::Raise, || {
            self.sound.raise_to(space, counter, value)
        })
    }

    fn counters<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> StoreReply<'a, Vec<(String, u64)>> {
        self.answer(StoreOperation::Find, || {
            self.sound.counters(space, prefix, after, limit)
        })
    }

    fn touch<'a>(&'a self, space: &'a str, used: &'a [(&'a str, Millis)]) -> StoreReply<'a, ()> {
        self.answer(StoreOperation::Touch, || self.sound.touch(space, used))
    }

    fn usage<'a>(&'a self, space: &'a str) -> StoreReply<'a, SpaceUsage> {
        self.answer(StoreOperation::Usage, || self.sound.usage(space))
    }

    fn stamp(&self, space: &str, name: &str) -> Option<u64> {
        self.sound.stamp(space, name)
    }
}
