//! A store that delegates to another one and fails, hangs, is slow and counts as scripted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cachalot_store::intercepted::{Interceptor, StoreOperation};
use cachalot_store::{Error, ErrorKind, PageRequest, Store, StoreInfo, StoreReply, ValuePart};

/// Behavior of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreBehavior {
    Pass,
    Fail,
    /// Answers with an error.
    Refuse,
    /// Cannot be reached.
    Unreachable,
    Hang,
    Slow(Duration),
    /// Runs the operation at once, and answers late.
    Late(Duration),
}

type Script = Box<dyn Fn(StoreOperation) -> StoreBehavior + Send + Sync>;

pub(crate) struct FaultyStore {
    inner: Arc<dyn Store>,
    about: StoreInfo,
    stamps: bool,
    stamp_slots: bool,
    script: Mutex<Script>,
    counts: Mutex<HashMap<StoreOperation, usize>>,
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
            stamp_slots: true,
            script: Mutex::new(Box::new(|_| StoreBehavior::Pass)),
            counts: Mutex::default(),
            paged: AtomicU64::new(0),
        }
    }

    pub(crate) fn always(inner: Arc<dyn Store>, behavior: StoreBehavior) -> Self {
        let faulty_store = Self::over(inner);
        faulty_store.now(move |_| behavior);
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

    /// Stamps are read by name, as by default in the trait.
    pub(crate) fn without_stamp_slots(mut self) -> Self {
        self.stamp_slots = false;
        self
    }

    pub(crate) fn now(
        &self,
        script: impl Fn(StoreOperation) -> StoreBehavior + Send + Sync + 'static,
    ) {
        *self.script.lock().unwrap() = Box::new(script);
    }

    /// The bytes of values that pages have requested so far, at least.
    pub(crate) fn paged(&self) -> u64 {
        self.paged.load(Ordering::SeqCst)
    }

    /// The number of calls per operation.
    pub(crate) fn counted(&self) -> HashMap<StoreOperation, usize> {
        self.counts.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, operation: StoreOperation) -> usize {
        self.counts
            .lock()
            .unwrap()
            .get(&operation)
            .copied()
            .unwrap_or(0)
    }
}

impl Interceptor for FaultyStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn reported(&self) -> &StoreInfo {
        &self.about
    }

    fn see_page(&self, page: &PageRequest<'_>) {
        let bytes = match page.values {
            ValuePart::None => 0,
            ValuePart::First(bytes) => u64::from(bytes),
            ValuePart::All => u64::MAX / 1_000,
        };
        self.paged.fetch_add(bytes, Ordering::SeqCst);
    }

    fn has_stamps(&self) -> bool {
        self.stamps
    }

    fn has_stamp_slots(&self) -> bool {
        self.stamp_slots
    }

    fn intercept<'a, T: Send + 'static>(
        &'a self,
        operation: StoreOperation,
        pass: impl FnOnce() -> StoreReply<'a, T> + Send + 'a,
    ) -> StoreReply<'a, T> {
        *self.counts.lock().unwrap().entry(operation).or_default() += 1;
        let behavior = (self.script.lock().unwrap())(operation);
        match behavior {
            StoreBehavior::Pass => pass(),
            StoreBehavior::Fail => StoreReply::Now(Err(Error::new(
                ErrorKind::Unavailable,
                format!("no {operation:?} today"),
            ))),
            StoreBehavior::Refuse => StoreReply::Now(Err(Error::new(
                ErrorKind::Full,
                format!("no room for {operation:?}"),
            ))),
            StoreBehavior::Unreachable => StoreReply::later(async move {
                let refused = format!("no connection for {operation:?}");
                Err(Error::new(ErrorKind::Unavailable, refused))
            }),
            StoreBehavior::Hang => StoreReply::later(std::future::pending()),
            StoreBehavior::Late(by) => StoreReply::later(async move {
                let answer = pass().settle().await;
                tokio::time::sleep(by).await;
                answer
            }),
            StoreBehavior::Slow(by) => StoreReply::later(async move {
                tokio::time::sleep(by).await;
                pass().settle().await
            }),
        }
    }
}
