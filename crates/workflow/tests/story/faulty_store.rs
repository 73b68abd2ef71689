//! A store that delegates to another one and fails or hangs as scripted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cachalot_core::Clock;
use cachalot_store::in_process::InProcessStore;
use cachalot_store::intercepted::{Interceptor, StoreOperation};
use cachalot_store::{Error, ErrorKind, Store, StoreReply};

/// Fault of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreFault {
    None,
    Fails,
    Hangs,
}

type Faults = Box<dyn Fn(StoreOperation) -> StoreFault + Send + Sync>;

pub(crate) struct FaultyStore {
    inner: InProcessStore,
    fault: Mutex<Faults>,
    asked: AtomicUsize,
}

impl FaultyStore {
    pub(crate) fn by(
        clock: Arc<dyn Clock>,
        fault: impl Fn(StoreOperation) -> StoreFault + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            inner: InProcessStore::new(clock),
            fault: Mutex::new(Box::new(fault)),
            asked: AtomicUsize::new(0),
        })
    }

    pub(crate) fn falls_from_now_on(
        &self,
        fault: impl Fn(StoreOperation) -> StoreFault + Send + Sync + 'static,
    ) {
        *self.fault.lock().unwrap() = Box::new(fault);
    }

    /// The number of calls.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Interceptor for FaultyStore {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn intercept<'a, T: Send + 'static>(
        &'a self,
        operation: StoreOperation,
        pass: impl FnOnce() -> StoreReply<'a, T> + Send + 'a,
    ) -> StoreReply<'a, T> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let fault = (self.fault.lock().unwrap())(operation);
        match fault {
            StoreFault::None => pass(),
            StoreFault::Fails => {
                let error = Error::new(ErrorKind::Unavailable, format!("no {operation:?} today"));
                StoreReply::Now(Err(error))
            }
            StoreFault::Hangs => StoreReply::later(std::future::pending()),
        }
    }
}
